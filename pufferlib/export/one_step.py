"""One step of a policy as a function of tensors alone, which other programs can run."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, ExportError
from pufferlib.metrics.finite import find_weight, is_finite
from pufferlib.policy import Logits, NormalizedObservations, acting_forward, initial_state
from pufferlib.ppo.sampling import mask_logits
from pufferlib.runs.checks import check_acting
from pufferlib.spaces import num_choices

_CPU = torch.device("cpu")


class OneStep(nn.Module):
    """Maps observations and recurrent state to logits, value and the next state, all of them plain tensors.

    It has weights of its own on the CPU, and is exported as torch's operations alone. Weights of another type that does
    not fit the observations, such as float64, become float32.

    Raises an ExportError if the policy cannot be copied or called, or a weight is infinite or NaN, and an APIUsageError
    if it does not fit the environment.

    Attributes:
        state_names: of the recurrent state, in the order of the arguments; empty for a policy without one.
        input_names: of the arguments: `observations`, the states, and `action_masks` where the environment has them,
            `(rows, choices)` bool, whose False makes a logit -inf.
        output_names: of all results, in their order: for each part of the action `logits` or `mean` and
            `log_deviation`, numbered from 0 where there are several, then `value`, then `next_<state>` for each state.
    """

    def __init__(self, policy: nn.Module, env: PufferEnv):
        super().__init__()
        try:
            self.policy = copy.deepcopy(policy).cpu().eval()
        except Exception as error:  # of any class: the policy's own code runs
            raise ExportError(f"the policy {type(policy).__qualname__} cannot be copied ({error})") from error
        self._forward = acting_forward(self.policy)
        self.space = _drawn_from(env.single_observation_space)
        has_masks = getattr(env, "has_action_masks", False)
        self._choices = num_choices(env.single_action_space) if has_masks else 0
        _check_weights(self.policy)
        try:
            logits = self._first_logits(env)
        except (APIUsageError, ExportError):
            _check_weights(self.policy.float())  # what float64 holds may be too large
            logits = self._first_logits(env)
        self.state_names = tuple(initial_state(self.policy, 1, _CPU))
        self.input_names = ("observations", *self.state_names, *["action_masks"] * has_masks)
        self.output_names = (*_named_tensors(logits), "value", *(f"next_{name}" for name in self.state_names))

    def forward(self, observations: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        """Maps the tensors of `input_names`, each with `rows` as first dimension, to those of `output_names`."""
        states, masks = (others[:-1], others[-1]) if self._choices else (others, None)
        state = dict(zip(self.state_names, (each.clone() for each in states), strict=True))  # it may be overwritten
        logits, values = self._forward(observations, state)
        logits = mask_logits(logits, masks)
        return *_named_tensors(logits).values(), values.reshape(-1), *(state[name] for name in self.state_names)

    def initial_states(self, rows: int) -> tuple[Tensor, ...]:
        """Returns the state at the start of an episode for `rows` agents, in the order of `state_names`."""
        return tuple(initial_state(self.policy, rows, _CPU).values())

    def random_observations(self, rows: int, seed: int) -> Tensor:
        """Returns observations drawn from the space, `(rows, *observation_shape)`."""
        self.space.seed(seed)
        return torch.stack([torch.as_tensor(self.space.sample()) for _ in range(rows)])

    def random_masks(self, rows: int, seed: int) -> tuple[Tensor, ...]:
        """Returns action masks `(rows, choices)` that allow half of all choices; none where there are no masks."""
        drawn = torch.rand(rows, self._choices, generator=torch.Generator().manual_seed(seed)) < 0.5
        return (drawn,) if self._choices else ()

    @torch.no_grad()
    def _first_logits(self, env: PufferEnv) -> Logits:
        try:
            output = self._forward(self.random_observations(2, 0), initial_state(self.policy, 2, _CPU))
        except Exception as error:  # of any class: the policy's own code runs
            raise ExportError(
                f"the policy {type(self.policy).__qualname__} must act on observations drawn from its space, and fails "
                f"({type(error).__name__}: {first_sentence(error)}); look at its forward"
            ) from error
        check_acting(self.policy, env, _CPU)
        return output[0]


_LARGEST = 1e6  # bound that is one; such as the largest float says that there is none


def _drawn_from(space: Space) -> Space:
    # A copy, as drawing changes a space, without bounds beyond what float32 computes with.
    space = copy.deepcopy(space)
    if isinstance(space, Box) and space.dtype.kind == "f":
        low = np.where(space.low < -_LARGEST, -np.inf, space.low)
        space = Box(low, np.where(space.high > _LARGEST, np.inf, space.high), dtype=space.dtype)
    return space


def _named_tensors(logits: Logits) -> dict[str, Tensor]:
    tensors = {}
    for index, part in enumerate(logits if isinstance(logits, tuple) else (logits,)):
        end = f"_{index}" if isinstance(logits, tuple) else ""
        if isinstance(part, Normal):
            tensors |= {f"mean{end}": part.mean, f"log_deviation{end}": part.stddev.log()}
        else:
            tensors[f"logits{end}"] = part
    return tensors


def _check_weights(policy: nn.Module) -> None:
    broken = find_weight(policy)
    is_normalized = isinstance(policy, NormalizedObservations)
    if is_normalized and not (is_finite(policy.mean) and is_finite(policy.variance)):
        broken = broken or "its running mean and variance of observations are not finite"
    if broken is not None:
        raise ExportError(f"the policy must have finite weights to be exported, but {broken}; take an earlier model")


def space_text(space: Space) -> str:
    """Returns a space in one line, without the bounds of every number."""
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    is_long = shape is not None and math.prod(shape) > 8
    return f"{type(space).__name__}{tuple(shape)} {dtype}" if is_long else str(space)


def first_sentence(error: BaseException) -> str:
    """Returns the reason of an error, without torch's advice around it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return re.split(r"\. |\.$", lines[0])[0] if lines else type(error).__name__


