"""Plays the policy of a run by the settings that it was trained with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from pufferlib.families import catalog
from pufferlib.fast.shards import one_thread
from pufferlib.metrics.score import Score
from pufferlib.play.player import Player
from pufferlib.play.scores import environments_needed, episodes_per_agent, make_environments, play_to_the_end
from pufferlib.runs.loaders import load_policy, resolve_device


def evaluate_model(
    env_name: str, args: dict[str, Any], episodes: int = 100, is_greedy: bool = True, max_steps: int = 20_000
) -> dict[str, Score]:
    """Plays a number of episodes with the policy that `args['load_model_path']` names, as `pufferlib.evaluate` does.

    Args:
        env_name: any name that `pufferlib.families.catalog.find` knows.
        args: settings from `load_config`; the environments and the actions have the seed of `[train]`.
        episodes: at least 1.
        is_greedy: take the most likely action; otherwise draw it from the policy.
        max_steps: steps per episode, as for `pufferlib.evaluate`.
    """
    with prepare_players(env_name, args, episodes, is_greedy, args["train"]["seed"]) as make_player:
        player = make_player()
        return play_to_the_end(player, episodes_per_agent(episodes, player.vecenv), max_steps).scores()


@contextlib.contextmanager
def prepare_players(
    env_name: str,
    args: dict[str, Any],
    episodes: int,
    is_greedy: bool,
    seed: int,
    shown_with: Mapping[str, Any] | None = None,
) -> Iterator[Callable[[], Player]]:
    """Makes environments for some episodes, and the policy of `args`; closes the environments in the end.

    Args:
        env_name: as for `evaluate_model`, like the next three.
        args: settings.
        episodes: to play.
        is_greedy: how actions are chosen.
        seed: of the environments and of the actions.
        shown_with: further keyword arguments of environments that are shown; each of them is then a batch, which may
            play or wait. None where they are not shown.

    Yields:
        A function that makes players; all of them play the same.
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

        with one_thread():  # the barriers of such small operations wait long where other programs run
            yield make_player
    finally:
        vecenv.close()
