import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from pufferlib.errors import APIUsageError
from pufferlib.policy import OneHot

BOARD = Box(0, 2, (2, 3), np.uint8)


def written_out(observations, space):
    """The same, one number after the other."""
    rows = []
    for row in observations.reshape(len(observations), -1).tolist():
        ones = []
        for value, low, high in zip(row, space.low.flat, space.high.flat, strict=True):
            value = min(max(value, int(low)), int(high))
            ones += [float(value == category) for category in range(int(low), int(high) + 1)]
        rows.append(ones)
    return torch.tensor(rows)


@pytest.mark.parametrize(
    "space",
    [
        BOARD,
        Box(0, 255, (2,), np.uint8),
        Box(-3, 3, (5, 5), np.int8),
        Box(np.array([0, -1, 7]), np.array([0, 1, 12]), dtype=np.int32),
        Box(-(2**31), -(2**31) + 3, (2,), np.int64),
    ],
    ids=["board", "bytes", "signs", "bounds of each", "far from 0"],
)
def test_every_value_between_the_bounds_has_a_column(space):
    one_hot, random = OneHot(space), np.random.default_rng(0)
    low, high = space.low.astype(np.int64) - 2, space.high.astype(np.int64) + 3  # some beyond
    limits = np.iinfo(space.dtype)
    values = np.clip(random.integers(low, high, (50, *space.shape)), max(limits.min, -(2**31)), limits.max)
    found = one_hot(torch.from_numpy(values.astype(space.dtype)).flatten(1))
    assert found.dtype == torch.float32 and found.shape == (50, one_hot.num_columns)
    assert torch.equal(found, written_out(values, space))


def test_leading_dimensions_stay():
    assert OneHot(BOARD)(torch.zeros(4, 5, 6, dtype=torch.uint8)).shape == (4, 5, 18)


def test_nothing_of_it_is_learned_or_saved():
    one_hot = OneHot(BOARD)
    assert not list(one_hot.parameters()) and not one_hot.state_dict()


@pytest.mark.parametrize("space", [Box(-1, 1, (3,)), Discrete(4), MultiDiscrete([2, 3]), Box(0, 1, (3,), np.bool_)])
def test_what_are_no_integers_in_one_box_is_refused(space):
    with pytest.raises(APIUsageError, match="one Box of integers, got .* switch it off"):
        OneHot(space)


@pytest.mark.parametrize("bounds", [(0, 256, np.int32), (-(2**31), 2**31 - 1, np.int32), (2**31, 2**31 + 2, np.int64)])
def test_more_categories_than_a_byte_has_are_refused(bounds):
    low, high, dtype = bounds
    with pytest.raises(APIUsageError, match="at most 256 values"):
        OneHot(Box(low, high, (3,), dtype))
