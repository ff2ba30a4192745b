"""Notes on what may keep a policy from learning, before a training and of its first rollout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from pufferlib import ocean, vector
from pufferlib.config import ResolvedTrainConfig
from pufferlib.dashboard.output import say
from pufferlib.emulation.tensors import leaf_view
from pufferlib.environment import PufferEnv
from pufferlib.ppo.rollout import Rollout
from pufferlib.runs.making import is_vector, ready_env
from pufferlib.setting import shown
from pufferlib.vector import Vector

LARGE = 100.0  # of a reward or an observation, where a network expects about 1
FAR_SHARE = 0.5  # of the numbers in actions that lie outside of the action space
FEW_UPDATES = 100  # steps of the optimizer
FEW_PRESENT = 0.1  # of the agent steps in a batch
LONG_EPISODE = 30.0  # times 1 / (1 - gamma), the steps over which a reward counts
SLOW_SECONDS = 1e-3  # in the environment for a step of one agent, as they pass on the clock


def _notes_on_environment(
    observations: Tensor, rewards: Tensor, config: ResolvedTrainConfig | None = None
) -> Iterator[str]:
    # Of some steps; with the setting that helps, if there is a training.
    largest = _largest(rewards[rewards != 0])  # of those that come once in an episode, too
    is_scaled = config is not None and config.normalize_rewards
    if largest > LARGE and not is_scaled:
        is_clipped = config is not None and config.reward_clip > 0
        found = f", and are clipped to {config.reward_clip:g}" if is_clipped else ""
        remedy = "reward_clip=0 and normalize_rewards=True scale" if is_clipped else "normalize_rewards=True scales"
        yield f"rewards are as large as {largest:,.0f}{found}, where 1 is what trains well; {remedy} them"
    largest = _largest(observations) if observations.is_floating_point() else 0.0
    if largest > LARGE and not (config is not None and config.normalize_observations):
        yield (
            f"observations are as large as {largest:,.0f}, where 1 is what trains well; normalize_observations=True "
            "scales them"
        )


def _notes_on_episodes(length: float, gamma: float = 0.99) -> Iterator[str]:
    horizon = 1.0 / max(1.0 - gamma, 1e-6)
    if length > LONG_EPISODE * horizon:
        yield (
            f"episodes last {length:,.0f} steps, and gamma {gamma:g} sees {horizon:,.0f} steps ahead; "
            "a larger gamma sees further"
        )


class EarlyNotes:
    """Prints what may keep a policy from learning, each note once."""

    def __init__(self, config: ResolvedTrainConfig, env_name: str):
        self._config = config
        self._is_tuned = env_name.startswith(ocean.PREFIX)  # rewards, observations and episodes suit the settings
        self._is_length_awaited, self._is_rollout_awaited = not self._is_tuned, True

    def on_length(self, epochs: int) -> None:
        """Prints what is wrong with the number of epochs."""
        steps, updates = epochs * self._config.batch_size, round(epochs * self._config.minibatches_per_epoch)
        if updates < FEW_UPDATES:
            remedy = "train for longer, or set a smaller batch_size or minibatch_size"
            _say([f"{steps:,} steps are {updates} optimizer steps, where a policy needs hundreds; {remedy}"])

    def on_rollout(
        self, rollout: Rollout, vecenv: Vector, episodes: Mapping[str, float], seconds: float, share: float
    ) -> None:
        """Prints what is unusual about the first rollout, a share of whose time the environment took, and episodes."""
        if self._is_rollout_awaited:
            self._is_rollout_awaited = False
            _say(self._notes_on_rollout(rollout, vecenv, episodes, seconds, share))
        if self._is_length_awaited and "episode/length_mean" in episodes:
            self._is_length_awaited = False
            _say(_notes_on_episodes(episodes["episode/length_mean"], self._config.gamma))

    def _notes_on_rollout(
        self, rollout: Rollout, vecenv: Vector, episodes: Mapping[str, float], seconds: float, share: float
    ) -> Iterator[str]:
        if not self._is_tuned:
            rewards = rollout.rewards.T[1:]
            if self._config.reward_clip > 0:  # what the environment gave is known of episodes alone
                length = max(episodes.get("episode/length_mean", 0.0), 1.0)
                rewards = torch.tensor(episodes.get("episode/return_mean", 0.0) / length)
            yield from _notes_on_environment(rollout.by_column, rewards, self._config)
        space = vecenv.single_action_space
        if isinstance(space, Box):
            low, high = (torch.from_numpy(bound).to(rollout.actions) for bound in (space.low, space.high))
            outside = float(((rollout.actions < low) | (rollout.actions > high)).float().mean())
            if outside > FAR_SHARE:
                yield (
                    f"{outside:.0%} of the numbers in the policy's actions lie outside of the action space, and "
                    "environments clip them; scale the action space to about -1 to 1"
                )
        present, steps = float(rollout.masks[:, :-1].float().mean()), rollout.logprobs.numel()
        if present < FEW_PRESENT:
            yield (
                f"agents are there in {present:.1%} of the {steps:,} steps of a rollout, and only these are learned "
                "from; a larger batch_size has more of them"
            )
        if share * seconds > SLOW_SECONDS * steps and vecenv.num_workers < vecenv.num_envs:
            yield (
                f"a step of one agent takes {1e3 * seconds / steps:.1f} ms, {share:.0%} of it in the environment; "
                f"where that waits rather than computes, num_workers={vecenv.num_envs} has all wait at once"
            )


def _say(notes: Iterable[str]) -> None:
    for note in notes:
        say(f"note: {note}")


def observation_far_outside(rollout: Rollout, vecenv: PufferEnv | Vector) -> str | None:
    """Names a number of a rollout's observations that lies farther outside its Box than that is wide, or returns None.

    The rollout is that of all agents of this process; the vector, or single PufferEnv, has their space.
    """
    layout, rows, masks = vecenv.emulated, rollout.by_column, rollout.masks.T
    parts = [("observation", vecenv.single_observation_space, rows)]
    if layout is not None:
        parts = [(leaf.name, leaf.space, leaf_view(rows, leaf, layout)) for leaf in layout.leaves]
    for name, space, values in parts:
        if not isinstance(space, Box) or (space.dtype == np.uint8 and (space.high - space.low >= 128).all()):
            continue  # no uint8 is far from such a Box
        dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
        low, high = (torch.as_tensor(bound).to(values.device, dtype) for bound in _far_bounds(space))
        for column in range(rollout.horizon):  # one step at a time, as images are large
            seen = values[column][masks[column].to(values.device)]  # zeros stand for what an absent agent sees
            far = seen[(seen < low) | (seen > high)]
            if len(far):
                return (
                    f"{name} is {far[0].item():g} in the first rollout, far outside its space {shown(space)}; declare "
                    "the bounds that it keeps, or scale it into these"
                )
    return None


def _far_bounds(space: Box) -> tuple[np.ndarray, np.ndarray]:
    # A whole width of the Box away, or as far as the bound is from 0 where it has no width; at least 1 then.
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    margins = (np.where(np.isfinite(high - low), high - low, np.maximum(1.0, np.abs(bound))) for bound in (low, high))
    return low - next(margins), high + next(margins)


def check_env(env: object, steps: int = 1_000, seed: int = 0) -> list[str]:
    """Plays an environment by random actions, and says what would keep a policy from learning in it.

    Args:
        env: what `PuffeRL` takes: a PufferEnv, an environment of Gymnasium or PettingZoo, a name, or a class or
            function that makes one. One that is given ready is reset, and stays open.
        steps: of every agent.
        seed: of the environment and the actions.

    Returns:
        A sentence for each finding, with what helps; empty where nothing is wrong.

    Raises:
        APIUsageError: if it is no environment, or cannot be stepped as one.
    """
    with ready_env(env) as ready:
        if not is_vector(ready):
            vector.check_env(ready)
        return list(_findings(ready, steps, seed))


def _findings(env: PufferEnv | Vector, steps: int, seed: int) -> Iterator[str]:
    observations, _ = env.reset(seed)
    space, action_space = env.single_observation_space, env.action_space
    action_space.seed(seed)
    seen, rewards, ends, lengths = [observations.copy()], [], [], np.zeros(env.num_agents)
    complete: list[float] = []
    for _ in range(steps):
        observations, reward, terminals, truncations, _ = env.step(action_space.sample())
        seen.append(observations.copy())
        rewards.append(reward.copy())
        ends.append(terminals | truncations)
        lengths += 1
        complete.extend(lengths[ends[-1]])
        lengths[ends[-1]] = 0
    stacked, gained = np.stack(seen), np.stack(rewards)
    if not np.isfinite(gained).all() or (stacked.dtype.kind == "f" and not np.isfinite(stacked).all()):
        yield "an observation or a reward is infinite or NaN, which ends a training; look at what step() returns"
        return
    if isinstance(space, Box) and ((stacked < space.low) | (stacked > space.high)).any():
        yield (
            f"observations from {stacked.min():g} to {stacked.max():g} leave the bounds of {space}; "
            "declare the bounds that they keep"
        )
    if not complete:
        yield f"no episode ended in {steps:,} steps; set terminals or truncations where they end, or look at more steps"
    if not gained.any():
        yield f"every reward of {steps:,} random steps was 0; a policy that explores finds nothing to learn from"
    elif len(np.unique(gained)) == 1 and len(np.unique(complete)) <= 1:
        yield "every reward and every episode's length is the same, whatever the actions are"
    length = float(np.mean(complete)) if complete else float(lengths.mean())
    yield from _notes_on_environment(torch.from_numpy(stacked), torch.from_numpy(gained))
    yield from _notes_on_episodes(length)


def _largest(numbers: Tensor) -> float:
    # The absolute value that one number in a hundred exceeds, so that a rare one does not count.
    flat = numbers.flatten()[:: max(1, numbers.numel() // 100_000)].abs().float()
    flat = flat[flat.isfinite()]
    return float(flat.quantile(0.99)) if len(flat) else 0.0
