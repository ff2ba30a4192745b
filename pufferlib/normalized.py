"""Normalises the observations of a policy by a running mean and variance."""

from __future__ import annotations

from collections.abc import Callable
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn
from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.metrics.finite import is_finite
from pufferlib.metrics.moments import EPSILON, Moments
from pufferlib.policy import EnvSpaces, Logits, acting_forward, training_forward
from pufferlib.policy import OneHot, OneHotPlanes


class NormalizedObservations(nn.Module):
    """A policy, with a state or without, whose observations are normalised by a running mean and variance, and clipped.

    The statistics are buffers, so they are saved and loaded with the weights. They change only by `update`, which the
    trainer calls after each update of the policy: so a rollout is learned from with the statistics it was collected by.

    Attributes:
        policy: gets the normalised observations.
        clip: their largest absolute value.
        count: observations so far.
        mean: of the observations' shape, float64, 0 at first.
        variance: likewise, 1 at first.

    Raises:
        APIUsageError: if the observations are no numbers, or the policy takes them for categories, which have no mean.
    """

    def __init__(self, env: EnvSpaces, policy: nn.Module, clip: float = 10.0):
        super().__init__()
        space = env.single_observation_space
        if not isinstance(space, Box) or getattr(env, "emulated", None) is not None:
            raise APIUsageError(
                f"normalize_observations needs observations that are one Box of numbers, got {space}; switch it off"
            )
        if any(isinstance(module, (OneHot, OneHotPlanes)) for module in policy.modules()):
            raise APIUsageError(
                "normalize_observations needs a policy that sees numbers, got one with one_hot, which sees categories; "
                "switch one of the two off"
            )
        self.policy = policy
        self.clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(space.shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(space.shape, dtype=torch.float64))
        self.find_forms()

    def find_forms(self) -> None:
        """Finds out how to call `policy`; call it again after `policy` was replaced."""
        # A tuple, because a module that is an attribute would be saved a second time.
        self._forms = training_forward(self.policy, self.policy), acting_forward(self.policy)

    @property
    def initial_state(self) -> Callable[..., dict[str, Tensor]]:
        """The policy's, where it has one."""
        return self.policy.initial_state

    def forward(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and calls the policy as in training."""
        return self._forms[0](self.normalize(observations), {} if state is None else state)

    def forward_eval(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and calls the policy for one step."""
        return self._forms[1](self.normalize(observations), {} if state is None else state)

    def normalize(self, observations: Tensor) -> Tensor:
        """Observations `(..., *observation_shape)` of any dtype -> normalised float32."""
        # LaTeX: s = \frac{1}{\sqrt{\sigma^2 + \epsilon}} ; s = scale, \sigma^2 = self.variance, \epsilon = EPSILON
        scale = (self.variance + EPSILON).rsqrt().float()
        # LaTeX: \max(-c, \min(c,\ s\,(o - \mu))) ; o = observations, \mu = self.mean, c = self.clip
        return ((observations - self.mean.float()).float() * scale).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, observations: Tensor, ranks: Ranks) -> None:
        """Adds observations `(count, *observation_shape)`, and those of all other processes.

        Raises:
            DivergedError: if they are not finite, or too large to have a variance; then nothing was added.
        """
        seen = Moments.of_rows(observations)
        if seen.count and not is_finite(seen.variance):  # nor is it where the mean is not
            raise DivergedError("observations must have a finite mean and variance to be normalized")
        whole = Moments(float(self.count), self.mean.cpu(), self.variance.cpu()).with_all(ranks.gather(seen))
        self.count.fill_(whole.count)
        self.mean.copy_(whole.mean)
        self.variance.copy_(whole.variance)


def normalized(env: EnvSpaces, policy: nn.Module, clip: float) -> NormalizedObservations:
    """Wraps a policy in NormalizedObservations, unless it is one."""
    return policy if isinstance(policy, NormalizedObservations) else NormalizedObservations(env, policy, clip)