TOLERANCE = 1e-4  # of 1 and more: of the value itself
_ROUNDINGS = 4  # of the largest value of a row in float32, beyond that: sums for the other values round by it
ROWS, STEPS = 5, 8  # of random observations; an odd number of rows, as no program should expect a round one

Run = Callable[..., Sequence[np.ndarray]]
"""Observations and states, as arrays, to results in the order of `OneStep.output_names`."""


@torch.no_grad()
def check_agreement(
    step: OneStep, run: Run, what: str, observations: np.ndarray | None = None, tolerance: float = TOLERANCE
) -> None:
    """Compares results over several steps from the start of an episode, with the recurrent state of each.

    It runs on random observations, and on those of real play where there are, `(steps, rows, *observation_shape)`. An
    ExportError if a result differs by more than `tolerance`, relative to 1 or to the value where that is greater, and
    by what float32 rounds the largest value of its row.
    """
    drawn = torch.stack([step.random_observations(ROWS, seed) for seed in range(STEPS)])
    for sequence in [drawn] if observations is None else [drawn, torch.from_numpy(observations)]:
        states = step.initial_states(sequence.shape[1])
        others = [state.numpy() for state in states]
        for time, row in enumerate(sequence):
            masks = step.random_masks(len(row), time)
            results = step(row, *states, *masks)
            found = run(row.numpy(), *others, *(each.numpy() for each in masks))
            for name, result, other in zip(step.output_names, results, found, strict=True):
                difference = _difference(result.numpy(), np.asarray(other))
                if not difference <= tolerance:
                    raise ExportError(
                        f"{what} must compute what the policy does to {tolerance}, but {name} differs by "
                        f"{difference:.2g}; nothing was written"
                    )
            states, others = results[len(results) - len(states) :], list(found[len(found) - len(states) :])


def _difference(expected: np.ndarray, found: np.ndarray) -> float:
    # The same infinity or NaN in both is no difference.
    if expected.shape != found.shape:
        return np.inf
    expected, found = expected.astype(np.float64), found.astype(np.float64)  # a state may be of bools
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    sizes = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    largest = sizes.max(-1, keepdims=True, initial=0.0) if expected.ndim > 1 else sizes
    rounding = _ROUNDINGS * np.finfo(np.float32).eps * largest
    with np.errstate(invalid="ignore"):
        differences = np.maximum(np.abs(expected - found) - rounding, 0.0) / np.maximum(1.0, np.abs(expected))
    return float(np.max(np.where(same, 0.0, differences), initial=0.0))
