"""Candidates: points near good ones, and some from the whole space."""

from __future__ import annotations

import numpy as np

from pufferlib.sweep.search.space import SearchSpace

_SMALLEST_STEP, _LARGEST_STEP = 0.003, 0.5  # of the range
_OTHER_CHOICE = 0.1  # how often a choice takes another value at the least; as often as a step is long at the most


def perturbed(
    space: SearchSpace, parents: np.ndarray, count: int, generator: np.random.Generator, largest: float = _LARGEST_STEP
) -> np.ndarray:
    """Returns random points near others, of shape `[count, dimensions]`, within the space.

    Each changes some coordinates of one parent, all by steps of one size, which is drawn from small to large on a
    logarithmic scale. `parents` are `[n, dimensions]`; `largest` is the largest standard deviation of a step.
    """
    shape = (count, len(space.dimensions))
    points = parents[generator.integers(len(parents), size=count)]
    is_changed = generator.random(shape) < generator.uniform(0.2, 1.0, (count, 1))
    is_changed[np.arange(count), generator.integers(shape[1], size=count)] = True
    smallest = min(_SMALLEST_STEP, largest / 5)
    scales = np.exp(generator.uniform(np.log(smallest), np.log(largest), (count, 1)))
    moved = _reflected(points + scales * generator.standard_normal(shape))
    is_other = generator.random(shape) < np.maximum(scales, _OTHER_CHOICE)
    moved = np.where(space.choices > 0, np.where(is_other, _drawn_choices(space, generator, shape), points), moved)
    return space.snapped(np.where(is_changed, moved, points))


def sample_uniform(space: SearchSpace, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns points drawn uniformly from a space, of shape `[count, dimensions]`."""
    shape = (count, len(space.dimensions))
    drawn = np.where(space.choices > 0, _drawn_choices(space, generator, shape), generator.random(shape))
    return space.snapped(drawn)


def sample_normal(space: SearchSpace, generator: np.random.Generator) -> np.ndarray:
    """Returns a point drawn near the centre of a space by its scales, of shape `[dimensions]`.

    A coordinate that falls outside of its range is drawn uniformly instead.
    """
    drawn = space.centre + space.scales * generator.standard_normal(len(space.centre))
    drawn = np.where((drawn < 0) | (drawn > 1), generator.random(len(drawn)), drawn)
    return space.snapped(np.where(space.choices > 0, _drawn_choices(space, generator, (len(drawn),)), drawn)[None])[0]


def _drawn_choices(space: SearchSpace, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.floor(generator.random(shape) * np.maximum(space.choices, 1))


def _reflected(points: np.ndarray) -> np.ndarray:
    # Coordinates outside of [0, 1] are mirrored at the edge, so that they do not gather on it.
    folded = np.abs(points) % 2.0
    return np.where(folded > 1.0, 2.0 - folded, folded)
