"""What a sweep knows of itself while it runs: the driver fills it in, what one sees reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

    from pufferlib.sweep.study.confirmation import Confirmation


@dataclass
class RunningTrial:
    """A run that a process of this driver is busy with.

    Attributes:
        number: of the trial; of a confirmation, that of the trial which it confirms.
        values: of the settings that the sweep varies, by name, such as `train.learning_rate`.
        started: `time.monotonic()` when its process began.
        progress: the part of its steps that is done, in [0, 1].
        cost: seconds of training so far.
        curve: rows of progress, seconds of training until then, and score, the newest last.
        seed: that of a confirmation; None for a trial.
    """

    number: int
    values: Mapping[str, Any]
    started: float
    progress: float = 0.0
    cost: float = 0.0
    curve: Sequence[Sequence[float]] = ()
    seed: int | None = None


@dataclass
class SweepState:
    """A sweep, as one driver of its study sees it.

    Attributes:
        env_name: the environment.
        args: its settings, a nested dict as `load_config` returns it; those of the search are in its section `sweep`.
        metric: the name in the logs of what is searched for, such as `environment/perf`.
        study: of Optuna, with the attributes of `sweep/attributes.py`.
        folder: where this sweep's files are: the best settings, the report, the trials' logs.
        where: how one finds the study again, such as `--storage sqlite:///sweeps.db --study breakout`; empty where the
            settings alone lead there.
        started: `time.monotonic()` when this driver began.
        deadline: the `time.monotonic()` after which no trial begins; None for no limit.
        trials: all of the study as the driver last read them, those of other drivers among them.
        running: what this driver's processes are busy with, by slot.
        confirmations: runs of the best trials on fresh seeds that have ended.
        to_confirm: how many confirmations are still to come, those that run among them; 0 while trials run.
    """

    env_name: str
    args: Mapping[str, Any]
    metric: str
    study: Study
    folder: Path
    where: str = ""
    started: float = 0.0
    deadline: float | None = None
    trials: Sequence[FrozenTrial] = ()
    running: list[RunningTrial] = field(default_factory=list)
    confirmations: Sequence[Confirmation] = ()
    to_confirm: int = 0
