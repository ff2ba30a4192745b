"""A run as a whole: what describes it on disk, and how it is asked to stop."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from pufferlib.errors import CheckpointError, ConfigError, RankError
from pufferlib.runs import checkpoint

CONFIG_FILE = "config.json"


def describe_run(args: dict[str, Any], policy_class: str | None = None) -> dict[str, Any]:
    """All settings, the versions that they ran with, and what launched the run.

    Args:
        args: the nested dict of `load_config`.
        policy_class: the policy's class where it is the user's own, which the settings cannot name.
    """
    packages = ("pufferlib", "torch", "numpy", "gymnasium")
    return {
        "settings": args,
        "policy_class": policy_class,
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "git_commit": _git_commit(),
        "seed": args["train"]["seed"],
        "launch": _launch(),
    }


def write_description(folder: Path, description: dict[str, Any]) -> None:
    """Writes `config.json` into the run's folder."""
    text = json.dumps(description, indent=2, default=str) + "\n"
    checkpoint.write_atomically(folder / CONFIG_FILE, lambda file: file.write(text.encode()))


def saved_settings(folder: Path, env_name: str) -> dict[str, Any]:
    """The settings that the run in `folder` was started with.

    Raises:
        CheckpointError: if its `config.json` is missing or damaged, or it was a run of another environment.
    """
    path = folder / CONFIG_FILE
    try:
        settings = json.loads(path.read_text())["settings"]
        found = settings["env_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} must hold the settings of the run, found none that can be read") from error
    if found != env_name:
        raise CheckpointError(f"{folder} must be of a run of {env_name}, got one of {found}")
    return settings


def own_policy_class(folder: Path) -> str | None:
    """The class of the policy of the run in `folder` where it is one of the user's own, which no setting names."""
    try:
        found = json.loads((folder / CONFIG_FILE).read_text())["policy_class"]
    except (OSError, ValueError, KeyError, TypeError):  # a run of an earlier version
        return None
    return found if isinstance(found, str) else None


def restarted_run(data_dir: str | Path, env_name: str) -> Path | None:
    """The run that torchrun is restarting after one of its processes failed.

    Returns:
        Its folder; None where this is no restart, or the run had not saved a checkpoint yet.

    Raises:
        ConfigError: if the environment variable that says so is no number.
    """
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if not count.isdecimal():
        raise ConfigError(f"TORCHELASTIC_RESTART_COUNT must be a number of restarts, got {count!r}; torchrun sets it")
    if int(count) == 0:
        return None
    folders = {path.parent for path in checkpoint.models(data_dir, env_name)}
    launch = _launch()
    found = [folder for folder in folders if (folder / checkpoint.TRAINER_STATE).exists() and _launched(folder, launch)]
    return max(found, default=None)  # by name, and so by time


def _launch() -> str | None:
    """One start of torchrun, which may start its processes several times; None without it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    agent = psutil.Process(os.getppid())
    return f"{os.environ['TORCHELASTIC_RUN_ID']} {agent.pid} {agent.create_time()}"


def _launched(folder: Path, launch: str | None) -> bool:
    try:
        return json.loads((folder / CONFIG_FILE).read_text())["launch"] == launch
    except (OSError, ValueError, KeyError, TypeError):  # an older run, or one that is being written
        return False


def _git_commit() -> str | None:
    """The commit of the checkout that the library runs from, None when it was installed otherwise."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class StopRequest:
    """While it is entered, the first SIGINT, SIGTERM or SIGHUP only asks to stop; a second one interrupts at once.

    SIGHUP comes where a terminal is closed, as at the end of an ssh session; `nohup` has it ignored, and so does this.

    Signals belong to the main thread; in another thread this changes nothing. When a RankError leaves it, the first
    signal still ends nothing: torchrun sends one to whoever is left, who has to say first who is gone.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, deaf_seconds: float = 0.0):
        """Changes nothing before it is entered.

        Args:
            deaf_seconds: how long after the first signal others are taken for the same one: torchrun passes on to its
                processes the Ctrl-C that they got from the terminal already.
        """
        self.requested = False
        self._deaf_seconds = deaf_seconds
        self._request_time = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            is_under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            heard = [number for number in self.SIGNALS if number != signal.SIGHUP or not is_under_nohup]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        if kind is not None and issubclass(kind, RankError):
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: object) -> None:
        if self.requested and time.monotonic() - self._request_time >= self._deaf_seconds:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested = True
            self._request_time = time.monotonic()
