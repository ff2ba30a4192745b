"""A cache for words that take long to find, in the user's cache folder."""

from __future__ import annotations

import contextlib
import json
import os
import sysconfig
from collections.abc import Callable
from pathlib import Path

from pufferlib.families.names import slug
from pufferlib.runs.whole_files import write_atomically

_PACKAGE = Path(__file__).parents[1]


def remembered(what: str, find: Callable[[], list[str]]) -> list[str]:
    """Returns the cached result of `find`, which is called again after a package or an environment changed."""
    path, stamp = _folder() / f"{slug(what)}.json", _stamp()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return kept["words"]
    words = find()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"stamp": stamp, "words": words}).encode())
    return words


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pufferlib" / "completion"


def _stamp() -> list[str | int]:
    installed = sysconfig.get_path("purelib")
    own = [*_PACKAGE.glob("config/*.[pi]*"), *_PACKAGE.glob("families/*.[pi]*"), *_PACKAGE.glob("ocean/*/*.[pi]*")]
    return [installed, max(path.stat().st_mtime_ns for path in (Path(installed), _PACKAGE / "ocean", *own))]
