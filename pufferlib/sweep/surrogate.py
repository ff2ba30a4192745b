"""The Gaussian process of Protein and its acquisition function."""

from __future__ import annotations

import contextlib
import copy
import warnings

import numpy as np
from scipy.special import erfcx, log_ndtr
from scipy.stats import yeojohnson
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from typing_extensions import override

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
_NOISE = (-6.0, 2.0)

_SAME = 1e-12  # of the median: what differs by less is equal to it
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
        self.warp = _Warp(values)  # gives values as predictions have them
        warped = self.warp(values)
        fitted = _fit_kernel(*_subset(features, warped, seed))
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
        return mean + _root(covariance) @ generator.standard_normal(len(mean))


def _root(covariance: np.ndarray) -> np.ndarray:
    for jitter in _JITTERS:
        with contextlib.suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
    raise AssertionError("a covariance of predictions is not positive definite")


class _Warp:
    # Makes values normal; equal ones become 0. They are measured from their median in units of what half of them keep
    # to, before the exponent is found. A few very bad ones (runs that diverged) do not make all others look the same.

    def __init__(self, values: np.ndarray):
        self._median = np.median(values)
        away = np.abs(values - self._median)
        different = away[away > _SAME * abs(self._median)]
        self._is_flat = not len(different)
        if not self._is_flat:
            self._unit = max(np.median(different), (values.max() - self._median) / _MOST_UNITS)
            self._exponent = float(np.clip(yeojohnson(self._in_units(values))[1], *_EXPONENTS))
            curved = yeojohnson(self._in_units(values), self._exponent)
            self._mean, self._deviation = curved.mean(), curved.std()

    def __call__(self, values: np.ndarray) -> np.ndarray:
        if self._is_flat:
            return np.zeros(len(values))
        return (yeojohnson(self._in_units(values), self._exponent) - self._mean) / self._deviation

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return np.clip((values - self._median) / self._unit, -_FARTHEST, _FARTHEST)


class _Process(GaussianProcessRegressor):
    # Finds kernel parameters by their posterior, where scikit-learn's own takes the likelihood.

    @override
    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        found = super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if theta is None:
            return found
        lengths = len(theta) - 2
        means = np.array([_VARIANCE[0], *[_LENGTH[0] + 0.5 * np.log(lengths)] * lengths, _NOISE[0]])
        deviations = np.array([_VARIANCE[1], *[_LENGTH[1]] * lengths, _NOISE[1]])
        prior = -0.5 * (((theta - means) / deviations) ** 2).sum()
        if not eval_gradient:
            return found + prior
        return found[0] + prior, found[1] - (theta - means) / deviations**2


def _fit_kernel(features: np.ndarray, values: np.ndarray):
    columns = features.shape[1]
    length = np.exp(_LENGTH[0]) * np.sqrt(columns)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(np.full(columns, length), (1e-2, 1e3), nu=2.5)
    process = _Process(kernel + WhiteKernel(np.exp(_NOISE[0]), (1e-8, 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length that does not matter grows to its bound
        return process.fit(features, values).kernel_


def _subset(features: np.ndarray, values: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    # The best half of the points that a fit takes, and random others.
    if len(values) <= _FIT_POINTS:
        return features, values
    order = np.argsort(-values)
    best, rest = order[: _FIT_POINTS // 2], order[_FIT_POINTS // 2 :]
    drawn = np.random.default_rng(seed).choice(rest, _FIT_POINTS - len(best), replace=False)
    chosen = np.concatenate([best, drawn])
    return features[chosen], values[chosen]
