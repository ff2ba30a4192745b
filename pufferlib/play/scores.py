"""How well a policy plays: episodes to the end, the mean of every statistic, and its standard error."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry
from pufferlib.metrics.finished_episodes import is_number
from pufferlib.metrics.finite import require_finite_weights
from pufferlib.metrics.score import Score
from pufferlib.play.player import Episodes, Player
from pufferlib.play.undisturbed import undisturbed
from pufferlib.runs import making
from pufferlib.runs.policy_check import check_acting
from pufferlib.vector.native import is_stepped_in_c

MAX_ENVIRONMENTS = 256  # played side by side; more episodes are played in turn
MAX_PYTHON_ENVIRONMENTS = 32  # of those that are not C: each may be slow to make and large


class ScoreSheet:
    """Collects what became of episodes."""

    def __init__(self) -> None:
        self._counted: dict[str, list[float]] = {"episode_return": [], "episode_length": []}
        self._reported: dict[str, list[float]] = {}
        self._tells_means = False  # of several episodes: what was counted of each is better

    def add(self, episodes: Episodes) -> None:
        """Adds episodes that ended, and what the environment reports of them."""
        self._counted["episode_return"].extend(episodes.returns.tolist())
        self._counted["episode_length"].extend(episodes.lengths.tolist())
        for report in episodes.reports:
            self._tells_means |= report.get("n", 1) > 1
            for name, value in report.items():
                if name not in ("n", "agent_id") and is_number(value):
                    self._reported.setdefault(name, []).append(float(value))

    def scores(self) -> dict[str, Score]:
        """A score for every statistic; what the environment reports of each episode replaces what was counted of it."""
        counted = {name: numbers for name, numbers in self._counted.items() if name not in self._reported}
        found = {**counted, **self._reported, **(self._counted if self._tells_means else {})}
        return {name: Score.of(numbers) for name, numbers in found.items() if numbers}

    def by_metric(self) -> dict[str, Score]:
        """A score for every statistic, by the name that its mean has in the logs of a training."""
        names = {"episode_return": "episode/return_mean", "episode_length": "episode/length_mean"}
        found = {names[name]: numbers for name, numbers in self._counted.items()}
        found |= {f"environment/{name}": numbers for name, numbers in self._reported.items()}
        return {name: Score.of(numbers) for name, numbers in found.items() if numbers}


@dataclass(frozen=True)
class Recipe:
    """What makes an environment, and its keyword arguments."""

    entry: Entry
    env_kwargs: Mapping[str, Any]


def evaluate(
    policy: Any, env: Any = None, episodes: int = 100, sample: bool = False, seed: int = 0, max_steps: int = 20_000
) -> dict[str, Score]:
    """Plays a number of episodes with a policy, which stays as it is.

        scores = pufferlib.evaluate(policy, "puffer_breakout", episodes=1_000)
        print(scores["episode_return"].mean, scores["episode_return"].standard_error)

    Every environment plays the same number of episodes to the end, so long episodes count like short ones. Where
    several agents share an environment, each of them adds a return and a length for every episode; of the snakes
    of puffer_snake, which begin and end apart, every one's episode is one of `episodes`. Neither torch's
    random numbers nor the policy's mode, buffers and recurrent state are other ones afterwards.

    Args:
        policy: a torch module that `PuffeRL` would train, or a `pufferlib.Agent`; it may be recurrent.
        env: a name, which has the settings of its configuration; a class or a function; or an environment or a vector
            of PufferLib's, Gymnasium's or PettingZoo's. What can be made anew is played in environments of their own,
            side by side: also a vector that `pufferlib.vector.make` made, and everything that was made by a name, so
            that a trainer in it can go on. Any other one is played in itself, from a reset on, and is left open. None
            is the environment that an agent was trained in, with its settings.
        episodes: at least 1.
        sample: draw actions from the policy instead of taking the likeliest.
        seed: of the environments and of the actions.
        max_steps: steps per episode, on average over the episodes of an environment, after which it ends anyway: a
            greedy policy can go in circles for ever.

    Returns:
        A score for `episode_return` and `episode_length`, and for every statistic that the environment reports at the
        end of an episode, over the episodes that ended; empty when none did. Of agents whose episodes end in the same
        step it may report means alone, which then stand for each of them. What is reported of many environments in one,
        which are ready and cannot be made anew, is left out where nobody can tell whose episodes it is of.

    Raises:
        APIUsageError: if an argument is none of these, or the policy does not fit the environment.
        DivergedError: if a weight of the policy is infinite or NaN.
        UnknownEnvironmentError: if there is no environment of that name.
    """
    if not isinstance(episodes, (int, np.integer)) or episodes < 1:
        raise APIUsageError(f"episodes must be an integer of at least 1, got {episodes!r}")
    module = _module(policy)
    if env is None:
        env = _own_env(policy)
    with ExitStack() as undo:
        vecenv = vector_to_play(env, int(episodes), seed, undo)
        player = player_of(module, vecenv, seed if sample else None, undo)
        quotas = deal_games(int(episodes), vecenv)
        return scored(player, quotas, max_steps * int(quotas.max()), seed).scores()


def scored(player: Player, quotas: np.ndarray, max_steps: int, seed: int | None = None) -> ScoreSheet:
    """Plays to the end, as `Player.play` takes it, and collects what became of the episodes."""
    sheet = ScoreSheet()
    for ended in player.play(quotas, max_steps, seed):
        for episodes in ended:
            sheet.add(episodes)
    return sheet


def player_of(policy: Any, vecenv: vector.Vector, sampling_seed: int | None, undo: ExitStack) -> Player:
    """Has a policy play in a vector, and puts back what that changes of the policy.

    Args:
        policy: a torch module, or an Agent.
        vecenv: to play in.
        sampling_seed: of the draws of actions; None takes the likeliest.
        undo: gets how to put it back.

    Raises:
        APIUsageError: if it is neither, or does not fit the environments.
        DivergedError: if a weight is infinite or NaN.
    """
    module = _module(policy)
    require_finite_weights(module)
    device = next((tensor.device for tensor in module.state_dict().values()), torch.device("cpu"))
    undo.enter_context(undisturbed(module, device))
    check_acting(module, vecenv.single_observation_space, vecenv.single_action_space, device)
    generator = None if sampling_seed is None else torch.Generator(device).manual_seed(sampling_seed)
    return Player(vecenv, module, device, generator)


def dealt(episodes: int, count: int) -> np.ndarray:
    """How many of some episodes each of `count` environments plays: `(count,)` int64."""
    # LaTeX: q_i = \lfloor m / n \rfloor + [\, i < m \bmod n \,] ; q_i = dealt, m = episodes, n = count
    return np.array([episodes // count + (index < episodes % count) for index in range(count)])


def deal_games(episodes: int, vecenv: vector.Vector) -> np.ndarray:
    """How many episodes each agent plays so that all play so many games: `(num_agents,)` int64.

    A game is an episode of an environment with all of its agents, or of one agent, see `counts_by_agent`.
    """
    if counts_by_agent(vecenv.driver_env):
        return dealt(episodes, vecenv.num_agents)
    count = vecenv.num_envs * getattr(vecenv.driver_env, "num_envs", 1)
    return dealt(episodes, count).repeat(vecenv.num_agents // count)


def counts_by_agent(env: Any) -> bool:
    """Whether an episode is one of an agent instead of the environment, see OceanEnv; `env` may be the class."""
    return getattr(env, "counts_episodes_by_agent", False)


def environments_needed(entry: Entry, env_kwargs: Mapping[str, Any], episodes: int) -> int:
    """How many environments play so many games side by side."""
    agents = 1
    if counts_by_agent(entry.creator):
        env = entry.creator(**{**env_kwargs, **_single(entry)})
        agents = env.num_agents
        env.close()
    return min(-(-episodes // agents), most_environments(entry))


def most_environments(entry: Entry) -> int:
    """How many environments of a kind are played side by side."""
    return MAX_ENVIRONMENTS if "num_envs" in entry.settings else MAX_PYTHON_ENVIRONMENTS


def make_environments(
    entry: Entry, env_kwargs: Mapping[str, Any], count: int, seed: int, are_apart: bool = True
) -> vector.Vector:
    """Makes environments whose infos can be told apart.

    Args:
        entry: of the catalog.
        env_kwargs: values of some of its settings.
        count: how many environments; the episodes of one do not depend on how many others there are.
        seed: of the vector.
        are_apart: each is a batch of its own, which may be played or wait; else all of C are one, which is faster.
    """
    env_kwargs = {**env_kwargs, **_single(entry)}
    given = {"env_kwargs": env_kwargs, "num_envs": count, "num_workers": 1, "seed": seed}
    if are_apart or not is_stepped_in_c(entry.creator):
        return vector.make(entry.creator, backend="Serial", batch_size=1, **given)
    vecenv = vector.make(entry.creator, backend="Native", batch_size=count, **given)
    vecenv.tells_owners = True
    return vecenv


def _single(entry: Entry) -> dict[str, int]:
    # One environment behind each PufferEnv, which reports every episode.
    return {name: 1 for name in ("num_envs", "report_interval") if name in entry.settings}


def _module(policy: Any) -> nn.Module:
    module = policy if isinstance(policy, nn.Module) else getattr(policy, "policy", None)
    if isinstance(module, nn.Module):
        return module
    found = f"the class {policy.__name__}" if isinstance(policy, type) else type(policy).__name__
    raise APIUsageError(f"policy must be a torch module or an Agent, got {found}; the order is evaluate(policy, env)")


def _own_env(policy: Any) -> Any:
    if getattr(policy, "env", None) is not None:
        return policy.env
    settings = getattr(policy, "settings", None)
    if not isinstance(settings, Mapping) or "env_name" not in settings:
        raise APIUsageError(
            f"evaluate() needs an environment, as this {type(policy).__name__} tells of none; pass env="
        )
    return Recipe(catalog.find_recorded(settings["env_name"]), settings["env"])


def vector_to_play(env: Any, episodes: int, seed: int, undo: ExitStack) -> vector.Vector:
    """The vector to play in.

    Args:
        env: see `evaluate`.
        episodes: to play.
        seed: of environments that are made.
        undo: gets how to let go of the vector.
    """
    recipe = env if isinstance(env, Recipe) else recipe_of(env)
    if recipe is not None:
        count = environments_needed(recipe.entry, recipe.env_kwargs, episodes)
        vecenv = make_environments(recipe.entry, recipe.env_kwargs, count, seed, are_apart=False)
        undo.callback(vecenv.close)
    elif getattr(env, "is_repeatable", False):
        vecenv = env.again(min(episodes, MAX_PYTHON_ENVIRONMENTS), seed)
        undo.callback(vecenv.close)
    elif hasattr(env, "recv") and hasattr(env, "send"):
        vecenv = env
    else:
        vecenv = vector.adopt(env, seed=seed)
        undo.callback(vecenv.hand_over)
    return vecenv


def recipe_of(env: Any) -> Recipe | None:
    """What makes environments like the one that is given; None where that is not known.

    Args:
        env: see `evaluate`.

    Raises:
        UnknownEnvironmentError: if it is a name that no environment has.
    """
    if isinstance(env, str):
        return Recipe(catalog.find(env), making.env_arguments(env, {}))
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        return Recipe(catalog.find(env), {})
    origin = getattr(env, "made_from", None)  # not of what is inside: that would leave its wrappers out
    return None if origin is None else Recipe(catalog.find(origin.creator or origin.env_name), origin.env)
