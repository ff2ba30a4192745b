import numpy as np
import pytest

from pufferlib.ppo.collector import NonFiniteFilter


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 2, 5)])
def test_what_is_not_finite_becomes_0_in_a_copy(value, shape):
    nonfinite, numbers = NonFiniteFilter(10), np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    numbers[2, ...].flat[-1] = value
    before = numbers.copy()
    found, is_whole = nonfinite.filter(numbers, slice(3, 7))
    np.testing.assert_array_equal(numbers, before)
    np.testing.assert_array_equal(found, np.nan_to_num(before, nan=0, posinf=0, neginf=0))
    assert found.dtype == np.float32 and is_whole.tolist() == [True, True, False, True]
    assert nonfinite.pop_bad_segments().tolist() == [5] and nonfinite.pop_bad_segments().tolist() == []


@pytest.mark.parametrize("numbers", [np.ones(3, np.float32), np.full(3, 3e38, np.float32), np.arange(3)])
def test_what_is_finite_stays_the_very_array(numbers):
    nonfinite = NonFiniteFilter(3)
    with np.errstate(over="ignore"):
        found, is_whole = nonfinite.filter(numbers, np.arange(3))
    np.testing.assert_array_equal(found, numbers)
    assert np.all(is_whole) and not len(nonfinite.pop_bad_segments())


def test_segments_may_come_in_any_order_and_again():
    nonfinite = NonFiniteFilter(8)
    nonfinite.filter(np.array([np.nan, 0.0, np.inf]), np.array([6, 1, 2]))
    nonfinite.filter(np.array([0.0, 1.0]), np.array([6, 2]))
    assert nonfinite.pop_bad_segments().tolist() == [2, 6]
