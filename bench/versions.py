"""The tests on every Python, with the oldest and the newest dependencies, with each compiler, and from a wheel.

    python bench/versions.py                          all of them; needs `pip install uv` and the Pythons
    python bench/versions.py python3.13 oldest        some
    python bench/versions.py wheel --tests tests/vector

Each case is a copy of the tree in a virtual environment of its own, where the quick tests run; how many passed, were
skipped and failed goes to results/versions.csv. The exit status is 1 where a test failed or something did not build.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from record import append, commit, machine

ROOT = Path(__file__).parents[1]
COUNTED = ("passed", "skipped", "failed", "error")


@dataclass(frozen=True)
class Case:
    """What a copy of the tree is built and tested with."""

    python: str = "3.11"
    options: tuple[str, ...] = ()  # of uv pip install
    variables: dict[str, str] = field(default_factory=dict)
    is_wheel: bool = False  # built apart and installed, in place of an editable install


CASES = {
    **{f"python{version}": Case(version) for version in ("3.10", "3.11", "3.12", "3.13")},
    "oldest": Case("3.10", ("--resolution", "lowest-direct")),
    "newest": Case("3.13", ("--upgrade",)),
    "clang": Case(variables={"CC": "clang", "CXX": "clang++"}),
    "wheel": Case(variables={"PUFFER_PORTABLE": "1"}, is_wheel=True),
}


@dataclass(frozen=True)
class Row:
    """One line of the results."""

    date: str  # UTC
    machine: str
    commit: str
    case: str
    python: str
    torch: str
    numpy: str
    gymnasium: str
    compiler: str
    passed: int
    skipped: int
    failed: int
    seconds: float  # of the tests
    command: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", choices=[*CASES, []], help="all by default")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="what pytest runs")
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    command, is_fine = shlex.join(["python", "bench/versions.py", *sys.argv[1:]]), True
    for name in options.case or CASES:
        with tempfile.TemporaryDirectory(prefix="versions-") as folder:
            row = run_case(name, CASES[name], Path(folder), options.tests, command)
        print(f"{name}: {row.passed} passed, {row.skipped} skipped, {row.failed} failed", flush=True)
        is_fine &= row.passed > 0 and row.failed == 0
        if not options.no_record:
            append("versions", [row])
    sys.exit(0 if is_fine else 1)


def run_case(name: str, case: Case, folder: Path, tests: list[str], command: str) -> Row:
    """Builds and tests one case in a folder."""
    tree, environment = copy_tree(folder / "tree"), variables_of(case)
    python = install(case, folder, tree, environment)
    if case.is_wheel:  # so that the tests import what is installed; C sources that they compile are beside it
        (tree / "pufferlib").rename(tree / "not_pufferlib")
    begin = time.monotonic()
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.monotonic() - begin
    counts = {what: sum(map(int, re.findall(rf"(\d+) {what}", done.stdout[-300:]))) for what in COUNTED}
    failed = counts["failed"] + counts["error"] + (done.returncode != 0 and not counts["failed"] + counts["error"])
    if failed:
        print(done.stdout[-20_000:])
    versions = versions_of(python)
    compiler = subprocess.check_output([case.variables.get("CC", "gcc"), "--version"], text=True).splitlines()[0]
    where = time.strftime("%Y-%m-%d %H:%M", time.gmtime()), machine(), commit()
    return Row(*where, name, *versions, compiler, counts["passed"], counts["skipped"], failed, round(seconds), command)


def copy_tree(target: Path) -> Path:
    """What git knows or would add: no build products, so that all is compiled anew."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def variables_of(case: Case) -> dict[str, str]:
    """The environment of a case, with nothing of this project's or another virtual environment's."""
    own = ("PUFFER_", "VIRTUAL_ENV", "PYTHONPATH", "OMP_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "PUFFER_CUDA": "0", "PUFFER_WERROR": "1", **case.variables}


def install(case: Case, folder: Path, tree: Path, environment: dict[str, str]) -> Path:
    """Installs the project with what its tests need; returns the Python of the virtual environment."""

    def uv(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=tree, env=environment, check=True)

    uv("venv", "-q", "--python", case.python, str(folder / "venv"))
    python, what = folder / "venv" / "bin" / "python", "[test]"
    to_it = ("pip", "install", "-q", "--python", str(python), *case.options)
    if case.is_wheel:
        uv("build", "-q", "--wheel", "--python", str(python), "-o", str(folder / "dist"), str(tree))
        what = str(next((folder / "dist").glob("*.whl"))) + what
        uv(*to_it, what)
    else:
        uv(*to_it, "-e", f".{what}")
    return python


def versions_of(python: Path) -> list[str]:
    modules = "torch, numpy, gymnasium"
    code = f"import sys, {modules}; print(sys.version.split()[0], *(each.__version__ for each in ({modules})))"
    return subprocess.check_output([python, "-c", code], text=True).split()


if __name__ == "__main__":
    main()
