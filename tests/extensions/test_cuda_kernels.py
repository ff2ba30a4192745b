"""The CUDA kernels' own source, and the code that launches it, run lane by lane on a CPU."""

import contextlib
from types import SimpleNamespace

import pytest
import torch
from advantage_inputs import PLAIN, random_presence, random_segments, truth
from emulated_cuda import needs_emulator, on_emulator  # noqa: F401 - a fixture
from mingru_inputs import random_inputs, run_with_gradients

from pufferlib.errors import PufferError, PufferWarning
from pufferlib.extensions import advantage, cuda_library, mingru, optimizers
from pufferlib.extensions.mingru import mingru_scan, mingru_step
from pufferlib.extensions.optimizers import Muon

pytestmark = needs_emulator


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 2), (3, 7), (5, 32), (4, 33), (9, 65), (6, 66), (257, 31), (0, 5)], ids=str
)
def test_advantage(shape, on_emulator):  # noqa: F811
    *inputs, advantages = random_segments(shape, seed=0)
    version = advantages._version
    advantage._advantage_cuda(*inputs, None, advantages, *PLAIN)
    assert advantages._version > version  # so that autograd knows
    torch.testing.assert_close(advantages.double(), truth(inputs, PLAIN), rtol=1e-5, atol=2e-5)
    present = random_presence(shape, seed=1)
    advantage._advantage_cuda(*inputs, present, advantages.fill_(torch.nan), *PLAIN)
    torch.testing.assert_close(advantages.double(), truth(inputs, PLAIN, present), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (5, 20, 67), (2, 3, 256)], ids=str)
def test_mingru_and_its_gradients(shape, on_emulator):  # noqa: F811
    inputs = random_inputs(shape)
    found = run_with_gradients(mingru_scan, inputs)
    in_float64 = (*(tensor.double() for tensor in inputs[:3]), inputs[3])
    expected = run_with_gradients(mingru.reference_mingru, in_float64)
    for result, wanted in zip(found, expected, strict=True):
        scale = wanted.abs().max().clamp(min=1.0).item()
        torch.testing.assert_close(result.double(), wanted, rtol=1e-5, atol=1e-6 * scale)


def test_mingru_step_updates_the_state_in_place(on_emulator):  # noqa: F811
    gates, x, state, _ = random_inputs((5, 1, 13))
    expected, final = mingru.reference_mingru(gates, x, state)
    output = mingru_step(gates[:, 0].clone(), x[:, 0].clone(), state)
    torch.testing.assert_close(output, expected[:, 0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, final, rtol=1e-5, atol=1e-6)


SHAPES = [(6, 40), (40, 6), (16, 16), (64, 192), (1, 5)]


@pytest.mark.quick("5")
@pytest.mark.parametrize("num_matrices", [5, 70])
def test_muon_steps_as_torch_does(num_matrices, on_emulator, monkeypatch):  # noqa: F811
    random = torch.Generator().manual_seed(0)
    first = [torch.randn(SHAPES[index % 5], generator=random) for index in range(num_matrices)]
    first.append(torch.zeros(3, 4))  # without a gradient that is not zero
    found, expected = ([torch.nn.Parameter(each.clone()) for each in first] for _ in range(2))
    settings = {"lr": torch.tensor(0.05), "momentum": 0.9, "weight_decay": 0.1}
    steppers = Muon(found, **settings), Muon(expected, **settings)
    for _ in range(3):
        gradients = [torch.randn(each.shape, generator=random) for each in first[:-1]]
        for parameters, stepper in zip((found, expected), steppers, strict=True):
            for parameter, gradient in zip(parameters, [*gradients, torch.zeros(3, 4)], strict=True):
                parameter.grad = gradient.clone()
            with monkeypatch.context() as patched:
                patched.setattr(optimizers, "has_kernel", lambda matrices, is_new=parameters is found: is_new)
                stepper.step()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert on_emulator.count("puffer_muon_begin") == on_emulator.count("puffer_muon_end") == 3 * -(-num_matrices // 32)


def test_a_failing_driver_call_names_itself_and_the_error(monkeypatch):
    def name_of(status, message):
        message._obj.value = b"CUDA_ERROR_INVALID_VALUE"

    fake = SimpleNamespace(cuLaunchKernel=lambda *arguments: 1, cuGetErrorName=name_of)
    monkeypatch.setattr(cuda_library, "open_driver", lambda: fake)
    with pytest.raises(PufferError, match=r"cuLaunchKernel must succeed .* returned 1 \(CUDA_ERROR_INVALID_VALUE\)"):
        cuda_library._driver("cuLaunchKernel")


def test_a_thread_whose_first_call_is_a_launch_gets_a_context(monkeypatch):
    current = []

    def retain(context, device):
        context._obj.value = 100 + device

    fake = SimpleNamespace(
        cuLaunchKernel=lambda: 0 if current else 201,
        cuDevicePrimaryCtxRetain=retain,
        cuCtxSetCurrent=lambda context: current.append(context.value),
    )
    monkeypatch.setattr(cuda_library, "open_driver", lambda: fake)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for _ in range(2):
        cuda_library._driver("cuLaunchKernel")
    assert current == [101]


def test_what_cannot_be_compiled_is_computed_by_torch_and_said_once(monkeypatch):
    def fail(program, index):
        raise PufferError("NVRTC says no")

    monkeypatch.setattr(cuda_library, "_module", fail)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    cuda_library.can_run.cache_clear()
    *inputs, advantages = random_segments((3, 7), seed=0)
    with pytest.warns(PufferWarning, match="the kernel advantage would: NVRTC says no"):
        advantage._advantage_cuda(*inputs, None, advantages, *PLAIN)
    torch.testing.assert_close(advantages.double(), truth(inputs, PLAIN), rtol=1e-5, atol=2e-5)
    advantage._advantage_cuda(*inputs, None, advantages, *PLAIN)  # without another word
    with pytest.warns(PufferWarning, match="the kernel mingru would: NVRTC says no"):
        assert not mingru._has_kernel(torch.device("cuda:0"))
    cuda_library.can_run.cache_clear()
