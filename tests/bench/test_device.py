"""That bench/device.py finds what is wrong; its timings need a GPU."""

import dataclasses
import sys
from pathlib import Path

import pytest
import torch
from emulated_device import device_emulator, needs_emulator  # noqa: F401 - a fixture
from recorded_capture import FakeCapture

from pufferlib import pufferl
from pufferlib.fast import cuda_graphs
from pufferlib.fast.choose import choose_backend
from pufferlib.fast.device_envs import DeviceEnvs
from pufferlib.fast.device_network import DeviceNetwork

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def device(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import device

    return device


@pytest.fixture
def captured(monkeypatch):
    """Has trainings on a CPU be what they are on a GPU: policies of torch that are captured."""

    def chosen(*arguments):
        return dataclasses.replace(choose_backend(*arguments), network=None, is_captured=True, reason=None)

    monkeypatch.setattr(pufferl, "choose_backend", chosen)
    monkeypatch.setattr(cuda_graphs, "capture_graph", FakeCapture())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_what_is_missing(device, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["device.py"])
    assert device.main() == 2
    out, err = capsys.readouterr()
    assert out == "" and "needs an NVIDIA GPU" in err and err.count("\n") == 1


def test_what_is_measured_stands_beside_what_is_expected(device, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(device.operations, "expected_rate", lambda gpu: 60e6)
    (name, rate, _), (_, share, _) = device.beside_expected(45e6)
    assert (name, rate, share) == ("puffer_breakout: H200, on paper", 60e6, 0.75)
    assert "on paper 60,000,000 steps/s, of which 75% were measured" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "another one")
    assert device.beside_expected(45e6) == []


@pytest.mark.slow
@needs_emulator
@pytest.mark.usefixtures("device_emulator", "captured")
def test_a_training_says_where_its_environments_are(device, tmp_path):
    many = "CUDA graphs, environments on the GPU"
    for backend, is_fused, words in (
        *(("Native", True, "CUDA graphs"), ("Native", False, "CUDA graphs")),
        *(("Device", True, f"{many}, a rollout in one kernel"), ("Device", False, many)),
    ):
        case = device.Case("puffer_squared", 16, num_buffers=1, backend=backend, is_fused=is_fused)
        trainer = device.gpu.make_trainer(case, str(tmp_path), "cpu")
        assert trainer.computed_by == words
        trainer.release()


def break_observations(monkeypatch):
    """Has every step change a bit of what the first agent of a PufferEnv sees."""
    step = DeviceEnvs.step

    def broken(envs):
        step(envs)
        envs._arrays[0].view(torch.uint8)[0].bitwise_xor_(1)

    monkeypatch.setattr(DeviceEnvs, "step", broken)


@needs_emulator
def test_golden_episodes_are_told_from_others(device, device_emulator, monkeypatch, capsys):  # noqa: F811
    import golden

    monkeypatch.setattr(golden, "compiled_names", lambda: ["puffer_squared", "puffer_drone"])
    monkeypatch.setattr(golden, "calls_the_library", lambda name: name == "puffer_drone")
    row = "puffer_squared: plays the golden episodes"
    assert device.check_episodes(torch.device("cpu")) == [(row, 1.0, "1 is yes")]
    assert "puffer_drone             rounds as its machine's library does" in capsys.readouterr().out
    break_observations(monkeypatch)
    assert device.check_episodes(torch.device("cpu")) == [(row, 0.0, "1 is yes")]


@pytest.mark.slow
@needs_emulator
@pytest.mark.usefixtures("device_emulator", "captured")
def test_a_trainer_collects_and_learns_what_it_does_with_threads(device, monkeypatch):
    rows = device.check_rollouts(torch.device("cpu"), agents=16)
    assert [(name.split()[2], value) for name, value, _ in rows] == [("Default", 1.0), ("MinGRU", 1.0)]
    break_observations(monkeypatch)
    assert [value for _, value, _ in device.check_rollouts(torch.device("cpu"), agents=16)] == [0.0, 0.0]


@needs_emulator
def test_environments_that_stay_on_the_cpu_are_noticed(device, device_emulator):  # noqa: F811
    with pytest.raises(RuntimeError, match="stayed on the CPU"):
        device.check_rollouts(torch.device("cpu"), agents=16)


@pytest.mark.slow
@needs_emulator
@pytest.mark.usefixtures("device_emulator", "captured")
def test_rollouts_of_one_kernel_are_told_from_others(device, monkeypatch):
    rows = device.check_one_kernel(torch.device("cpu"), agents=16)
    assert [value for _, value, _ in rows] == [1.0, 1.0, 1.0]
    pack = DeviceNetwork.pack

    def break_weights(network):
        pack(network)
        network.weights[0] += 1.0

    monkeypatch.setattr(DeviceNetwork, "pack", break_weights)
    assert [value for _, value, _ in device.check_one_kernel(torch.device("cpu"), agents=16)] == [0.0, 0.0, 0.0]


@pytest.mark.slow
@needs_emulator
@pytest.mark.usefixtures("device_emulator", "captured")
def test_a_training_whose_rollouts_are_one_kernel_learns(device, tmp_path):
    case = device.Case("puffer_cartpole", 256, num_buffers=1, backend="Device")
    settings = {"bptt_horizon": 32, "batch_size": 8192, "minibatch_size": 2048, "total_timesteps": 40 * 8192, "seed": 1}
    trainer = device.gpu.make_trainer(case, str(tmp_path), "cpu", **settings)
    perf = []
    while trainer.epoch < 40:
        trainer.evaluate()
        trainer.train()
        perf.append(trainer.mean_and_log()["environment/perf"])
    trainer.release()
    assert perf[0] < 0.1 and sum(perf[-5:]) / 5 > 0.3, perf
