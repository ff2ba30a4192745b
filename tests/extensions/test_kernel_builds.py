"""The kernels as other machines get them: built for any processor, by nvcc, by NVRTC, or not at all."""

import ctypes
import functools
import os
import runpy
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from advantage_inputs import PLAIN, random_segments, truth
from checked_headers import shared_marks
from network_truth import (
    CASES,
    assert_learns_like_the_truth,
    assert_rounds_little,
    masked,
    random_layers,
    random_minibatch,
    random_observations,
)

import pufferlib.extensions
from pufferlib.errors import PufferError
from pufferlib.extensions import cpu_library, cuda_library
from pufferlib.extensions.advantage import compute_puff_advantage
from pufferlib.extensions.mingru import mingru_scan, reference_mingru
from pufferlib.extensions.orthogonalize import orthogonalize_each, reference_orthogonalize

FOLDER = Path(pufferlib.extensions.__file__).parent
KERNELS = ["advantage", "mingru", "muon", "ppo"]
# What the kernels are compiled without. Those with everything are what all other tests run.
INSTRUCTION_SETS = [("-DKERNEL_BASELINE",), ("-DKERNEL_NO_AVX512",), pytest.param((), marks=pytest.mark.weekly)]
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
CPU_INFO = Path("/proc/cpuinfo")
HAS_TILES = CPU_INFO.exists() and "amx_bf16" in CPU_INFO.read_text()
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def builds_the_kernels(test):
    for mark in shared_marks():
        test = mark(test)
    return test


def compile_shared(target, sources, *options, compiler="c++"):
    command = [compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *options]
    command.append('-DKERNEL_DECLARATIONS="of a test"')
    subprocess.run([*command, *map(str, sources), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    """Compiles the kernels for any processor, once with the same options, which takes minutes."""
    folder = tmp_path_factory.mktemp("portable")

    @functools.cache
    def build(*options):
        target = folder / f"kernels{''.join(options)}.so"
        return compile_shared(target, FOLDER.glob("*.cpp"), "-O3", "-fno-trapping-math", *options)

    return build


@builds_the_kernels
@needs_compiler
def test_a_portable_build_computes_the_same(portable, monkeypatch):
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(portable("-DKERNEL_BASELINE")))
    *inputs, advantages = random_segments((29, 67), seed=0)
    result = compute_puff_advantage(*inputs, advantages, *PLAIN)
    torch.testing.assert_close(result.double(), truth(inputs, PLAIN), rtol=1e-5, atol=2e-5)
    gates, x, state = torch.randn(5, 9, 111), torch.randn(5, 9, 37), torch.zeros(5, 37)
    for found, wanted in zip(mingru_scan(gates, x, state), reference_mingru(gates, x, state), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@builds_the_kernels
@needs_compiler
@pytest.mark.parametrize("options", INSTRUCTION_SETS, ids=str)
def test_every_instruction_set_learns_the_same(options, portable, monkeypatch):
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(portable(*options)))
    torch.manual_seed(0)
    for case in CASES.values():
        layers = random_layers(**case)
        minibatch, observations = random_minibatch(layers, 9, 7, 11), random_observations(layers, 9, 11)
        assert_learns_like_the_truth(layers, observations, minibatch)
        if layers.log_std is None:
            assert_learns_like_the_truth(layers, observations, masked(layers, minibatch, len(observations)))
    matrices = torch.randn(2, 33, 70)
    expected = reference_orthogonalize(matrices.double())
    found = torch.stack(orthogonalize_each(matrices.unbind()))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=2e-5)


@builds_the_kernels
@needs_compiler
@pytest.mark.skipif(not HAS_TILES, reason="needs a processor with the tiles of AMX: elsewhere no test has them")
def test_products_of_bfloat16_need_no_tiles(portable, monkeypatch):
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(portable("-DKERNEL_NO_TILES")))
    torch.manual_seed(0)
    for case in CASES.values():
        layers = random_layers(**case)
        assert_rounds_little(layers, random_observations(layers, 150, 13), random_minibatch(layers, 150, 150, 13))


