"""Functions with a known least value and a known cost, for searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Point = np.ndarray  # coordinates in [0, 1]


@dataclass(frozen=True)
class Objective:
    """Something to minimise.

    Attributes:
        dimensions: of the unit cube that it lives in.
        regret: of a point: how far it is above the least value.
        cost: of a point; None where all cost 1.
        noise: standard deviation of what is seen of it.
    """

    dimensions: int
    regret: Callable[[Point], float]
    cost: Callable[[Point], float] | None = None
    noise: float = 0.0


def branin(point: Point) -> float:
    """Three equal minima in two dimensions (Dixon and Szego, 1978), less its least value."""
    x, y = 15 * point[0] - 5, 15 * point[1]
    valley = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    return float(valley + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10 - 0.39788736)


_SHARPNESS = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_PEAKS = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann6(point: Point) -> float:
    """Four hills in six dimensions, upside down (Hartmann, 1973), less its least value."""
    hills = np.exp(-(_SHARPNESS * (point - _PEAKS) ** 2).sum(axis=1))
    return float(3.32236801 - np.array([1.0, 1.2, 3.0, 3.2]) @ hills)


def rising(point: Point) -> float:
    """A bowl in three dimensions whose bottom lies where trials are dearest."""
    return float(4 * (point[0] - 0.8) ** 2 + 4 * (point[1] - 0.7) ** 2 + 2 * (1 - point[2]) ** 2)


OBJECTIVES = {
    "branin": Objective(2, branin),
    "hartmann6": Objective(6, hartmann6),
    "hartmann6 with noise": Objective(6, hartmann6, noise=0.2),
    "branin with costs": Objective(2, branin, lambda point: float(np.exp(3 * point[0]))),
    "hartmann6 with costs": Objective(6, hartmann6, lambda point: float(np.exp(2.5 * (point[0] + point[3])))),
    "rising": Objective(3, rising, lambda point: float(100 ** point[2])),
}
