"""Dimensions as Optuna knows them, so that its samplers, plots and importances do too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from pufferlib.sweep.search.space import Choice, Dimension, SearchSpace


def optuna_distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """The distributions of a space's dimensions by name.

    Optuna has no log-odds and no powers of two: it draws from the range, and `settled` gives what is meant.
    """
    return {dimension.name: _distribution(dimension) for dimension in space.dimensions}


def settled(space: SearchSpace, params: Mapping[str, Any]) -> dict[str, Any]:
    """The values that an Optuna trial's parameters stand for: those of `uniform_pow2` are the nearest power of two."""
    return space.values(space.point(params))


def space_of_distributions(distributions: Mapping[str, BaseDistribution]) -> SearchSpace:
    """A space of distributions that somebody else chose, as in `study.optimize`; it starts in the middle.

    Of steps of Optuna's it has none but 1: see `on_step`.
    """
    return SearchSpace(tuple(_dimension(name, each) for name, each in distributions.items()))


def on_step(distribution: BaseDistribution, value: Any) -> Any:
    """The nearest value that a distribution's step leads to; without a step the value itself."""
    step = getattr(distribution, "step", None)
    if step is None:
        return value
    return min(distribution.low + round((value - distribution.low) / step) * step, distribution.high)


def _distribution(dimension: Dimension | Choice) -> BaseDistribution:
    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.choices)
    is_log = dimension.distribution in ("log_normal", "uniform_pow2")
    if not dimension.is_integer:
        return FloatDistribution(dimension.min, dimension.max, log=is_log)
    return IntDistribution(dimension.value(0.0), dimension.value(1.0), log=is_log)


def _dimension(name: str, distribution: BaseDistribution) -> Dimension | Choice:
    if isinstance(distribution, CategoricalDistribution):
        return Choice(name, tuple(distribution.choices))
    kind = "log_normal" if distribution.log else "uniform"
    is_integer = isinstance(distribution, IntDistribution)
    return Dimension(name, kind, distribution.low, distribution.high, is_integer=is_integer)
