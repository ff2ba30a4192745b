"""Random spaces, packed, unpacked and viewed again."""

import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from hypothesis import given, settings, strategies as st

from pufferlib.emulation import Layout, nativize, unpack
from pufferlib.emulation.rows import row_writer
from pufferlib.errors import APIUsageError
from pufferlib.spaces import in_single_precision, joint_space

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


@settings(max_examples=150, deadline=None)
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


MIXED = Dict(
    {
        "agent": Dict({"speed": Box(-1, 1, (3,), np.float32), "job": Tuple([Discrete(4, start=2), MultiBinary(3)])}),
        "camera": Box(0, 255, (2, 5), np.uint8),
        "map": Box(-9, 9, (3,), np.float64),
        "nothing": Box(0, 1, (0, 2), np.float32),
    }
)


def test_leaves_lie_at_multiples_of_their_size_in_rows_of_a_multiple_of_the_largest():
    layout = Layout.of(MIXED)
    assert layout.row_space == Box(0, 255, (64,), np.uint8)
    assert {leaf.name: leaf.offset for leaf in layout.leaves} == {
        "observation['agent']['job'][0]": 0,
        "observation['agent']['job'][1]": 8,
        "observation['agent']['speed']": 12,
        "observation['camera']": 24,
        "observation['map']": 40,
        "observation['nothing']": 64,
    }


def test_leaves_of_one_dtype_make_a_row_of_it_with_their_bounds():
    layout = Layout.of(Tuple([Discrete(4, start=2), MultiDiscrete([2, 3]), Box(-7, 7, (1, 2), np.int64)]))
    low, high = [2, 0, 0, -7, -7], [5, 1, 2, 7, 7]
    assert layout.row_space == Box(np.array(low), np.array(high), dtype=np.int64)


def test_a_box_stays_as_it_is():
    space = Box(-1, 1, (2, 3), np.float64)
    assert Layout.of(space).row_space is space and not Layout.of(space).is_packed
    rows = np.ones((4, 2, 3))
    assert unpack(rows, Layout.of(space)) is rows and unpack(rows, None) is rows


def test_boxes_of_double_precision_are_of_single_wherever_they_are():
    box, choice = Box(-1, 1, (2,), np.float64), Discrete(3)
    single = Box(-1, 1, (2,), np.float32)
    space = in_single_precision(Dict({"pair": Tuple((box, choice)), "box": box}))
    assert space == Dict({"pair": Tuple((single, choice)), "box": single})


@pytest.mark.parametrize("space", [Discrete(3, start=2), MultiDiscrete([[3, 2]], start=[[-1, 5]])])
def test_the_joint_space_begins_where_the_space_does_but_actions_count_from_0(space):
    rows = np.stack([space.sample() for _ in range(20)])
    assert rows in joint_space(space, 20) and rows - space.start in joint_space(space, 20, are_actions=True)
    assert rows not in joint_space(space, 20, are_actions=True)


def test_a_lone_discrete_observation_has_one_number():
    layout = Layout.of(Discrete(5, start=-2))
    assert layout.row_space == Box(-2, 2, (1,), np.int64) and layout.leaves[0].shape == ()
    row = np.zeros(1, np.int64)
    row_writer(layout, row)(np.int32(-2))
    assert unpack(row, layout) == -2


def test_numpy_and_torch_see_the_memory_of_the_rows():
    layout, rows, _ = packed_rows(MIXED, 4)
    assert nativize(torch.from_numpy(rows[0]), layout)["agent"]["job"][0].shape == ()
    tensor = torch.from_numpy(rows)
    in_numpy, in_torch = unpack(rows, layout), nativize(tensor, layout)
    for leaf in layout.leaves:
        array, view = in_numpy, in_torch
        for key in leaf.path:
            array, view = array[key], view[key]
        assert view.shape == array.shape == (4, *leaf.shape)
        if array.size:
            assert np.shares_memory(array, rows) and view.data_ptr() == tensor.data_ptr() + leaf.offset


def test_views_are_views_of_what_the_trainer_makes_of_rows():
    layout, rows, _ = packed_rows(MIXED, 30)
    by_column = torch.from_numpy(rows).view(5, 6, -1)
    for part in (by_column.transpose(0, 1), by_column[1:, 2:4], by_column[::2].transpose(0, 1), by_column[3]):
        expected = nativize(part.contiguous(), layout)
        found = nativize(part, layout)
        for key in ("camera", "map"):
            assert torch.equal(found[key], expected[key])
            assert found[key].untyped_storage().data_ptr() == by_column.untyped_storage().data_ptr()


def test_a_layout_survives_pickling_and_equals_its_like():
    layout = pickle.loads(pickle.dumps(Layout.of(MIXED)))
    assert layout == Layout.of(MIXED)
    assert layout != Layout.of(Dict({**MIXED.spaces, "camera": Box(0, 255, (5, 2), np.uint8)}))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            Dict({"a": Tuple([gymnasium.spaces.Text(5)])}),
            r"must hold a Box, .* got only observation\['a'\]\[0\] \(Text\)",
        ),
        (Dict({"nothing": Dict({})}), r"must hold a Box, .* got only Dict\("),
        (Tuple([gymnasium.spaces.Sequence(Discrete(2))]), r"must hold a Box.* got only observation\[0\] \(Sequence\)"),
        (Box(0, 1, (2,), np.longdouble), r"observation must have a dtype of bool, .* got float128"),
    ],
)
def test_what_cannot_be_packed_is_named(space, message):
    with pytest.raises(APIUsageError, match=message):
        Layout.of(space)


def test_parts_that_are_no_numbers_are_left_out_where_others_remain():
    words, graph = gymnasium.spaces.Text(9), gymnasium.spaces.Graph(Box(0, 1, (2,)), None)
    pair = Tuple([words, Box(-1, 1, (2,), np.float32), graph, Discrete(3)])
    space = Dict({"pair": pair, "goal": gymnasium.spaces.Sequence(Discrete(2)), "only": Dict({"words": words})})
    layout = Layout.of(space)
    assert set(layout.left_out) == {
        "observation['goal'] (Sequence)",
        "observation['only']['words'] (Text)",
        "observation['pair'][0] (Text)",
        "observation['pair'][2] (Graph)",
    }
    rows = np.zeros((1, *layout.row_space.shape), layout.row_space.dtype)
    sample = space.sample()
    row_writer(layout, rows[0, ...])(sample)
    seen = unpack(rows, layout)["pair"]  # by the indices that the environment has
    np.testing.assert_array_equal(seen[1][0], sample["pair"][1])
    assert seen[3][0] == sample["pair"][3] and seen.keys() == {1, 3}
