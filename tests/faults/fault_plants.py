"""What makes a fault from inside the process of a run; each is called there before the command begins."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

PLACES = {
    "making": "pufferlib.pufferl.load_policy",
    "opening": "pufferlib.runs.folder.RunFolder.open",
    "rollout": "pufferlib.ppo.collector.Collector.collect",
    "step": "pufferlib.vector.base.Vector.recv",
    "update": "pufferlib.ppo.learner.Learner.learn",
    "saving": "pufferlib.runs.checkpoint.save_checkpoint_folder",
    "flushing": "os.fsync",
    "renaming": "os.replace",
    "evaluation": "pufferlib.play.scores.PeriodicEvaluation.run",
    "logging": "pufferlib.loggers.logger.Loggers.log",
    "forking": "subprocess.Popen",
    "end": "pufferlib.pufferl.PuffeRL.close",
    "release": "pufferlib.pufferl.PuffeRL.release",
}
"""The moments of a run, by a function that is called then."""


def replace(path: str, make: Any) -> None:
    """Replaces a function, or a method of a class, by what `make` makes of it."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:count]))
            break
        except ModuleNotFoundError:
            continue
    for name in parts[count:-1]:
        owner = getattr(owner, name)
    setattr(owner, parts[-1], make(getattr(owner, parts[-1])))


def struck() -> None:
    """Leaves the time of the fault for who measures."""
    Path("struck").write_text(repr(time.monotonic()))


def before(place: str, count: int, act: Any) -> None:
    """Calls `act` when a run comes to one of PLACES for the `count`th time."""
    calls = 0

    def make(original: Any) -> Any:
        def replacement(*arguments: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == count:
                act()
            return original(*arguments, **keywords)

        return replacement

    replace(PLACES[place], make)


def hold(place: str = "rollout", count: int = 5) -> None:
    """Has the run wait there, once, until the test has made its fault."""

    folder = Path.cwd()

    def wait() -> None:
        (folder / "held").touch()
        deadline = time.monotonic() + 120
        while not (folder / "go").exists() and time.monotonic() < deadline:
            time.sleep(0.002)

    before(place, count, wait)


def send(place: str, count: int, *numbers: int) -> None:
    """Sends the process signals at a moment."""

    def act() -> None:
        struck()
        for number in numbers:
            os.kill(os.getpid(), number)

    before(place, count, act)


def fail(place: str, count: int, error: str, *arguments: Any) -> None:
    """Raises an error at a moment, named as `builtins.OSError`."""

    def act() -> None:
        struck()
        module, _, name = error.rpartition(".")
        raise getattr(importlib.import_module(module), name)(*arguments)

    before(place, count, act)


def limit(name: str, amount: int, is_in_addition: bool = False) -> None:
    """Limits what the process may have, such as RLIMIT_NOFILE; -1 is no limit, and memory may be in addition."""
    if is_in_addition:
        amount += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    number = getattr(resource, name)
    _, most = resource.getrlimit(number)
    resource.setrlimit(number, (most if amount < 0 else amount, most))


def begin() -> None:
    """Has the time count from here: what is wrong from the start is found after the imports, which take seconds."""
    import pufferlib.pufferl  # noqa: F401

    struck()


def limit_at(place: str, count: int, name: str, amount: int) -> None:
    """Limits it from a moment on, or with -1 no longer."""

    def act() -> None:
        if amount >= 0:
            struck()
        limit(name, amount, name == "RLIMIT_AS")

    before(place, count, act)


def close_streams(*numbers: int) -> None:
    """Has the process begin without some of stdin, stdout and stderr, as `<&-` has it."""
    streams = ("stdin", "stdout", "stderr")
    for number in numbers:
        os.close(number)
        setattr(sys, streams[number], None)


def pipe_stdout(lines: int) -> None:
    """Writes to `head -n LINES`, which goes away after so many."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        with os.fdopen(reading) as stream:
            for _ in range(lines):
                stream.readline()
        os._exit(0)
    os.close(reading)
    os.dup2(writing, 1)
    os.close(writing)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it


def full_stdout() -> None:
    """Writes to a disk that is full."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def change_folder(name: str) -> None:
    """Runs in a folder below the one of the case."""
    os.mkdir(name)
    os.chdir(name)


def turn_back_the_clock(seconds: float) -> None:
    """Has the time of day jump back in the middle of the run."""
    replace("time.time", lambda original: lambda: original() - (seconds if os.path.exists("held") else 0.0))
    replace("time.time_ns", lambda original: lambda: original() - int(1e9 * seconds if os.path.exists("held") else 0))


def break_logger(name: str, method: str) -> None:
    """Has a logger that would ask a service for nothing fail where it is told something."""

    def act(self: Any, *arguments: Any) -> None:
        if not os.path.exists("struck"):
            struck()
        raise ConnectionError("the service went away")

    path = f"pufferlib.loggers.services.{name}Logger"
    for quiet in ("_open", "_log", "_describe", "_close"):
        replace(f"{path}.{quiet}", lambda original: lambda self, *arguments: None)
    replace(f"{path}.{method}", lambda original: act)


def remove_the_folder(place: str, count: int, folder: str) -> None:
    """Removes a folder at a moment."""
    import shutil

    def act() -> None:
        struck()
        for path in Path().glob(folder):
            shutil.rmtree(path)

    before(place, count, act)
