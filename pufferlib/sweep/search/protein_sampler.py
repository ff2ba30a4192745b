"""The sampler Protein: it proposes a trial from scores and costs of those before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from threadpoolctl import threadpool_limits
from typing_extensions import override

from pufferlib.sweep.search.candidates import sample_normal, sample_uniform
from pufferlib.sweep.search.distributions import on_step, optuna_distributions, space_of_distributions
from pufferlib.sweep.search.history import History, read_history
from pufferlib.sweep.search.proposal import Proposal
from pufferlib.sweep.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_FIRST_TRIALS = 4  # and one for each dimension, before models say anything


class ProteinSampler(BaseSampler):
    """Searches for high scores at low cost.

    It starts at the centre of the space and near it. Then Gaussian processes predict score and cost from every point of
    the learning curves, candidates are near the front of scores against costs, and a candidate is rated by the
    improvement that it promises for a cost that is drawn anew for every trial: see `Proposal`.

    Trials have their costs and curves in their attributes; without them the cost is the time that a trial took. Failed
    trials count as the worst score seen. Trials that run, were stopped, or were too short to be scored get the score
    that the models expect, so that they are not tried again.
    """

    def __init__(self, space: SearchSpace | None = None, seed: int | None = None, max_cost: float = np.inf):
        """Prepares the sampler; its memory is the study.

        Args:
            space: what varies and where to start; None takes what all trials of a study chose from, and its middle.
            seed: of its draws, together with the number of the trial, so that a sampler that continues a study repeats
                none; None is another one each time.
            max_cost: no trial is proposed that is expected to cost more, in the unit of the costs.
        """
        self._space = space
        self._max_cost = max_cost
        self._seed = _any_seed() if seed is None else seed
        self._random = RandomSampler(seed)
        self._intersection = IntersectionSearchSpace()

    @override
    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Returns the distributions that one proposal draws from together."""
        if self._space is not None:
            return optuna_distributions(self._space)
        found = self._intersection.calculate(study)
        return {name: each for name, each in sorted(found.items()) if not each.single()}

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Returns the values of a trial, by name."""
        if not search_space:
            return {}
        space = self._space or space_of_distributions(search_space)
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        history = read_history(others, study.direction, space)
        with threadpool_limits(1):  # threads that wait for the cores of trials are slower than none
            point = self.propose(space, history, np.random.default_rng((self._seed, trial.number)))
        return {name: on_step(search_space[name], value) for name, value in space.values(point).items()}

    @override
    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Returns a random value of a parameter in no space, as in the first trials of `study.optimize`."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    @override
    def reseed_rng(self) -> None:
        """Takes another seed, as Optuna asks of samplers in several processes."""
        self._seed = _any_seed()
        self._random.reseed_rng()

    def propose(self, space: SearchSpace, history: History, generator: np.random.Generator) -> np.ndarray:
        """Returns the next point to try, float64 of shape `[dimensions]`."""
        if history.begun == 0:
            return space.snapped(space.centre[None])[0]
        if history.begun < _FIRST_TRIALS + len(space.dimensions):
            return sample_normal(space, generator)
        if history.is_final.sum() < 2:  # nearly all failed: where they did not is unknown
            return sample_uniform(space, 1, generator)[0]
        return Proposal(space, history, self._max_cost, generator).point()


def _any_seed() -> int:
    return int(np.random.default_rng().integers(2**63))
