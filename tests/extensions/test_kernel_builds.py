"""The kernels as other machines get them: built for any processor, by nvcc, by NVRTC, or not at all."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from test_advantage_kernel import PLAIN, random_segments, truth
from test_network import CASES, assert_learns_like_the_truth, random_layers, random_minibatch

import pufferlib.extensions
from pufferlib.errors import PufferError
from pufferlib.extensions import (
    compute_puff_advantage,
    cpu_library,
    cuda_library,
    mingru_scan,
    orthogonalize,
    reference_mingru,
    reference_orthogonalize,
)

FOLDER = Path(pufferlib.extensions.__file__).parent
KERNELS = ["advantage", "mingru"]
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def compile_shared(target, sources, *options):
    command = ["c++", "-std=c++17", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run([*command, *map(str, sources), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


@needs_compiler
def test_a_portable_build_computes_the_same(tmp_path, monkeypatch):
    library = compile_shared(tmp_path / "portable.so", FOLDER.glob("*.cpp"), "-O3", "-fno-trapping-math")
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(library))
    *inputs, advantages = random_segments((29, 67), seed=0)
    result = compute_puff_advantage(*inputs, advantages, *PLAIN)
    torch.testing.assert_close(result.double(), truth(inputs, PLAIN), rtol=1e-5, atol=2e-5)
    gates, x, state = torch.randn(5, 9, 111), torch.randn(5, 9, 37), torch.zeros(5, 37)
    for found, wanted in zip(mingru_scan(gates, x, state), reference_mingru(gates, x, state), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.parametrize("options", [("-DKERNEL_BASELINE",), ("-DKERNEL_NO_AVX512",), ()], ids=str)
def test_every_instruction_set_learns_the_same(options, tmp_path, monkeypatch):
    library = compile_shared(tmp_path / "sets.so", FOLDER.glob("*.cpp"), "-O3", "-fno-trapping-math", *options)
    monkeypatch.setattr(cpu_library, "library", lambda: cpu_library.declare(library))
    torch.manual_seed(0)
    for case in CASES.values():
        layers = random_layers(**case)
        minibatch = random_minibatch(layers, 9, 7, 11)
        assert_learns_like_the_truth(layers, torch.randn(9, 11, case["inputs"]), minibatch)
    matrices = torch.randn(2, 33, 70)
    expected = reference_orthogonalize(matrices.double())
    torch.testing.assert_close(orthogonalize(matrices).double(), expected, rtol=1e-5, atol=2e-5)


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
    code = cuda_library.cubin(kernel, "sm_90")
    assert code[:4] == b"\x7fELF" and f"puffer_{kernel}".encode() in code
    (kept,) = (tmp_path / "pufferlib").iterdir()
    assert kept.read_bytes() == code
    kept.write_bytes(b"from the cache")
    assert cuda_library.cubin(kernel, "sm_90") == b"from the cache"


@pytest.mark.skipif(nvrtc_is_missing(), reason="needs NVRTC, which comes with torch's CUDA builds")
def test_nvrtc_needs_no_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cuda_library.cubin("advantage", "sm_90")[:4] == b"\x7fELF"


def test_a_missing_nvrtc_names_the_package(monkeypatch):
    monkeypatch.setattr(cuda_library.ctypes, "CDLL", raise_os_error)
    cuda_library._open_nvrtc.cache_clear()
    with pytest.raises(PufferError, match="install nvidia-cuda-nvrtc"):
        cuda_library.cubin("advantage", "sm_90")


def raise_os_error(name):
    raise OSError(name)
