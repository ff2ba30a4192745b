"""Which headers were under the sanitizers as they are: `python tests/ocean/checked_headers.py` notes all of them.

Sanitizers and compilers for GPUs see, on every run of the slow tests, the environments of STANDING and those whose
headers changed since they were noted. The others are marked `weekly`, and run where these tests are chosen: by
`make test-weekly` and by the workflow of that name. Run that first, then note the headers. What the quick tests ask of
every environment they ask of the same ones and of those of QUICK; the slow tests ask it of all. With the variable
PUFFER_ALL_ENVIRONMENTS, which bench/sanitize.py sets, no environment is left to another day.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from pufferlib import ocean

FILE = Path(__file__).with_suffix(".json")
STANDING = ("puffer_breakout", "puffer_go", "puffer_snake", "puffer_target", "puffer_template")  # one of every kind
QUICK = (*STANDING, "puffer_drone")  # and numbers as actions
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


def fingerprint(name: str) -> str:
    """The hash of what an environment's simulation is compiled from."""
    folder = ocean.config_path(name).parent
    hashed = hashlib.sha256()
    for header in sorted(headers(folder / f"{folder.name}.h"), key=lambda header: header.name):
        hashed.update(header.read_bytes())
    return hashed.hexdigest()


@functools.cache
def is_changed(name: str) -> bool:
    """Whether an environment's headers are others than those that were noted, or all are to be taken for such."""
    return "PUFFER_ALL_ENVIRONMENTS" in os.environ or json.loads(FILE.read_text()).get(name) != fingerprint(name)


def params(cases: Iterable, always: Iterable[str] = STANDING, mark: pytest.MarkDecorator = pytest.mark.weekly) -> list:
    """Names or cases of environments for `parametrize`; those that have neither changed nor run always are marked."""
    found = []
    for case in cases:
        name = getattr(case, "name", case)
        found.append(pytest.param(case, marks=() if name in always or is_changed(name) else mark, id=str(case)))
    return found


def quick_params(cases: Iterable) -> list:
    """The same for tests of which the quick ones are enough for what has not changed; all others are slow."""
    return params(cases, QUICK, pytest.mark.slow)


if __name__ == "__main__":
    names = [name for name in ocean.names() if (ocean.config_path(name).parent / "binding.c").exists()]
    FILE.write_text(json.dumps({name: fingerprint(name) for name in names}, indent=4) + "\n")
