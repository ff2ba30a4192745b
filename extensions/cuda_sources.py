"""The sources of the CUDA kernels. setup.py runs this file by itself, so it needs Python's library alone."""

from __future__ import annotations

import hashlib
from pathlib import Path


def read_sources(folder: Path, name: str) -> tuple[bytes, dict[str, bytes]]:
    """The kernel file `<name>.cu` of a folder, and by name all headers beside it, any of which it may include."""
    return (folder / f"{name}.cu").read_bytes(), read_headers(folder)


def read_headers(folder: Path) -> dict[str, bytes]:
    """All headers of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.h"))}


def hash_sources(source: bytes, headers: dict[str, bytes], others: str = "") -> str:
    """A name for what these and `others`, such as a compiler's version, are compiled into."""
    ingredients = [f"{others} {list(headers)}".encode(), source, *headers.values()]
    return hashlib.sha256(b"\0".join(ingredients)).hexdigest()[:16]


def fatbin_name(folder: Path, name: str) -> str:
    """The file that nvcc's machine code of a kernel file is in: another one whenever a source is changed."""
    return f"{name}-{hash_sources(*read_sources(folder, name))}.fatbin"
