"""Scores of a policy: whole episodes, the mean of every statistic, and its standard error; evaluation while training.

Episodes that end within a window of time are no fair sample: agents begin together, so it holds those that end early.
Here each of N fresh environments plays its first K episodes to the end, with N and K fixed before.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import vector
from pufferlib.config import ResolvedTrainConfig
from pufferlib.dashboard.score import Score
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, kind_of
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry
from pufferlib.metrics.finite import require_finite_weights
from pufferlib.ocean.environment import OceanEnv
from pufferlib.play.player import Episodes, Player, eval_mode
from pufferlib.policy import device_of, weights_of
from pufferlib.runs.checkpoint import keep_best
from pufferlib.runs.checks import check_acting, whole_number
from pufferlib.runs.loaders import load_policy
from pufferlib.runs.making import env_arguments, is_to_be_made, is_vector
from pufferlib.seeding import mix_seed
from pufferlib.spaces import is_number
from pufferlib.vector import Vector
from pufferlib.vector.native import is_stepped_in_c

MAX_ENVIRONMENTS = 256  # played side by side; more episodes are played in turn
MAX_PYTHON_ENVIRONMENTS = 32  # of those that are not C: each may be slow to make and large
MAX_STEPS = 20_000  # of an episode, on average: a greedy policy can repeat itself without an end


class ScoreSheet:
    """Collects the results of episodes."""

    def __init__(self) -> None:
        self._counted: dict[str, list[float]] = {"episode_return": [], "episode_length": []}
        self._reported: dict[str, list[float]] = {}
        self._has_means = False  # a report is a mean of several episodes: the counts of each are better

    def add(self, episodes: Episodes) -> None:
        """Adds episodes that ended, with the environment's reports of them."""
        self._counted["episode_return"].extend(episodes.returns.tolist())
        self._counted["episode_length"].extend(episodes.lengths.tolist())
        for report in episodes.reports:
            self._has_means |= report.get("n", 1) > 1
            for name, value in report.items():
                if name not in ("n", "agent_id") and is_number(value) and not math.isnan(value):
                    self._reported.setdefault(name, []).append(float(value))

    def numbers(self, name: str) -> list[float]:
        """Returns what the environment reported of each episode as a statistic, such as `perf`."""
        return list(self._reported.get(name, ()))

    def scores(self) -> dict[str, Score]:
        """Returns a score for every statistic; the environment's report of an episode replaces the counts of it."""
        counted = {name: numbers for name, numbers in self._counted.items() if name not in self._reported}
        found = {**counted, **self._reported, **(self._counted if self._has_means else {})}
        return {name: Score.of(numbers) for name, numbers in found.items() if numbers}

    def by_metric(self, skips_nonfinite: bool = False) -> dict[str, Score]:
        """Returns a score for every statistic, by the name that its mean has in the logs of a training.

        With `skips_nonfinite` that is of the episodes in which it is finite, as `[train] skip_nonfinite` learns on.
        """
        names = {"episode_return": "episode/return_mean", "episode_length": "episode/length_mean"}
        found = {names[name]: numbers for name, numbers in self._counted.items()}
        found |= {f"environment/{name}": numbers for name, numbers in self._reported.items()}
        if skips_nonfinite:
            found = {name: list(filter(math.isfinite, numbers)) for name, numbers in found.items()}
        return {name: Score.of(numbers) for name, numbers in found.items() if numbers}


