"""pytest in an interpreter that was started with a sanitizer's runtime; bench/sanitize.py starts it, in its copy.

What libraries allocate once, as they are imported, and never free is theirs: it is not watched for leaks. All that is
allocated later is, whoever does it, with no list of exceptions. Leaks are looked for when the tests are done, not when
the process ends: by then torch has destroyed what pointed to the names of arguments that it keeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterator

OTHERS = ("numpy", "torch")


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """What is allocated inside is never reported as a leak; nothing changes without LeakSanitizer."""
    runtime = ctypes.CDLL(None)
    if not hasattr(runtime, "__lsan_disable"):
        yield
        return
    runtime.__lsan_disable()
    try:
        yield
    finally:
        runtime.__lsan_enable()


def main(arguments: list[str]) -> int:
    """Runs pytest; compilers and other programs that it starts are not asked for their leaks."""
    if "ASAN_OPTIONS" in os.environ:
        os.environ["ASAN_OPTIONS"] += ":detect_leaks=0"
    with unwatched():
        for name in OTHERS:
            importlib.import_module(name)
    import pytest

    status = int(pytest.main(arguments))
    look_for_leaks()
    return status


def look_for_leaks() -> None:
    """Reports what nothing points to any more, and then ends the process; does nothing without LeakSanitizer."""
    gc.collect()
    if check := getattr(ctypes.CDLL(None), "__lsan_do_leak_check", None):
        check()  # the check at the end of the process does not follow then


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
