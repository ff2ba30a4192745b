"""Signals that the main thread cannot answer."""

import signal
import subprocess
import sys
import time

import pytest

STUCK = """
import ctypes, sys, time
from pufferlib.runs import stopping
from pufferlib.runs.stopping import StopRequest

stopping.GRACE_SECONDS = 1.0 if sys.argv[2] == "answering" else 0.5
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
with StopRequest(float(sys.argv[1])) as stop:
    if sys.argv[2] == "after one":
        print("ready", flush=True)
        while not stop.requested:
            time.sleep(0.01)
    if sys.argv[2] == "answering":
        print("ready", flush=True)
        try:
            time.sleep(60)
        finally:
            time.sleep(2)  # it takes its time to close
    lock(mutex)
    print("ready", flush=True)
    lock(mutex)  # for ever, and without coming back to Python
"""


@pytest.fixture
def start():
    started = []

    def run(manner, debounce_seconds=0.0):
        process = subprocess.Popen(
            [sys.executable, "-c", STUCK, str(debounce_seconds), manner],
            **dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True),
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def interrupt(process, times=1):
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.6)  # what is handled within half a second before is no other signal


def test_a_loop_in_c_is_ended_by_the_second_signal(start):
    process = start("at once")
    interrupt(process, 2)
    assert process.wait(timeout=60) == 130
    assert "two signals were not answered for 0.5 seconds, so the run ends here, " in process.stderr.read()


@pytest.mark.slow
def test_a_loop_that_comes_after_the_first_signal_is_ended_too(start):
    process = start("after one")
    interrupt(process)
    assert process.stdout.readline() == "ready\n"
    interrupt(process)
    assert process.wait(timeout=60) == 130


@pytest.mark.slow
@pytest.mark.parametrize("debounce_seconds", [0.0, 60.0])
def test_one_signal_ends_nothing_nor_do_several_that_are_one(start, debounce_seconds):
    process = start("at once", debounce_seconds)
    interrupt(process, 1 if debounce_seconds == 0.0 else 2)
    time.sleep(1.0)
    assert process.poll() is None


@pytest.mark.slow
def test_who_answers_may_take_longer(start):
    process = start("answering")
    interrupt(process, 2)
    assert process.wait(timeout=60) == -signal.SIGINT  # by Python, after all was closed
    assert "KeyboardInterrupt" in process.stderr.read()
