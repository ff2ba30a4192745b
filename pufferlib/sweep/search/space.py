"""The search space: dimensions, each with its range, and the unit cube of their coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pufferlib.errors import ConfigError, nearest

DISTRIBUTIONS = ("uniform", "int_uniform", "uniform_pow2", "log_normal", "logit_normal")
_DIGITS = 10  # of a value: a coordinate gives back no more
AUTO_SCALE = 0.3  # of the range: two thirds of the first trials lie within this of the centre


@dataclass(frozen=True)
class Dimension:
    """A number that a sweep may vary.

    A coordinate in [0, 1] stands for the value: linearly, or of its logarithm (`log_normal`, `uniform_pow2`), or of its
    log-odds (`logit_normal`, for values such as a discount close to 1).
    """

    name: str  # of the setting, such as `train.learning_rate`
    distribution: str  # one of DISTRIBUTIONS
    min: float  # the least value
    max: float  # the largest one
    mean: float | None = None  # where the search starts; None is the middle of the coordinate
    scale: float = AUTO_SCALE  # standard deviation of the first trials around it, in coordinates
    # whether only whole numbers are values; those of `int_uniform` and `uniform_pow2` always are
    is_integer: bool = False

    def __post_init__(self):
        if self.distribution not in DISTRIBUTIONS:
            remedy = nearest(str(self.distribution), DISTRIBUTIONS) or f"; there are {', '.join(DISTRIBUTIONS)}"
            raise ConfigError(f"{self._label} has the distribution {self.distribution!r}, which does not exist{remedy}")
        if self.distribution in ("int_uniform", "uniform_pow2"):
            object.__setattr__(self, "is_integer", True)
        if not self.min < self.max:
            raise ConfigError(f"{self._label} needs min below max, got {self.min} and {self.max}")
        self._require_range()
        if self.mean is not None and not self.min <= self.mean <= self.max:
            raise ConfigError(f"{self._label} needs a mean within [{self.min}, {self.max}], got {self.mean}")
        if not 0 < self.scale <= 1:
            raise ConfigError(f"{self._label} needs a scale in (0, 1], a part of the range, got {self.scale}")

    def _require_range(self) -> None:
        if not (math.isfinite(self.min) and math.isfinite(self.max)):
            raise ConfigError(f"{self._label} needs a finite range, got {self.min} to {self.max}")
        if self.distribution in ("log_normal", "uniform_pow2") and self.min <= 0:
            raise ConfigError(f"{self._label} is {self.distribution}, so min must be above 0, got {self.min}")
        if self.distribution == "logit_normal" and not 0 < self.min < self.max < 1:
            found = f"got {self.min} and {self.max}"
            raise ConfigError(f"{self._label} is logit_normal, so min and max must be within (0, 1), {found}")
        if self.is_integer and math.floor(self.max) <= math.ceil(self.min):
            raise ConfigError(f"{self._label} needs two whole numbers in its range, got {self.min} to {self.max}")
        for bound in (self.min, self.max):
            if self.distribution == "uniform_pow2" and not math.log2(bound).is_integer():
                raise ConfigError(f"{self._label} is uniform_pow2, so min and max must be powers of two, got {bound}")

    @property
    def _label(self) -> str:
        return f"[sweep.{self.name}]"

    @property
    def width(self) -> int:
        """Columns of its features."""
        return 1

    @property
    def centre(self) -> float:
        """The coordinate where the search starts."""
        return 0.5 if self.mean is None else self.coordinate(self.mean)

    def coordinate(self, value: float) -> float:
        """Returns the coordinate of a value, which is first clipped to the range."""
        low, high = self._curve(self.min), self._curve(self.max)
        return (self._curve(min(max(value, self.min), self.max)) - low) / (high - low)

    def value(self, coordinate: float) -> float | int:
        """Returns the value of a coordinate, within the range."""
        low, high = self._curve(self.min), self._curve(self.max)
        curved = low + min(max(coordinate, 0.0), 1.0) * (high - low)
        if self.distribution == "uniform_pow2":
            return 2 ** round(curved)
        rounded = float(f"{self._inverse(curved):.{_DIGITS}g}")  # 0.01 is not 0.010000000000000004
        found = min(max(rounded, self.min), self.max)
        return min(max(round(found), math.ceil(self.min)), math.floor(self.max)) if self.is_integer else found

    def _curve(self, value: float) -> float:
        if self.distribution == "logit_normal":
            return math.log(value / (1 - value))
        if self.distribution == "uniform_pow2":
            return math.log2(value)
        return math.log(value) if self.distribution == "log_normal" else value

    def _inverse(self, curved: float) -> float:
        if self.distribution == "logit_normal":
            return 1 / (1 + math.exp(-curved))
        return math.exp(curved) if self.distribution == "log_normal" else curved


@dataclass(frozen=True)
class Categorical:
    """One of several values, in no order: its coordinate is the value's place among them."""

    name: str  # of the setting, such as `train.optimizer`
    choices: tuple[Any, ...]  # the values, texts and numbers; the search starts at the middle one

    def __post_init__(self):
        if not self.choices or len({(type(choice), choice) for choice in self.choices}) < len(self.choices):
            raise ConfigError(f"{self.name} needs a list of different values to choose from, got {list(self.choices)}")

    @property
    def width(self) -> int:
        """Columns of its features: one for each choice."""
        return len(self.choices)

    @property
    def centre(self) -> float:
        """The coordinate where the search starts."""
        return float(len(self.choices) // 2)

    def coordinate(self, value: object) -> float:
        """Returns the place of a value among the choices."""
        return float(self.choices.index(value))

    def value(self, coordinate: float) -> Any:
        """Returns the choice at a place."""
        return self.choices[int(coordinate)]


@dataclass(frozen=True)
class SearchSpace:
    """All that a sweep may vary.

    Points are rows of coordinates, one for each dimension. Features, for the models, are the coordinates, but with a
    column for each value of a categorical dimension.
    """

    dimensions: tuple[Dimension | Categorical, ...]

    @cached_property
    def centre(self) -> np.ndarray:
        """The point where the search starts, float64 of shape `[dimensions]`."""
        return np.array([dimension.centre for dimension in self.dimensions])

    @cached_property
    def choices(self) -> np.ndarray:
        """The number of values of each categorical dimension, int64 of shape `[dimensions]`; 0 for a number."""
        return np.array([len(getattr(dimension, "choices", ())) for dimension in self.dimensions], dtype=np.int64)

    @cached_property
    def scales(self) -> np.ndarray:
        """Standard deviations of first trials, float64 of shape `[dimensions]`; 1 for categorical dimensions."""
        return np.array([getattr(dimension, "scale", 1.0) for dimension in self.dimensions])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(dimension.name for dimension in self.dimensions)

    def point(self, values: Mapping[str, Any]) -> np.ndarray:
        """Returns the coordinates of a value of every dimension, float64 of shape `[dimensions]`."""
        return np.array([dimension.coordinate(values[dimension.name]) for dimension in self.dimensions])

    def values(self, point: Sequence[float] | np.ndarray) -> dict[str, Any]:
        """Returns the values of a point, by name."""
        return {
            dimension.name: dimension.value(float(coordinate))
            for dimension, coordinate in zip(self.dimensions, point, strict=True)
        }

    def snapped(self, points: np.ndarray) -> np.ndarray:
        """Returns the nearest points whose coordinates are exactly those of a value, of shape `[n, dimensions]`."""
        rounded = points.copy()
        for column, dimension in enumerate(self.dimensions):
            if getattr(dimension, "is_integer", False):
                rounded[:, column] = [dimension.coordinate(dimension.value(each)) for each in points[:, column]]
        return rounded

    def features(self, points: np.ndarray) -> np.ndarray:
        """Returns the features of points `[n, dimensions]`, float64 of shape `[n, sum of widths]`."""
        columns = []
        for column, dimension in enumerate(self.dimensions):
            coordinates = points[:, column]
            if isinstance(dimension, Categorical):
                columns += [(coordinates == place).astype(float) for place in range(dimension.width)]
            else:
                columns.append(coordinates)
        return np.stack(columns, axis=1) if columns else np.empty((len(points), 0))
