"""Playing a trained policy: episode scores with their standard error, and a window to watch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import ocean, vector
from pufferlib.loaders import load_policy, resolve_device
from pufferlib.policy_forms import acting_forward
from pufferlib.sampling import greedy_action, sample_logits

MAX_ENVIRONMENTS = 256  # played side by side; more episodes are played in turn


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

    Every environment plays the same number of episodes to the end, so long episodes count like short ones. Drawing
    plays in one environment and ends early when the window is closed.

    Args:
        env_name: such as `puffer_breakout`.
        args: settings from `load_config`.
        episodes: at least 1.
        is_greedy: take the most likely action; otherwise draw it from the policy.
        is_drawn: show a window.
        max_steps: steps in each environment after which it ends anyway: a greedy policy can go in circles for ever.

    Returns:
        A score for every statistic of the environment, such as `score` and `episode_length`, over the episodes that
        ended; empty when none did.
    """
    count = 1 if is_drawn else min(episodes, MAX_ENVIRONMENTS)
    # One C environment per PufferEnv that reports every step: so each report is one episode of a known environment.
    env_kwargs = {**args["env"], "num_envs": 1, "report_interval": 1}
    vecenv = vector.make(
        ocean.env_class(env_name), env_kwargs=env_kwargs, backend="Serial", num_envs=count, seed=args["train"]["seed"]
    )
    try:
        policy = load_policy(args, vecenv, env_name).eval()
        quotas = [episodes // count + (index < episodes % count) for index in range(count)]
        return _summary(_play(vecenv, policy, quotas, args, is_greedy, is_drawn, max_steps))
    finally:
        vecenv.close()


@torch.no_grad()
def _play(
    vecenv: Any,
    policy: nn.Module,
    quotas: list[int],
    args: dict[str, Any],
    is_greedy: bool,
    is_drawn: bool,
    max_steps: int,
) -> Iterator[dict[str, float]]:
    """Yields the statistics of each finished episode until every environment has played its quota or its steps."""
    device = resolve_device(args["train"]["device"])
    generator = torch.Generator(device).manual_seed(args["train"]["seed"])
    state = policy.initial_state(vecenv.num_agents, device) if hasattr(policy, "initial_state") else {}
    forward = acting_forward(policy)
    remaining = np.array(quotas)
    rows_per_env = vecenv.num_agents // len(quotas)
    observations, _ = vecenv.reset()
    for _ in range(max_steps):
        if not remaining.any() or (is_drawn and not _draw(vecenv)):
            return
        logits, _ = forward(torch.from_numpy(observations).to(device), state)
        actions = greedy_action(logits) if is_greedy else sample_logits(logits, generator=generator)[0]
        observations, _, terminals, truncations, infos = vecenv.step(actions.cpu().numpy())
        ended = terminals | truncations
        if not ended.any():
            continue
        goes_on = torch.from_numpy(~ended).to(device)
        state = {name: value * goes_on.view(-1, *[1] * (value.dim() - 1)) for name, value in state.items()}
        finished = [env for env in range(len(quotas)) if ended[env * rows_per_env : (env + 1) * rows_per_env].any()]
        for env, info in zip(finished, infos, strict=True):
            if remaining[env]:
                remaining[env] -= 1
                yield info


def _draw(vecenv: Any) -> bool:
    """Draws a frame; False when the person closed the window."""
    from pufferlib.ocean import rendering

    vecenv.driver_env.render()
    return not rendering.is_closing()


def _summary(episodes: Iterator[dict[str, float]]) -> dict[str, Score]:
    values: dict[str, list[float]] = {}
    for info in episodes:
        for name, value in info.items():
            if name != "n":
                values.setdefault(name, []).append(value)
    return {name: _score(numbers) for name, numbers in values.items()}


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
    from pufferlib.ocean import rendering

    is_drawn = not headless and rendering.has_display()
    scores = evaluate(env_name, args, episodes, is_greedy=not sample, is_drawn=is_drawn, max_steps=max_steps)
    for name, score in scores.items():
        print(f"{name:<16} {score}")
    ended = max((score.episodes for score in scores.values()), default=0)
    if ended < episodes:
        print(f"{episodes - ended} of {episodes} episodes did not end")
