"""Dimensions as Optuna's distributions, for its samplers, plots and importances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from pufferlib.sweep.search.space import Categorical, Dimension, SearchSpace


def optuna_distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Returns the distributions of a space's dimensions by name.

    Optuna has no log-odds and no powers of two: it draws from the range, and `settled` returns the values.
    """
    return {dimension.name: _distribution(dimension) for dimension in space.dimensions}


def settled(space: SearchSpace, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of an Optuna trial's parameters: those of `uniform_pow2` are the nearest power of two."""
    return space.values(space.point(params))


def space_of_distributions(distributions: Mapping[str, BaseDistribution]) -> SearchSpace:
    """Returns a space of Optuna's distributions without their steps; it starts in the middle."""
    return SearchSpace(tuple(_dimension(name, each) for name, each in distributions.items()))


def on_step(distribution: BaseDistribution, value: float | str) -> float | str:
    """Returns the nearest value on a distribution's step; without a step the value itself."""
    step = getattr(distribution, "step", None)
    if step is None:
        return value
    return min(distribution.low + round((value - distribution.low) / step) * step, distribution.high)


def _distribution(dimension: Dimension | Categorical) -> BaseDistribution:
    if isinstance(dimension, Categorical):
        return CategoricalDistribution(dimension.choices)
    is_log = dimension.distribution in ("log_normal", "uniform_pow2")
    if not dimension.is_integer:
        return FloatDistribution(dimension.min, dimension.max, log=is_log)
    return IntDistribution(dimension.value(0.0), dimension.value(1.0), log=is_log)


def _dimension(name: str, distribution: BaseDistribution) -> Dimension | Categorical:
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(name, tuple(distribution.choices))
    kind = "log_normal" if distribution.log else "uniform"
    is_integer = isinstance(distribution, IntDistribution)
    return Dimension(name, kind, distribution.low, distribution.high, is_integer=is_integer)
