"""The state of a sweep: the driver updates it, the display and the report read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

    from pufferlib.sweep.study.confirmation import Confirmation


SERVICES = ("tensorboard", "wandb", "neptune")


@dataclass
class RunningTrial:
    """A run in a process of this driver, or of another."""

    number: int  # of the trial; of a confirmation, that of the trial which it confirms
    values: Mapping[str, Any]  # of the settings that the sweep varies, by name, such as `train.learning_rate`
    started: float  # `time.monotonic()` when its process began
    progress: float = 0.0  # the part of its steps that is done, in [0, 1]
    cost: float = 0.0  # seconds of training so far
    # rows of progress, seconds of training until then, and score, the newest last
    curve: Sequence[Sequence[float]] = ()
    seed: int | None = None  # that of a confirmation; None for a trial
    host: str = ""  # name of the machine, where another driver runs it


@dataclass
class SweepState:
    """A sweep, as one driver of its study sees it."""

    env_name: str  # the environment
    # its settings, a nested dict as `load_config` returns it; those of the search are in its section `sweep`
    args: Mapping[str, Any]
    metric: str  # the name in the logs of the metric that trials are scored by, such as `environment/perf`
    study: Study  # Optuna's, with further attributes of its own and its trials
    folder: Path  # for the sweep's files: the best settings, the report, the trials' logs
    # the flags that find the study again, such as `--storage sqlite:///sweeps.db --study breakout`; empty where the
    # settings alone do
    where: str = ""
    started: float = 0.0  # `time.monotonic()` when this driver began
    deadline: float | None = None  # the `time.monotonic()` after which no trial begins; None for no limit
    # all of the study as the driver last read them, those of other drivers among them
    trials: Sequence[FrozenTrial] = ()
    running: list[RunningTrial] = field(default_factory=list)  # the runs of this driver, by slot
    confirmations: Sequence[Confirmation] = ()  # runs of the best trials on fresh seeds that have ended
    to_confirm: int = 0  # the number of confirmations that have not ended; 0 while trials run
