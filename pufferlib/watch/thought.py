"""One step of one agent: its observation, its action distribution, its action and value, to be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from torch.distributions import Normal

from pufferlib.play.player import Decision


@dataclass(frozen=True)
class DiscreteProbs:
    """The probabilities of a discrete action, and the one that was taken."""

    probabilities: np.ndarray  # (n,)
    taken: int


@dataclass(frozen=True)
class GaussianParams:
    """Normal distributions of continuous actions, which are clipped to their range."""

    means: np.ndarray  # (k,) like the others
    deviations: np.ndarray
    taken: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class PolicyTrace:
    """One step of one agent.

    Attributes:
        observation: in the shape and dtype of its space.
        value: the critic's estimate of the return from there on.
        actions: its parts in their order.
        is_first: whether the step is the first of its episode.
    """

    observation: np.ndarray
    value: float
    actions: tuple[DiscreteProbs | GaussianParams, ...]
    is_first: bool


def trace_of(decision: Decision, row: int, space: gymnasium.Space, is_first: bool) -> PolicyTrace:
    """Returns one agent's part of a decision, copied."""
    logits = decision.logits
    parts = (logits,) if isinstance(logits, torch.Tensor | Normal) else logits
    taken = np.atleast_1d(decision.actions[row])
    actions, begin = [], 0
    for part, (low, high) in zip(parts, _bounds(space), strict=True):
        if isinstance(part, Normal):
            means, deviations = part.mean[row], part.stddev[row].expand_as(part.mean[row])
            columns = taken[begin : begin + means.numel()]
            actions.append(GaussianParams(_array(means).ravel(), _array(deviations).ravel(), columns.copy(), low, high))
            begin += means.numel()
        else:
            actions.append(DiscreteProbs(_array(part[row].float().softmax(-1)), int(taken[begin])))
            begin += 1
    value = float(decision.values.reshape(len(decision.actions), -1)[row, 0])
    return PolicyTrace(decision.observations[row].copy(), value, tuple(actions), is_first)


def _bounds(space: gymnasium.Space) -> list[tuple[np.ndarray, np.ndarray]]:
    nothing = np.zeros(0)
    if isinstance(space, Box):
        return [(space.low.ravel(), space.high.ravel())]
    if isinstance(space, Discrete):
        return [(nothing, nothing)]
    if isinstance(space, MultiDiscrete):
        return [(nothing, nothing)] * space.nvec.size
    assert isinstance(space, Tuple), space
    return [bounds for part in space.spaces for bounds in _bounds(part)]


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy().copy()