@builds_the_kernels
@pytest.mark.skipif(shutil.which("clang++") is None, reason="needs clang++")
def test_clang_compiles_the_kernels_without_a_warning(tmp_path, monkeypatch):
    """In short functions, which compiles in a tenth of the time; what they compute is the same."""
    flags = ["-O1", "-march=native", "-fno-trapping-math", "-DKERNEL_OUTLINED", "-Wno-pass-failed"]
    library = compile_shared(tmp_path / "clang.so", FOLDER.glob("*.cpp"), *flags, compiler="clang++")
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(library))
    torch.manual_seed(0)
    for case in CASES.values():
        layers = random_layers(**case)
        assert_learns_like_the_truth(layers, random_observations(layers, 9, 11), random_minibatch(layers, 9, 7, 11))


def test_without_torchs_parallel_loop_the_result_is_the_same(monkeypatch):
    tensors = random_segments((999, 65), seed=1)
    expected = compute_puff_advantage(*tensors, *PLAIN).clone()
    assert (cpu_library.parallel_for() is None) == torch.__version__.startswith("2.9.")
    monkeypatch.setattr(cpu_library, "parallel_for", lambda: None)
    assert torch.equal(compute_puff_advantage(*tensors, *PLAIN), expected)


def test_a_missing_library_says_how_to_build_it(monkeypatch):
    monkeypatch.setattr(cpu_library.importlib.util, "find_spec", lambda name: None)
    cpu_library.library.cache_clear()
    with pytest.raises(PufferError, match="found none; build them with `python setup.py build_ext --inplace`"):
        compute_puff_advantage(*random_segments((2, 3), seed=2), *PLAIN)


@pytest.mark.parametrize(
    ("function", "found"), [("puffer_declarations", "of a test"), ("renamed", "an earlier version")]
)
@needs_compiler
def test_a_library_of_other_declarations_is_not_called(function, found, tmp_path, monkeypatch):
    source = tmp_path / "other.cpp"
    source.write_text(f'extern "C" const char* {function}(void) {{ return KERNEL_DECLARATIONS; }}')
    library = compile_shared(tmp_path / "other.so", [source])
    monkeypatch.setattr(cpu_library, "open_library", lambda name: library)
    cpu_library.library.cache_clear()
    with pytest.raises(PufferError, match=f"found those of {found}; rebuild them with `python setup.py build_ext"):
        compute_puff_advantage(*random_segments((2, 3), seed=2), *PLAIN)


@pytest.mark.quick("ppo")
@needs_nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_cuda_code_compiles_without_a_warning(kernel, tmp_path):
    command = [
        "nvcc",
        "-Werror",
        "all-warnings",
        "-std=c++17",
        "-arch=sm_90",
        "-cubin",
        "-o",
        tmp_path / "kernel.cubin",
    ]
    subprocess.run([*map(str, command), str(FOLDER / f"{kernel}.cu")], check=True)


@needs_nvcc
def test_the_loads_of_four_steps_of_mingru_do_not_wait_for_each_other(tmp_path):
    code = tmp_path / "mingru.ptx"
    subprocess.run(
        ["nvcc", "-std=c++17", "-arch=sm_90", "-ptx", "-o", str(code), str(FOLDER / "mingru.cu")], check=True
    )
    functions = code.read_text().split(".entry puffer_mingru_")[1:]
    found = {body.split("(")[0]: body.count("ld.global") for body in functions}
    before_the_first_exponential = {body.split("(")[0]: body.split("ex2.")[0].count("ld.global") for body in functions}
    assert before_the_first_exponential == found and found["forward"] >= 4 * 5 and found["backward"] >= 4 * 7


def nvrtc_is_missing():
    try:
        cuda_library._open_nvrtc()
    except PufferError:
        return True
    return False


