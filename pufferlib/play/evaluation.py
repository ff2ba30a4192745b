"""Playing the policy of a run: its scores, and a window to watch."""

from __future__ import annotations

from typing import Any

import torch

from pufferlib.families import catalog
from pufferlib.fast.shards import one_thread
from pufferlib.ocean import rendering
from pufferlib.play.player import Player
from pufferlib.play.scores import Score, ScoreSheet, dealt, make_environments, most_environments
from pufferlib.play.viewer import make_viewer
from pufferlib.runs.loaders import load_policy, resolve_device


def evaluate(
    env_name: str,
    args: dict[str, Any],
    episodes: int = 100,
    is_greedy: bool = True,
    is_drawn: bool = False,
    max_steps: int = 20_000,
) -> dict[str, Score]:
    """Plays a number of episodes with the policy that `args['load_model_path']` names.

    Every environment plays the same number of episodes to the end, so long episodes count like short ones. Where
    several agents share an environment, each of them adds a return and a length for every episode. Drawing plays in one
    environment and ends early when the window is closed.

    Args:
        env_name: any name that `pufferlib.families.catalog.find` knows.
        args: settings from `load_config`.
        episodes: at least 1.
        is_greedy: take the most likely action; otherwise draw it from the policy.
        is_drawn: show a window.
        max_steps: steps per episode, on average over the episodes of an environment, after which it ends anyway: a
            greedy policy can go in circles for ever.

    Returns:
        A score for `episode_return` and `episode_length`, and for every statistic that the environment reports, over
        the episodes that ended; empty when none did.
    """
    scores, _ = _evaluate(env_name, args, episodes, is_greedy, is_drawn, max_steps)
    return scores


def _evaluate(
    env_name: str, args: dict[str, Any], episodes: int, is_greedy: bool, is_drawn: bool, max_steps: int
) -> tuple[dict[str, Score], int]:
    """Plays for `evaluate`, whose result comes first; the second is how many of the episodes did not end."""
    entry = catalog.find(env_name)
    viewer = make_viewer(entry) if is_drawn else None
    count = 1 if is_drawn else min(episodes, most_environments(entry))
    quotas = dealt(episodes, count)
    extra = {} if viewer is None else viewer.env_kwargs
    vecenv = make_environments(entry, {**args["env"], **extra}, count, args["train"]["seed"])
    try:
        policy = load_policy(args, vecenv, env_name).eval()
        device = resolve_device(args["train"]["device"])
        generator = None if is_greedy else torch.Generator(device).manual_seed(args["train"]["seed"])
        player = Player(vecenv, policy, device, generator)
        sheet = ScoreSheet()
        with one_thread():  # a barrier for each of so small operations waits long where other programs run
            for ended in player.play(quotas.repeat(vecenv.agents_per_env), max_steps * int(quotas.max())):
                for episodes_of_env in ended:
                    sheet.add(episodes_of_env)
                if viewer is not None and not viewer.show(vecenv.driver_env):
                    break
        return sheet.scores(), int(player.remaining.reshape(count, -1).max(1).sum())
    finally:
        vecenv.close()


def evaluate_command(
    env_name: str,
    args: dict[str, Any],
    episodes: int = 100,
    sample: bool = False,
    headless: bool = False,
    max_steps: int = 20_000,
) -> None:
    """`puffer eval`: plays and prints the scores; a window is shown where there is a display to show it on."""
    is_drawn = not headless and rendering.has_display()
    scores, unfinished = _evaluate(env_name, args, episodes, not sample, is_drawn, max_steps)
    for name, score in scores.items():
        print(f"{name:<16} {score}")
    if unfinished:
        print(f"{unfinished} of {episodes} episodes did not end")
