"""Scores that decide something: whole episodes of a policy, counted so that their length selects none of them.

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
from typing import Any

from torch import nn

from pufferlib.metrics.score import Score
from pufferlib.ocean.environment import OceanEnv
from pufferlib.play.scores import ScoreSheet, dealt, player_of, vector_to_play

C_EPISODES, PYTHON_EPISODES = 1_000, 100  # of the final policy, unless the settings say otherwise


def final_episodes(given: int | str, vecenv: Any) -> int:
    """The episodes that the final policy plays.

    Args:
        given: `[train] final_episodes`.
        vecenv: of the training.
    """
    if given == "auto":
        return C_EPISODES if isinstance(vecenv.driver_env, OceanEnv) else PYTHON_EPISODES
    return int(given)


def repeatable(vecenv: Any) -> Any | None:
    """What `evaluate` makes environments from that are as those of a training; None where none can be made.

    Args:
        vecenv: of the training.
    """
    for env in (vecenv, vecenv.driver_env):
        if getattr(env, "made_from", None) is not None or getattr(env, "is_repeatable", False):
            return env
    return None


def play_whole_episodes(
    policy: nn.Module,
    vecenv: Any,
    episodes: int,
    seed: int,
    max_steps: int,
    is_wanted: Callable[[], bool] = lambda: True,
) -> dict[str, Score]:
    """Plays in environments as those of a training, with actions that are drawn as in training.

    Args:
        policy: that is trained; it stays as it is, and so do torch's random numbers.
        vecenv: of the training, which does not notice.
        episodes: at least; every environment, and every agent in it, plays as many as any other, give or take one.
        seed: of the environments and of the actions.
        max_steps: steps per episode, on average over those of an environment, after which it ends anyway.
        is_wanted: asked after every step; the play ends, and is worth nothing, once it says False.

    Returns:
        A score by the name that the metric has in logs: `environment/<name>` for what environments report,
        `episode/return_mean` and `episode/length_mean`; over the episodes that ended. Empty where none ended, or no
        environments can be made as those of the training.
    """
    env = repeatable(vecenv)
    if env is None:
        return {}
    sheet = ScoreSheet()
    with ExitStack() as undo:
        games = math.ceil(episodes / getattr(vecenv.driver_env, "agents_per_env", 1))
        played = vector_to_play(env, games, seed, undo)
        count = played.num_envs * getattr(played.driver_env, "num_envs", 1)
        games = min(games, math.ceil(episodes * count / played.num_agents))  # an episode of every agent in each
        player, quotas = player_of(policy, played, seed, undo), dealt(games, count).repeat(played.num_agents // count)
        for ended in player.play(quotas, max_steps * int(quotas.max()), seed):
            if not is_wanted():
                return {}
            for each in ended:
                sheet.add(each)
    return sheet.by_metric()
