import psutil
import pytest
import torch

from pufferlib.metrics.measures import HardwareMeter


def test_a_gpu_is_asked_for_its_use_and_its_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (60 * 2**30, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: 87)
    sample = HardwareMeter(torch.device("cuda:1")).sample()
    assert (sample["gpu"], sample["gpu_memory"], sample["gpu_memory_bytes"]) == (0.87, 0.25, 20 * 2**30)


def test_use_that_is_not_told_is_left_out(monkeypatch):
    def missing(device):
        raise ModuleNotFoundError("nvidia-ml-py")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (60 * 2**30, 80 * 2**30))
    monkeypatch.setattr(torch.cuda, "utilization", missing)
    sample = HardwareMeter(torch.device("cuda")).sample()
    assert set(sample) == {"cpu", "memory", "memory_bytes", "gpu_memory", "gpu_memory_bytes"}


def test_without_a_gpu_the_rest_is_reported():
    sample = HardwareMeter(torch.device("cpu")).sample()
    assert set(sample) == {"cpu", "memory", "memory_bytes"}
    assert 0 <= sample["cpu"] <= 1 and 0 < sample["memory"] < 1 and sample["memory_bytes"] > 2**20


@pytest.mark.parametrize("method", ["children", "cpu_times", "memory_info"])
@pytest.mark.parametrize("error", [OSError("Too many open files"), psutil.NoSuchProcess(1)])
def test_what_cannot_be_read_is_left_out(monkeypatch, method, error):
    meter = HardwareMeter(torch.device("cpu"))

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(psutil.Process, method, fail)
    meter._processes_until = 0.0
    usage = meter.sample()
    assert 0 <= usage["cpu"] <= 1 and 0 <= usage["memory"] <= 1
