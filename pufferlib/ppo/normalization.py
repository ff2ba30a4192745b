"""Running means and variances: observations that a policy can see alike, rewards that a value function can learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn
from typing_extensions import override

from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.metrics.finite import is_finite
from pufferlib.policy import Logits, acting_forward, training_forward
from pufferlib.ppo.rollout import Rollout

EPSILON = 1e-8
"""Added to variances."""

_CHUNK = 1 << 20  # numbers that are summed up in double precision at once; a rollout of images is gigabytes of them


class NormalizedObservations(nn.Module):
    """A policy that sees observations less their mean, over their deviation, clipped.

    The statistics are buffers of this module, so they are saved and loaded with the weights and stay as they are until
    `update` is called: the trainer does after each update of the policy, so that a whole rollout is seen alike when it
    is collected and when it is learned from.

    Attributes:
        policy: sees the normalised observations.
        count: observations so far.
        mean: of the observations' shape, float64.
        variance: of the observations' shape, float64.
    """

    def __init__(self, env: Any, policy: nn.Module, clip: float = 10.0):
        """Begins with mean 0 and variance 1; `normalized` makes the right class for a policy.

        Args:
            env: anything with a `single_observation_space`, a Box of numbers.
            policy: any module that pufferlib.models describes.
            clip: the limit of what it sees.

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

    def forward(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """As the policy's."""
        return self._train_forward(self.normalize(observations), {} if state is None else state)

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
        observations, masks = rollout.by_column, rollout.masks.T[:-1]
        seen = observations[masks.to(observations.device)]
        own, size = Moments(), max(1, _CHUNK // self.mean.numel())
        for begin in range(0, len(seen), size):
            part = seen[begin : begin + size].double()
            variance, mean = torch.var_mean(part, 0, correction=0)
            own = own.merged(Moments(len(part), mean, variance))
        own = Moments(own.count, own.mean.cpu(), own.variance.cpu()) if len(seen) else None
        if own is not None and not (is_finite(own.mean) and is_finite(own.variance)):
            raise DivergedError("observations must have a finite mean and variance to be normalized")
        whole = Moments(float(self.count), self.mean.cpu(), self.variance.cpu())
        for part in ranks.gather(own):
            whole = whole.merged(part)
        self.count.fill_(whole.count)
        self.mean.copy_(whole.mean)
        self.variance.copy_(whole.variance)


class NormalizedRecurrent(NormalizedObservations):
    """The same for a policy with a state."""

    @override
    def find_forms(self) -> None:
        super().find_forms()
        self._act_forward = acting_forward(self.policy)

    def initial_state(self, batch: int, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """The policy's."""
        return self.policy.initial_state(batch, device)

    def forward_eval(self, observations: Tensor, state: dict[str, Tensor]) -> tuple[Logits, Tensor]:
        """As the policy's: one step."""
        return self._act_forward(self.normalize(observations), state)


def normalized(env: Any, policy: nn.Module, clip: float) -> NormalizedObservations:
    """The policy behind running statistics, or itself where it has them already."""
    if isinstance(policy, NormalizedObservations):
        return policy
    return (NormalizedRecurrent if hasattr(policy, "initial_state") else NormalizedObservations)(env, policy, clip)


@dataclass(frozen=True)
class Moments:
    """Count, mean and variance of some numbers; mean and variance may be floats, arrays or tensors."""

    count: float = 0.0
    mean: Any = 0.0
    variance: Any = 1.0

    def merged(self, other: Moments | None) -> Moments:
        """The moments of both together (Chan et al. 1979, "Updating Formulae and a Pairwise Algorithm")."""
        if other is None or other.count == 0:
            return self
        if self.count == 0:
            return other
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.count / count)
        squares = self.variance * self.count + other.variance * other.count
        variance = (squares + delta * delta * (self.count * other.count / count)) / count
        return Moments(count, mean, variance)


class RewardNormalizer:
    """Divides rewards by the running deviation of their discounted sum, and clips them.

    Every step adds the discounted sum of the rewards of its episode so far, of which the variance is taken (Engstrom et
    al. 2020, "Implementation Matters in Deep Policy Gradients"). The mean is left where it is: shifting rewards would
    change what is worth doing.
    """

    def __init__(self, num_agents: int, gamma: float, clip: float, ranks: Ranks):
        """Begins with variance 1, and no reward yet for any agent."""
        self._gamma = gamma
        self._clip = clip
        self._ranks = ranks
        self._moments = Moments()
        self.sums = np.zeros(num_agents)  # discounted, of every agent's running episode

    def normalize(self, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> None:
        """Adds the steps of a rollout to the statistics, then scales its rewards in place.

        Args:
            rewards: `(T, S)` float32; S is a multiple of the agents, whose segments follow each other in time.
            ended: `(T, S)` bool, set where the episode ended with that reward.
            masks: `(T, S)` bool, False for absent agents, whose steps do not count.
        """
        agents = len(self.sums)
        groups = [slice(begin, begin + agents) for begin in range(0, rewards.shape[1], agents)]
        seen = [self._add_up(rewards[:, group], ended[:, group])[masks[:, group]] for group in groups]
        sums = np.concatenate(seen)
        moments = Moments(len(sums), float(sums.mean()), float(sums.var())) if len(sums) else None
        for part in self._ranks.gather(moments):
            self._moments = self._moments.merged(part)
        rewards /= math.sqrt(self._moments.variance + EPSILON)
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

    def state_dict(self) -> dict[str, Any]:
        """What all processes share: count, mean and variance."""
        return asdict(self._moments)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self._moments = Moments(**state)
