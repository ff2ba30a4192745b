"""What a sweep may vary: dimensions, each with its range, and the unit cube that stands for all of them."""

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

    Attributes:
        name: of the setting, such as `train.learning_rate`.
        distribution: one of DISTRIBUTIONS.
        min: the least value.
        max: the largest one.
        mean: where the search starts; None is the middle of the coordinate.
        scale: standard deviation of the first trials around it, in coordinates.
        is_integer: whether only whole numbers are values; those of `int_uniform` and `uniform_pow2` always are.
    """

    name: str
    distribution: str
    min: float
    max: float
    mean: float | None = None
    scale: float = AUTO_SCALE
    is_integer: bool = False

    def __post_init__(self):
        """Checks the range.

        Raises:
            ConfigError: if the distribution is unknown, or the numbers do not fit it.
        """
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
        """Columns of the features that stand for it."""
        return 1

    @property
    def centre(self) -> float:
        """The coordinate where the search starts."""
        return 0.5 if self.mean is None else self.coordinate(self.mean)

    def coordinate(self, value: float) -> float:
        """The coordinate of a value; one outside of the range is taken to its nearer end."""
        low, high = self._curve(self.min), self._curve(self.max)
        return (self._curve(min(max(value, self.min), self.max)) - low) / (high - low)

    def value(self, coordinate: float) -> float | int:
        """The value that a coordinate stands for: always one within the range."""
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
class Choice:
    """One of several values, in no order: its coordinate is the value's place among them.

    Attributes:
        name: of the setting, such as `train.optimizer`.
        choices: the values, texts and numbers; the search starts at the middle one.
    """

    name: str
    choices: tuple[Any, ...]

    def __post_init__(self):
        """Checks the choices.

        Raises:
            ConfigError: if there are none, or one comes twice.
        """
        if not self.choices or len({(type(choice), choice) for choice in self.choices}) < len(self.choices):
            raise ConfigError(f"{self.name} needs a list of different values to choose from, got {list(self.choices)}")

    @property
    def width(self) -> int:
        """Columns of the features that stand for it: one for each choice."""
        return len(self.choices)

    @property
    def centre(self) -> float:
        """The coordinate where the search starts."""
        return float(len(self.choices) // 2)

    def coordinate(self, value: Any) -> float:
        """The place of a value among the choices."""
        return float(self.choices.index(value))

    def value(self, coordinate: float) -> Any:
        """The choice at a place."""
        return self.choices[int(coordinate)]


@dataclass(frozen=True)
class SearchSpace:
    """All that a sweep may vary.

    Points are rows of coordinates, one for each dimension; features are what a model sees of them: the coordinates, but
    a column for each value of a Choice.
    """

    dimensions: tuple[Dimension | Choice, ...]

    @cached_property
    def centre(self) -> np.ndarray:
        """The point where the search starts, float64 of shape `[dimensions]`."""
        return np.array([dimension.centre for dimension in self.dimensions])

    @cached_property
    def choices(self) -> np.ndarray:
        """How many values every dimension chooses from, int64 of shape `[dimensions]`; 0 for a number."""
        return np.array([len(getattr(dimension, "choices", ())) for dimension in self.dimensions], dtype=np.int64)

    @cached_property
    def scales(self) -> np.ndarray:
        """Standard deviations of first trials around the centre, float64 of shape `[dimensions]`; 1 for a Choice."""
        return np.array([getattr(dimension, "scale", 1.0) for dimension in self.dimensions])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the settings."""
        return tuple(dimension.name for dimension in self.dimensions)

    def point(self, values: Mapping[str, Any]) -> np.ndarray:
        """The coordinates of a value of every dimension, float64 of shape `[dimensions]`."""
        return np.array([dimension.coordinate(values[dimension.name]) for dimension in self.dimensions])

    def values(self, point: Sequence[float] | np.ndarray) -> dict[str, Any]:
        """The values, by name, that a point stands for."""
        return {
            dimension.name: dimension.value(float(coordinate))
            for dimension, coordinate in zip(self.dimensions, point, strict=True)
        }

    def snapped(self, points: np.ndarray) -> np.ndarray:
        """The nearest points whose coordinates stand for a value exactly, as `points` of shape `[n, dimensions]`."""
        rounded = points.copy()
        for column, dimension in enumerate(self.dimensions):
            if getattr(dimension, "is_integer", False):
                rounded[:, column] = [dimension.coordinate(dimension.value(each)) for each in points[:, column]]
        return rounded

    def features(self, points: np.ndarray) -> np.ndarray:
        """What a model sees of points, float64 of shape `[n, sum of widths]`; points are `[n, dimensions]`."""
        columns = []
        for column, dimension in enumerate(self.dimensions):
            coordinates = points[:, column]
            if isinstance(dimension, Choice):
                columns += [(coordinates == place).astype(float) for place in range(dimension.width)]
            else:
                columns.append(coordinates)
        return np.stack(columns, axis=1) if columns else np.empty((len(points), 0))
