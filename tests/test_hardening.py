"""What the native modules were built to withstand, read from the files themselves."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MODULES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("ocean", "vector", "extensions")
    for path in ROOT.glob(f"{folder}/**/*{SUFFIX}")
)

needs_elf = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("readelf") is None, reason="needs Linux, and readelf of binutils"
)


def readelf(module, *options):
    return subprocess.check_output(["readelf", "-W", *options, ROOT / module], text=True)


@needs_elf
def test_addresses_are_bound_once_and_then_cannot_be_written():
    assert MODULES
    loose = [module for module in MODULES if "BIND_NOW" not in readelf(module, "-d")]
    assert not loose, "rebuild them with `python setup.py build_ext --inplace --force`"
    assert [module for module in MODULES if "GNU_RELRO" not in readelf(module, "-l")] == []


@needs_elf
def test_no_stack_is_executable():
    segments = {module: readelf(module, "-l").splitlines() for module in MODULES}
    stacks = {module: [line for line in lines if "GNU_STACK" in line] for module, lines in segments.items()}
    assert [module for module, lines in stacks.items() if [line.split()[6] for line in lines] != ["RW"]] == []


@needs_elf
def test_what_keeps_arrays_on_its_stack_checks_them_when_it_returns():
    """Every binding does, with the arguments it reads, and every kernel library."""
    guarded = [module for module in MODULES if module.split("/")[-1].startswith(("binding", "_native", "cpu_kernels"))]
    assert guarded
    bare = [module for module in guarded if "__stack_chk_fail" not in readelf(module, "--dyn-syms")]
    assert not bare, "rebuild them with `python setup.py build_ext --inplace --force`"


@pytest.fixture
def build(monkeypatch):
    """The functions of setup.py, which builds nothing here."""
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: None)
    monkeypatch.chdir(ROOT)
    return runpy.run_path("setup.py")


def test_a_flag_that_a_compiler_does_not_know_is_left_out(build):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler, cc")
    choices = [("-fno-such-flag", "-O1"), ("-fno-such-flag",), ("-O2", "-O1")]
    assert build["taken"]([compiler, "-c"], choices) == ["-O1", "-O2"]


def test_a_build_without_a_compiler_says_what_to_install(build, tmp_path):
    missing = str(tmp_path / "no-compiler")
    errors = pytest.importorskip("setuptools.errors")
    with pytest.raises(errors.PlatformError, match=f"compiler.*{missing}.*build-essential"):
        build["hardening"](SimpleNamespace(compiler_so=[missing], linker_so=[missing]))


def test_a_compiler_that_takes_nothing_builds_as_ever(build):
    nothing = SimpleNamespace(compiler_so=["false"], linker_so=["false"])
    assert build["hardening"](nothing) == ([], [])
