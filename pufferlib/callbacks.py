"""Callbacks of `PuffeRL.learn`: called after each iteration, to stop, to evaluate or to do anything else.

    from pufferlib.callbacks import EvaluateEvery, KeepBest, StopAtScore

    trainer.learn(10_000_000, callbacks=[EvaluateEvery(500_000), KeepBest(), StopAtScore(800, "eval/return_mean")])

A callback of your own is a function of the trainer and the logs of the iteration, or an object of a class such as those
below. All of them are called, in the given order, and may add to `logs` for the next ones.
"""

from __future__ import annotations

import inspect
import math
import numbers
import time
import warnings
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from pufferlib.dashboard.score import count_name, episode_count, find_metric
from pufferlib.errors import APIUsageError, PufferWarning, nearest
from pufferlib.metrics.measures import prefixed
from pufferlib.play.scores import evaluate, repeatable
from pufferlib.policy import weights_of
from pufferlib.runs.checkpoint import keep_best
from pufferlib.runs.checks import whole_number

if TYPE_CHECKING:
    from pufferlib.pufferl import PuffeRL

_PATIENCE = 10  # iterations with episodes but without the metric, before a warning
_SHARE = 0.1  # of the steps so far, or of those to wait for, until a policy plays again
_EPISODES_PER_AGENT = 10  # in a mean over ended episodes, so that the running ones matter little


class Callback:
    """The methods of a callback; a class of your own need not derive from it, nor have `on_start`."""

    def on_start(self, trainer: PuffeRL) -> None:
        """Called once by each `learn`, before its first iteration."""

    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool | None:
        """Called after each iteration; returns True to stop.

        It may change the trainer, as in a loop of your own: `trainer.learning_rate = 1e-4`.

        Args:
            trainer: that learns. Each of several processes has its own, and all call its methods in the same order.
            logs: of this iteration, by the names of `PuffeRL.mean_and_log`: `agent_steps`, `epoch`, `sps` and `uptime`;
                `losses/...`; `episode/...` and `environment/...` where episodes ended in this process; and everything
                else where the iteration was logged. You may add to them.
        """


class StopAtScore(Callback):
    """Stops once a metric reaches a threshold; a metric of episodes is a mean over several.

    Early in a run the episodes that have ended are mostly short ones, see `PuffeRL.score`. Once their mean reaches the
    threshold, the policy plays as many whole episodes, whose mean decides; if that is below the threshold, it plays
    again after a tenth more steps. If no environments can be made for that, the mean is over at least ten episodes of
    each agent.

    Args:
        threshold: the least value to stop at.
        metric: a name in the logs such as `environment/score` or `eval/return_mean`, or a part of it, such as `perf`.
        episodes: to average over at least; `eval/...` and other metrics without episodes are taken as they are.
    """

    def __init__(self, threshold: float, metric: str = "episode/return_mean", episodes: int = 100):
        self.threshold = _finite("threshold", threshold)
        self._fair = _FairMean(metric, episodes)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._fair.reset(trainer)

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        value = self._fair.value(trainer, logs, _SHARE * trainer.global_step, least=self.threshold)
        return value is not None and value >= self.threshold


class StopWithoutImprovement(Callback):
    """Stops once a metric has not improved for a number of agent steps.

    For a mean over episodes the policy plays whole episodes, ten times in that number of steps, see `PuffeRL.score`: in
    the rollout the first ended episodes can be better than all that follow. If no environments can be made for that,
    the mean is over the latest episodes, at least ten of each agent.

    Args:
        steps: agent steps without improvement, counted from the first log that has the metric.
        metric: the higher the better; as for StopAtScore.
        episodes: as for StopAtScore.
        least_gain: the least difference to the best before that counts as an improvement.
    """

    def __init__(self, steps: int, metric: str = "episode/return_mean", episodes: int = 100, least_gain: float = 0.0):
        self.steps = whole_number("steps", steps)
        self.least_gain = _finite("least_gain", least_gain)
        self._fair = _FairMean(metric, episodes)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._fair.reset(trainer)
        self._best, self._best_step = -math.inf, trainer.global_step

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        value = self._fair.value(trainer, logs, _SHARE * self.steps)
        is_new = value is not None and value > self._best + self.least_gain  # never NaN
        if is_new or not self._fair.has_come:
            self._best, self._best_step = value if is_new else self._best, logs["agent_steps"]
        return logs["agent_steps"] - self._best_step >= self.steps


