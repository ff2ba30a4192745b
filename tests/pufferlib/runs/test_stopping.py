import os
import signal
import threading

import pytest

from pufferlib.errors import RankError
from pufferlib.runs.stopping import StopRequest


def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_the_second_insists(number):
    before = signal.signal(number, signal.default_int_handler)  # under nohup SIGHUP is ignored
    try:
        with StopRequest() as stop:
            assert not stop.requested
            interrupt(number)
            assert stop.requested
            with pytest.raises(KeyboardInterrupt):
                interrupt(number)
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_passed_on_twice_asks_once():
    with StopRequest(debounce_seconds=60.0) as stop:
        interrupt()
        interrupt()
        assert stop.requested


def test_the_loss_of_a_rank_can_be_told_before_a_signal_ends_the_process():
    before = {number: signal.getsignal(number) for number in StopRequest.SIGNALS}
    try:
        with pytest.raises(RankError), StopRequest():
            raise RankError
        interrupt(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_handlers_of_the_host_program_come_back():
    def own(number, frame):
        pass

    before = signal.signal(signal.SIGINT, own)
    try:
        with StopRequest():
            assert signal.getsignal(signal.SIGINT) is not own
        assert signal.getsignal(signal.SIGINT) is own
        with pytest.raises(RuntimeError), StopRequest():
            raise RuntimeError
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_under_nohup_does_not_hear_that_the_terminal_is_gone():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            interrupt(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_trains_without_signals():
    handlers = []

    def body():
        with StopRequest() as stop:
            handlers.append((signal.getsignal(signal.SIGINT), stop.requested))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert handlers == [(before, False)]
