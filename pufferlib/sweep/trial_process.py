"""The process of a trial: its cores, its limits of time and memory, and the learning curve that it sends."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import multiprocessing.spawn
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from pufferlib.config import SweepConfig
from pufferlib.dashboard.score import is_mean_over_episodes
from pufferlib.machine import usable_cores
from pufferlib.sweep.results import RunningTrial
from pufferlib.sweep.trial_config import memory_limit
from pufferlib.sweep.trial_main import main
from pufferlib.sweep.trial_task import TrialTask

WINDOWS = 10


@dataclass
class _Window:
    progress: float = 0.0
    cost: float = 0.0
    weight: float = 0.0
    weighted_sum: float = 0.0


class LearningCurve:
    """Keeps, of each tenth of a run, the mean score of its episodes."""

    def __init__(self):
        self._windows: dict[int, _Window] = {}
        self.is_finite = True  # whether every score was a number that one can compare

    def __bool__(self) -> bool:
        return bool(self._windows)

    def add(self, progress: float, cost: float, score: float, weight: float = 1.0) -> None:
        """Adds a score after a part of the run and seconds of training; `weight` is its number of episodes."""
        window = self._windows.setdefault(_window_index(progress), _Window())
        window.progress, window.cost = progress, cost
        window.weight += weight
        window.weighted_sum += score * weight
        self.is_finite = self.is_finite and math.isfinite(score)

    def rows(self) -> list[list[float]]:
        """Returns progress, cost and mean score for each tenth with a score; the last tenth may be partial."""
        return [[each.progress, each.cost, _window_mean(each)] for each in self._windows.values()]

    def full_windows(self, progress: float) -> dict[int, float]:
        """Returns the mean scores of the tenths that are complete at `progress`, by their number from 1 to 10."""
        done = math.floor(progress * WINDOWS + 1e-9)
        return {place: _window_mean(window) for place, window in self._windows.items() if place <= done}

    @property
    def final_weight(self) -> float:
        """The number of episodes of the final score; 0 where there is none."""
        return next((window.weight for window in reversed(self._windows.values())), 0.0)

    @property
    def final_score(self) -> float | None:
        """The mean score of the last tenth that has one; None where none has."""
        rows = self.rows()
        return rows[-1][2] if rows else None


def _window_index(progress: float) -> int:
    return min(max(math.ceil(progress * WINDOWS - 1e-9), 1), WINDOWS)


def _window_mean(window: _Window) -> float:
    return window.weighted_sum / window.weight


_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def core_shares(num_workers: int) -> list[list[int]]:
    """Divides the cores that this process may use among processes that run side by side.

    Threads of one core stay together. Where a control group grants less time than there are cores, that many are chosen
    at random, because other programs on the machine choose too. Where there are more processes than cores, several
    share one.

    Returns:
        Numbers of cores for each worker, for `os.sched_setaffinity`; empty lists where the system has no such call.
    """
    if not hasattr(os, "sched_getaffinity"):  # macOS
        return [[] for _ in range(num_workers)]
    cores = sorted(os.sched_getaffinity(0), key=_place)
    if num_workers == 1:
        return [cores]
    if usable_cores() < len(cores):
        chosen = set(random.Random().sample(cores, usable_cores()))
        cores = [core for core in cores if core in chosen]
    if num_workers >= len(cores):
        return [[cores[worker % len(cores)]] for worker in range(num_workers)]
    bounds = [worker * len(cores) // num_workers for worker in range(num_workers + 1)]
    return [cores[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]


def _place(core: int) -> tuple[int, int]:
    with contextlib.suppress(OSError, ValueError):
        first = Path(_SIBLINGS.format(core)).read_text().replace("-", ",").split(",")[0]
        return int(first), core
    return core, core


STOP_SECONDS = 10.0  # for a trial that is asked to stop to end its iteration and save
START_SECONDS = 120.0  # at least, for one to import what it needs and make its environments, before its first message
EXIT_SECONDS = 10.0  # for a process to exit after its last message
TRACE_SECONDS = 0.5  # for one that hangs to write where
LOOK_SECONDS = 1.0  # between two looks at the memory


@dataclass(frozen=True)
class Limits:
    """The most that a trial may use."""

    seconds: float  # from the start of its process to its end
    silent_seconds: float  # without any message, once it has begun
    memory_bytes: float  # resident, of the process and all that it started


@dataclass(frozen=True)
class Job:
    """A training to run in a process."""

    task: TrialTask  # for the process
    log_path: Path  # where its output goes
    number: int  # of the trial; of a confirmation, that of the trial which it confirms
    values: Mapping[str, Any] = field(default_factory=dict)  # of the settings that the sweep varies, by name
    seed: int | None = None  # of a confirmation; None for a trial


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    score: float | None  # of the final policy, or over the last tenth that was done; None where nothing was scored
    cost: float  # seconds of training
    curve: list[list[float]]  # rows as `LearningCurve` gives them
    metric: str | None  # the whole name of the metric; None where nothing was scored
    run_folder: str | None  # of the run; None where it did not get that far
    fitted: Mapping[str, Any]  # the `[train]` settings that it had to fit to the number of agents
    error: str | None = None  # why it failed, one sentence; None where it did not
    stopped: str | None = None  # why it was stopped, one sentence; None where it came to its end
    ends_sweep: bool = False  # whether every trial would fail with that error
    is_unscored: bool = False  # whether the error is that nothing was scored, as where no episode ended
    episodes: int | None = None  # how many the score is of; None where it is of none
    # agent steps in which every agent plays one episode, the fewest seen; None where none was played
    episode_steps: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it came to its end and has a score."""
        return self.error is None and self.stopped is None