@dataclass(frozen=True)
class ConfiguredEnv:
    """How to make environments of a kind."""

    entry: Entry
    env_kwargs: Mapping[str, Any]

    def make(self, episodes: int, seed: int, is_shown: bool = False) -> Vector:
        """Makes as many environments as play some episodes side by side, whose infos have owners.

        Each is a batch of its own, which may play or wait, if it `is_shown`; else all of C are one, which is faster.
        """
        entry, env_kwargs = self.entry, {**self.entry.whole_games, **self.env_kwargs}
        # One environment behind each PufferEnv, which reports every episode.
        env_kwargs |= {name: 1 for name in ("num_envs", "report_interval") if name in entry.settings}
        env_kwargs |= array_settings(entry) if is_shown else {}
        agents = 1
        if counts_by_agent(entry.creator):
            with contextlib.closing(entry.creator(**env_kwargs)) as env:
                agents = env.num_agents
        most = MAX_ENVIRONMENTS if "num_envs" in entry.settings else MAX_PYTHON_ENVIRONMENTS
        count = min(-(-episodes // agents), most)
        is_one_batch = not is_shown and is_stepped_in_c(entry.creator)
        vecenv = vector.make(
            entry.creator,
            env_kwargs=env_kwargs,
            backend="Native" if is_one_batch else "Serial",
            num_envs=count,
            num_workers=1,
            batch_size=count if is_one_batch else 1,
            seed=seed,
        )
        if is_one_batch:
            vecenv.tells_owners = True
        return vecenv


def evaluate(
    policy: object,
    env: object = None,
    episodes: int = 100,
    sample: bool = False,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
) -> dict[str, Score]:
    """Plays a number of episodes with a policy, which stays as it is.

        scores = pufferlib.evaluate(policy, "puffer_breakout", episodes=1_000)
        print(scores["episode_return"].mean, scores["episode_return"].standard_error)

    Every environment plays the same number of episodes to the end, so long episodes count like short ones. Where
    several agents share an environment, each of them adds a return and a length for every episode in which it acts; of
    the snakes of puffer_snake, which begin and end apart, every one's episode is one of `episodes`. Torch's random
    numbers and the policy's mode, buffers and recurrent state are unchanged afterwards.

    Args:
        policy: a torch module that `PuffeRL` would train, a trainer or a `pufferlib.Agent`; it may be recurrent.
        env: a name, which has the settings of its configuration; a class or a function; or an environment or a vector
            of PufferLib's, Gymnasium's or PettingZoo's. Names, classes, functions, vectors of `pufferlib.vector.make`
            and everything that was made by a name are played in new environments, side by side, so that a trainer in
            them can continue. Any other one is itself played, from a reset, and stays open. None is the environment
            that an agent was trained in, with its settings, or that of a trainer.
        episodes: at least 1.
        sample: draw actions from the policy instead of taking the likeliest.
        seed: of the environments and of the actions.
        max_steps: steps per episode, on average over the episodes of an environment, after which the play ends: a
            greedy policy can repeat itself without an end.

    Returns:
        A score for `episode_return` and `episode_length`, and for every statistic that the environment reports at the
        end of an episode, over the episodes that ended; empty when none did. Reports without an owner, as of many ready
        environments in one, are left out.

    Raises:
        APIUsageError: if an argument is none of these, or the policy does not fit the environment.
        DivergedError: if a weight of the policy is infinite or NaN.
        UnknownEnvironmentError: if there is no environment of that name.
    """
    episodes, max_steps = whole_number("episodes", episodes), whole_number("max_steps", max_steps)
    module = _module(policy)
    if env is None and isinstance(getattr(policy, "vecenv", None), Vector):
        env = repeatable(policy.vecenv)
    env = getattr(policy, "env", None) if env is None else env
    if env is None:
        settings = getattr(policy, "settings", None)
        if not isinstance(settings, Mapping) or "env_name" not in settings:
            raise APIUsageError(
                f"evaluate() needs an environment, as this {type(policy).__name__} names none; pass env="
            )
        env = ConfiguredEnv(catalog.find_recorded(settings["env_name"]), settings["env"])
    with player_in(env, lambda vecenv: module, episodes, seed, sample) as player:
        return play_to_the_end(player, episodes_per_agent(episodes, player), max_steps, seed).scores()


def _module(policy: object) -> nn.Module:
    module = policy if isinstance(policy, nn.Module) else getattr(policy, "policy", None)
    if isinstance(module, nn.Module):
        return module
    raise APIUsageError(
        f"policy must be a torch module or an Agent, got {kind_of(policy)}; the order is evaluate(policy, env)"
    )


def play_to_the_end(
    player: Player,
    quotas: np.ndarray,
    max_steps: int,
    seed: int | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> ScoreSheet:
    """Plays the quota of every agent, `(num_agents,)`, with at most `max_steps` for an episode on average.

    Returns the sheet of the episodes; an empty one once `is_wanted`, asked after every step, returns False.
    """
    sheet = ScoreSheet()
    for episodes in player.play(quotas, max_steps * int(quotas.max()), seed):
        if not is_wanted():
            return ScoreSheet()
        sheet.add(episodes)
    return sheet


@contextlib.contextmanager
def player_in(
    env: object,
    make_policy: Callable[[Vector], object],
    episodes: int,
    seed: int,
    is_sampled: bool,
    is_shown: bool = False,
) -> Iterator[Player]:
    """Makes environments for some episodes, and a player in them of the module or Agent that `make_policy` returns.

    `env` is as for `evaluate`, or a ConfiguredEnv; `is_shown` as for its `make`. Actions are drawn by the seed or are
    the likeliest ones. In the end the policy has its mode and buffers again, and environments that were made are
    closed. Raises what `evaluate` does.
    """
    with ExitStack() as undo:
        vecenv = _vector_to_play(env, episodes, seed, undo, is_shown)
        module = _module(make_policy(vecenv))
        require_finite_weights(module)
        device = device_of(module)
        undo.enter_context(eval_mode(module))
        check_acting(module, vecenv, device)
        yield Player(vecenv, module, torch.Generator(device).manual_seed(int(seed)) if is_sampled else None)


def split_evenly(episodes: int, count: int) -> np.ndarray:
    """Returns the number of episodes for each of `count` environments: `(count,)` int64."""
    # LaTeX: q_i = \lfloor m / n \rfloor + [\, i < m \bmod n \,] ; q_i = split_evenly, m = episodes, n = count
    return np.array([episodes // count + (index < episodes % count) for index in range(count)])


def episodes_per_agent(episodes: int, player: Player) -> np.ndarray:
    """Returns the number of episodes for each agent, `(num_agents,)` int64, of as many `episodes` or games in all."""
    vecenv, count = player.vecenv, player.vecenv.num_envs * getattr(player.vecenv.driver_env, "num_envs", 1)
    if player.seats_per_game > 1 or counts_by_agent(vecenv.driver_env):
        count = vecenv.num_agents // player.seats_per_game
    return split_evenly(episodes, count).repeat(vecenv.num_agents // count)


def counts_by_agent(env: object) -> bool:
    """Returns whether an episode is one of an agent instead of the environment, see OceanEnv; `env` may be a class."""
    return getattr(env, "counts_episodes_by_agent", False)


def array_settings(entry: Entry) -> dict[str, Any]:
    """Returns the settings that an environment is to be made with so that its pictures can be shown."""
    return {"render_mode": "rgb_array"} if "render_mode" in entry.settings else {}


def _vector_to_play(env: object, episodes: int, seed: int, undo: ExitStack, is_shown: bool) -> Vector:
    configured = env if isinstance(env, ConfiguredEnv) else configured_env(env)
    if configured is not None:
        return undo.enter_context(configured.make(episodes, seed, is_shown))
    if getattr(env, "is_repeatable", False):
        count = min(episodes, MAX_PYTHON_ENVIRONMENTS)
        if type(env) in (vector.Serial, vector.Multiprocessing, vector.Ray):
            # As by name: an environment that is alone in its batch owns what it reports.
            return undo.enter_context(env.again(count, seed, vector.Serial, batch_size=1))
        return undo.enter_context(env.again(count, seed))
    if is_vector(env):
        return env
    vecenv = vector.adopt(env, seed=seed)
    undo.callback(vecenv.hand_over)
    return vecenv


def configured_env(env: object) -> ConfiguredEnv | None:
    """Returns how to make environments like one, see `evaluate`; None where that is unknown."""
    if isinstance(env, str):
        return ConfiguredEnv(catalog.find(env), env_arguments(env, {}))
    if is_to_be_made(env):
        return ConfiguredEnv(catalog.find(env), {})
    origin = getattr(env, "made_from", None)  # not of what is inside: that would leave its wrappers out
    return None if origin is None else ConfiguredEnv(catalog.find(origin.creator or origin.env_name), origin.env)


def final_episodes(setting: int | str, vecenv: Vector) -> int:
    """Returns the episodes that the final policy of a training plays, by `[train] final_episodes`."""
    if setting == "auto":
        return 1_000 if isinstance(vecenv.driver_env, OceanEnv) else 100
    return int(setting)


def repeatable(vecenv: Vector) -> Vector | PufferEnv | None:
    """Returns the part of a vector from which `evaluate` can make more environments like it, or None."""
    for env in (vecenv, vecenv.driver_env):
        if getattr(env, "made_from", None) is not None or getattr(env, "is_repeatable", False):
            return env
    return None


def play_whole_episodes(
    policy: nn.Module,
    vecenv: Vector,
    episodes: int,
    seed: int,
    max_steps: int,
    is_wanted: Callable[[], bool] = lambda: True,
    skips_nonfinite: bool = False,
) -> dict[str, Score]:
    """Plays at least some episodes in new environments like those of a training, see `PuffeRL.score`.

    All environments, and all agents in them, play equally many, give or take one. Returns scores by metric; empty where
    no episode ended, or no such environments can be made.
    """
    env = repeatable(vecenv)
    if env is None:
        return {}
    games = math.ceil(episodes / getattr(vecenv.driver_env, "agents_per_env", 1))
    with player_in(env, lambda vecenv: policy, games, seed, is_sampled=True) as player:
        played = player.vecenv
        count = played.num_envs * getattr(played.driver_env, "num_envs", 1)
        games = min(games, math.ceil(episodes * count / played.num_agents))  # an episode of every agent in each
        quotas = split_evenly(games, count).repeat(played.num_agents // count)
        return play_to_the_end(player, quotas, max_steps, seed, is_wanted).by_metric(skips_nonfinite)


def evaluate_model(env_name: str, args: dict[str, Any], episodes: int) -> dict[str, Score]:
    """Plays as `pufferlib.evaluate` with the policy that `args['load_model_path']` names, by the seed of `[train]`."""
    env = ConfiguredEnv(catalog.find(env_name), args["env"])
    make_policy = partial(load_policy, args, env_name=env_name)
    with player_in(env, make_policy, episodes, args["train"]["seed"], is_sampled=False) as player:
        return play_to_the_end(player, episodes_per_agent(episodes, player), MAX_STEPS).scores()


_EVALUATION_SEED = 0x6576616C  # no rank of a run has this number, so no training environment has such a seed


class PeriodicEvaluation:
    """Evaluates the policy in evenly spread epochs of a run, and keeps the best weights.

    All evaluations have the same seed, so that two of them differ by the policy alone. They share no state, so that a
    resumed run evaluates like one that never stopped. They leave the training unchanged: they draw none of its random
    numbers or of torch's, and restore the policy's modes and buffers.
    """

    def __init__(
        self,
        config: ResolvedTrainConfig,
        make_vecenv: Callable[[int], Vector] | None,
        policy: nn.Module,
        autocast: Callable[[], AbstractContextManager],
    ):
        self._config, self._seed = config, mix_seed(config.seed, _EVALUATION_SEED)
        self._make_vecenv = make_vecenv  # from its seed, at the first evaluation; None where there is none
        self._policy, self._autocast = policy, autocast
        self._player: Player | None = None
        self._metrics: dict[str, float] = {}

    def is_due(self, epoch: int, total: int) -> bool:
        """Returns whether there is an evaluation after `epoch` of `total` epochs, such as the last."""
        count = self._config.evaluations
        # LaTeX: \Big\lfloor \frac{n k}{K} \Big\rfloor > \Big\lfloor \frac{n (k - 1)}{K} \Big\rfloor
        # LaTeX:   ; n = count, k = epoch, K = total
        return epoch * count // total > (epoch - 1) * count // total

    def run(self, folder: Path, facts: dict[str, Any]) -> None:
        """Evaluates, and saves the weights as the `best` of the run's folder if no evaluation there was as good.

        The facts are saved beside them, see `pufferlib.runs.checkpoint.note`.
        """
        self._metrics = self._evaluate()
        keep_best(folder, "eval/return_mean", weights_of(self._policy), {**facts, **self._metrics})

    def take(self) -> dict[str, float]:
        """Returns the metrics of the evaluation since the last call, `eval/...`, if there was one."""
        taken, self._metrics = self._metrics, {}
        return taken

    def close(self) -> None:
        """Closes the environments; may be called twice."""
        if self._player is not None:
            self._player.vecenv.close()
            self._player = None

    def _evaluate(self) -> dict[str, float]:
        try:
            with eval_mode(self._policy):
                if self._player is None:
                    vecenv = self._make_vecenv(self._seed)
                    self._player = Player(vecenv, self._policy, autocast=self._autocast)
                player = self._player
                steps = player.play(np.ones_like(player.remaining), self._config.evaluation_max_steps, self._seed)
                return _evaluation_metrics([*steps, player.running()], self._config.skip_nonfinite)
        except BaseException:
            self.close()  # Ctrl-C may have left the environments in the middle of a step
            raise


def _evaluation_metrics(episodes: Sequence[Episodes], skips_nonfinite: bool) -> dict[str, float]:
    returns = np.concatenate([each.returns for each in episodes])
    lengths = np.concatenate([each.lengths for each in episodes])
    if skips_nonfinite:
        are_finite = np.isfinite(returns)
        returns, lengths = returns[are_finite], lengths[are_finite]
    if not len(returns):
        return {}
    # LaTeX: \mu = \frac1n \sum_i R_i, \quad \sigma = \sqrt{\tfrac1n \textstyle\sum_i (R_i - \mu)^2}
    # LaTeX:   ; R = returns, n = len(returns), \mu = returns.mean(), \sigma = returns.std()
    return {
        "eval/return_mean": float(returns.mean()),
        "eval/return_std": float(returns.std()),
        "eval/return_min": float(returns.min()),
        "eval/return_max": float(returns.max()),
        "eval/length_mean": float(lengths.mean()),
    }
