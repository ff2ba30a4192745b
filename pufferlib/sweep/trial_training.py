"""The process of a trial: one training, which finds the sweep's metric and sends the scores to the driver."""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.config.sizes import nearest_divisor
from pufferlib.dashboard.score import GROUPS, Score, count_name, episode_count, find_metric
from pufferlib.errors import ConfigError, PufferError, nearest
from pufferlib.play.scores import final_episodes
from pufferlib.pufferl import PuffeRL, train
from pufferlib.runs.calls import AnyLogger
from pufferlib.runs.loaders import resolve_device
from pufferlib.sweep.results import TENTHS
from pufferlib.sweep.trial_process import TrialTask
from pufferlib.vector import Vector
from pufferlib.vector._native import end_with_parent

ORPHAN_SECONDS = 1  # after the driver is gone, until the process is killed
LOGS = 50  # of a run at least
MESSAGE_SECONDS = 1.0  # between two messages that are no logs

SendMessage = Callable[[dict[str, Any]], None]
"""Sends the driver a message: fields of TrialRun, and `rows` for its curve. The last has `end`."""


def main(connection_fd: int) -> None:
    """Trains as the driver asks at the other end of a connection, whose descriptor this process inherited."""
    os.set_inheritable(connection_fd, False)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # says where it hangs
    connection = Connection(connection_fd)
    task = connection.recv()
    end_with_parent(ORPHAN_SECONDS)
    try:
        train_watched(task, connection.send)
        end = {"end": "done"}
    except KeyboardInterrupt:
        end = {"end": "stopped"}
    except BaseException as error:  # of the user's environment, too, which may raise anything
        kind = getattr(error, "ending", "failed")
        if kind == "failed":
            traceback.print_exc()
        first, *rest = str(error).strip().splitlines() or [""]
        sentence = f"{type(error).__name__}: {first}".rstrip(": ")
        if isinstance(error, PufferError):  # one that ends with a traceback ends with what it is about
            sentence = " ".join([first, *rest[-1:]])
        end = {"end": kind, "error": sentence}
    with contextlib.suppress(BrokenPipeError):
        connection.send(end)


class UnscoredError(ConfigError):
    """A trial has no score: `ending` is `metric` where the metric does not exist, `unscored` where it may come."""

    def __init__(self, search: MetricSearch):
        super().__init__(search.missing_text())
        self.ending = "metric" if search.is_hopeless else "unscored"


