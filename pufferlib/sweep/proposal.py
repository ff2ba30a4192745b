"""Proposes trials: the history of a study as arrays, candidates, Protein's Gaussian processes, and the samplers."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.special import erfcx, log_ndtr
from scipy.stats import yeojohnson
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from threadpoolctl import threadpool_limits
from typing_extensions import override

from pufferlib.sweep.results import COST, CURVE, UNSCORED, best_within, pareto_front, uncounted_numbers
from pufferlib.sweep.space import SearchSpace
from pufferlib.sweep.study import quiet_optuna

_LEAST_COST = 1e-3  # seconds; what was refused before it ran cost nothing
_MOST_POINTS = 1_500  # that models are made of: they take the square of that


class History:
    """Every point of the learning curves of the trials that chose from all dimensions of a space and count.

    Higher scores are better whatever the goal is. A trial without a curve and a cost in its attributes has its value
    and the time that it took.
    """

    def __init__(self, trials: Sequence[FrozenTrial], direction: StudyDirection, space: SearchSpace):
        sign = -1.0 if direction == StudyDirection.MINIMIZE else 1.0
        rows, open_ends = [], []
        uncounted = uncounted_numbers(trials)
        known = [trial for trial in trials if trial.number not in uncounted and set(space.names) <= set(trial.params)]
        for trial in known:
            point = space.point(trial.params)
            curve = _curve(trial)
            rows += [(*point, progress, max(cost, _LEAST_COST), sign * score) for progress, cost, score in curve]
            if not any(progress >= 1.0 for progress, _, _ in curve):
                open_ends.append(point)
        table = np.array(rows, dtype=float).reshape(-1, len(space.dimensions) + 3)
        table = table[_worth_keeping(progress=table[:, -3], scores=table[:, -1])]
        self.points = table[:, :-3]  # coordinates of the trial, float64 of shape `[n, dimensions]`
        # How much of its run the trial had done, in (0, 1]; what it had cost until then, above 0; what it had reached,
        # NaN where it failed: float64 of shape `[n]` each.
        self.progress, self.costs, self.scores = table[:, -3:].T
        self.is_final = (self.progress >= 1.0) & ~np.isnan(self.scores)  # which points are the end of a whole run
        # Coordinates of trials without a score at their end, float64 of shape `[m, dimensions]`.
        self.open_ends = np.array(open_ends).reshape(-1, len(space.dimensions))
        self.begun = len(known)  # how many trials there are in all


def _worth_keeping(progress: np.ndarray, scores: np.ndarray) -> np.ndarray:
    # Ends of runs before middles, then the best and newest.
    ranks = np.argsort(np.argsort(-np.where(np.isnan(scores), -np.inf, scores)))
    is_best = ranks < _MOST_POINTS // 2
    order = np.lexsort((-np.arange(len(scores)), ~is_best, progress < 1.0))
    return np.sort(order[:_MOST_POINTS])


def _curve(trial: FrozenTrial) -> list[tuple[float, float, float]]:
    # A failed trial has one point without a score, which is bad; one that runs or was too short to be scored has none.
    if trial.user_attrs.get(UNSCORED) or not trial.state.is_finished():
        return []
    cost = trial.user_attrs.get(COST, trial.duration.total_seconds() if trial.duration else 0.0)
    is_complete = trial.state == TrialState.COMPLETE
    if trial.state == TrialState.FAIL or (is_complete and not np.isfinite(trial.value)):
        return [(1.0, cost, np.nan)]
    found = [tuple(row) for row in trial.user_attrs.get(CURVE, ()) if np.isfinite(row[2])]
    if is_complete:
        found = [point for point in found if point[0] < 1.0] + [(1.0, cost, trial.value)]
    return found


_SMALLEST_STEP, _LARGEST_STEP = 0.003, 0.5  # of the range
_OTHER_CHOICE = 0.1  # how often a choice takes another value at the least; as often as a step is long at the most


def perturbed(
    space: SearchSpace, parents: np.ndarray, count: int, generator: np.random.Generator, largest: float = _LARGEST_STEP
) -> np.ndarray:
    """Returns random points `[count, dimensions]` of the space near `parents`, `[n, dimensions]`.

    Each changes some coordinates of one parent by steps of one standard deviation, drawn from small to the largest.
    """
    shape = (count, len(space.dimensions))
    points = parents[generator.integers(len(parents), size=count)]
    is_changed = generator.random(shape) < generator.uniform(0.2, 1.0, (count, 1))
    is_changed[np.arange(count), generator.integers(shape[1], size=count)] = True
    smallest = min(_SMALLEST_STEP, largest / 5)
    scales = np.exp(generator.uniform(np.log(smallest), np.log(largest), (count, 1)))
    # Coordinates outside of [0, 1] are mirrored at the edge, so that they do not gather on it.
    folded = np.abs(points + scales * generator.standard_normal(shape)) % 2.0
    moved = np.where(folded > 1.0, 2.0 - folded, folded)
    is_other = generator.random(shape) < np.maximum(scales, _OTHER_CHOICE)
    moved = np.where(space.choices > 0, np.where(is_other, _drawn_choices(space, generator, shape), points), moved)
    return space.snapped(np.where(is_changed, moved, points))


def sample_uniform(space: SearchSpace, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns points drawn uniformly from a space, of shape `[count, dimensions]`."""
    shape = (count, len(space.dimensions))
    drawn = np.where(space.choices > 0, _drawn_choices(space, generator, shape), generator.random(shape))
    return space.snapped(drawn)


