"""The memory of one rollout: observations, actions, rewards and more, one segment per row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch import Tensor

from pufferlib import spaces
from pufferlib.distributed import Ranks
from pufferlib.metrics.measures import EPSILON, Moments


class RewardNormalizer:
    """Divides rewards by the running deviation of their discounted sum, and clips them.

    The deviation is that of the discounted sum of an episode's rewards so far, taken at every step (Engstrom et al.
    2020, "Implementation Matters in Deep Policy Gradients"). The mean stays: shifting rewards would change which policy
    is best.

    Attributes:
        moments: of these sums, over all processes.
        sums: `(agents,)` float64, of every agent's running episode.
    """

    def __init__(self, num_agents: int, gamma: float, clip: float, ranks: Ranks):
        self.moments = Moments()
        self.sums = np.zeros(num_agents)
        self._gamma = gamma
        self._clip = clip
        self._ranks = ranks

    def normalize(self, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> None:
        """Adds the steps of a rollout to the statistics, then scales its rewards `(T, S)` in place.

        S is a multiple of the agents, whose segments follow each other in time; `ended` is set where the episode ended
        with that reward, `masks` not for absent agents, whose steps do not count.
        """
        agents = len(self.sums)
        groups = [slice(begin, begin + agents) for begin in range(0, rewards.shape[1], agents)]
        sums = np.concatenate([self._add_up(rewards[:, each], ended[:, each])[masks[:, each]] for each in groups])
        own = Moments(len(sums), float(sums.mean()), float(sums.var())) if len(sums) else Moments()
        self.moments = self.moments.with_all(self._ranks.gather(own))
        # LaTeX: r \leftarrow r / \sqrt{\sigma^2 + \epsilon} ; r = rewards, \sigma^2 = variance, \epsilon = EPSILON
        rewards /= math.sqrt(self.moments.variance + EPSILON)
        np.clip(rewards, -self._clip, self._clip, out=rewards)

    def _add_up(self, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        # The discounted sums after each step, (T, agents).
        found = np.empty(rewards.shape)
        for step in range(len(rewards)):
            # LaTeX: G_t = \gamma G_{t-1} + r_t ; G = self.sums, \gamma = self._gamma, r = rewards
            self.sums *= self._gamma
            self.sums += rewards[step]
            found[step] = self.sums
            self.sums[ended[step]] = 0.0
        return found


class FinalValues(NamedTuple):
    """The values of true final observations, which a reset in the same step replaced: no agent acted on them.

    Environments in C and those of Gymnasium and PettingZoo return these observations in their infos.
    """

    segments: Tensor  # (count,) int64, with `columns` the places of episodes that a limit cut
    columns: Tensor  # (count,) int64, in 1..T: where the last reward and the truncation lie
    values: Tensor  # (count,) float32


@dataclass
class Rollout:
    """Preallocated tensors; S segments, T steps of horizon.

    Rewards, terminals and truncations of column t arrived together with observation t, so they belong to the action of
    column t - 1; the mask says whether the agent acts on observation t. An episode starts at an observation that
    arrived with the end of the one before, or at the first that an agent sees while an end is pending: it learned of
    the end when it left, and sees nothing of the next episode until it is back.

    Column T is the bootstrap: the value of the observation after the last action. That observation itself is not
    trained on here; the collector keeps it for the next rollout.

    A step fills a column, a minibatch reads rows. What environments return lies in memory column after column: a step
    is one copy of each, and the policy acts on a view. What training reads repeatedly lies row after row.
    """

    observations: Tensor  # (S, T, *observation_shape), the observation space's dtype; a view of `by_column`
    actions: Tensor  # (S, T, *action_shape) int32 or float32
    logprobs: Tensor  # (S, T) float32, of the actions when they were taken
    values: Tensor  # (S, T + 1) float32, refreshed by training
    rewards: Tensor  # (S, T + 1) float32, by column as the next four
    terminals: Tensor  # (S, T + 1) bool
    truncations: Tensor  # (S, T + 1) bool
    masks: Tensor  # (S, T + 1) bool, False where the agent is absent: no action is taken there
    pending: Tensor  # (S, T + 1) bool, True where the agent's episode ended, or all began, and it was absent since
    ratios: Tensor  # (S, T + 1) float32, probability now over probability then; 1 until trained on
    states: dict[str, Tensor]  # recurrent state before column 0, each (S, ...)
    action_masks: Tensor | None = None  # (S, T, choices) bool, by column; None where everything is always allowed
    finals: FinalValues | None = None  # where environments returned final observations

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
        has_action_masks: bool = False,
    ) -> Rollout:
        """Makes zeroed storage; `states` has one row per segment and gives shapes and dtypes."""
        observations = torch.zeros(
            (horizon, segments, *observation_space.shape),
            dtype=getattr(torch, observation_space.dtype.name),
            device=observation_device,
            pin_memory=device.type == "cuda" and observation_device.type == "cpu",  # so that the GPU copies by itself
        )
        shape, dtype = spaces.action_shape(action_space), getattr(torch, spaces.action_dtype(action_space).name)
        actions = torch.zeros(segments, horizon, *shape, dtype=dtype, device=device)
        # Contiguous, whatever the policy's own are, as kernels view them in other shapes.
        states = {name: torch.zeros(state.shape, dtype=state.dtype, device=device) for name, state in states.items()}
        masks = None
        if has_action_masks:
            choices = spaces.num_choices(action_space)
            masks = torch.ones(horizon, segments, choices, dtype=torch.bool, device=device).transpose(0, 1)
        return cls._around(observations.transpose(0, 1), actions, states, masks)

    @classmethod
    def _around(
        cls, observations: Tensor, actions: Tensor, states: dict[str, Tensor], action_masks: Tensor | None
    ) -> Rollout:
        segments, horizon = actions.shape[:2]
        floats = torch.zeros(segments, horizon + 1, dtype=torch.float32, device=actions.device)
        by_column = torch.zeros(horizon + 1, segments, dtype=torch.float32, device=actions.device)
        return cls(
            observations=observations,
            actions=actions,
            logprobs=floats[:, 1:].clone(),
            values=floats,
            rewards=by_column.T,
            terminals=by_column.bool().T,
            truncations=by_column.bool().T,
            masks=~by_column.bool().T,
            pending=by_column.bool().T,
            ratios=torch.ones_like(floats),
            states=states,
            action_masks=action_masks,
        )

    @property
    def segments(self) -> int:
        """The number of segments, S."""
        return self.actions.shape[0]

    @property
    def horizon(self) -> int:
        """Steps of a segment that are trained on, T: one less than the columns."""
        return self.actions.shape[1]

    @property
    def by_column(self) -> Tensor:
        """The observations as `(T, S, *observation_shape)`, contiguous."""
        return self.observations.transpose(0, 1)

    @property
    def seen(self) -> Tensor:
        """The observations that agents acted on, `(count, *observation_shape)`, without those of absent agents."""
        return self.by_column[self.masks.T[:-1].to(self.observations.device)]

    def single_steps(self) -> Rollout:
        """Every step as a segment of its own, step `t` of segment `s` in row `t * S + s`.

        The observations and the action masks are the same memory; `copy_steps_from` copies the rest after each time it
        was filled.
        """
        actions = torch.zeros_like(self.actions).flatten(0, 1).unsqueeze(1)
        observations, masks = self.seen_by_step
        return self._around(observations, actions, {}, masks)

    @property
    def seen_by_step(self) -> tuple[Tensor, Tensor | None]:
        """The observations `(T * S, 1, ...)` and the action masks, in the rows of `single_steps`; the same memory."""
        masks = None if self.action_masks is None else self.action_masks.transpose(0, 1).flatten(0, 1).unsqueeze(1)
        return self.by_column.flatten(0, 1).unsqueeze(1), masks

    def copy_steps_from(self, rollout: Rollout) -> None:
        """Copies the actions and their log-probabilities of the rollout whose `single_steps` this is."""
        self.actions[:, 0] = rollout.actions.transpose(0, 1).flatten(0, 1)
        self.logprobs[:, 0] = rollout.logprobs.T.flatten()
