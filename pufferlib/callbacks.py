"""What `PuffeRL.learn` asks after each iteration: whether to stop, and whatever else is to be done then.

    from pufferlib.callbacks import EvaluateEvery, KeepBest, StopAtScore

    trainer.learn(10_000_000, callbacks=[EvaluateEvery(500_000), KeepBest(), StopAtScore(800, "eval/return_mean")])

A callback of one's own is a function of the trainer and what is known of the iteration, or an object of a class such
as those below. They are asked in the order in which they are given, all of them, and may add to `logs` for those that
come after them.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from pufferlib.errors import APIUsageError, PufferWarning, nearest
from pufferlib.metrics.metric_name import episode_count, find_metric, is_mean_over_episodes
from pufferlib.metrics.report import prefixed
from pufferlib.play.scores import evaluate
from pufferlib.play.whole_episodes import repeatable
from pufferlib.runs import checkpoint

if TYPE_CHECKING:
    from pufferlib.pufferl import PuffeRL

_PATIENCE = 10  # iterations in which episodes ended, but the metric that is waited for was not told
_SHARE = 0.1  # of the steps so far, or of those to wait for, until a policy plays again
_EACH = 10  # episodes of each agent in a mean over those that ended, so that few of them were cut off


class Callback:
    """What a callback has; a class of one's own need not be derived from it, nor have `on_start`."""

    def on_start(self, trainer: PuffeRL) -> None:
        """Called once by each `learn`, before its first iteration."""

    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool | None:
        """Called after each iteration.

        Between iterations the trainer may be changed, as in a loop of one's own: `trainer.learning_rate = 1e-4`.

        Args:
            trainer: that learns. Of several processes each has its own, and all call its methods in the same order.
            logs: what is known of this iteration, by the names of `PuffeRL.mean_and_log`: `agent_steps`, `epoch`, `sps`
                and `uptime`; `losses/...`; `episode/...` and `environment/...` of the episodes that ended in this
                process, nothing of them where none did; and all else of `mean_and_log` where the iteration was logged.
                Yours to add to.

        Returns:
            True to stop, False or None to go on.
        """


class StopAtScore(Callback):
    """Stops once a metric is high enough; of episodes it is the mean over several.

    The episodes that ended last are no fair sample while all agents are in their first ones, see `PuffeRL.score`. Once
    these are good enough the policy plays as many whole episodes, and their mean decides; where it says no, the policy
    plays again after a tenth more steps. Where nothing can be played, the mean is over ten episodes of each agent at
    least.
    """

    def __init__(self, threshold: float, metric: str = "episode/return_mean", episodes: int = 100):
        """Takes what to wait for.

        Args:
            threshold: the least value to stop at.
            metric: as `find_metric` takes it: a name in the logs such as `environment/score` or `eval/return_mean`, or
                a part of it, such as `perf`.
            episodes: to average over at least; what is told of no episodes in the rollout, such as `eval/...`, is taken
                as it is.
        """
        self.threshold = _finite("threshold", threshold)
        self._fair = _FairMean(metric, episodes)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._fair.begin(trainer)

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        newest = self._fair.newest(logs)
        if newest is None or newest < self.threshold:
            return False
        value = self._fair.decisive(trainer, newest, _SHARE * trainer.global_step)
        return value is not None and value >= self.threshold


class StopWithoutImprovement(Callback):
    """Stops once a metric has not been better than before for a number of agent steps.

    What is a mean over episodes comes from whole ones that the policy plays, ten times in that number of steps, see
    `PuffeRL.score`: of those that ended last the first ones can be better than all that follow. Where nothing can be
    played, it is the mean over the newest ones that ended, over ten of each agent at least.
    """

    def __init__(self, steps: int, metric: str = "episode/return_mean", episodes: int = 100, least_gain: float = 0.0):
        """Takes what to wait for.

        Args:
            steps: agent steps without improvement.
            metric: the higher the better; as for StopAtScore.
            episodes: as for StopAtScore.
            least_gain: by how much it has to be above the best before, to count.
        """
        self.steps = _count("steps", steps)
        self.least_gain = _finite("least_gain", least_gain)
        self._fair = _FairMean(metric, episodes)
        self._best, self._best_step = -math.inf, 0.0

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._fair.begin(trainer)
        self._best, self._best_step = -math.inf, trainer.global_step

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        newest = self._fair.newest(logs)
        value = None if newest is None else self._fair.decisive(trainer, newest, _SHARE * self.steps)
        if value is not None and (value > self._best + self.least_gain or self._best == -math.inf):
            self._best, self._best_step = value, logs["agent_steps"]
        return logs["agent_steps"] - self._best_step >= self.steps


