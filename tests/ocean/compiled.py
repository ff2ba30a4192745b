"""Environments in C that only tests have, compiled when they are asked for."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def compiled_binding(name: str, folder: Path, *more_flags: str) -> ModuleType:
    """The module of `tests/c/<name>_binding.c`, built in a folder; skips the test where there is no compiler."""
    if shutil.which("cc") is None:
        pytest.skip(f"needs a C compiler, cc, to build {name}")
    library = folder / "binding.so"
    folders = [f"-I{path}" for path in (ROOT / "ocean/include", sysconfig.get_paths()["include"])]
    flags = ["-std=c11", "-O0", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC", *folders]
    flags += ["-undefined", "dynamic_lookup"] if os.uname().sysname == "Darwin" else []
    subprocess.run(
        ["cc", *flags, *more_flags, str(ROOT / f"tests/c/{name}_binding.c"), "-o", str(library), "-lm"], check=True
    )
    spec = importlib.util.spec_from_file_location("binding", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
