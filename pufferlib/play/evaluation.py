"""Playing the policy of a run, by the settings that it was trained with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from pufferlib.families import catalog
from pufferlib.fast.shards import one_thread
from pufferlib.metrics.score import Score
from pufferlib.play.player import Player
from pufferlib.play.scores import (
    deal_games,
    environments_needed,
    make_environments,
    scored,
)
from pufferlib.runs.loaders import load_policy, resolve_device


def evaluate(
    env_name: str, args: dict[str, Any], episodes: int = 100, is_greedy: bool = True, max_steps: int = 20_000
) -> dict[str, Score]:
    """Plays a number of episodes with the policy that `args['load_model_path']` names.

    Every environment plays the same number of episodes to the end, so long episodes count like short ones. Where
    several agents share an environment, each of them adds a return and a length for every episode; of the snakes
    of puffer_snake, which begin and end apart, every one's episode is one of `episodes`.

    Args:
        env_name: any name that `pufferlib.families.catalog.find` knows.
        args: settings from `load_config`; the environments and the actions have the seed of `[train]`.
        episodes: at least 1.
        is_greedy: take the most likely action; otherwise draw it from the policy.
        max_steps: steps per episode, on average over the episodes of an environment, after which it ends anyway: a
            greedy policy can go in circles for ever.

    Returns:
        A score for `episode_return` and `episode_length`, and for every statistic that the environment reports, over
        the episodes that ended; empty when none did.
    """
    with prepared(env_name, args, episodes, is_greedy, args["train"]["seed"]) as make_player:
        player = make_player()
        quotas = deal_games(episodes, player.vecenv)
        return scored(player, quotas, max_steps * int(quotas.max())).scores()


@contextlib.contextmanager
def prepared(
    env_name: str,
    args: dict[str, Any],
    episodes: int,
    is_greedy: bool,
    seed: int,
    shown_with: Mapping[str, Any] | None = None,
) -> Iterator[Callable[[], Player]]:
    """Makes as many environments as play some episodes, and the policy of `args`; closes the environments in the end.

    Args:
        env_name: as for `evaluate`, like what follows.
        args: settings.
        episodes: that are to be played.
        is_greedy: how actions are chosen.
        seed: of the environments and of the actions.
        shown_with: keyword arguments of environments that are to be shown, beside those of `args`; each of them then
            is a batch, which may play or wait. None where nobody looks.

    Yields:
        What makes players that all play the same.
    """
    entry = catalog.find(env_name)
    env_kwargs = {**args["env"], **(shown_with or {})}
    count = environments_needed(entry, env_kwargs, episodes)
    vecenv = make_environments(entry, env_kwargs, count, seed, are_apart=shown_with is not None)
    try:
        policy = load_policy(args, vecenv, env_name).eval()
        device = resolve_device(args["train"]["device"])

        def make_player() -> Player:
            return Player(vecenv, policy, device, None if is_greedy else torch.Generator(device).manual_seed(seed))

        with one_thread():  # a barrier for each of so small operations waits long where other programs run
            yield make_player
    finally:
        vecenv.close()