def sample_normal(space: SearchSpace, generator: np.random.Generator) -> np.ndarray:
    """Returns a point `[dimensions]` drawn near the centre of a space; a coordinate outside is drawn uniformly."""
    deviations = [getattr(each, "scale", 1.0) for each in space.dimensions]  # choices are drawn below
    drawn = space.centre + deviations * generator.standard_normal(len(space.centre))
    drawn = np.where((drawn < 0) | (drawn > 1), generator.random(len(drawn)), drawn)
    return space.snapped(np.where(space.choices > 0, _drawn_choices(space, generator, (len(drawn),)), drawn)[None])[0]


def _drawn_choices(space: SearchSpace, generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.floor(generator.random(shape) * np.maximum(space.choices, 1))


_LOG_DENSITY = -0.5 * np.log(2 * np.pi)  # of the normal distribution at 0


def log_expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """Returns the logarithm of the expected improvement of a normal value over the best one, finite everywhere.

    With z = (mean - best) / deviation it is log(deviation) + log(phi(z) + z Phi(z)), in the stable form of Ament et al.
    (Unexpected Improvements to Expected Improvement, NeurIPS 2023). Means and standard deviations have the same shape.
    """
    z = (mean - best) / deviation
    low = np.minimum(z, -1.0)
    ratio = np.sqrt(np.pi / 2) * erfcx(-low / np.sqrt(2))  # Phi(z) / phi(z)
    far = np.log1p(np.maximum(low * ratio, -1.0 + 1e-16))
    far = np.where(low < -1e4, -2 * np.log(-low), far)
    high = np.maximum(z, -1.0)
    near = np.log(np.exp(_LOG_DENSITY - 0.5 * high**2) + high * np.exp(log_ndtr(high)))
    return np.log(deviation) + np.where(z < -1.0, _LOG_DENSITY - 0.5 * low**2 + far, near)


_FIT_POINTS = 128  # observations that the kernel's parameters are found from; a fit takes their cube
_JITTERS = (1e-8, 1e-6, 1e-4)  # of the diagonal, for points that coincide: the least that leaves it positive definite

# What is expected of the kernel before anything is observed, in logarithms: mean and standard deviation.
_VARIANCE = (0.0, 1.0)  # of standardised values
_LENGTH = (-0.5, 1.0)  # of an axis of the unit cube, where there is one axis; longer where there are more
_NOISE_VARIANCE = (-6.0, 2.0)

_SAME = 1e-12  # of the median: what differs by less is equal to it
_LARGEST = 1e150  # of a score or cost; larger ones, such as a sentinel for failures, count as that
_MOST_UNITS, _FARTHEST = 10.0, 1e9  # from the median to the highest value, and to any one
_EXPONENTS = (-1.0, 3.0)  # 1 changes nothing; beyond these all that is far from the median looks alike


class Surrogate:
    """Predicts a value, which is noisy, from features.

    A Matern kernel of smoothness 5/2 with a length for each feature and noise, whose parameters have the highest
    posterior density; the values are made normal first by the transformation of Yeo and Johnson (Biometrika, 2000).
    """

    def __init__(self, features: np.ndarray, values: np.ndarray, seed: int):
        """Fits it to features `[n, columns]` and values `[n]`, float64, finite, two or more.

        With `seed` it draws the observations for the kernel's parameters, where there are many.
        """
        self.warp = _fit_warp(values)  # gives values as predictions have them
        warped = self.warp(values)
        fitted = _fit_kernel(features, warped, seed)
        self.noise = float(fitted.k2.noise_level)  # variance of what is seen, of warped values
        self._kernel = fitted.k1
        self._process = self._conditioned(features, warped)

    def _conditioned(self, features: np.ndarray, warped: np.ndarray) -> GaussianProcessRegressor:
        for jitter in _JITTERS:
            process = GaussianProcessRegressor(self._kernel, alpha=self.noise + jitter, optimizer=None)
            with contextlib.suppress(np.linalg.LinAlgError):
                return process.fit(features, warped)
        raise AssertionError(f"a kernel {self._kernel} with noise {self.noise} is not positive definite")

    def predict(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns means and standard deviations of the warped value without noise, each float64 of shape `[n]`."""
        mean, deviation = self._process.predict(features, return_std=True)
        return mean, np.maximum(deviation, 1e-9)

    def believing(self, features: np.ndarray) -> Surrogate:
        """Returns a model that has observed its own predictions at some points."""
        if not len(features):
            return self
        believer = copy.copy(self)
        believed = np.concatenate([self._process.y_train_, self._process.predict(features)])
        believer._process = self._conditioned(np.concatenate([self._process.X_train_, features]), believed)
        return believer

    def draw(self, features: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Returns one draw of the function at some points: float64 of shape `[n]`, warped."""
        mean, covariance = self._process.predict(features, return_cov=True)
        return generator.multivariate_normal(mean, covariance, check_valid="ignore", method="eigh")


def _fit_warp(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    # Makes values normal; equal ones become 0. They are measured from their median in units of what half of them keep
    # to, before the exponent is found. A few very bad ones (runs that diverged) do not make all others look the same.
    values = values.clip(-_LARGEST, _LARGEST)  # so that no difference overflows
    median = np.median(values)
    away = np.abs(values - median)
    different = away[away > _SAME * abs(median)]
    if not len(different):
        return np.zeros_like
    unit = max(np.median(different), (values.max() - median) / _MOST_UNITS)

    def in_units(values: np.ndarray) -> np.ndarray:
        return np.clip((values.clip(-_LARGEST, _LARGEST) - median) / unit, -_FARTHEST, _FARTHEST)

    exponent = float(np.clip(yeojohnson(in_units(values))[1], *_EXPONENTS))
    curved = yeojohnson(in_units(values), exponent)
    mean, deviation = curved.mean(), curved.std()
    return lambda values: (yeojohnson(in_units(values), exponent) - mean) / deviation


class _Process(GaussianProcessRegressor):
    # Finds kernel parameters by their posterior, where scikit-learn's own takes the likelihood.

    @override
    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        found = super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if theta is None:
            return found
        lengths = len(theta) - 2
        means = np.array([_VARIANCE[0], *[_LENGTH[0] + 0.5 * np.log(lengths)] * lengths, _NOISE_VARIANCE[0]])
        deviations = np.array([_VARIANCE[1], *[_LENGTH[1]] * lengths, _NOISE_VARIANCE[1]])
        prior = -0.5 * (((theta - means) / deviations) ** 2).sum()
        if not eval_gradient:
            return found + prior
        return found[0] + prior, found[1] - (theta - means) / deviations**2


def _fit_kernel(features: np.ndarray, values: np.ndarray, seed: int):
    if len(values) > _FIT_POINTS:  # the best half of the points that a fit takes, and random others
        order = np.argsort(-values)
        best, rest = order[: _FIT_POINTS // 2], order[_FIT_POINTS // 2 :]
        drawn = np.random.default_rng(seed).choice(rest, _FIT_POINTS - len(best), replace=False)
        chosen = np.concatenate([best, drawn])
        features, values = features[chosen], values[chosen]
    columns = features.shape[1]
    length = np.exp(_LENGTH[0]) * np.sqrt(columns)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(np.full(columns, length), (1e-2, 1e3), nu=2.5)
    process = _Process(kernel + WhiteKernel(np.exp(_NOISE_VARIANCE[0]), (1e-8, 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length that does not matter grows to its bound
        return process.fit(features, values).kernel_


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
        # No candidate is taken that is expected to cost more than `max_cost`, if there is another.
        self._space, self._generator = space, generator
        self._has_progress = bool((history.progress < 1.0).any())
        features = self._features(history.points, history.progress)
        seed = int(generator.integers(2**31))
        worst = np.nanmin(history.scores)
        scores = Surrogate(features, np.where(np.isnan(history.scores), worst, history.scores), seed)
        self._scores = scores.believing(self._features(history.open_ends))  # else these would promise what they did
        ran = ~np.isnan(history.scores)  # what a failure took says nothing of what a whole run takes
        self._costs = Surrogate(features[ran], np.log(history.costs[ran]), seed)
        self._limit = self._costs.warp(np.log([max_cost]))[0] if np.isfinite(max_cost) else np.inf

        # The front is that of the models, because what was seen is partly luck.
        tried = np.concatenate([history.points[history.is_final], history.open_ends])
        features = self._features(tried)
        expected, costs = self._scores.predict(features)[0], self._costs.predict(features)[0]
        front = pareto_front(costs, expected)
        self._parents, costs, expected = tried[front], costs[front], expected[front]

        width, draw = costs[-1] - costs[0], generator.random
        base = costs[-1] if draw() < _DEAREST else costs[0] + width * draw()
        self._target = min(base + max(_SLACK * width, _LEAST_SLACK) * draw(), self._limit)
        self._tolerance = max(_TOLERANCE * width, _LEAST_TOLERANCE)
        self._best = best_within(costs, expected, self._target)

    def _features(self, points: np.ndarray, progress: np.ndarray | None = None) -> np.ndarray:
        features = self._space.features(points)
        if not self._has_progress:
            return features
        return np.column_stack([features, np.ones(len(points)) if progress is None else progress])

    def point(self) -> np.ndarray:
        """Returns the point to try, float64 of shape `[dimensions]`."""
        near = perturbed(self._space, self._parents, _CANDIDATES, self._generator)
        points = np.concatenate([near, sample_uniform(self._space, _UNIFORM_CANDIDATES, self._generator)])
        ratings = self._ratings(points)
        quiet = np.log(_NOISE / self._scores.noise) / np.log(_NOISE / _NO_NOISE)
        greed = _GREEDY + (_GREEDIEST - _GREEDY) * float(np.clip(quiet, 0.0, 1.0))
        if self._generator.random() >= greed:
            points = points[np.argsort(-ratings)[:_COMPETITORS]]
            features = self._features(points)
            return points[np.argmax(self._scores.draw(features, self._generator) - self._excess(features))]
        for largest in _NEARER_STEPS:
            best = np.argsort(-ratings)[:_REFINED]
            near = perturbed(self._space, points[best], _NEAR, self._generator, largest)
            points = np.concatenate([points[best], near])
            ratings = np.concatenate([ratings[best], self._ratings(near)])
        return points[np.argmax(ratings)]

    def _ratings(self, points: np.ndarray) -> np.ndarray:
        features = self._features(points)
        promise = log_expected_improvement(*self._scores.predict(features), self._best)
        return promise - self._excess(features)

    def _excess(self, features: np.ndarray) -> np.ndarray:
        costs, _ = self._costs.predict(features)
        excess = (np.maximum(0.0, costs - self._target) / self._tolerance) ** 2
        return excess + np.where(costs > self._limit, _FORBIDDEN * (1.0 + costs - self._limit), 0.0)


_FIRST_TRIALS = 4  # and one for each dimension, before models say anything


class ProteinSampler(RandomSampler):
    """Searches for high scores at low cost; what is not of its space is drawn at random.

    It starts at the centre of the space and near it, and goes on by a `Proposal` from every point of the curves.

    Trials have their costs and curves in their attributes; without them the cost is the time that a trial took. Failed
    trials count as the worst score seen. Trials that run, were stopped, or were too short to be scored get the score
    that the models expect, so that they are not tried again.
    """

    def __init__(self, space: SearchSpace, seed: int, max_cost: float = np.inf):
        # Draws are seeded by `seed` and the number of the trial: a sampler that continues a study repeats none. No
        # trial is proposed that is expected to cost more than `max_cost`.
        super().__init__(seed)
        self._space, self._seed, self._max_cost = space, seed, max_cost

    @override
    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._space.distributions

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        others = [each for each in study.get_trials(deepcopy=False) if each.number != trial.number]
        history = History(others, study.direction, self._space)
        with threadpool_limits(1):  # threads that wait for the cores of trials are slower than none
            point = self._propose(history, np.random.default_rng((self._seed, trial.number)))
        return self._space.values(point)

    def _propose(self, history: History, generator: np.random.Generator) -> np.ndarray:
        space = self._space
        if history.begun == 0:
            return space.snapped(space.centre[None])[0]
        if history.begun < _FIRST_TRIALS + len(space.dimensions):
            return sample_normal(space, generator)
        if history.is_final.sum() < 2:  # nearly all failed: where they did not is unknown
            return sample_uniform(space, 1, generator)[0]
        return Proposal(space, history, self._max_cost, generator).point()


def make_sampler(method: str, space: SearchSpace, seed: int, max_cost: float) -> BaseSampler:
    """Returns the sampler of `[sweep] method`: Protein's, or one of Optuna's, which know neither costs nor a start."""
    if method == "Protein":
        return ProteinSampler(space, seed, max_cost)
    with quiet_optuna():  # which samplers it calls experimental changes with the version
        return {"Random": RandomSampler, "TPE": TPESampler, "GP": GPSampler}[method](seed=seed)
