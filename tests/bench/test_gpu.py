import math
import sys
import warnings
from pathlib import Path

import pytest
import torch
from emulated_cuda import needs_emulator, on_emulator  # noqa: F401 - a fixture

from pufferlib.errors import PufferWarning
from pufferlib.extensions import ppo
from pufferlib.fast import device_update

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu

    return gpu


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_what_is_missing(gpu, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == 2
    out, err = capsys.readouterr()
    assert out == "" and "needs an NVIDIA GPU" in err and err.count("\n") == 1


@pytest.mark.slow
def test_the_checks_find_the_cpu_kernels_right(gpu):
    torch.manual_seed(0)
    for name, check in gpu.CHECKS.items():
        assert check(torch.device("cpu")) < gpu.TOLERANCE, name


@pytest.mark.slow
def test_captures_of_recurrent_policies_are_compared_with_none(gpu, capsys):
    """On a CPU neither is captured, and both are the same."""
    rows = gpu.check_captures(torch.device("cpu"), agents=16)
    assert [name for name, _, _ in rows] == [f"{name} in CUDA graphs: error" for name in ("MinGRU", "LSTM")]
    assert all(value == 0 for _, value, _ in rows)
    assert capsys.readouterr().out.count("ok") == 2


def test_a_wrong_or_failed_capture_is_found(gpu, monkeypatch):
    def train(case, device):
        if case.rnn_name == "LSTM" and case.has_graphs:
            warnings.warn("the policy cannot be captured as a CUDA graph (why)", PufferWarning, stacklevel=1)
        return [torch.full((3,), 1.01 if case.has_graphs else 1.0)]

    monkeypatch.setattr(gpu, "train_briefly", train)
    values = [value for _, value, _ in gpu.check_captures(torch.device("cpu"))]
    assert values == [pytest.approx(0.01, rel=1e-3), math.inf] and values[0] > gpu.CAPTURE_TOLERANCE


@pytest.mark.slow
@needs_emulator
def test_an_update_by_kernels_is_compared_with_torch(gpu, on_emulator, monkeypatch):  # noqa: F811
    monkeypatch.setattr(ppo, "has_kernels", lambda device: True)
    ((_, value, _),) = gpu.check_update(torch.device("cpu"), agents=16)
    assert value < gpu.CAPTURE_TOLERANCE and {"puffer_draw", "puffer_ppo_choices"} < set(on_emulator)
    differentiate = device_update.DeviceGradients.differentiate

    def without_values(gradients, minibatch):
        gradients.coefficients = {**gradients.coefficients, "vf_coef": 0.0}
        return differentiate(gradients, minibatch)

    monkeypatch.setattr(device_update.DeviceGradients, "differentiate", without_values)
    assert gpu.check_update(torch.device("cpu"), agents=16)[0][1] > gpu.CAPTURE_TOLERANCE


def test_a_wrong_or_unwritten_result_is_found(gpu):
    truth = torch.randn(5, 3).double()
    assert gpu.error(truth.float(), truth) < 1e-6
    assert gpu.error((truth * 1.001).float(), truth) > gpu.TOLERANCE
    hole = truth.float()
    hole[4, 2] = torch.nan
    assert gpu.error(hole, truth) == torch.inf
    assert gpu.error(torch.ones(2), torch.zeros(2)) > 1


def work(begin, duration, category="kernel"):
    return {"ts": begin, "dur": duration, "cat": category}


def test_idle_time_is_what_no_stream_worked_in(gpu):
    events = [work(100, 10), work(105, 10), work(130, 5, "gpu_memcpy"), work(131, 1), work(140, 10)]
    events += [work(0, 1000, "cpu_op"), {"ph": "M", "name": "process_name"}, work(110, 40, "gpu_user_annotation")]
    assert gpu.idle_share(events) == pytest.approx(1 - 30 / 50)
    assert gpu.idle_share([work(0, 5, "cpu_op")]) == 1.0
    assert gpu.idle_share([work(3, 4)]) == 0.0


def test_a_machine_without_a_compiler_is_not_calibrated(gpu, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    value = gpu.calibration()
    assert value != value and "needs a C compiler" in capsys.readouterr().err
