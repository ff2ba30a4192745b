"""Random spaces, packed, unpacked and viewed again."""

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib.emulation import Layout, nativize, unpack
from pufferlib.emulation.layout import row_writer

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64")

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    low, high = (-3, 3) if dtype.kind in "if" else (0, 1 if dtype.kind == "b" else 3)
    return Box(low, high, draw(shapes), dtype=dtype.type)


leaves = st.one_of(
    boxes(),
    st.builds(lambda n, start: Discrete(n, start=start), st.integers(1, 9), st.integers(-3, 3)),
    st.builds(
        lambda nvec, start: MultiDiscrete(nvec, start=[start] * len(nvec)),
        st.lists(st.integers(1, 5), min_size=1, max_size=4),
        st.integers(-2, 2),
    ),
    st.builds(MultiBinary, st.integers(1, 5)),
)
spaces = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(Tuple),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, min_size=1, max_size=4).map(Dict),
    ),
    max_leaves=8,
)


def assert_same(expected, found, space) -> None:
    """Compares nested observations by structure, dtype, shape and value."""
    if isinstance(space, Dict):
        assert list(found) == list(space.spaces)
        for key in space.spaces:
            assert_same(expected[key], found[key], space[key])
    elif isinstance(space, Tuple):
        assert isinstance(found, tuple)
        for entry, other, part in zip(expected, found, space.spaces, strict=True):
            assert_same(entry, other, part)
    else:
        array = np.asarray(found)
        assert array.dtype == (np.int64 if isinstance(space, Discrete) else space.dtype)
        assert array.shape == np.shape(expected)
        np.testing.assert_array_equal(array, expected)


def packed_rows(space: gymnasium.Space, count: int) -> tuple[Layout, np.ndarray, list]:
    """Some samples of a space in as many rows."""
    layout = Layout.of(space)
    rows = np.zeros((count, *layout.row_space.shape), layout.row_space.dtype)
    samples = [space.sample() for _ in range(count)]
    for row, sample in enumerate(samples):
        row_writer(layout, rows[row, ...])(sample)
    return layout, rows, samples


@settings(max_examples=500, deadline=None)
@given(spaces, st.integers(0, 2**32 - 1))
def test_observations_come_back_from_rows_in_numpy_and_torch(space, seed):
    space.seed(seed)
    layout, rows, samples = packed_rows(space, 3)
    in_numpy, in_torch = unpack(rows, layout), nativize(torch.from_numpy(rows), layout)
    for row, sample in enumerate(samples):
        assert rows[row, ...] in layout.row_space
        assert_same(sample, part_of(in_numpy, row), space)
        assert_same(sample, part_of(in_torch, row), space)


def part_of(observations, row):
    if isinstance(observations, dict):
        return {key: part_of(value, row) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(part_of(value, row) for value in observations)
    return observations[row]