class StopAfterSeconds(Callback):
    """Stops after the first iteration that ends more than `seconds` after the start of `learn`."""

    def __init__(self, seconds: float):
        self.seconds = _finite("seconds", seconds)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._end = time.monotonic() + self.seconds

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        return time.monotonic() >= self._end


class EvaluateEvery(Callback):
    """Plays episodes in environments of its own at intervals, and logs the scores.

    They are `eval/return_mean`, `eval/length_mean`, and `eval/<name>` for the environment's own statistics. A line of
    the log has them alone, and `logs` have them for the callbacks after this one. The policy takes the likeliest
    actions, by the same seed each time, unless `settings` say otherwise. The training stays as it is; the time counts,
    as the phase `evaluation`. Of several processes the first plays while the others wait.

    Args:
        steps: agent steps between two evaluations; one more follows the last iteration of a `learn` that nothing stops.
        env: to play in, as for `pufferlib.evaluate`; None for environments like those of the training, where these were
            made by their name or by `pufferlib.vector.make`.
        episodes: in each evaluation.
        settings: further keywords of `pufferlib.evaluate`, such as `sample` or `seed`; TypeError for any other.
    """

    def __init__(self, steps: int, env: object = None, episodes: int = 100, **settings: Any):
        inspect.signature(evaluate).bind(None, env, episodes, **settings)
        self.steps = whole_number("steps", steps)
        self.env, self.episodes, self.settings = env, whole_number("episodes", episodes), settings

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._next_step = trainer.global_step + self.steps
        self._playground = repeatable(trainer.vecenv) if self.env is None else self.env
        if self._playground is None:
            ready = type(trainer.vecenv.driver_env).__name__
            raise APIUsageError(
                f"EvaluateEvery needs environments of its own, and none can be made from the ready {ready} of the "
                "training; pass env=, such as its name or its class"
            )

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> None:
        if trainer.global_step < self._next_step and trainer.epoch < trainer.total_epochs:
            return
        while self._next_step <= trainer.global_step:
            self._next_step += self.steps
        with trainer.phases.phase("evaluation"):
            metrics = trainer.ranks.from_first(lambda: self._evaluate(trainer))
        logs.update(metrics)
        counts = {"agent_steps": trainer.global_step, "epoch": trainer.epoch, "uptime": trainer.uptime}
        trainer.logger.log({**counts, **metrics}, trainer.global_step)

    def _evaluate(self, trainer: PuffeRL) -> dict[str, float]:
        scores = evaluate(trainer.policy, self._playground, self.episodes, **self.settings)
        names = {"episode_return": "return_mean", "episode_length": "length_mean"}  # as those of [train] evaluations
        return prefixed("eval", {names.get(name, name): score.mean for name, score in scores.items()})


class KeepBest(Callback):
    """Keeps the best weights by a metric as `best.pt` in the run's folder.

    `puffer eval ENV --load-model-path best` plays them. Those from before `learn`, as of a resumed run, count too.

    Args:
        metric: the higher the better; as for StopAtScore, but of a single iteration that logs it. Metrics of
            evaluations come from an EvaluateEvery before this one, or from the setting `evaluations`.
    """

    def __init__(self, metric: str = "eval/return_mean"):
        self._metric = _Metric(metric)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        if trainer.config.evaluations and self._metric.wanted != "eval/return_mean":
            raise APIUsageError(
                f"[train] evaluations keep the best by eval/return_mean, got another metric, {self._metric.wanted!r}; "
                "set evaluations to 0, and have EvaluateEvery evaluate"
            )

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> None:
        name = self._metric.find(trainer, logs)
        if name is None or not trainer.ranks.is_first:
            return
        facts = {"env": trainer.env_name, "agent_steps": trainer.global_step, "epoch": trainer.epoch}
        with trainer.run.warn_on_storage_error():
            trainer.run.open_folder()
            keep_best(trainer.run_folder, name, weights_of(trainer.policy), {**facts, name: float(logs[name])})


