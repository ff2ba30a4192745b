"""A run as a whole: what describes it on disk, and how it is asked to stop."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

from pufferlib import checkpoint
from pufferlib.errors import CheckpointError

CONFIG_FILE = "config.json"


def describe_run(args: dict[str, Any]) -> dict[str, Any]:
    """All settings and the versions that they ran with."""
    packages = ("pufferlib", "torch", "numpy", "gymnasium")
    return {
        "settings": args,
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}},
        "git_commit": _git_commit(),
        "seed": args["train"]["seed"],
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


def _git_commit() -> str | None:
    """The commit of the checkout that the library runs from, None when it was installed otherwise."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


class StopRequest:
    """While it is entered, the first SIGINT or SIGTERM only asks to stop; a second one interrupts at once.

    Signals belong to the main thread; in another thread this changes nothing.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in self.SIGNALS}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
