import psutil
import pytest
import torch

from pufferlib.metrics.measures import HardwareMeter


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
