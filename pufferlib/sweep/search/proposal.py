"""One proposal: the models rate candidates, and one of them is taken."""

from __future__ import annotations

import numpy as np

from pufferlib.sweep.search.acquisition import log_expected_improvement
from pufferlib.sweep.search.candidates import perturbed, sample_uniform
from pufferlib.sweep.search.front import best_within, pareto_front
from pufferlib.sweep.search.history import History
from pufferlib.sweep.search.space import SearchSpace
from pufferlib.sweep.search.surrogate import Surrogate

_CANDIDATES = 1300  # around the front
_UNIFORM_CANDIDATES = 200
_COMPETITORS = 400  # the best rated candidates, of which one draw of the model takes one
_REFINED = 10  # the best rated ones that are perturbed again, by smaller and smaller steps
_NEARER_STEPS, _NEAR = (0.1, 0.02, 0.004, 0.001), 250  # and how many candidates each time

_GREEDY, _GREEDIEST = 1 / 3, 0.9  # how often the best rated candidate is taken, with noise and without
_NOISE, _NO_NOISE = 1e-4, 1e-5  # parts of the scores' variance
_DEAREST = 0.5  # how often the target is the dearest trial of the front, which is the best one
_SLACK, _LEAST_SLACK = 0.3, 0.5  # beyond that: at most this part of the front's width, or this
_TOLERANCE, _LEAST_TOLERANCE = 0.25, 0.05  # in which a candidate above its target is still worth something
_FORBIDDEN = 1e30  # below any rating


class Proposal:
    """Models of score and cost, the front that they see, and a cost to aim at.

    Costs are compared as the model of the logarithm of the cost has them: in standard deviations.

    The target is drawn uniformly along the front, or is the cost of the best trial, or a little more. A candidate is
    rated by the expected improvement on the best score within the target, less the square of how far it exceeds that.
    One time in three the best rated one is taken, which alone would keep to the edges of a space and trust noise;
    otherwise that which is the best in one draw from the model of what the scores could be (Thompson sampling). The
    less noise the model finds, the more often the best rated one is.
    """

    def __init__(self, space: SearchSpace, history: History, max_cost: float, generator: np.random.Generator):
        """Fits the models; no candidate is taken that is expected to cost more than `max_cost`, if there is another."""
        self._space, self._generator = space, generator
        self._has_progress = bool((history.progress < 1.0).any())
        features = self._features(history.points, history.progress)
        seed = int(generator.integers(2**31))
        worst = np.nanmin(history.scores)
        scores = Surrogate(features, np.where(np.isnan(history.scores), worst, history.scores), seed)
        open_ends = np.concatenate([history.stopped, history.pending])  # else they would promise as much as before
        self._scores = scores.believing(self._features(open_ends))
        ran = ~np.isnan(history.scores)  # what a failure took says nothing of what a whole run takes
        self._costs = Surrogate(features[ran], np.log(history.costs[ran]), seed)
        self._limit = self._costs.warp(np.log([max_cost]))[0] if np.isfinite(max_cost) else np.inf
        self._find_front(np.concatenate([history.points[history.is_final], open_ends]))
        self._aim()

    def _features(self, points: np.ndarray, progress: np.ndarray | None = None) -> np.ndarray:
        features = self._space.features(points)
        if not self._has_progress:
            return features
        return np.column_stack([features, np.ones(len(points)) if progress is None else progress])

    def _find_front(self, tried: np.ndarray) -> None:
        # By the models, because what was seen is partly luck.
        features = self._features(tried)
        scores, _ = self._scores.predict(features)
        costs, _ = self._costs.predict(features)
        front = pareto_front(costs, scores)
        self._parents, self._front_costs, self._front_scores = tried[front], costs[front], scores[front]

    def _aim(self) -> None:
        low, high = self._front_costs[0], self._front_costs[-1]
        width, draw = high - low, self._generator.random
        base = high if draw() < _DEAREST else low + width * draw()
        self._target = min(base + max(_SLACK * width, _LEAST_SLACK) * draw(), self._limit)
        self._tolerance = max(_TOLERANCE * width, _LEAST_TOLERANCE)
        self._best = best_within(self._front_costs, self._front_scores, self._target)

    def point(self) -> np.ndarray:
        """Returns the point to try, float64 of shape `[dimensions]`."""
        near = perturbed(self._space, self._parents, _CANDIDATES, self._generator)
        points = np.concatenate([near, sample_uniform(self._space, _UNIFORM_CANDIDATES, self._generator)])
        ratings = self._ratings(points)
        if self._generator.random() < self._greed:
            return self._refined(points, ratings)
        return self._drawn(points[np.argsort(-ratings)[:_COMPETITORS]])

    @property
    def _greed(self) -> float:
        quiet = np.log(_NOISE / self._scores.noise) / np.log(_NOISE / _NO_NOISE)
        return _GREEDY + (_GREEDIEST - _GREEDY) * float(np.clip(quiet, 0.0, 1.0))

    def _ratings(self, points: np.ndarray) -> np.ndarray:
        features = self._features(points)
        promise = log_expected_improvement(*self._scores.predict(features), self._best)
        return promise - self._excess(features)

    def _excess(self, features: np.ndarray) -> np.ndarray:
        costs, _ = self._costs.predict(features)
        excess = (np.maximum(0.0, costs - self._target) / self._tolerance) ** 2
        return excess + np.where(costs > self._limit, _FORBIDDEN * (1.0 + costs - self._limit), 0.0)

    def _refined(self, points: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        for largest in _NEARER_STEPS:
            best = np.argsort(-ratings)[:_REFINED]
            near = perturbed(self._space, points[best], _NEAR, self._generator, largest)
            points, ratings = (
                np.concatenate([points[best], near]),
                np.concatenate([ratings[best], self._ratings(near)]),
            )
        return points[np.argmax(ratings)]

    def _drawn(self, points: np.ndarray) -> np.ndarray:
        features = self._features(points)
        return points[np.argmax(self._scores.draw(features, self._generator) - self._excess(features))]
