"""The acquisition function."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr

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