@pytest.mark.skipif(nvrtc_is_missing(), reason="needs NVRTC, which comes with torch's CUDA builds")
@pytest.mark.parametrize("kernel", KERNELS)
def test_nvrtc_compiles_once_and_keeps_the_result(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = cuda_library.machine_code(kernel, "sm_90")
    assert code[:4] == b"\x7fELF" and f"puffer_{kernel}".encode() in code
    (kept,) = (tmp_path / "pufferlib").iterdir()
    assert kept.read_bytes() == code
    kept.write_bytes(b"from the cache")
    assert cuda_library.machine_code(kernel, "sm_90") == b"from the cache"


@pytest.mark.skipif(nvrtc_is_missing(), reason="needs NVRTC, which comes with torch's CUDA builds")
def test_nvrtc_needs_no_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cuda_library.machine_code("advantage", "sm_90")[:4] == b"\x7fELF"


def test_torchs_own_nvrtc_comes_before_that_of_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "libnvrtc.so.12").touch()
    monkeypatch.setattr(cuda_library.sys, "path", [])
    monkeypatch.setattr(cuda_library.torch, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(cuda_library.ctypes, "CDLL", lambda name: name)
    cuda_library._open_nvrtc.cache_clear()
    assert cuda_library._open_nvrtc() == str(folder / "libnvrtc.so.12")
    cuda_library._open_nvrtc.cache_clear()


def test_a_missing_nvrtc_names_the_package(monkeypatch):
    monkeypatch.setattr(cuda_library.ctypes, "CDLL", raise_os_error)
    cuda_library._open_nvrtc.cache_clear()
    with pytest.raises(PufferError, match="install nvidia-cuda-nvrtc"):
        cuda_library.machine_code("advantage", "sm_90")


def raise_os_error(name):
    raise OSError(name)


KNOWN = [75, 80, 86, 90, 100, 120]


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((9, 0), "sm_90"), ((8, 9), "sm_86"), ((10, 3), "sm_100"), ((13, 0), "compute_120"), ((7, 0), "sm_70")],
    ids=str,
)
def test_a_device_that_nvrtc_does_not_know_gets_the_nearest_architecture(capability, expected):
    assert cuda_library.architecture_for(*capability, KNOWN) == expected


def test_a_damaged_file_of_the_cache_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cuda_library, "_open_nvrtc", lambda: None)
    monkeypatch.setattr(cuda_library, "_known_architectures", lambda: [90])
    monkeypatch.setattr(cuda_library, "_version", lambda nvrtc, options: "13.0")
    monkeypatch.setattr(cuda_library, "_compile", lambda nvrtc, program, architecture: b"whole")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    driver = SimpleNamespace(cuModuleLoadData=lambda module, image: 0 if image == b"whole" else 200)
    monkeypatch.setattr(cuda_library, "open_driver", lambda: driver)
    program = cuda_library.Program("a_program", b"code", {})
    assert cuda_library.machine_code(program, "sm_90") == b"whole"
    (kept,) = (tmp_path / "pufferlib").iterdir()
    kept.write_bytes(b"half")
    cuda_library._module(program, 0)
    assert kept.read_bytes() == b"whole"


def test_a_file_of_the_cache_that_cannot_be_read_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cuda_library, "_open_nvrtc", lambda: None)
    monkeypatch.setattr(cuda_library, "_version", lambda nvrtc, options: "13.0")
    monkeypatch.setattr(cuda_library, "_compile", lambda nvrtc, program, architecture: b"whole")
    program = cuda_library.Program("a_program", b"code", {})
    assert cuda_library.machine_code(program, "sm_90") == b"whole"
    (kept,) = (tmp_path / "pufferlib").iterdir()
    kept.unlink()
    kept.mkdir()  # as unreadable as another user's file, to root as well
    assert cuda_library.machine_code(program, "sm_90") == b"whole"


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cuda_library.Path, "home", fail)
    assert cuda_library._cache_folder() is None


# ------------------------------------------------------------------------------------------------- what nvcc has built


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the kernels' sources, which `cuda_library` loads from; without anything built."""
    folder = tmp_path / "extensions"
    folder.mkdir()
    for path in [*FOLDER.glob("*.h"), *FOLDER.glob("*.cu"), FOLDER / "cuda_sources.py"]:
        shutil.copy(path, folder)
    monkeypatch.setattr(cuda_library, "FOLDER", folder)
    return folder


