"""The logarithm of the expected improvement beside numbers found otherwise."""

import decimal
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pufferlib.sweep.proposal import log_expected_improvement


def by_integration(mean, deviation, best):
    """The mean of what a normal value is above the best one, by a sum over its density."""
    values, step = np.linspace(best, max(best, mean) + 12 * deviation, 400_001, retstep=True)
    density = np.exp(-0.5 * ((values - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    gained = (values - best) * density
    return float(np.log((gained.sum() - 0.5 * (gained[0] + gained[-1])) * step))


@pytest.mark.parametrize("deviation", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("z", [-8.0, -3.0, -1.001, -1.0, -0.999, 0.0, 0.5, 4.0, 11.0])
def test_it_is_the_mean_of_what_is_gained(z, deviation):
    mean, best = 2.0 + z * deviation, 2.0
    assert log_expected_improvement(mean, deviation, best) == pytest.approx(
        by_integration(mean, deviation, best), abs=1e-6
    )


@pytest.mark.parametrize("z", [-40, -300, -9_999, -10_001, -1_000_000])
def test_far_below_it_is_what_the_series_says(z):
    with decimal.localcontext(prec=60):
        square = decimal.Decimal(z) ** 2
        terms = 1 - 3 / square + 15 / square**2 - 105 / square**3  # of z^2 (phi(z) + z Phi(z)) / phi(z)
        expected = (terms / square).ln() - square / 2 - (2 * decimal.Decimal(math.pi)).ln() / 2
    found = log_expected_improvement(np.array(float(z)), np.array(1.0), 0.0)
    assert found == pytest.approx(float(expected), rel=1e-9)
    density = -0.5 * math.log(2 * math.pi) - 0.5 * z * z
    assert found - density == pytest.approx(float(expected) - density, rel=1e-4)  # without what is nearly all of it


def test_it_rises_from_the_farthest_bad_to_the_farthest_good():
    z = np.concatenate([-np.logspace(11, -9, 3_000), [0.0], np.logspace(-9, 11, 3_000)])
    found = log_expected_improvement(z, np.ones_like(z), 0.0)
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert found[-1] == pytest.approx(math.log(1e11))


@given(st.floats(-1e4, 1e4), st.floats(1e-9, 1e3), st.floats(-1e4, 1e4))
def test_its_unit_is_that_of_the_deviation(mean, deviation, best):
    z = (mean - best) / deviation
    of_one = log_expected_improvement(np.array(z), np.array(1.0), 0.0)
    found = log_expected_improvement(np.array(mean), np.array(deviation), best)
    assert found == pytest.approx(of_one + math.log(deviation), rel=1e-12, abs=1e-12)


def test_of_equal_means_the_less_certain_one_promises_more():
    deviations = np.array([0.1, 0.5, 2.0])
    for mean in (-3.0, 0.0, 3.0):
        assert (np.diff(log_expected_improvement(np.full(3, mean), deviations, 0.5)) > 0).all()