class StopAfterSeconds(Callback):
    """Stops after the iteration in which a time is over, counted from the beginning of `learn`."""

    def __init__(self, seconds: float):
        self.seconds = _finite("seconds", seconds)
        self._end = math.inf

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._end = time.monotonic() + self.seconds

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> bool:
        return time.monotonic() >= self._end


class EvaluateEvery(Callback):
    """Plays episodes every now and then in an environment of its own, and logs how well the policy does.

    As `eval/return_mean`, `eval/length_mean`, and `eval/<name>` for what the environment itself tells of episodes. The
    training does not notice. Of several processes the first plays while the others wait.
    """

    def __init__(self, steps: int, env: Any = None, episodes: int = 100, **settings: Any):
        """Plays nothing yet.

        Args:
            steps: agent steps between two evaluations; there is one more after the last iteration of `learn`.
            env: what to play in, as `pufferlib.evaluate` takes it; None for environments as those of the training,
                where these were made by their name or by `pufferlib.vector.make`.
            episodes: in each evaluation.
            settings: further keywords of `pufferlib.evaluate`, such as `sample` or `seed`.
        """
        self.steps = _count("steps", steps)
        self.env, self.episodes, self.settings = env, _count("episodes", episodes), settings
        self._next_step, self._playground = 0, env

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        self._next_step = trainer.global_step + self.steps
        self._playground = _like_those_of(trainer) if self.env is None else self.env

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> None:
        if trainer.global_step < self._next_step and trainer.epoch < trainer.total_epochs:
            return
        while self._next_step <= trainer.global_step:
            self._next_step += self.steps
        with trainer.phases.phase("evaluation"):
            metrics = trainer.ranks.from_first(lambda: self._evaluate(trainer))
        logs.update(metrics)
        trainer.logger.log({"agent_steps": trainer.global_step, "epoch": trainer.epoch, **metrics}, trainer.global_step)

    def _evaluate(self, trainer: PuffeRL) -> dict[str, float]:
        scores = evaluate(trainer.policy, self._playground, self.episodes, **self.settings)
        names = {"episode_return": "return_mean", "episode_length": "length_mean"}  # as those of [train] evaluations
        return prefixed("eval", {names.get(name, name): score.mean for name, score in scores.items()})


def _like_those_of(trainer: PuffeRL) -> Any:
    found = repeatable(trainer.vecenv)
    if found is None:
        raise APIUsageError(
            "EvaluateEvery needs environments of its own, and none can be made from the ready "
            f"{type(trainer.vecenv.driver_env).__name__} that is trained in; pass env=, such as its name or its class"
        )
    return found


class KeepBest(Callback):
    """Keeps the weights that did best by a metric as `best.pt` in the run's folder.

    `puffer eval ENV --load-model-path best` plays them. What was kept before `learn`, as by a run that is gone on with,
    counts too.
    """

    def __init__(self, metric: str = "eval/return_mean"):
        """Keeps nothing yet.

        Args:
            metric: the higher the better; as for StopAtScore, but for a single iteration. Weights are looked at in the
                iterations that tell it; those of evaluations come from an EvaluateEvery before this one, or from the
                setting `evaluations`.
        """
        self._metric = _Metric(metric)

    @override
    def on_start(self, trainer: PuffeRL) -> None:
        if trainer.config.evaluations and self._metric.wanted not in ("eval/return_mean", "return_mean"):
            raise APIUsageError(
                f"[train] evaluations keep the best by eval/return_mean, got another metric, {self._metric.wanted!r}; "
                "set evaluations to 0, and have EvaluateEvery evaluate"
            )

    @override
    def on_iteration(self, trainer: PuffeRL, logs: dict[str, float]) -> None:
        name = self._metric.find(logs)
        if name is None or not trainer.ranks.is_first:
            return
        facts = {"env": trainer.env_name, "agent_steps": trainer.global_step, "epoch": trainer.epoch, name: logs[name]}
        with trainer.run.outliving_full_disks():
            trainer.run.open()
            checkpoint.keep_best(trainer.run_folder, name, trainer.policy.state_dict(), facts)


