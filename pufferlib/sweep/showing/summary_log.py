"""The log of a sweep for TensorBoard, Weights & Biases or Neptune: a step for every trial that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pufferlib.config import LogConfig
from pufferlib.loggers import Loggers, make_run_id
from pufferlib.loggers.logger import is_finite
from pufferlib.runs.loggers import make_loggers
from pufferlib.sweep.state import SERVICES
from pufferlib.sweep.study.results import FoundTrial, Results

if TYPE_CHECKING:
    from pufferlib.sweep.state import SweepState


class SummaryLog:
    """Logs a sweep to the services that `[log]` names; without one it does nothing.

    Every driver has a run of its own there, with the trials of all drivers that ended while it ran. The files of the
    services are in a folder of that run beside the sweep's other files.
    """

    def __init__(self) -> None:
        self._loggers: Loggers | None = None
        self._told: set[int] | None = None  # numbers of trials
        self._step = 0  # trials that have ended

    def update(self, state: SweepState, results: Results) -> None:
        """Logs the trials that ended since the last call; the first call logs none."""
        ended = {trial.number for trial in state.trials if trial.state.is_finished()}
        if self._told is None:
            self._told, self._step = ended, len(ended)
            self._open(state)
        new, self._told = sorted(ended - self._told), self._told | ended
        if self._loggers is None:
            return
        complete = {trial.number: trial for trial in results.complete}
        for number in new:
            self._step += 1
            self._loggers.log(_metrics(results, complete.get(number)), self._step)

    def close(self) -> None:
        """Ends the run. It may be called twice."""
        if self._loggers is not None:
            self._loggers.close()
            self._loggers = None

    def _open(self, state: SweepState) -> None:
        config = LogConfig.from_dict(state.args["log"])
        if not any(getattr(config, service) for service in SERVICES):
            return
        run_id = make_run_id()
        settings = {**state.args["log"], "name": config.name or f"sweep of {state.study.study_name}"}
        self._loggers = Loggers(make_loggers(settings, state.folder / f"log_{run_id}", run_id))
        self._loggers.describe({"env_name": state.env_name, "metric": state.metric, **state.args["sweep"]})


def _metrics(results: Results, trial: FoundTrial | None) -> dict[str, float]:
    metrics: dict[str, float] = {
        "sweep/complete": len(results.complete),
        "sweep/stopped": len(results.stopped),
        "sweep/failed": len(results.failed),
        "sweep/total_cost": results.total_cost,
    }
    if results.best is not None:
        metrics["sweep/best"] = results.best.score
    if trial is not None:
        metrics |= {"sweep/score": trial.score, "sweep/cost": trial.cost, "sweep/trial": trial.number}
        metrics |= {f"settings/{name}": value for name, value in trial.settings.items() if is_finite(value)}
    return metrics