class TrialProcess:
    """A training in a process of its own, in a session and an interpreter of its own.

    Attributes:
        job: the training.
        started: `time.monotonic()` when it was started.
        curve: its scores so far.
        progress: the part of the run that is done.
        cost: seconds of training so far.
        metric: the whole name of the metric; None before the first score.
        episode_steps: as for `Outcome`, so far.
        outcome: None while it runs.
    """

    def __init__(self, job: Job, limits: Limits, cores: Sequence[int]):
        """Starts it on these cores, by their numbers; empty for all."""
        import cloudpickle  # a task may hold classes of the user's main program

        self.job, self._limits = job, limits
        self.curve = LearningCurve()
        self.progress = self.cost = 0.0
        self.metric: str | None = None
        self.episode_steps: float | None = None
        self.outcome: Outcome | None = None
        self._run_folder: str | None = None
        self._fitted: dict[str, Any] = {}
        self._last_message: dict[str, Any] = {}
        self._limit_text: str | None = None  # the limit that it was ended for
        self._stop_text: str | None = None  # why it was asked to stop
        self._kill_time: float | None = None
        self._is_eof = False
        self._family: list[psutil.Process] = []  # it and its descendants, when they were last seen
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = _start(theirs.fileno(), cores, job.log_path)
        self.started = self._heard = self._looked = time.monotonic()
        self.pid = self._process.pid
        self._sentinel: int | None = None
        with contextlib.suppress(AttributeError, OSError):  # not on macOS, not in every container
            self._sentinel = os.pidfd_open(self.pid)
        with contextlib.suppress(OSError):  # it died already, which its exit code says
            self.connection.send_bytes(cloudpickle.dumps(job.task))

    @property
    def waitables(self) -> list[Connection | int]:
        """For `multiprocessing.connection.wait`: they become ready when there is something to `look` at."""
        found: list[Connection | int] = [] if self._is_eof else [self.connection]
        return found if self._sentinel is None else [*found, self._sentinel]

    def stop(self, reason: str) -> None:
        """Asks it to end after its iteration, and kills it if it does not."""
        if self._kill_time is None and self.outcome is None:
            self._stop_text = reason
            self._process.terminate()
            self._kill_time = time.monotonic() + STOP_SECONDS

    def look(self) -> None:
        """Reads its messages, holds it to its limits, and sets its outcome when it has ended."""
        if self.outcome is not None:
            return
        exit_code = self._process.poll()  # before the messages, so that none of them is missed
        try:
            while not self._is_eof and self.connection.poll():
                self._take(json.loads(self.connection.recv_bytes()))
        except (EOFError, OSError):
            self._is_eof = True
        now = time.monotonic()
        if exit_code is not None:
            self._kill_all()  # its descendants
            self.outcome = self._outcome(exit_code)
        elif self._kill_time is not None:
            if now >= self._kill_time:
                self._kill_all()
        elif self._is_eof or "end" in self._last_message:
            self._kill_time = now + EXIT_SECONDS
        else:
            self._hold_to_limits(now)

    def close(self) -> None:
        """Kills it, if it runs, and closes its connection. It may be called twice."""
        if self.outcome is None:
            self._stop_text = self._stop_text or "the sweep was closed"
            self._kill_all()
            self._process.wait()
            self.look()
        self.connection.close()
        if self._sentinel is not None:
            os.close(self._sentinel)
            self._sentinel = None

    def _take(self, message: dict[str, Any]) -> None:
        self._heard, self._last_message = time.monotonic(), message
        if "folder" in message:
            self._run_folder, self._fitted = message["folder"], message["fitted"]
        if "log" in message:
            log = message["log"]
            self.progress, self.cost = log["progress"], log["cost"]
            if "episode_steps" in log:
                self.episode_steps = min(log["episode_steps"], self.episode_steps or math.inf)
            if "score" in log:
                self.metric = log["metric"]
                self.curve.add(self.progress, self.cost, log["score"], log["weight"])

    def _hold_to_limits(self, now: float) -> None:
        limits, silent_seconds = self._limits, self._limits.silent_seconds
        if self._run_folder is None:
            silent_seconds = max(silent_seconds, START_SECONDS)
        if now - self.started > limits.seconds:
            self._limit_text = f"it took longer than its {limits.seconds / 60:g} minutes ([sweep] trial_minutes)"
            self._process.terminate()  # so that it saves
            self._kill_time = now + STOP_SECONDS
        elif now - self._heard > silent_seconds:
            self._limit_text = f"it sent nothing for {silent_seconds / 60:g} minutes ([sweep] silent_minutes): it hangs"
            self._process.send_signal(signal.SIGUSR1)
            self._kill_time = now + TRACE_SECONDS
        elif now - self._looked >= LOOK_SECONDS:
            self._looked = now
            used = self._memory_bytes()
            if used > limits.memory_bytes:
                found, allowed = used / 1e9, limits.memory_bytes / 1e9
                self._limit_text = f"it used {found:.1f} GB of its {allowed:.1f} GB ([sweep] trial_memory_gb)"
                self._kill_all()

    def _memory_bytes(self) -> int:
        # Resident memory; where the plain sum is above the limit, shared pages count in proportion.
        self._find_family()
        used = sum(_each(self._family, lambda process: process.memory_info().rss))
        return used if used <= self._limits.memory_bytes else min(used, sum(_each(self._family, _proportional_bytes)))

    def _find_family(self) -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            self._family = [process, *process.children(recursive=True)]

    def _kill_all(self) -> None:
        # Kills the process with its group, and descendants that have groups of their own.
        if self._process.returncode is None:
            self._find_family()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for process in self._family:
            with contextlib.suppress(psutil.Error):
                process.kill()  # never a later process of the same number

    def _outcome(self, exit_code: int) -> Outcome:
        rows, is_of_episodes = self.curve.rows(), self.metric is not None and is_mean_over_episodes(self.metric)
        if rows:
            rows[-1][:2] = self.progress, self.cost  # no episode may have ended since the last score
        kind, error, stopped = self._last_message.get("end"), None, None
        if self._limit_text is not None and kind != "done":
            kind, error = None, self._limit_text
        elif kind in ("failed", "metric", "unscored"):
            error = self._last_message["error"]
        elif kind != "done" and self._stop_text is not None:
            stopped = self._stop_text
        elif kind is None:
            error = f"its process {_death(exit_code)}; see {self.job.log_path}"
        elif kind == "stopped":
            error = "something else than the sweep stopped it by a signal"
        elif not self.curve:
            kind, error = "unscored", "it ended before anything was scored; train for more steps"
        elif not self.curve.is_finite:
            error = f"its {self.metric} was infinite or NaN"
        return Outcome(
            score=self.curve.final_score,
            cost=self.cost,
            curve=rows,
            metric=self.metric,
            run_folder=self._run_folder,
            fitted=self._fitted,
            error=error,
            stopped=stopped,
            ends_sweep=kind == "metric",
            is_unscored=kind == "unscored",
            episodes=round(self.curve.final_weight) if is_of_episodes else None,
            episode_steps=self.episode_steps,
        )


