import types
import warnings

import pytest
import torch

from pufferlib.metrics.measures import GpuMeter, HardwareMeter, gpu_uuid

UUID = "c11c1e5a-9f4e-0000-1111-222233334444"


class FakeDriver:
    """Says what pynvml says of a machine with some GPUs, and raises where it is told to."""

    class NVMLError(Exception):
        pass

    def __init__(self, *failing, names=(f"GPU-{UUID}",)):
        self.failing = failing
        self.names = names
        self.opened = 0

    def answer(self, name, result=None):
        if name in self.failing:
            raise self.NVMLError(name)
        return result

    def nvmlInit(self):
        self.answer("init")
        self.opened += 1

    def nvmlShutdown(self):
        self.opened -= 1
        self.answer("shutdown")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.names:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle):
        assert handle in self.names
        return self.answer("rates", types.SimpleNamespace(gpu=87, memory=40))

    def nvmlDeviceGetMemoryInfo(self, handle):
        assert handle in self.names
        return self.answer("memory", types.SimpleNamespace(total=80 * 2**30, free=60 * 2**30, used=20 * 2**30))


def test_a_gpu_is_found_by_its_uuid_and_asked():
    driver = FakeDriver(names=("GPU-another", f"GPU-{UUID}"))
    meter = GpuMeter(UUID, driver)
    assert meter.sample() == {"gpu": 0.87, "gpu_memory": 0.25, "gpu_memory_bytes": 20 * 2**30}
    assert driver.opened == 1
    meter.close()
    meter.close()
    assert driver.opened == 0 and meter.sample() == {}


@pytest.mark.parametrize(
    ("failing", "left"),
    [
        (["init"], set()),
        (["rates"], {"gpu_memory", "gpu_memory_bytes"}),
        (["memory"], {"gpu"}),
        (["rates", "memory"], set()),
        (["shutdown"], {"gpu", "gpu_memory", "gpu_memory_bytes"}),
    ],
)
def test_what_the_driver_does_not_answer_is_left_out(failing, left):
    driver = FakeDriver(*failing)
    meter = GpuMeter(UUID, driver)
    assert set(meter.sample()) == left
    meter.close()
    assert driver.opened == 0


def test_a_gpu_that_the_driver_does_not_know_is_left_out():
    assert GpuMeter("another", FakeDriver()).sample() == {}


def test_a_slice_of_a_gpu_is_found():
    assert "gpu_memory" in GpuMeter(UUID, FakeDriver("rates", names=(f"MIG-{UUID}",))).sample()


def test_without_the_package_nothing_is_reported(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    meter = GpuMeter(UUID)
    assert meter.sample() == {}
    meter.close()


def test_a_warning_of_the_package_is_kept_from_the_user(monkeypatch):
    def warning(name):
        warnings.warn("this package is out of date", FutureWarning, stacklevel=2)
        return FakeDriver()

    monkeypatch.setattr("importlib.import_module", warning)
    assert GpuMeter(UUID).sample()["gpu"] == 0.87


@pytest.mark.parametrize(
    ("device", "cuda", "uuid"), [("cuda:1", "13.0", UUID), ("cuda:1", None, None), ("cpu", "13.0", None)]
)
def test_only_nvidias_gpus_have_a_uuid(monkeypatch, device, cuda, uuid):
    properties = {torch.device("cuda:1"): types.SimpleNamespace(uuid=UUID)}
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties.__getitem__)
    assert gpu_uuid(torch.device(device)) == uuid


def test_without_a_gpu_the_rest_is_reported():
    meter = HardwareMeter(torch.device("cpu"))
    sample = meter.sample()
    meter.close()
    assert set(sample) == {"cpu", "memory", "memory_bytes"}
    assert 0 <= sample["cpu"] <= 1 and 0 < sample["memory"] < 1 and sample["memory_bytes"] > 2**20