class _Metric:
    def __init__(self, wanted: str):
        if not isinstance(wanted, str) or not wanted:
            raise APIUsageError(f"metric must be a name in the logs, such as 'environment/score', got {wanted!r}")
        self.wanted = wanted
        self._missed = 0.0  # iterations with episodes but without it; infinite once it was found

    @property
    def has_come(self) -> bool:
        return self._missed == math.inf

    def find(self, trainer: PuffeRL, logs: Mapping[str, float]) -> str | None:
        name = find_metric(self.wanted, logs)
        if name is not None:
            self.wanted, self._missed = name, math.inf  # of several that its part names the first, from then on
        elif self._missed < _PATIENCE:
            self._missed += self._weight_of_a_miss(trainer, logs)
            if self._missed >= _PATIENCE:
                known = {*logs, *(known.partition("/")[2] for known in logs)}
                hint = nearest(self.wanted, sorted(known)) or f"; there are {', '.join(sorted(logs))}"
                if self.wanted.startswith("eval/") and not _is_evaluated(logs):
                    hint = "; put an EvaluateEvery before this callback"
                warnings.warn(f"no metric {self.wanted!r} has come so far{hint}", PufferWarning, stacklevel=5)
        return name

    def _weight_of_a_miss(self, trainer: PuffeRL, logs: Mapping[str, float]) -> int:
        if not self.wanted.startswith("eval/"):
            return int("episode/count" in logs)
        # Evaluations may be many iterations apart: only another metric of theirs, or the end, shows that none comes.
        return _PATIENCE if _is_evaluated(logs) or trainer.epoch >= trainer.total_epochs else 0


class _FairMean:
    # The mean of a metric over whole episodes, so that short ones count no more than long ones.
    def __init__(self, metric: str, episodes: int):
        self._metric = _Metric(metric)
        self._episodes = whole_number("episodes", episodes)

    def reset(self, trainer: PuffeRL) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # values and their episodes, the newest last
        self._next_step = 0.0  # before which the policy does not play
        self._is_playing = repeatable(trainer.vecenv) is not None

    @property
    def has_come(self) -> bool:
        """Whether the metric was in any logs yet."""
        return self._metric.has_come

    def value(
        self, trainer: PuffeRL, logs: Mapping[str, float], pause: float, least: float = -math.inf
    ) -> float | None:
        # Over whole episodes that the policy plays, where it can, `pause` agent steps apart; None if none is played, as
        # where too few episodes have ended since the last iteration, or the newest of them do not reach `least`.
        name = self._metric.find(trainer, logs)
        if name is None or count_name(name) is None:
            return None if name is None else logs[name]
        of_agents = 0 if self._is_playing else _EPISODES_PER_AGENT * trainer.vecenv.num_agents
        enough = max(self._episodes, of_agents)  # in the mean over the newest
        self._seen.append((logs[name], episode_count(name, logs)))
        count = sum(episodes for _, episodes in self._seen)
        while count - self._seen[0][1] >= enough:
            count -= self._seen.popleft()[1]
        newest = sum(value * episodes for value, episodes in self._seen) / count
        if count < enough or newest < least:
            return None
        if not self._is_playing:
            return newest
        if trainer.global_step < self._next_step or not trainer.ranks.is_first:
            return None
        self._next_step = trainer.global_step + pause
        score = trainer.score(self._episodes).get(name)
        self._is_playing = score is not None
        return score.mean if self._is_playing else None


def _is_evaluated(logs: Mapping[str, float]) -> bool:
    return any(name.startswith("eval/") for name in logs)


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise APIUsageError(f"{name} must be a finite number, got {value!r}")
    return float(value)
