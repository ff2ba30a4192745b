"""The search itself: which trial next, from scores and costs of those before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from threadpoolctl import threadpool_limits
from typing_extensions import override

from pufferlib.sweep.search.candidates import anywhere, around
from pufferlib.sweep.search.distributions import on_step, optuna_distributions, space_of_distributions
from pufferlib.sweep.search.history import History, read_history
from pufferlib.sweep.search.proposal import Proposal
from pufferlib.sweep.search.space import SearchSpace

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_FIRST_TRIALS = 4  # and one for each dimension, before models say anything


class ProteinSampler(BaseSampler):
    """Searches where scores are high for what trials cost.

    It starts at the centre of the space and around it. Then Gaussian processes predict score and cost from every point
    of the learning curves, candidates are what lies around the front of scores against costs, and a candidate counts by
    how much it promises to improve on what was reached for a cost that is drawn anew for every trial: see `Proposal`.

    Trials tell their costs and curves by the attributes of `pufferlib.sweep.attributes`; without them the cost is the
    time that a trial took. Those that failed count as the worst that was seen. Of trials that run it is believed that
    they do what the models expect, so that workers side by side try different things; and of those that were stopped,
    or were too short to be scored, so that they are not tried again.
    """

    def __init__(self, space: SearchSpace | None = None, seed: int | None = None, max_cost: float = np.inf):
        """Prepares it; all that it learns is in the study.

        Args:
            space: what varies and where to start; None takes what all trials of a study chose from, and its middle.
            seed: of its draws, with the number of the trial, so that a sampler that goes on with a study does not draw
                what another one drew before; None is another one each time.
            max_cost: no trial is proposed that is expected to cost more, in the unit of the costs.
        """
        self._space = space
        self._max_cost = max_cost
        self._seed = _any_seed() if seed is None else seed
        self._random = RandomSampler(seed)
        self._intersection = IntersectionSearchSpace()

    @override
    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The distributions that one proposal draws from together."""
        if self._space is not None:
            return optuna_distributions(self._space)
        found = self._intersection.calculate(study)
        return {name: each for name, each in sorted(found.items()) if not each.single()}

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The values of a trial, by name."""
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
        """A random value of what no space names, as in the first trials of `study.optimize`."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    @override
    def reseed_rng(self) -> None:
        """Draws differently from now on, as Optuna asks of samplers in several processes."""
        self._seed = _any_seed()
        self._random.reseed_rng()

    def propose(self, space: SearchSpace, history: History, generator: np.random.Generator) -> np.ndarray:
        """The next point to try, float64 of shape `[dimensions]`.

        Args:
            space: what varies.
            history: of the trials that chose from it.
            generator: of all draws.
        """
        if history.begun == 0:
            return space.snapped(space.centre[None])[0]
        if history.begun < _FIRST_TRIALS + len(space.dimensions):
            return around(space, generator)
        if history.is_final.sum() < 2:  # nearly all failed: where they did not may be anywhere
            return anywhere(space, 1, generator)[0]
        return Proposal(space, history, self._max_cost, generator).point()


def _any_seed() -> int:
    return int(np.random.default_rng().integers(2**63))