def _start(connection_fd: int, cores: Sequence[int], log_path: Path) -> subprocess.Popen[bytes]:
    # A fresh interpreter inherits no locks and does not run the main program again.
    program = (
        f"import sys; sys.path[:] = {[str(entry) for entry in sys.path]!r}; "
        f"from {main.__module__} import main; main({connection_fd}, {list(cores)!r})"
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


def _each(processes: Sequence[psutil.Process], measure: Callable[[psutil.Process], int]) -> Iterator[int]:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it ended just now
            yield measure(process)


def _proportional_bytes(process: psutil.Process) -> int:
    found = process.memory_full_info()
    return getattr(found, "pss", found.uss)  # macOS knows what is its own alone


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"was killed by {name}" + (", as where memory runs out" if name == "SIGKILL" else "")


def trial_limits(sweep: Mapping[str, Any]) -> Limits:
    """Returns the limits that the settings of `[sweep]` give a trial."""
    config = SweepConfig.from_dict(sweep)
    minutes = config.trial_minutes
    seconds = 3 * config.max_suggestion_cost if minutes is None else 60 * minutes
    return Limits(seconds, 60 * config.silent_minutes, memory_limit(sweep, "cpu"))


class Slots:
    """Runs trainings side by side, one in each slot.

    Attributes:
        limits: of each training.
        running: those that have not been collected, by slot.
    """

    def __init__(self, num_workers: int, limits: Limits):
        self.limits = limits
        self._cores = core_shares(num_workers)
        self.running: dict[int, TrialProcess] = {}

    @property
    def is_free(self) -> bool:
        """Whether a slot is free."""
        return len(self.running) < len(self._cores)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that run."""
        return [process.job for process in self.running.values()]

    @property
    def next_slot(self) -> int:
        """The slot of the next training."""
        return next(slot for slot in range(len(self._cores)) if slot not in self.running)

    def num_cores(self, slot: int) -> int:
        """Returns the number of cores of a slot; 1 where the system does not say."""
        return max(1, len(self._cores[slot]))

    def start(self, job: Job) -> TrialProcess:
        """Starts a training in the next slot."""
        slot = self.next_slot
        self.running[slot] = TrialProcess(job, self.limits, self._cores[slot])
        return self.running[slot]

    def wait(self, seconds: float) -> list[TrialProcess]:
        """Waits for messages, at most some seconds; returns the trainings that have ended, whose slots are free."""
        waitables = [each for process in self.running.values() for each in process.waitables]
        if waitables:
            wait(waitables, seconds)
        elif seconds > 0:
            time.sleep(seconds)
        ended = []
        for slot, process in list(self.running.items()):
            process.look()
            if process.outcome is not None:
                process.close()
                ended.append(self.running.pop(slot))
        return ended

    def stop(self, reason: str) -> None:
        """Asks all that run to save and end."""
        for process in self.running.values():
            process.stop(reason)

    def close(self) -> None:
        """Kills what runs. It may be called twice."""
        while self.running:
            self.running.popitem()[1].close()

    def described(self) -> list[RunningTrial]:
        """Returns the trainings that run, for the display."""
        return [
            RunningTrial(
                number=process.job.number,
                values=process.job.values,
                started=process.started,
                progress=process.progress,
                cost=process.cost,
                curve=process.curve.rows(),
                seed=process.job.seed,
            )
            for _, process in sorted(self.running.items())
        ]
