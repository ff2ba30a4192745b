"""Running means and variances: observations that a policy can see alike, rewards that a value function can learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.metrics.finite import is_finite
from pufferlib.metrics.moments import Moments
from pufferlib.policy import Logits, acting_forward, training_forward
from pufferlib.ppo.rollout import Rollout

EPSILON = 1e-8
"""Added to variances."""


class NormalizedObservations(nn.Module):
    """A policy, with a state or without, that sees observations less their mean, over their deviation, clipped.

    The statistics are buffers, so they are saved and loaded with the weights, and stay as they are until `update` is
    called: the trainer does after each update of the policy, so that a rollout is learned from as it was seen.

    Attributes:
        policy: sees the normalised observations.
        clip: their largest absolute value.
        count: observations so far.
        mean, variance: of the observations' shape, float64.
    """

    def __init__(self, env: Any, policy: nn.Module, clip: float = 10.0):
        """Begins with mean 0 and variance 1, of the shape of `env.single_observation_space`.

        Raises:
            APIUsageError: if the observations are no numbers.
        """
        super().__init__()
        space = env.single_observation_space
        if not isinstance(space, Box) or getattr(env, "emulated", None) is not None:
            raise APIUsageError(
                f"normalize_observations needs observations that are one Box of numbers, got {space}; switch it off"
            )
        self.policy = policy
        self.clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(space.shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(space.shape, dtype=torch.float64))
        self.find_forms()

    def find_forms(self) -> None:
        """Looks how `policy` is to be called; after it was replaced by another, look again."""
        self._train_forward = training_forward(self.policy, self.policy)
        self._act_forward = acting_forward(self.policy) if hasattr(self.policy, "initial_state") else None

    @property
    def initial_state(self) -> Callable[..., dict[str, Tensor]]:
        """The policy's, where it has one."""
        return self.policy.initial_state

    def forward(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and has the policy return its logits and values as in training."""
        return self._train_forward(self.normalize(observations), {} if state is None else state)

    def forward_eval(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and has the policy act: one step."""
        act = self._train_forward if self._act_forward is None else self._act_forward
        return act(self.normalize(observations), {} if state is None else state)

    def normalize(self, observations: Tensor) -> Tensor:
        """Observations `(..., *observation_shape)` of any dtype -> what the policy sees, float32."""
        scale = (self.variance + EPSILON).rsqrt().float()
        return ((observations - self.mean.float()).float() * scale).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, rollout: Rollout, ranks: Ranks) -> None:
        """Adds the observations of a rollout, but for those of absent agents, and those of all other processes.

        Raises:
            DivergedError: if they are not finite, or too large to have a variance; then nothing was added.
        """
        seen = Moments.of_rows(rollout.by_column[rollout.masks.T[:-1].to(rollout.observations.device)])
        if seen.count and not is_finite(seen.variance):  # nor is it where the mean is not
            raise DivergedError("observations must have a finite mean and variance to be normalized")
        whole = Moments(float(self.count), self.mean.cpu(), self.variance.cpu()).with_all(ranks.gather(seen))
        self.count.fill_(whole.count)
        self.mean.copy_(whole.mean)
        self.variance.copy_(whole.variance)


def normalized(env: Any, policy: nn.Module, clip: float) -> NormalizedObservations:
    """The policy behind running statistics, or itself where it has them already."""
    return policy if isinstance(policy, NormalizedObservations) else NormalizedObservations(env, policy, clip)


class RewardNormalizer:
    """Divides rewards by the running deviation of their discounted sum, and clips them.

    Every step adds the discounted sum of the rewards of its episode so far, of which the variance is taken (Engstrom et
    al. 2020, "Implementation Matters in Deep Policy Gradients"). The mean is left where it is: shifting rewards would
    change what is worth doing.

    Attributes:
        moments: of these sums, over all processes.
        sums: `(agents,)` float64, of every agent's running episode.
    """

    def __init__(self, num_agents: int, gamma: float, clip: float, ranks: Ranks):
        """Begins with variance 1, and no reward yet for any agent."""
        self.moments = Moments()
        self.sums = np.zeros(num_agents)
        self._gamma = gamma
        self._clip = clip
        self._ranks = ranks

    def normalize(self, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> None:
        """Adds the steps of a rollout to the statistics, then scales its rewards in place.

        Args:
            rewards: `(T, S)` float32; S is a multiple of the agents, whose segments follow each other in time.
            ended: `(T, S)` bool, set where the episode ended with that reward.
            masks: `(T, S)` bool, False for absent agents, whose steps do not count.
        """
        agents = len(self.sums)
        groups = [slice(begin, begin + agents) for begin in range(0, rewards.shape[1], agents)]
        sums = np.concatenate([self._add_up(rewards[:, each], ended[:, each])[masks[:, each]] for each in groups])
        own = Moments(len(sums), float(sums.mean()), float(sums.var())) if len(sums) else Moments()
        self.moments = self.moments.with_all(self._ranks.gather(own))
        rewards /= math.sqrt(self.moments.variance + EPSILON)
        np.clip(rewards, -self._clip, self._clip, out=rewards)

    def _add_up(self, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """The discounted sums after each step, `(T, agents)`."""
        found = np.empty(rewards.shape)
        for step in range(len(rewards)):
            self.sums *= self._gamma
            self.sums += rewards[step]
            found[step] = self.sums
            self.sums[ended[step]] = 0.0
        return found
