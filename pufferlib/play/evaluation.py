"""Playing a trained policy: episode scores with their standard error, and a window to watch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pufferlib import vector
from pufferlib.families import catalog
from pufferlib.families.catalog import Entry
from pufferlib.fast.shards import one_thread
from pufferlib.metrics.finished_episodes import is_number
from pufferlib.ocean import rendering
from pufferlib.play.player import Episodes, Player
from pufferlib.play.viewer import make_viewer
from pufferlib.runs.loaders import load_policy, resolve_device

MAX_ENVIRONMENTS = 256  # played side by side; more episodes are played in turn
MAX_PYTHON_ENVIRONMENTS = 32  # of those that are not C: each may be slow to make and large


@dataclass(frozen=True)
class Score:
    """The mean of one statistic over episodes."""

    mean: float
    standard_error: float  # of the mean; NaN for a single episode
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} +- {self.standard_error:.3f} (n = {self.episodes})"


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
    most = MAX_ENVIRONMENTS if "num_envs" in entry.settings else MAX_PYTHON_ENVIRONMENTS
    count = 1 if is_drawn else min(episodes, most)
    quotas = np.array([episodes // count + (index < episodes % count) for index in range(count)])
    vecenv = _make_environments(entry, args, count, {} if viewer is None else viewer.env_kwargs)
    try:
        policy = load_policy(args, vecenv, env_name).eval()
        device = resolve_device(args["train"]["device"])
        generator = None if is_greedy else torch.Generator(device).manual_seed(args["train"]["seed"])
        player = Player(vecenv, policy, device, generator)
        values: dict[str, list[float]] = {}
        with one_thread():  # a barrier for each of so small operations waits long where other programs run
            for ended in player.play(quotas.repeat(vecenv.agents_per_env), max_steps * int(quotas.max())):
                for episodes_of_env in ended:
                    _add(values, episodes_of_env)
                if viewer is not None and not viewer.show(vecenv.driver_env):
                    break
        return _scores(values), int(player.remaining.reshape(count, -1).max(1).sum())
    finally:
        vecenv.close()


def _make_environments(entry: Entry, args: dict[str, Any], count: int, extra: Mapping[str, Any]) -> vector.Vector:
    """Makes `count` environments, each a batch of its own, so that its infos come apart from those of others."""
    env_kwargs = {**args["env"], **extra}
    single = {"num_envs": 1, "report_interval": 1}  # of many behind one PufferEnv, that one; reporting every episode
    env_kwargs |= {name: value for name, value in single.items() if name in entry.settings}
    seed = args["train"]["seed"]
    return vector.make(entry.creator, env_kwargs=env_kwargs, backend="Serial", num_envs=count, batch_size=1, seed=seed)


def _add(values: dict[str, list[float]], episodes: Episodes) -> None:
    """Adds episodes to the numbers of every statistic; those that the environment reports are `reported/<name>`."""
    values.setdefault("episode_return", []).extend(episodes.returns.tolist())
    values.setdefault("episode_length", []).extend(episodes.lengths.tolist())
    for report in episodes.reports:
        for name, value in report.items():
            if name != "n" and is_number(value):
                values.setdefault(f"reported/{name}", []).append(float(value))


def _scores(values: Mapping[str, list[float]]) -> dict[str, Score]:
    """The scores; what the environment itself reports of a statistic replaces what was counted of it."""
    reported = {name.removeprefix("reported/") for name in values if name.startswith("reported/")}
    return {name.removeprefix("reported/"): _score(numbers) for name, numbers in values.items() if name not in reported}


def _score(numbers: list[float]) -> Score:
    error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
    return Score(statistics.fmean(numbers), error, len(numbers))


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
