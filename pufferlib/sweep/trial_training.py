"""The training inside a trial: it finds the sweep's metric and sends the scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from typing_extensions import override

from pufferlib.dashboard.output import say
from pufferlib.dashboard.score import GROUPS, Score, episode_count, find_metric, is_mean_over_episodes
from pufferlib.errors import ConfigError, nearest
from pufferlib.play.scores import final_episodes
from pufferlib.pufferl import PuffeRL, train
from pufferlib.runs.calls import AnyLogger
from pufferlib.runs.loaders import resolve_device
from pufferlib.sweep.trial_config import TrialTask, fit_sizes
from pufferlib.vector import Vector

LOGS = 50  # of a run at least: enough for a curve whose points are means over several
TENTHS = 10  # of a run; each but the last plays a tenth of the episodes that the final policy plays
MESSAGE_SECONDS = 1.0  # between two messages that are no logs

SendMessage = Callable[[dict[str, Any]], None]
"""Sends a message to the driver, see `trial_main.main`."""


class MissingMetricError(ConfigError):
    """The metric of a sweep does not exist."""

    ending = "metric"


class UnscoredError(ConfigError):
    """A trial was too short: it ended before anything was scored."""

    ending = "unscored"


class MetricSearch:
    """Looks for the metric `wanted`, as `find_metric` takes it, in one log after the other.

    `has_evaluations` says whether some logs will be of evaluations, `is_known` whether another trial has had the
    metric, so that it may still come.
    """

    def __init__(self, wanted: str, env_name: str, has_evaluations: bool, is_known: bool = False):
        self.name: str | None = None  # its whole name, None while no log has had it
        self._wanted, self._env_name = wanted, env_name
        self._has_evaluations, self._is_known = has_evaluations, is_known
        self._seen: dict[str, None] = {}  # names, in their order
        self.has_played = False  # whether whole episodes were played, as at the end of each tenth of a run

    def score(self, metrics: Mapping[str, float]) -> float | None:
        """Returns the metric in a log, or None."""
        self._seen.update(dict.fromkeys(metrics))
        if self.name is None:
            self.name = find_metric(self._wanted, metrics)
        return None if self.name is None else metrics.get(self.name)

    @property
    def is_hopeless(self) -> bool:
        """Whether the metric does not exist: the policy played, or the environment reported, and it was not there."""
        groups = {name.split("/")[0] for name in self._seen}
        is_awaited = self._wanted.startswith("eval/") and self._has_evaluations and "eval" not in groups
        is_logged = self.has_played or "environment" in groups
        return self.name is None and not self._is_known and not is_awaited and is_logged

    def missing_text(self) -> str:
        """Returns a sentence that the metric is missing, with the metrics that exist."""
        if not self.is_hopeless:
            return f"[sweep] metric {self._wanted!r} was not logged before the training ended; train for more steps"
        listed = [name for name in self._seen if name.split("/")[0] in GROUPS]
        others = sorted({name.split("/")[0] for name in self._seen if name not in listed and "/" in name})
        remedy = nearest(self._wanted, [*self._seen, *{name.partition("/")[2] for name in listed}])
        return (
            f"[sweep] metric must be one that {self._env_name} logs, got {self._wanted!r}{remedy or ';'} "
            f"{'There' if remedy else 'there'} are {', '.join(listed)}, and those of {', '.join(others)}"
        )


class WatchedTrainer(PuffeRL):
    """A trainer that reports its scores, and messages between them while it works.

    The policy plays at the end of each tenth of the run, and at the end, by `PuffeRL.score`: this is the trial's curve
    and score, because the episodes that end in a tenth of a short run are not a fair sample, see
    `play/scores.py`. Those count only where nothing can be played: for a metric that is no mean over episodes,
    where `[train] final_episodes` is 0, and where no played episode ends or reports the metric.
    """

    def watch(self, search: MetricSearch, send: SendMessage) -> None:
        """Begins to report: `search` finds the metric, `send` takes the messages that `trial_main` describes."""
        self._search, self._send_message = search, send
        self._sent_epoch, self._sent_seconds = self.epoch, 0.0
        self._whole_cost = math.inf  # of all iterations, once they are over
        self._ended_sum = self._ended_count = 0.0  # scores of the episodes that ended in this tenth, and their number
        self._played: dict[str, Score] = {}
        self._final_episodes = final_episodes(self.config.final_episodes, self.vecenv)
        interval = min(self.config.log_interval, max(1, self.total_epochs // LOGS))
        self.config = replace(self.config, log_interval=interval)

    @override
    def print_dashboard(self) -> None:
        """Reports to the driver as well; the trainer calls this after every iteration.

        Raises MissingMetricError if a tenth of the run had episodes without the metric.
        """
        if self.is_logged and self._sent_epoch != self.epoch:
            self._sent_epoch = self.epoch
            self._send_log(self.report.metrics)
        is_tenth = TENTHS * self.epoch // self.total_epochs > TENTHS * (self.epoch - 1) // self.total_epochs
        if is_tenth and self.epoch < self.total_epochs and self._is_playing:
            self.score(max(1, self._final_episodes // TENTHS))
            self.send_score()
        self._send_sign_of_life()
        if is_tenth and self._search.is_hopeless:
            raise MissingMetricError(self._search.missing_text())
        super().print_dashboard()

    @override
    def score(self, episodes: int | None = None, is_wanted: Callable[[], bool] = lambda: True) -> dict[str, Score]:
        """Plays as PuffeRL does, and sends messages meanwhile."""

        def send_and_ask() -> bool:
            self._send_sign_of_life(cost)
            return is_wanted()

        cost = self.uptime
        self._played = super().score(episodes, send_and_ask)
        return self._played

    def send_score(self) -> None:
        """Sends the score of the last play, or of the episodes that ended since the score before."""
        played = {name: score.mean for name, score in self._played.items()}
        self._search.score(played)
        self._search.has_played |= bool(played)
        score = self._played.get(self._search.name or "")
        sent: dict[str, float] = {}
        if score is not None:
            sent = {"score": score.mean, "weight": score.episodes}
        elif self._ended_count:
            sent = {"score": self._ended_sum / self._ended_count, "weight": self._ended_count}
        if "episode/length_mean" in played:
            sent["episode_steps"] = played["episode/length_mean"] * self.vecenv.num_agents
        sent["progress"] = TENTHS * self.epoch // self.total_epochs / TENTHS  # the score is of this tenth, not the next
        self._played, self._ended_sum, self._ended_count = {}, 0.0, 0.0
        self._send(sent)

    @property
    def _is_playing(self) -> bool:
        name = self._search.name
        return self._final_episodes > 0 and (name is None or is_mean_over_episodes(name))

    def _send_log(self, metrics: Mapping[str, float]) -> None:
        score = self._search.score(metrics)
        if score is None:
            return
        weight = episode_count(self._search.name, metrics)
        if self._is_playing:
            self._ended_sum, self._ended_count = self._ended_sum + score * weight, self._ended_count + weight
        else:
            self._send({"score": score, "weight": weight})

    def _send_sign_of_life(self, cost: float | None = None) -> None:
        if time.monotonic() - self._sent_seconds >= MESSAGE_SECONDS:
            self._send({}, cost)

    def _send(self, sent: Mapping[str, float], cost: float | None = None) -> None:
        self._sent_seconds = time.monotonic()
        cost = self.uptime if cost is None else cost
        if self.epoch >= self.total_epochs:
            cost = self._whole_cost = min(cost, self._whole_cost)
        metric = {"metric": self._search.name} if "score" in sent else {}
        progress = min(self.epoch / self.total_epochs, 1.0)
        self._send_message({"log": {"progress": progress, "cost": cost, **sent, **metric}})


def train_watched(task: TrialTask, send: SendMessage) -> None:
    """Trains from the first step to the last.

    Raises MissingMetricError if the metric does not exist, UnscoredError if no log had the metric, which may exist, and
    KeyboardInterrupt if it was asked to stop, after it saved.
    """
    args = {**task.args, "train": dict(task.args["train"])}
    count = torch.cuda.device_count() if args["train"]["device"] in ("auto", "cuda") else 0
    if count > 1:
        args["train"]["device"] = f"cuda:{task.slot % count}"
    device_type = resolve_device(args["train"]["device"]).type
    search = MetricSearch(task.metric, task.env_name, bool(args["train"].get("evaluations")), task.is_metric_known)
    trainers: list[WatchedTrainer] = []

    def make_trainer(config: dict[str, Any], vecenv: Vector, policy: nn.Module, logger: AnyLogger) -> WatchedTrainer:
        args["train"], notes = fit_sizes(args["train"], vecenv.num_agents, device_type)
        for note in notes:  # where only the environments know them
            say(note)
        changed = {name: value for name, value in args["train"].items() if config[name] != value}
        trainer = WatchedTrainer({**config, **changed}, vecenv, policy, logger)
        send({"folder": str(trainer.run_folder), "fitted": changed})
        trainer.watch(search, send)
        trainers.append(trainer)
        return trainer

    train(task.env_name, args, make_trainer=make_trainer)
    trainers[0].send_score()
    if search.name is None:
        raise (MissingMetricError if search.is_hopeless else UnscoredError)(search.missing_text())