class _Metric:
    def __init__(self, wanted: str):
        if not isinstance(wanted, str) or not wanted:
            raise APIUsageError(f"metric must be a name in the logs, such as 'environment/score', got {wanted!r}")
        self.wanted = wanted
        self._missed: int | None = 0  # iterations with episodes but without it; None once it was found or warned of

    def find(self, logs: Mapping[str, float]) -> str | None:
        """Its name in the logs; None where they lack it."""
        name = find_metric(self.wanted, logs)
        if name is not None:
            self._missed = None
        elif self._missed is not None and "episode/count" in logs and not self.wanted.startswith("eval/"):
            self._missed += 1
            if self._missed == _PATIENCE:
                self._missed = None
                short = {known.partition("/")[2] for known in logs}
                hint = nearest(self.wanted, [*logs, *short]) or f"; there are {', '.join(sorted(logs))}"
                warnings.warn(f"no metric {self.wanted!r} has come so far{hint}", PufferWarning, stacklevel=5)
        return name


class _FairMean:
    # The mean of a metric over whole episodes, so that short ones count no more than long ones.
    def __init__(self, metric: str, episodes: int):
        self._metric = _Metric(metric)
        self._episodes = _count("episodes", episodes)
        self._seen: deque[tuple[float, float]] = deque()  # values and their episodes, the newest last
        self._name = metric
        self._is_playing = True
        self._least = 0  # episodes in the mean over the newest
        self._next_step = 0.0  # before which the policy does not play

    def begin(self, trainer: PuffeRL) -> None:
        """Begins anew."""
        self._seen.clear()
        self._next_step, self._least = 0.0, self._episodes
        self._is_playing = True
        if repeatable(trainer.vecenv) is None:
            self._stop_playing(trainer)

    def newest(self, logs: Mapping[str, float]) -> float | None:
        """The mean over the newest episodes; None where an iteration told nothing new, or too few have ended."""
        name = self._metric.find(logs)
        if name is None:
            return None
        self._name = name
        if not is_mean_over_episodes(name):
            return logs[name]
        self._seen.append((logs[name], episode_count(name, logs)))
        count = sum(episodes for _, episodes in self._seen)
        while count - self._seen[0][1] >= self._least:
            count -= self._seen.popleft()[1]
        return sum(value * episodes for value, episodes in self._seen) / count if count >= self._least else None

    def decisive(self, trainer: PuffeRL, newest: float, pause: float) -> float | None:
        """What a decision may rest on: the mean over whole episodes that are played, where they can be.

        Args:
            trainer: that learns.
            newest: what `newest` returned.
            pause: agent steps after which it may be played again.

        Returns:
            None where it is not to be decided now, as where other processes decide.
        """
        if not is_mean_over_episodes(self._name) or not self._is_playing:
            return newest
        if trainer.global_step < self._next_step or not trainer.ranks.is_first:
            return None
        self._next_step = trainer.global_step + pause
        score = trainer.score(self._episodes).get(self._name)
        if score is None:
            self._stop_playing(trainer)
        return None if score is None else score.mean

    def _stop_playing(self, trainer: PuffeRL) -> None:
        self._is_playing = False
        self._least = max(self._episodes, _EACH * trainer.vecenv.num_agents)


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise APIUsageError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 1 or int(value) != value:
        raise APIUsageError(f"{name} must be a whole number, 1 or more, got {value!r}")
    return int(value)
