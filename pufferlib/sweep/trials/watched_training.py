"""A training that tells a sweep's driver of itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from typing_extensions import override

from pufferlib.errors import ConfigError
from pufferlib.metrics.metric_name import episode_count
from pufferlib.metrics.output import say
from pufferlib.pufferl import PuffeRL
from pufferlib.runs import training
from pufferlib.runs.loaders import resolve_device
from pufferlib.sweep.trials.metric_search import MetricSearch
from pufferlib.sweep.trials.trial_config import fit_to_environments, memory_limit
from pufferlib.sweep.trials.trial_task import MissingMetricError, Task, Tell

LOGS = 50  # of a run at least: enough for a curve whose points are means over several
TELL_SECONDS = 1.0  # between two messages that are no logs


class WatchedTrainer(PuffeRL):
    """A trainer that tells of every log, and between them that it lives."""

    def watch(self, search: MetricSearch, tell: Tell) -> None:
        """Begins to tell.

        Args:
            search: finds the metric.
            tell: takes the messages that `trial_main` describes.
        """
        self._search, self._tell = search, tell
        self._told_epoch, self._told_seconds = self.epoch, 0.0
        self._logged_steps = self.global_step
        interval = min(self.config.log_interval, max(1, self.total_epochs // LOGS))
        self.config = replace(self.config, log_interval=interval)

    @override
    def print_dashboard(self) -> None:
        """Tells the driver as well; what the trainer calls after every iteration.

        Raises:
            MissingMetricError: if enough was logged to tell that the metric does not exist.
        """
        now = time.monotonic()
        if self.is_logged and self._told_epoch != self.epoch:
            self._told_epoch, self._told_seconds = self.epoch, now
            self._tell({"log": {**self._how_far_told(), **self._scored(self.report.metrics)}})
            if self._search.is_hopeless:
                raise MissingMetricError(self._search.missing_text())
        elif now - self._told_seconds >= TELL_SECONDS:
            self._told_seconds = now
            self._tell({"log": self._how_far_told()})
        super().print_dashboard()

    def _how_far_told(self) -> dict[str, Any]:
        return {"progress": min(self.epoch / self.total_epochs, 1.0), "cost": self.uptime}

    def _scored(self, metrics: Mapping[str, float]) -> dict[str, Any]:
        score = self._search.score(metrics, (self.global_step - self._logged_steps) / self.vecenv.num_agents)
        self._logged_steps = self.global_step
        if score is None:
            return {}
        return {"score": score, "weight": episode_count(self._search.name, metrics), "metric": self._search.name}


def train_watched(task: Task, tell: Tell) -> None:
    """Trains from the first step to the last.

    Raises:
        MissingMetricError: if the metric does not exist.
        ConfigError: if it only was in no log.
        KeyboardInterrupt: if it was asked to stop, after it saved.
    """
    args = {**task.args, "train": {**task.args["train"], "device": _device_of(task)}}
    device_type = resolve_device(args["train"]["device"]).type
    limit = memory_limit({"trial_memory_gb": task.memory_bytes / 1e9}, device_type)
    has_evaluations = bool(args["train"].get("evaluations"))
    search = MetricSearch(task.metric, task.env_name, has_evaluations, task.is_metric_known)

    def make_trainer(config: dict[str, Any], vecenv: Any, *others: Any) -> WatchedTrainer:
        for note in fit_to_environments(args, vecenv, device_type, limit):  # where nobody knew them before
            say(note)
        changed = {name: value for name, value in args["train"].items() if config[name] != value}
        trainer = WatchedTrainer({**config, **changed}, vecenv, *others)
        tell({"folder": str(trainer.run_folder), "fitted": changed})
        trainer.watch(search, tell)
        return trainer

    training.train(make_trainer, task.env_name, args, None, None, None)
    if search.name is None:
        raise (MissingMetricError if search.is_hopeless else ConfigError)(search.missing_text())


def _device_of(task: Task) -> str:
    """The device of the settings; of several GPUs that which is this trial's turn."""
    device = task.args["train"]["device"]
    count = torch.cuda.device_count() if device in ("auto", "cuda") else 0
    return f"cuda:{task.slot % count}" if count > 1 else device
