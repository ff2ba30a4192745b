"""A trial's process, as its driver sees it: started, listened to, held to its limits, ended."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import multiprocessing.spawn
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pufferlib.metrics.metric_name import is_mean_over_episodes
from pufferlib.sweep.trials.curve import LearningCurve
from pufferlib.sweep.trials.trial_task import Task

STOP_SECONDS = 10.0  # for a trial that is asked to stop to end its iteration and save
START_SECONDS = 120.0  # at least, for one to import what it needs and make its environments, before it says anything
EXIT_SECONDS = 10.0  # for a process that has told its end to be gone
TRACE_SECONDS = 0.5  # for one that hangs to write where
LOOK_SECONDS = 1.0  # between two looks at the memory
FAMILY_SECONDS = 5.0  # between two looks for processes that it started


@dataclass(frozen=True)
class Limits:
    """What a trial may use.

    Attributes:
        seconds: from the start of its process to its end.
        silent_seconds: without any message, once it has begun.
        memory_bytes: resident, of the process and all that it started.
    """

    seconds: float
    silent_seconds: float
    memory_bytes: float


@dataclass(frozen=True)
class Job:
    """A training that is to be run in a process.

    Attributes:
        task: what the process is told.
        log_path: where its output goes.
        number: of the trial; of a confirmation, that of the trial which it confirms.
        values: of what the sweep varies, by name.
        seed: of a confirmation; None for a trial.
    """

    task: Task
    log_path: Path
    number: int
    values: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        score: of the final policy, or over the last tenth of what was done; None where nothing was scored.
        episodes: how many the score is of; None where it is of none.
        episode_steps: agent steps in which every agent plays one episode, the fewest seen; None where none was played.
        cost: seconds of training.
        curve: rows as `LearningCurve` gives them.
        metric: the whole name of what was scored; None where nothing was.
        run_folder: of the run; None where it did not get that far.
        fitted: the `[train]` settings that it had to fit to the number of agents.
        error: why it failed, one sentence; None where it did not.
        stopped: why it was stopped, one sentence; None where it came to its end.
        ends_sweep: whether the error would be that of every trial.
        is_unscored: whether the error is that nothing was scored, as where no episode ended.
    """

    score: float | None
    cost: float
    curve: list[list[float]]
    metric: str | None
    run_folder: str | None
    fitted: Mapping[str, Any]
    error: str | None = None
    stopped: str | None = None
    ends_sweep: bool = False
    is_unscored: bool = False
    episodes: int | None = None
    episode_steps: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it came to its end and has a score."""
        return self.error is None and self.stopped is None


class TrialProcess:
    """A training in a process of its own, in a session and an interpreter of its own.

    Attributes:
        job: what it was started for.
        started: `time.monotonic()` then.
        curve: what it scored so far.
        progress: the part of the run that is done.
        cost: seconds of training so far.
        metric: the whole name of what is scored; None before the first score.
        episode_steps: as for `Outcome`, so far.
        outcome: None while it runs.
    """

    def __init__(self, job: Job, limits: Limits, cores: Sequence[int]):
        """Starts it.

        Args:
            job: what to train.
            limits: what it may use.
            cores: numbers of those that it may use; empty for all.
        """
        import cloudpickle  # a task may hold classes of the user's main program

        self.job, self._limits = job, limits
        self.curve = LearningCurve()
        self.progress = self.cost = 0.0
        self.metric: str | None = None
        self.episode_steps: float | None = None
        self.outcome: Outcome | None = None
        self._run_folder: str | None = None
        self._fitted: dict[str, Any] = {}
        self._end: dict[str, Any] | None = None  # the last message
        self._verdict: str | None = None  # why it was killed
        self._stopped: str | None = None  # why it was asked to stop
        self._kill_time: float | None = None
        self._is_eof = False
        self._known: list[psutil.Process] = []  # it and its descendants, as they were last seen
        self._known_until = 0.0
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = _start(theirs.fileno(), cores, job.log_path)
        self.started = self._heard = self._looked = time.monotonic()
        self.pid = self._process.pid
        self._sentinel: int | None = None
        with contextlib.suppress(AttributeError, OSError):  # not on macOS, not in every container
            self._sentinel = os.pidfd_open(self.pid)
        with contextlib.suppress(OSError):  # it died already, which one sees by its exit code
            self.connection.send_bytes(cloudpickle.dumps(job.task))

    @property
    def waitables(self) -> list[Any]:
        """For `multiprocessing.connection.wait`: what becomes ready when there is something to `look` at."""
        found = [] if self._is_eof else [self.connection]
        return [*found, *([] if self._sentinel is None else [self._sentinel])]

    def stop(self, reason: str) -> None:
        """Asks it to end after its iteration; it is killed if it does not."""
        if self._kill_time is None and self.outcome is None:
            self._stopped = reason
            self._process.terminate()
            self._kill_time = time.monotonic() + STOP_SECONDS

    def kill(self, reason: str) -> None:
        """Ends it and all that it started at once."""
        if self._verdict is None and self._stopped is None:
            self._verdict = reason
        self._kill_all()
        self._process.wait()

    def look(self) -> None:
        """Reads what it told, holds it to its limits, and gives it its outcome when it has ended."""
        if self.outcome is not None:
            return
        exit_code = self._process.poll()  # before the messages, so that none of them is missed
        self._read()
        if exit_code is not None:
            self._finish(exit_code)
            return
        now = time.monotonic()
        if self._kill_time is not None:
            if now >= self._kill_time:
                self._kill_all()
        elif self._end is not None or self._is_eof:
            self._kill_time = now + EXIT_SECONDS
        else:
            self._hold_to_limits(now)

    def close(self) -> None:
        """Ends it, if it runs, and lets go of everything; calling it twice is harmless."""
        if self.outcome is None:
            self.kill("the sweep was closed")
            self.look()
        self.connection.close()
        if self._sentinel is not None:
            os.close(self._sentinel)
            self._sentinel = None

    # ---------------------------------------------------------------------------------------------------- what it tells

    def _read(self) -> None:
        try:
            while not self._is_eof and self.connection.poll():
                self._take(json.loads(self.connection.recv_bytes()))
        except (EOFError, OSError):
            self._is_eof = True

    def _take(self, message: dict[str, Any]) -> None:
        self._heard = time.monotonic()
        if "folder" in message:
            self._run_folder, self._fitted = message["folder"], message["fitted"]
        if "end" in message:
            self._end = message
        if "log" in message:
            log = message["log"]
            self.progress, self.cost = log["progress"], log["cost"]
            if "episode_steps" in log:
                self.episode_steps = min(log["episode_steps"], self.episode_steps or math.inf)
            if "score" in log:
                self.metric = log["metric"]
                self.curve.add(self.progress, self.cost, log["score"], log["weight"])

    # ------------------------------------------------------------------------------------------------------- its limits

    @property
    def _patience(self) -> float:
        """Seconds without a message after which it counts as hung."""
        has_begun = self._run_folder is not None
        return self._limits.silent_seconds if has_begun else max(self._limits.silent_seconds, START_SECONDS)

    def _hold_to_limits(self, now: float) -> None:
        limits = self._limits
        if now - self.started > limits.seconds:
            self._verdict = f"it took longer than its {_minutes(limits.seconds)} ([sweep] trial_minutes)"
            self._process.terminate()  # what it has is saved
            self._kill_time = now + STOP_SECONDS
        elif now - self._heard > self._patience:
            self._verdict = f"it told nothing for {_minutes(self._patience)} ([sweep] silent_minutes): it hangs"
            self._process.send_signal(signal.SIGUSR1)
            self._kill_time = now + TRACE_SECONDS
        elif now - self._looked >= LOOK_SECONDS:
            self._looked = now
            used = self._memory_bytes()
            if used > limits.memory_bytes:
                allowed = limits.memory_bytes / 1e9
                self._verdict = f"it used {used / 1e9:.1f} GB of its {allowed:.1f} GB ([sweep] trial_memory_gb)"
                self._kill_all()

    def _memory_bytes(self) -> int:
        """Resident memory; shared pages count in proportion where simple sums are above the limit."""
        if self._looked >= self._known_until:  # finding them reads every process of the machine
            self._known_until = self._looked + FAMILY_SECONDS
            self._known = self._family()
        used = sum(_each(self._known, lambda process: process.memory_info().rss))
        if used <= self._limits.memory_bytes:
            return used
        return min(used, sum(_each(self._known, _proportional_bytes)))

    def _family(self) -> list[psutil.Process]:
        """The process and its descendants, while it runs."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        return []

    def _kill_all(self) -> None:
        """Kills the process with its group, and descendants that have groups of their own."""
        if self._process.returncode is None:
            self._known = [*self._known, *self._family()]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for process in self._known:
            with contextlib.suppress(psutil.Error):
                process.kill()  # not a later process of the same number

    # ---------------------------------------------------------------------------------------------------------- its end

    def _finish(self, exit_code: int) -> None:
        self._kill_all()  # what it left behind
        rows = self.curve.rows()
        if rows:
            rows[-1][:2] = self.progress, self.cost  # no episode may have ended since the last score
        found = {
            "cost": self.cost,
            "curve": rows,
            "metric": self.metric,
            "run_folder": self._run_folder,
            "fitted": self._fitted,
            "episodes": self._episodes,
            "episode_steps": self.episode_steps,
        }
        self.outcome = Outcome(self.curve.final_score, **found, **self._ending(exit_code))

    @property
    def _episodes(self) -> int | None:
        is_of_episodes = self.metric is not None and is_mean_over_episodes(self.metric)
        return round(self.curve.final_weight) if is_of_episodes else None

    def _ending(self, exit_code: int) -> dict[str, Any]:
        kind = None if self._end is None else self._end["end"]
        if self._verdict is not None and kind != "done":
            return {"error": self._verdict}
        if kind in ("failed", "metric", "unscored"):
            return {
                "error": self._end["error"],
                "ends_sweep": kind == "metric",
                "is_unscored": kind == "unscored",
            }
        if kind != "done" and self._stopped is not None:
            return {"stopped": self._stopped}
        if kind is None:
            return {"error": f"its process {_death(exit_code)}; see {self.job.log_path}"}
        if kind == "stopped":
            return {"error": "something else than the sweep stopped it by a signal"}
        if not self.curve:
            return {"error": "it ended before anything was scored; train for more steps", "is_unscored": True}
        if not self.curve.is_finite:
            return {"error": f"its {self.metric} was infinite or NaN"}
        return {}


def _start(connection_fd: int, cores: Sequence[int], log_path: Path) -> subprocess.Popen[bytes]:
    """Starts a fresh interpreter, which inherits no locks and does not run the main program again."""
    program = (
        f"import sys; sys.path[:] = {[str(entry) for entry in sys.path]!r}; "
        f"from pufferlib.sweep.trials.trial_main import main; main({connection_fd}, {list(cores)!r})"
    )
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        return subprocess.Popen(
            [multiprocessing.spawn.get_executable(), "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(connection_fd,),
            start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
        )


def _each(processes: Sequence[psutil.Process], measure: Any) -> Iterator[int]:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it ended just now
            yield measure(process)


def _proportional_bytes(process: psutil.Process) -> int:
    found = process.memory_full_info()
    return getattr(found, "pss", found.uss)  # macOS tells what is its own alone


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"was killed by {name}" + (", as where memory runs out" if name == "SIGKILL" else "")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes"
