"""Compares an export with its policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from pufferlib.errors import ExportError
from pufferlib.export.one_step import OneStep

TOLERANCE = 1e-4  # of 1 and more: of the value itself
ROWS, STEPS = 5, 8  # of random observations; an odd number of rows, as no program should expect a round one

Run = Callable[..., Sequence[np.ndarray]]
"""Observations and states, as arrays, to results in the order of `OneStep.output_names`."""


@torch.no_grad()
def check_agreement(step: OneStep, run: Run, what: str, observations: np.ndarray | None = None) -> float:
    """Compares results over several steps from the start of an episode, with the recurrent state of each.

    Args:
        step: of the policy.
        run: a step of the export.
        what: the other program, for the message.
        observations: of real play, `(steps, rows, *observation_shape)`, besides random ones.

    Returns:
        The greatest difference, relative to 1 or to the value where that is greater.

    Raises:
        ExportError: if a result differs by more than `TOLERANCE`.
    """
    drawn = torch.stack([step.random_observations(ROWS, seed) for seed in range(STEPS)])
    sequences = [drawn] if observations is None else [drawn, torch.from_numpy(observations)]
    return max(_check_sequence(step, run, what, sequence) for sequence in sequences)


def _check_sequence(step: OneStep, run: Run, what: str, sequence: Tensor) -> float:
    states = step.initial_states(sequence.shape[1])
    others = [state.numpy() for state in states]
    num_states, greatest = len(states), 0.0
    for observations in sequence:
        results = step(observations, *states)
        found = run(observations.numpy(), *others)
        for name, result, other in zip(step.output_names, results, found, strict=True):
            difference = _difference(result.numpy(), np.asarray(other))
            if not difference <= TOLERANCE:
                raise ExportError(
                    f"{what} must compute what the policy does to {TOLERANCE}, but {name} differs by {difference:.2g}; "
                    "nothing was written"
                )
            greatest = max(greatest, difference)
        states = results[len(results) - num_states :]
        others = list(found[len(found) - num_states :])
    return greatest


def _difference(expected: np.ndarray, found: np.ndarray) -> float:
    # The same infinity or NaN in both is no difference.
    if expected.shape != found.shape:
        return np.inf
    same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    with np.errstate(invalid="ignore"):
        differences = np.abs(expected - found) / np.maximum(1.0, np.abs(expected))
    return float(np.max(np.where(same, 0.0, differences), initial=0.0))
