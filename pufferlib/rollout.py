"""The memory of one rollout: what the agents saw, did and got, one segment per row."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import torch
from torch import Tensor

from pufferlib import spaces


@dataclass
class Rollout:
    """Preallocated tensors; S segments, T steps of horizon.

    Rewards, terminals, truncations and masks of column t arrived together with observation t, so they speak of the
    action of column t - 1. Column T is the bootstrap: the value of the observation after the last action. That
    observation itself is not trained on here; the collector keeps it for the next rollout.
    """

    observations: Tensor  # (S, T, *observation_shape), the observation space's dtype
    actions: Tensor  # (S, T, *action_shape) int32 or float32
    logprobs: Tensor  # (S, T) float32, of the actions when they were taken
    values: Tensor  # (S, T + 1) float32, refreshed by training
    rewards: Tensor  # (S, T + 1) float32
    terminals: Tensor  # (S, T + 1) float32, 0 or 1
    truncations: Tensor  # (S, T + 1) float32, 0 or 1
    masks: Tensor  # (S, T + 1) float32, 0 where the agent was absent
    ratios: Tensor  # (S, T + 1) float32, probability now over probability then; 1 until trained on
    states: dict[str, Tensor]  # recurrent state before column 0, each (S, ...)

    @classmethod
    def allocate(
        cls,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        segments: int,
        horizon: int,
        states: dict[str, Tensor],
        device: torch.device,
        observation_device: torch.device,
    ) -> Rollout:
        """Makes zeroed storage; `states` has one row per segment and shows shapes and dtypes."""
        columns = horizon + 1

        def floats(width: int) -> Tensor:
            return torch.zeros(segments, width, device=device)

        return cls(
            observations=torch.zeros(
                segments,
                horizon,
                *observation_space.shape,
                dtype=getattr(torch, observation_space.dtype.name),
                device=observation_device,
            ),
            actions=torch.zeros(
                segments,
                horizon,
                *action_space.shape,
                dtype=getattr(torch, spaces.action_dtype(action_space).name),
                device=device,
            ),
            logprobs=floats(horizon),
            values=floats(columns),
            rewards=floats(columns),
            terminals=floats(columns),
            truncations=floats(columns),
            masks=torch.ones(segments, columns, device=device),
            ratios=torch.ones(segments, columns, device=device),
            states={name: torch.zeros_like(state, device=device) for name, state in states.items()},
        )

    @property
    def segments(self) -> int:
        """Rows."""
        return self.actions.shape[0]

    @property
    def horizon(self) -> int:
        """Steps of a segment that are trained on, one less than the columns."""
        return self.actions.shape[1]

    def episode_ends(self) -> Tensor:
        """`(S, T + 1)` float32: 1 where the observation is the first of an episode."""
        return torch.maximum(self.terminals, self.truncations)
