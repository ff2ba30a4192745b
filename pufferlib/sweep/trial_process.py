"""The process of a trial: its cores, its limits of time and memory, and the learning curve that it sends."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pufferlib.config import SweepConfig
from pufferlib.machine import usable_cores, usable_memory_bytes
from pufferlib.sweep.results import TrialRun

STOP_SECONDS = 10.0  # for a trial that is asked to stop to end its iteration and save
START_SECONDS = 120.0  # at least, for one to import what it needs and make its environments, before its first message
EXIT_SECONDS = 10.0  # for a process to exit after its last message
TRACE_SECONDS = 0.5  # for one that hangs to write where
LOOK_SECONDS = 1.0  # between two looks at the memory


def core_limits(num_workers: int) -> dict[str, str]:
    """Returns environment variables, as torchrun sets them, by which each of several processes takes its share."""
    threads = max(1, usable_cores() // num_workers)
    return {"OMP_NUM_THREADS": f"{threads}", "LOCAL_WORLD_SIZE": f"{num_workers}"} if num_workers > 1 else {}


@dataclass(frozen=True)
class TrialTask:
    """A training to run in a process."""

    number: int  # of the trial; of a confirmation, that of the trial which it confirms
    args: dict[str, Any]  # its settings, with those of the trial
    metric: str  # what is searched by, as the user calls it
    log_path: Path  # where its output goes
    is_metric_known: bool = False  # whether another trial has had the metric, so that logs without it prove nothing
    slot: int = 0  # number of its place among those side by side
    values: Mapping[str, Any] = field(default_factory=dict)  # of the settings that the sweep varies, by name
    seed: int | None = None  # of a confirmation; None for a trial


class TrialProcess:
    """A training in a process and a session of its own, which begins at once and is held to the limits of `[sweep]`."""

    def __init__(self, task: TrialTask, config: SweepConfig):
        import cloudpickle  # a task may hold classes of the user's main program

        self.task, self._config = task, config
        self.run, gigabytes = TrialRun(), config.trial_memory_gb
        self._allowed_bytes = usable_memory_bytes() / config.workers if gigabytes is None else 1e9 * gigabytes
        self._limit_text: str | None = None  # the limit that it was ended for
        self._stop_text: str | None = None  # why it was asked to stop
        self._kill_time: float | None = None
        self._connection, theirs = multiprocessing.Pipe()
        self.waitables = [self._connection]  # for `wait`: ready at a message or its end; empty after the last
        with theirs:
            self._process = _start(theirs.fileno(), task.log_path, core_limits(config.workers))
        self._started = self._heard = self._looked = time.monotonic()
        with contextlib.suppress(OSError):  # it died already, which its exit code says
            self._connection.send_bytes(cloudpickle.dumps(task))

    def stop(self, reason: str) -> None:
        """Asks it to end after its iteration, and kills it if it does not."""
        if self._kill_time is None and not self.run.has_ended:
            self._stop_text = reason
            self._process.terminate()
            self._kill_time = time.monotonic() + STOP_SECONDS

    def look(self) -> None:
        """Reads its messages, holds it to its limits, and says how it ended when it has; not called after that."""
        exit_code = self._process.poll()  # before the messages, so that none of them is missed
        try:
            while self.waitables and self._connection.poll():
                message = self._connection.recv()
                self._heard = time.monotonic()
                self.run.curve += message.pop("rows", [])
                for name, value in message.items():
                    setattr(self.run, name, value)
        except (EOFError, OSError):
            self.waitables = []
        now = time.monotonic()
        if exit_code is not None:
            self._kill_all()  # its descendants
            self._tell_end(exit_code)
        elif self._kill_time is not None:
            if now >= self._kill_time:
                self._kill_all()
        elif self.run.end or not self.waitables:
            self._kill_time = now + EXIT_SECONDS
        else:
            self._hold_to_limits(now)

    def close(self) -> None:
        """Kills it, if it runs, and closes its connection. It may be called twice."""
        if not self.run.has_ended:
            self._kill_all()
            self._process.wait()
            self.run.has_ended = True
        self._connection.close()

    def _hold_to_limits(self, now: float) -> None:
        config, silent_seconds = self._config, 60 * self._config.silent_minutes
        minutes = 3 * config.max_suggestion_cost / 60 if config.trial_minutes is None else config.trial_minutes
        if not self.run.run_folder:
            silent_seconds = max(silent_seconds, START_SECONDS)
        if now - self._started > 60 * minutes:
            self._limit_text = f"it took longer than its {minutes:g} minutes ([sweep] trial_minutes)"
            self._process.terminate()  # so that it saves
            self._kill_time = now + STOP_SECONDS
        elif now - self._heard > silent_seconds:
            self._limit_text = f"it sent nothing for {silent_seconds / 60:g} minutes ([sweep] silent_minutes): it hangs"
            self._process.send_signal(signal.SIGUSR1)
            self._kill_time = now + TRACE_SECONDS
        elif now - self._looked >= LOOK_SECONDS:
            self._looked = now
            used, allowed = self._memory_bytes(), self._allowed_bytes
            if used > allowed:
                found = f"{used / 1e9:.1f} GB of its {allowed / 1e9:.1f} GB"
                self._limit_text = f"it used {found} ([sweep] trial_memory_gb)"
                self._kill_all()

    def _memory_bytes(self) -> int:  # of it and its descendants; pages that they share count in proportion
        used = 0
        with contextlib.suppress(psutil.Error):  # one of them ended just now
            process = psutil.Process(self._process.pid)
            for member in (process, *process.children(recursive=True)):
                found = member.memory_full_info()
                used += getattr(found, "pss", found.uss)  # macOS knows what is its own alone
        return used

    def _kill_all(self) -> None:  # the process with its group, which is that of its session
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _tell_end(self, exit_code: int) -> None:
        run = self.run
        run.has_ended = True
        if self._limit_text is not None and run.end != "done":
            run.end, run.error = "failed", self._limit_text
        elif run.error is not None:
            return
        elif run.end != "done" and self._stop_text is not None:
            run.stopped = self._stop_text
        elif run.end == "stopped":
            run.error = "something else than the sweep stopped it by a signal"
        elif run.end != "done":
            run.error = f"its process {_death(exit_code)}; see {self.task.log_path}"
        elif not run.curve:
            run.end, run.error = "unscored", "it ended before anything was scored; train for more steps"
        elif not all(math.isfinite(score) for *_, score in run.curve):
            run.error = f"its {run.metric} was infinite or NaN"


def _start(connection_fd: int, log_path: Path, limits: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # A fresh interpreter inherits no locks and does not run the main program again.
    program = (
        f"import sys; sys.path[:] = {[str(entry) for entry in sys.path]!r}; "
        f"from pufferlib.sweep.trial_training import main; main({connection_fd})"
    )
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(connection_fd,),
            env={**os.environ, **limits},
            start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
        )


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"was killed by {name}" + (", as where memory runs out" if name == "SIGKILL" else "")
