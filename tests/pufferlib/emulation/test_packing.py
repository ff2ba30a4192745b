"""What is written into a row, and what is refused."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from pufferlib.emulation import Layout, unpack
from pufferlib.emulation.rows import row_writer
from pufferlib.errors import APIUsageError

AGENT = Dict({"agent": Dict({"speed": Box(-1, 1, (3,), np.float32), "job": Discrete(4)})})


def write(space, observation):
    layout = Layout.of(space)
    row = np.zeros(layout.row_space.shape, layout.row_space.dtype)
    row_writer(layout, row)(observation)
    return unpack(row, layout)


@pytest.mark.parametrize(
    ("space", "given", "kept"),
    [
        (Box(-1, 1, (2,), np.float32), np.array([0.5, -0.5]), [0.5, -0.5]),
        (Box(-1, 1, (2,), np.float32), [0.5, 1], [0.5, 1]),
        (Box(0, 255, (2,), np.uint8), np.array([7, 255]), [7, 255]),
        (Box(0, 9, (2,), np.int64), np.array([True, False]), [1, 0]),
        (MultiBinary(2), np.array([True, False]), [1, 0]),
        (Discrete(9), np.array(3, np.uint8), 3),
        (Discrete(9), True, 1),
        (Tuple([Box(0, 1, (), np.float32), Discrete(2)]), [0.5, 1], (0.5, 1)),
    ],
)
def test_observations_of_another_dtype_are_cast_where_they_fit(space, given, kept):
    found = write(space, given)
    assert (
        all(np.array_equal(left, right) for left, right in zip(found, kept, strict=True))
        if np.ndim(kept)
        else (found == kept)
    )


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (
            Box(-1, 1, (2,), np.float32),
            np.zeros(3),
            r"observation must be float32 of shape \(2,\), got float64 of shape",
        ),
        (Box(-1, 1, (2,), np.float32), np.float32(0), r"must be float32 of shape \(2,\), got float32 of shape \(\)"),
        (Box(-1, 1, (2,), np.float32), None, r"got object of shape \(\)"),
        (Box(-1, 1, (2,), np.float32), [[1], [1, 2]], r"got a list that is no array"),
        (Box(0, 255, (2,), np.uint8), np.array([0, 256]), r"got int64 with values that do not fit, between 0 and 256"),
        (Box(0, 9, (2,), np.int32), np.array([0.5, 1.0]), r"must be int32 of shape \(2,\), got float64"),
        (Discrete(3), np.array([1]), r"must be int64 of shape \(\), got int64 of shape \(1,\)"),
        (Discrete(3), 1.0, r"must be int64 of shape \(\), got float64"),
        (AGENT, {"agent": {"speed": np.zeros(3)}}, r"observation\['agent'\]\['job'\] must be .* got none \(KeyError"),
        (AGENT, {"agent": 3}, r"observation\['agent'\]\['job'\] must be int64 .* got none \(TypeError: 'int'"),
        (Tuple([Discrete(2), Discrete(2)]), (1,), r"observation\[1\] must be int64 .*, got none \(IndexError"),
    ],
)
def test_what_does_not_fit_the_space_is_named(space, observation, message):
    with pytest.raises(APIUsageError, match=message):
        write(space, observation)