@pytest.fixture
def build(sources, tmp_path, monkeypatch):
    """Runs setup.py's compilation in that folder; nvcc is a script that writes its name and counts its calls."""
    setuptools = pytest.importorskip("setuptools")
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text('#!/bin/sh\nfor last; do :; done\necho "nvcc $@" > "$last"\necho >> "$0.calls"\n')
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nvcc.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("PUFFER_CUDA", raising=False)
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: None)
    monkeypatch.chdir(tmp_path)
    function = runpy.run_path(str(Path(__file__).parents[2] / "setup.py"))["build_cuda_kernels"]
    monkeypatch.chdir(tmp_path)

    def run():
        calls = Path(f"{nvcc}.calls")
        calls.unlink(missing_ok=True)
        function("extensions")
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    return run


@pytest.fixture
def loaded(monkeypatch):
    """What the driver was given to load."""
    images = []

    def load(module, image):
        images.append(image)
        return 0

    driver = SimpleNamespace(cuModuleLoadData=load)
    monkeypatch.setattr(cuda_library, "open_driver", lambda: driver)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(cuda_library, "_known_architectures", lambda: [80, 90])
    monkeypatch.setattr(cuda_library, "machine_code", lambda name, architecture: f"{name} by NVRTC".encode())
    cuda_library._module.cache_clear()
    yield images
    cuda_library._module.cache_clear()


def test_what_nvcc_built_is_loaded(build, loaded):
    assert build() == len(KERNELS)
    cuda_library._module("advantage", 0)
    assert loaded[0].startswith(b"nvcc -fatbin")


def test_a_thread_whose_first_call_loads_a_kernel_loads_what_nvcc_built(build, loaded, monkeypatch):
    build()
    load, current = cuda_library.open_driver().cuModuleLoadData, []
    driver = SimpleNamespace(
        cuModuleLoadData=lambda module, image: load(module, image) if current else cuda_library.INVALID_CONTEXT,
        cuDevicePrimaryCtxRetain=lambda context, device: 0,
        cuCtxSetCurrent=current.append,
    )
    monkeypatch.setattr(cuda_library, "open_driver", lambda: driver)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    cuda_library._module("advantage", 0)
    assert [image[:4] for image in loaded] == [b"nvcc"]


@pytest.mark.parametrize("changed", ["advantage.cu", "advantage_row.h"])
def test_what_was_built_of_other_sources_is_not_loaded_and_built_anew(changed, sources, build, loaded):
    build()
    times = (sources / changed).stat()
    (sources / changed).write_text((sources / changed).read_text() + "// changed\n")
    os.utime(sources / changed, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a checkout or an archive may leave it
    cuda_library._module("advantage", 0)
    assert loaded == [b"advantage by NVRTC"]
    assert build() == (1 if changed.endswith(".cu") else len(KERNELS))
    cuda_library._module.cache_clear()
    cuda_library._module("advantage", 0)
    assert loaded[1].startswith(b"nvcc -fatbin")
    assert len(list(sources.glob("*.fatbin"))) == len(KERNELS)


def test_what_an_earlier_version_built_is_not_loaded_and_removed(sources, build, loaded):
    (sources / "advantage.fatbin").write_bytes(b"stale")
    cuda_library._module("advantage", 0)
    assert loaded == [b"advantage by NVRTC"]
    build()
    assert not (sources / "advantage.fatbin").exists()


def test_nothing_is_built_twice(build):
    assert build() == len(KERNELS)
    assert build() == 0


def test_a_compiler_that_fails_leaves_nothing_behind(sources, build, tmp_path, capfd):
    (tmp_path / "bin" / "nvcc").write_text('#!/bin/sh\nfor last; do :; done\necho half > "$last"\nexit 1\n')
    build()
    assert not list(sources.glob("*.fatbin")) and not list(sources.glob("*.tmp"))
    assert "leaving it to first use" in capfd.readouterr().err
