import json
import os
import signal
import threading

import pytest

from pufferlib import run
from pufferlib.config import load_config
from pufferlib.errors import CheckpointError
from pufferlib.run import StopRequest


def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)


# --- being asked to stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_insists(number):
    with StopRequest() as stop:
        assert not stop.requested
        interrupt(number)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            interrupt(number)


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


# --- what is written down


def test_a_run_is_described_by_settings_versions_and_seed(tmp_path):
    args = load_config("puffer_squared")
    args["train"]["seed"] = 7
    run.write_description(tmp_path, run.describe_run(args))
    description = json.loads((tmp_path / run.CONFIG_FILE).read_text())
    assert description["settings"] == args and description["seed"] == 7
    assert {"python", "pufferlib", "torch", "numpy", "gymnasium"} <= description["versions"].keys()
    assert all(description["versions"].values())
    commit = description["git_commit"]
    assert commit is None or len(commit) == 40
    assert run.saved_settings(tmp_path, "puffer_squared") == args


def test_settings_of_another_environment_are_refused(tmp_path):
    run.write_description(tmp_path, run.describe_run(load_config("puffer_squared")))
    with pytest.raises(CheckpointError, match="must be of a run of puffer_pong, got one of puffer_squared"):
        run.saved_settings(tmp_path, "puffer_pong")


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"settings": 3}', '{"settings": {}}'])
def test_settings_that_cannot_be_read_are_refused(tmp_path, text):
    if text is not None:
        (tmp_path / run.CONFIG_FILE).write_text(text)
    with pytest.raises(CheckpointError, match="must hold the settings of the run"):
        run.saved_settings(tmp_path, "puffer_squared")
