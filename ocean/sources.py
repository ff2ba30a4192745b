"""What an environment was compiled from. setup.py runs this file by itself, so it needs Python's library alone."""

from __future__ import annotations

import hashlib
from pathlib import Path


def fingerprint(folder: Path) -> str:
    """A name for the C sources of the environment in a folder, but for its picture: another one when one is edited."""
    files = [folder / "binding.c", *(path for path in sorted(folder.glob("*.h")) if not path.stem.endswith("_render"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]
