import contextlib
import time

import pytest
import torch

from pufferlib.metrics.measures import Phases

CUDA = torch.device("cuda")


class FakeGpu:
    """A stream that works through what is queued when it is told to; its time is counted in seconds of work."""

    def __init__(self):
        self.queued = self.done = 0.0
        self.events = []

    def queue(self, seconds):
        self.queued += seconds

    def catch_up(self):
        self.done = self.queued

    def make_event(self, enable_timing):
        assert enable_timing
        self.events.append(FakeEvent(self))
        return self.events[-1]


class FakeEvent:
    """Says what torch's events say, and refuses what they refuse."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.position = None

    def record(self, stream):
        assert stream is self.gpu
        self.position = stream.queued

    def query(self):
        return self.position is None or self.position <= self.gpu.done

    def elapsed_time(self, end):
        assert self.query() and end.query(), "both events must have happened"
        return 1e3 * (end.position - self.position)

    def synchronize(self):
        raise AssertionError("nothing waits for the GPU")


@pytest.fixture
def gpu(monkeypatch):
    gpu = FakeGpu()
    monkeypatch.setattr(torch.cuda, "Event", gpu.make_event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: gpu)
    return gpu


@pytest.fixture
def wall(monkeypatch):
    """The clock on the wall: a list of its one time, which the test moves."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def spend(wall, phase, seconds):
    with phase:
        wall[0] += seconds


def test_phases_and_the_rest_share_the_time(wall):
    phases = Phases()
    spend(wall, phases.phase("a"), 1)
    wall[0] += 2
    spend(wall, phases.queued_phase("b"), 3)
    spend(wall, phases.phase("a"), 4)
    assert phases.shares() == pytest.approx({"a": 0.5, "b": 0.3, "other": 0.2})
    assert sum(phases.shares().values()) == pytest.approx(1)
    assert phases.device_shares() == {}


def test_a_reset_starts_over(wall, gpu):
    phases = Phases(CUDA)
    with phases.queued_phase("a"):
        gpu.queue(0.5)
        wall[0] += 1
    gpu.catch_up()
    assert phases.device_shares() == {"a": 0.5}
    phases.reset()
    wall[0] += 1
    assert phases.shares() == {"other": 1.0} and phases.device_shares() == {}


def test_the_device_has_its_own_time(wall, gpu):
    phases = Phases(CUDA)
    for _ in range(3):
        with phases.queued_phase("advantage"):
            gpu.queue(0.5)
            wall[0] += 0.1
        gpu.queue(0.25)  # of no phase
        with phases.queued_phase("learn"):
            gpu.queue(2)
            wall[0] += 0.1
    wall[0] = 110.0
    gpu.catch_up()
    assert phases.device_shares() == pytest.approx({"advantage": 0.15, "learn": 0.6})
    assert phases.shares() == pytest.approx({"advantage": 0.03, "learn": 0.03, "other": 0.94})


def test_what_the_device_has_not_done_counts_later(wall, gpu):
    phases = Phases(CUDA)
    with phases.queued_phase("learn"):
        gpu.queue(2)
    wall[0] += 4
    assert phases.device_shares() == {}
    phases.reset()
    gpu.catch_up()
    wall[0] += 4
    assert phases.device_shares() == {"learn": 0.5}


def test_events_are_used_again(wall, gpu):
    phases = Phases(CUDA)
    for _ in range(1000):
        with phases.queued_phase("learn"):
            gpu.queue(1)
        gpu.catch_up()
    assert len(gpu.events) <= 4
    wall[0] += 2000
    assert phases.device_shares() == {"learn": 0.5}


def test_a_phase_that_fails_is_timed_to_its_failure(wall, gpu):
    phases = Phases(CUDA)
    with pytest.raises(KeyError), phases.queued_phase("learn"):
        gpu.queue(1)
        wall[0] += 2
        raise KeyError
    gpu.catch_up()
    assert phases.shares()["learn"] == 1.0 and phases.device_shares() == {"learn": 0.5}


def test_other_devices_than_cuda_have_no_clock():
    for phases in (Phases(), Phases(torch.device("cpu"))):
        assert phases.queued_phase("learn") is phases.phase("learn")
        with phases.queued_phase("learn"):
            pass
        assert phases.device_shares() == {}


def test_a_profiler_is_told_of_phases_while_it_asks():
    phases, told = Phases(), []

    @contextlib.contextmanager
    def mark(name):
        told.append(f"begin {name}")
        yield
        told.append(f"end {name}")

    phases.label = mark
    with phases.phase("learn"):
        told.append("inside")
    phases.label = None
    with phases.phase("learn"):
        pass
    assert told == ["begin learn", "inside", "end learn"]
    assert phases.shares()["learn"] > 0


def test_queued_phases_are_told_too(wall, gpu):
    phases, told = Phases(CUDA), []

    def mark(name):
        return contextlib.nullcontext(told.append(name))

    for phases.label in (mark, None):
        with phases.queued_phase("learn"):
            gpu.queue(1.0)
    gpu.catch_up()
    wall[0] += 4.0
    assert told == ["learn"] and phases.device_shares() == {"learn": 0.5}
