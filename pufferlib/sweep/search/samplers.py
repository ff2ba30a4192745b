"""Samplers by their names."""

from __future__ import annotations

import warnings

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from pufferlib.sweep.search.protein_sampler import ProteinSampler
from pufferlib.sweep.search.space import SearchSpace


def make_sampler(method: str, space: SearchSpace, seed: int | None, max_cost: float) -> BaseSampler:
    """Returns the sampler of `[sweep] method`.

    Args:
        method: `Protein`, or Optuna's `Random`, `TPE` or `GP`, which know neither costs nor where to start.
        space: what varies.
        seed: of its draws; None is another one each time.
        max_cost: for Protein, in seconds: see `ProteinSampler`.
    """
    if method == "Protein":
        return ProteinSampler(space, seed, max_cost)
    if method == "Random":
        return RandomSampler(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # of its own; which ones changes with the version
        return TPESampler(seed=seed) if method == "TPE" else GPSampler(seed=seed)
