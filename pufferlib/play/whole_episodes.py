"""Fair scores, by which runs stop and are compared: whole episodes, counted so that their length selects none.

Episodes that end within a window are not a fair sample where the window is not much longer than an episode: agents
begin together, so it holds the episodes that end early, which are successes in one environment and failures in
another. Here each of N fresh environments plays its first K episodes to the end, with N and K fixed before, so that
nothing that happens in an episode decides whether it counts. Counting the episodes that began in a window is as fair
(Wald's identity), but they are known only an episode later, and a window shorter than an episode may have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack

from torch import nn

from pufferlib.environment import PufferEnv
from pufferlib.metrics.score import Score
from pufferlib.ocean.environment import OceanEnv
from pufferlib.play.scores import play_to_the_end, player_of, split_evenly, vector_to_play
from pufferlib.vector import Vector

C_EPISODES, PYTHON_EPISODES = 1_000, 100  # of the final policy, unless the settings say otherwise


def final_episodes(setting: int | str, vecenv: Vector) -> int:
    """The episodes that the final policy of a training in `vecenv` plays, by `[train] final_episodes`."""
    if setting == "auto":
        return C_EPISODES if isinstance(vecenv.driver_env, OceanEnv) else PYTHON_EPISODES
    return int(setting)


def repeatable(vecenv: Vector) -> Vector | PufferEnv | None:
    """The part of a vector from which `evaluate` can make more environments like it; None where there is none."""
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
) -> dict[str, Score]:
    """Plays in new environments like those of a training, with sampled actions as in training.

    Args:
        policy: that is trained; it and torch's random numbers stay unchanged.
        vecenv: of the training, which is not stepped.
        episodes: at least; all environments, and all agents in them, play equally many, give or take one.
        seed: of the environments and of the actions.
        max_steps: steps per episode, on average over those of an environment, after which the play ends.
        is_wanted: asked after every step; once it says False the play ends without scores.

    Returns:
        Scores by the names of the metrics in logs: `environment/<name>` for reports of environments,
        `episode/return_mean` and `episode/length_mean`; over the episodes that ended. Empty where none ended, or where
        no such environments can be made.
    """
    env = repeatable(vecenv)
    if env is None:
        return {}
    with ExitStack() as undo:
        games = math.ceil(episodes / getattr(vecenv.driver_env, "agents_per_env", 1))
        played = vector_to_play(env, games, seed, undo)
        count = played.num_envs * getattr(played.driver_env, "num_envs", 1)
        games = min(games, math.ceil(episodes * count / played.num_agents))  # an episode of every agent in each
        quotas = split_evenly(games, count).repeat(played.num_agents // count)
        player = player_of(policy, played, seed, undo)
        return play_to_the_end(player, quotas, max_steps, seed, is_wanted).by_metric()