class MetricSearch:
    """Looks for the metric `wanted`, as `find_metric` takes it, in one log after the other.

    It may still come where it is of an evaluation, or another trial has had it (`is_known`).
    """

    def __init__(self, wanted: str, env_name: str, is_known: bool = False):
        self.name: str | None = None  # its whole name, None while no log has had it
        self._wanted, self._env_name, self._is_known = wanted, env_name, is_known
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
        is_awaited = self._wanted.startswith("eval/") and "eval" not in groups
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

    The policy plays at the end of each tenth of the run a tenth of the episodes that it plays at the end, by
    `PuffeRL.score`: this is the trial's curve and score, because the episodes that end in a tenth of a short run are no
    fair sample, see `play/scores.py`. What the logs of a tenth have counts only where nothing can be played: for a
    metric that is no mean over episodes, where `[train] final_episodes` is 0, and where no played episode reports it.
    """

    def __init__(self, *arguments: Any, search: MetricSearch, send: SendMessage):
        super().__init__(*arguments)
        self._search, self._send_message = search, send
        self._sent_seconds = self._cost = 0.0  # of the last message, and of training so far: playing costs nothing
        self._episode_steps = math.inf  # agent steps in which every agent plays one episode, the fewest seen
        self._logged: list[tuple[float, float]] = []  # the scores in the logs of this tenth, and their episodes
        self._played: dict[str, Score] = {}
        self._final_episodes = final_episodes(self.config.final_episodes, self.vecenv)
        interval = min(self.config.log_interval, max(1, self.total_epochs // LOGS))
        self.config = replace(self.config, log_interval=interval)

    @override
    def print_dashboard(self) -> None:
        """Reports after every iteration; UnscoredError if a tenth of the run had episodes without the metric."""
        self._cost = self.uptime
        logged = self._search.score(self.report.metrics) if self.is_logged else None
        if logged is not None:
            self._logged.append((logged, episode_count(self._search.name, self.report.metrics)))
        is_tenth = TENTHS * self.epoch // self.total_epochs > TENTHS * (self.epoch - 1) // self.total_epochs
        if is_tenth and self.epoch < self.total_epochs:
            name = self._search.name
            if self._final_episodes > 0 and (name is None or count_name(name)):
                self.score(max(1, self._final_episodes // TENTHS))
            self.send_score()
        self._send_sign_of_life()
        if is_tenth and self._search.is_hopeless:
            raise UnscoredError(self._search)
        super().print_dashboard()

    @override
    def score(self, episodes: int | None = None, is_wanted: Callable[[], bool] = lambda: True) -> dict[str, Score]:
        """Plays as PuffeRL does, and sends messages meanwhile."""

        def send_and_ask() -> bool:
            self._send_sign_of_life()
            return is_wanted()

        self._played = super().score(episodes, send_and_ask)
        return self._played

    def send_score(self) -> None:
        """Sends the score of the last play, or the mean over the logs since the score before, by their episodes."""
        played = {name: score.mean for name, score in self._played.items()}
        found, name = self._search.score(played), self._search.name
        self._search.has_played |= bool(played)
        sent: dict[str, Any] = {}
        if found is not None:
            sent = {"metric": name, "episodes": self._played[name].episodes}
        elif self._logged:
            scores, weights = zip(*self._logged, strict=True)
            found = float(np.average(scores, weights=weights))
            sent = {"metric": name, "episodes": round(sum(weights)) if count_name(name) else None}
        if "episode/length_mean" in played:
            steps = played["episode/length_mean"] * self.vecenv.num_agents
            self._episode_steps = sent["episode_steps"] = min(self._episode_steps, steps)
        self._played, self._logged = {}, []
        if found is not None:
            tenth = TENTHS * self.epoch // self.total_epochs / TENTHS  # a score is of this tenth, not the next
            sent["rows"] = [[tenth, self._cost, found]]
        self._send(sent)

    def _send_sign_of_life(self) -> None:
        if time.monotonic() - self._sent_seconds >= MESSAGE_SECONDS:
            self._send({})

    def _send(self, more: Mapping[str, Any]) -> None:
        self._sent_seconds = time.monotonic()
        self._send_message({"progress": min(self.epoch / self.total_epochs, 1.0), "cost": self._cost, **more})


def train_watched(task: TrialTask, send: SendMessage) -> None:
    """Trains from the first step to the last; KeyboardInterrupt if it was asked to stop, after it saved.

    Raises UnscoredError if no log had the metric.
    """
    args = {**task.args, "train": dict(task.args["train"])}
    count = torch.cuda.device_count() if args["train"]["device"] in ("auto", "cuda") else 0
    if count > 1:
        args["train"]["device"] = f"cuda:{task.slot % count}"
    device_type = resolve_device(args["train"]["device"]).type
    search = MetricSearch(task.metric, args["env_name"], task.is_metric_known)
    trainers: list[WatchedTrainer] = []

    def make_trainer(config: dict[str, Any], vecenv: Vector, policy: nn.Module, logger: AnyLogger) -> WatchedTrainer:
        is_horizon_chosen = "train.bptt_horizon" in task.values
        args["train"] = fit_sizes(args["train"], vecenv.num_agents, device_type, is_horizon_chosen)
        changed = {name: value for name, value in args["train"].items() if config[name] != value}
        trainer = WatchedTrainer({**config, **changed}, vecenv, policy, logger, search=search, send=send)
        send({"run_folder": str(trainer.run_folder), "fitted": changed})
        trainers.append(trainer)
        return trainer

    train(args["env_name"], args, make_trainer=make_trainer)
    trainers[0].send_score()
    if search.name is None:
        raise UnscoredError(search)


def fit_sizes(
    train: Mapping[str, Any], num_agents: int, device_type: str, keeps_horizon: bool = False
) -> dict[str, Any]:
    """Returns the `[train]` settings with the nearest sizes that are possible.

    Where a batch is too small for the segments of all agents, these become shorter, or with `keeps_horizon` the batch
    larger. Raises ConfigError if the sizes still do not fit each other.
    """
    fitted, horizon, batch, minibatch = dict(train), train["bptt_horizon"], train["batch_size"], train["minibatch_size"]
    if batch == "auto":
        batch = num_agents * horizon
    else:
        if not keeps_horizon and batch < num_agents * horizon:
            horizon = fitted["bptt_horizon"] = max(1, round(batch / num_agents))
        unit = num_agents * horizon
        batch = fitted["batch_size"] = unit * max(1, round(batch / unit))
    if minibatch != "auto" and train["shuffle"] == "steps":
        fitted["minibatch_size"] = nearest_divisor(batch, minibatch)
    elif minibatch != "auto":
        fitted["minibatch_size"] = horizon * min(max(1, round(minibatch / horizon)), batch // horizon)
    if train["num_iterations"] is None:
        fitted["total_timesteps"] = max(train["total_timesteps"], batch)
    resolve_sizes(TrainConfig.from_dict(fitted), num_agents, device_type)
    return fitted
