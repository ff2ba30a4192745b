"""Builds and runs tests/c/thread_pool_test.c, plain and under the sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / "tests/c/thread_pool_test.c"), str(ROOT / "vector/src/thread_pool.c")]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


def compile_with(flags: list[str], sources: list[str], program: Path) -> subprocess.CompletedProcess:
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    command = [*compiler.split(), "-std=c11", "-g", *flags, *sources, "-o", str(program), "-pthread"]
    return subprocess.run(command, capture_output=True, text=True)


def has_flags(flags: list[str], folder: Path) -> bool:
    source, program = folder / "empty.c", folder / "empty"
    source.write_text("int main(void) { return 0; }\n")
    built = compile_with(flags, [str(source)], program)
    return built.returncode == 0 and subprocess.run([str(program)], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("flags", "num_jobs"),
    [
        (["-O2"], 20000),
        pytest.param(
            ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"], 2000, marks=pytest.mark.slow
        ),
        pytest.param(["-O1", "-fsanitize=thread"], 1000, marks=pytest.mark.slow),
    ],
    ids=["plain", "address+undefined", "thread"],
)
def test_the_pool_does_every_item_once(tmp_path, flags, num_jobs):
    if not has_flags(flags, tmp_path):
        pytest.skip(f"this compiler cannot build and run programs with {' '.join(flags)}")
    program = tmp_path / "thread_pool_test"
    include = f"-I{ROOT / 'vector/src'}"
    built = compile_with([*WARNINGS, *flags, include], SOURCES, program)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program), str(num_jobs)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
