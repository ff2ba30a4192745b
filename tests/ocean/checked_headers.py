"""Which sources were under the sanitizers as they are: `python tests/ocean/checked_headers.py` notes all of them.

Sanitizers, compilers for GPUs and the tests of the shared binding see, on every run of the slow tests, the environments
of STANDING (sanitizers two of them, while the C of all is what was noted) and those whose headers changed since they
were noted. The others are marked `weekly`, and run where these tests are chosen: by `make test-weekly` and by the
workflow of that name. Run that first, then note the headers. What the quick tests ask of every environment they ask of
the same ones and of those of QUICK. The rules of a game that is none of STANDING and did not change are tested by the
slow tests (conftest.py), but for its thousands of random games, which are weekly. What builds the kernels anew, or
everything under the sanitizers, is weekly likewise while the C of `extensions/`, `vector/` and `ocean/include/` is what
was noted. With the variable PUFFER_ALL_ENVIRONMENTS, which bench/sanitize.py sets, nothing is left to another day.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import pytest

from pufferlib import ocean

FILE = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[2]
SHARED = "extensions, vector, ocean/include"  # all that is compiled but environments
COMPILED = (".c", ".cpp", ".h", ".pyx")
STANDING = ("puffer_breakout", "puffer_go", "puffer_snake", "puffer_target", "puffer_template")  # one of every kind
QUICK = (*STANDING, "puffer_drone")  # and numbers as actions
WEEKLY = (pytest.mark.weekly,)
INCLUDED = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)


def headers(path: Path) -> set[Path]:
    """A header and all of the project that it includes."""
    found, left = set(), [path]
    while left:
        header = left.pop()
        if header in found:
            continue
        found.add(header)
        places = (header.parent, ocean.config_path("puffer_template").parents[1] / "include")
        names = INCLUDED.findall(header.read_text())
        left += [place / name for name in names for place in places if (place / name).exists()]
    return found


def sources(name: str) -> list[Path]:
    """What an environment's simulation is compiled from; of SHARED the C, C++ and Cython of its folders."""
    if name == SHARED:
        paths = (path for folder in SHARED.split(", ") for path in (ROOT / folder).rglob("*"))
        return sorted(path for path in paths if path.suffix in COMPILED and path.name != "_native.c")  # Cython's
    folder = ocean.config_path(name).parent
    return sorted(headers(folder / f"{folder.name}.h"), key=lambda header: header.name)


def fingerprint(name: str) -> str:
    """The hash of the sources of an environment, or of SHARED."""
    hashed = hashlib.sha256()
    for path in sources(name):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def shared_marks() -> tuple[pytest.MarkDecorator, ...]:
    """The marks of slow tests that compile nothing but what no environment has for itself."""
    return (pytest.mark.slow, *(() if is_changed(SHARED) else WEEKLY))


def weekly_unless_changed(name: str) -> Callable:
    """Marks a slow test of thousands of games, which only another header of the game could break."""
    return (lambda test: test) if is_changed(name) else pytest.mark.weekly


def compiled_names() -> list[str]:
    return [name for name in ocean.names() if (ocean.config_path(name).parent / "binding.c").exists()]


@functools.cache
def is_changed(name: str) -> bool:
    """Whether the sources of an environment, or of SHARED, are not those that were noted, or all count as changed."""
    return "PUFFER_ALL_ENVIRONMENTS" in os.environ or json.loads(FILE.read_text()).get(name) != fingerprint(name)


def params(cases: Iterable, always: Iterable[str] = STANDING, marks: Collection[pytest.MarkDecorator] = WEEKLY) -> list:
    """Names or cases of environments for `parametrize`; those that have neither changed nor run always are marked."""
    found = []
    for case in cases:
        name = getattr(case, "name", case)
        found.append(pytest.param(case, marks=() if name in always or is_changed(name) else marks, id=str(case)))
    return found


def quick_params(cases: Iterable) -> list:
    """The same for tests that run quickly for a few environments; those of all others are weekly."""
    return params(cases, QUICK, (pytest.mark.slow, *WEEKLY))


if __name__ == "__main__":
    noted = {name: fingerprint(name) for name in (SHARED, *compiled_names())}
    FILE.write_text(json.dumps(noted, indent=4) + "\n")
