import pickle

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import example, given, settings, strategies as st
from hypothesis.extra import numpy as numbers

from pufferlib import spaces
from pufferlib.emulation.rows import ActionLayout
from pufferlib.errors import APIUsageError

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint64")
SHAPES = numbers.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
FULL_SHAPES = numbers.array_shapes(max_dims=2, max_side=3)


@st.composite
def multi_discretes(draw):
    counts = draw(numbers.arrays(np.int64, draw(FULL_SHAPES), elements=st.integers(1, 9)))
    starts = draw(numbers.arrays(np.int64, counts.shape, elements=st.integers(-5, 5)))
    return MultiDiscrete(counts, dtype=draw(st.sampled_from([np.int64, np.int32, np.int8])), start=starts)


@st.composite
def float_boxes(draw):
    dtype, shape = np.dtype(draw(st.sampled_from(FLOATS))), draw(SHAPES)
    ends = st.floats(-100, 100, width=16) | st.sampled_from([0.1, 0.3]).map(lambda x: float(dtype.type(x)))
    low = draw(numbers.arrays(dtype, shape, elements=ends, fill=st.nothing()))
    high = low + draw(numbers.arrays(dtype, shape, elements=st.floats(0, 50, width=16)))
    is_unbounded = draw(st.booleans())
    return Box(-np.inf, np.inf, shape, dtype) if is_unbounded else Box(low, high, dtype=dtype)


@st.composite
def integer_boxes(draw):
    dtype, shape = np.dtype(draw(st.sampled_from(INTEGERS))), draw(SHAPES)
    info = np.iinfo(dtype)
    ends = st.integers(int(info.min), int(info.max))
    pair = np.sort(np.array([draw(ends), draw(ends)], dtype=dtype))
    return Box(np.full(shape, pair[0]), np.full(shape, pair[1]), dtype=dtype)


LEAVES = (
    st.builds(Discrete, st.integers(1, 9), start=st.integers(-5, 5))
    | multi_discretes()
    | FULL_SHAPES.map(MultiBinary)
    | float_boxes()
    | integer_boxes()
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(Tuple) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(Dict)
    ),
    max_leaves=6,
)


def layout_of(space):
    """None for a space in which there is nothing to choose."""
    try:
        return ActionLayout(space)
    except APIUsageError as error:
        assert "something to choose" in str(error)
        return None


def seeded_rows(layout, seed):
    rows = spaces.joint_space(layout.canonical, 1, are_actions=True)
    rows.seed(seed)
    return rows.sample()


@pytest.mark.slow
@given(space=SPACES, seed=st.integers(0, 2**20), scale=st.sampled_from([1, -3, 7]))
@example(space=Box(2**53 + 1, 2**53 + 1, (1,), np.int64), seed=0, scale=1)
@settings(deadline=None, max_examples=500)
def test_every_row_becomes_an_action_of_the_space(space, seed, scale):
    layout = layout_of(space)
    if layout is not None:
        row = seeded_rows(layout, seed)[0] * scale
        assert space.contains(layout.split(np.asarray(row, spaces.action_dtype(layout.canonical))))


@pytest.mark.slow
@given(space=SPACES, seed=st.integers(0, 2**20), scale=st.sampled_from([1, -3, 7]), count=st.integers(1, 3))
@settings(deadline=None, max_examples=200)
def test_many_rows_at_once_become_the_same_actions(space, seed, scale, count):
    layout = layout_of(space)
    if layout is None:
        return
    rows = np.concatenate([seeded_rows(layout, seed + index) for index in range(count)]) * scale
    rows = rows.astype(spaces.action_dtype(layout.canonical))
    actions = [layout.split(row) for row in rows]
    expected = concatenate(space, actions, create_empty_array(space, count))
    flat, expected_flat = (list(leaves_of(structure)) for structure in (layout.split(rows), expected))
    assert len(flat) == len(expected_flat)
    for leaf, expected_leaf in zip(flat, expected_flat, strict=True):
        assert leaf.dtype == expected_leaf.dtype
        np.testing.assert_array_equal(leaf, expected_leaf)


def leaves_of(structure):
    if isinstance(structure, (dict, tuple)):
        for part in structure.values() if isinstance(structure, dict) else structure:
            yield from leaves_of(part)
    else:
        yield structure


@given(space=SPACES)
@settings(deadline=None, max_examples=50)
def test_a_layout_survives_pickling(space):
    layout = layout_of(space)
    if layout is not None:
        copy = pickle.loads(pickle.dumps(layout))
        row = seeded_rows(layout, 1)[0]
        assert copy.canonical == layout.canonical and str(copy.split(row)) == str(layout.split(row))


# --- the canonical space

CANONICAL = {
    "discrete": (Discrete(3, start=5), Discrete(3)),
    "multidiscrete": (MultiDiscrete([[2, 3], [4, 5]]), MultiDiscrete([2, 3, 4, 5])),
    "binary": (MultiBinary(3), MultiDiscrete([2, 2, 2])),
    "one discrete inside": (Tuple([Discrete(3)]), MultiDiscrete([3])),
    "discrete ones": (Dict(b=Discrete(3), a=Tuple([MultiBinary(1), Discrete(4)])), MultiDiscrete([3, 2, 4])),
    "a flat box": (Box(-2, 2, (3,), np.float64), Box(-2, 2, (3,))),
    "a box of two dimensions": (Box(-2, 2, (2, 3)), Box(-2, 2, (6,))),
    "a number": (Box(0, 1, ()), Box(0, 1, (1,))),
    "boxes": (Tuple([Box(0, 1, (2,)), Box(-1, 2, ())]), Box(np.float32([0, 0, -1]), np.float32([1, 1, 2]))),
    "both": (
        Dict(a=Discrete(3), b=Box(0, 1, (2, 1)), c=MultiBinary(1)),
        Tuple([Discrete(3), Box(0, 1, (2,)), Discrete(2)]),
    ),
    "an empty box": (Tuple([Box(0, 1, (0,)), Discrete(2), Box(0, 1, (1,))]), Tuple([Discrete(2), Box(0, 1, (1,))])),
}


@pytest.mark.parametrize("name", CANONICAL)
def test_canonical(name):
    space, expected = CANONICAL[name]
    assert ActionLayout(space).canonical == expected


# --- actions


def test_a_discrete_counts_from_its_start():
    split = ActionLayout(Discrete(3, start=-1)).split
    found = [split(choice) for choice in np.arange(3, dtype=np.int32)]
    assert found == [-1, 0, 1] and {type(action) for action in found} == {np.int64}


def test_a_nested_action_has_the_form_of_its_space():
    space = Dict(turn=Discrete(3), arm=Dict(force=Box(-1, 1, (2, 2), np.float64), grip=MultiBinary(2)))
    action = ActionLayout(space).split(np.float32([9, 7, 0.5, -1, 0, 1, 0]))
    assert action["turn"] == 2
    assert np.array_equal(action["arm"]["force"], [[1, 0.5], [-1, 0]]) and action["arm"]["force"].dtype == np.float64
    assert np.array_equal(action["arm"]["grip"], [1, 0]) and action["arm"]["grip"].dtype == np.int8


def test_an_action_is_no_view_of_its_row():
    row = np.zeros(2, np.float32)
    action = ActionLayout(Box(-1, 1, (2,))).split(row)
    row[:] = 1
    assert not action.any()


def test_integers_are_the_nearest_ones():
    assert ActionLayout(Box(0, 255, (3,), np.uint8)).split(np.float32([2.4, 2.6, 300])).tolist() == [2, 3, 255]


@pytest.mark.parametrize("space", [Discrete(2), MultiDiscrete([2, 2]), Box(0, 5, (1,), np.int32)])
def test_what_is_no_number_is_refused_for_integers(space):
    layout = ActionLayout(Tuple([space, Box(0, 1, (1,))]))
    row = np.full(spaces.action_shape(layout.canonical), np.nan, np.float32)
    with pytest.raises(ValueError, match="number|NaN"):
        layout.split(row)
    with pytest.raises(ValueError, match="number|NaN"):
        layout.split(row[np.newaxis])


@pytest.mark.parametrize("space", [Discrete(3, start=4), MultiDiscrete([3], start=[4]), Box(4, 6, (1,), np.int32)])
def test_an_infinite_number_is_the_bound_of_an_integer(space):
    layout = ActionLayout(Tuple([space, Box(0, 1, (1,))]))
    for number, expected in ((-np.inf, 4), (np.inf, 6)):
        row = np.float32([number, 0])
        assert layout.split(row)[0] == layout.split(row[np.newaxis])[0] == expected


# --- what cannot be


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Text(5), r"action_space must be Discrete, .*, got Text; write a wrapper"),
        (Dict(a=Tuple([Discrete(2), Text(5)])), r"action_space\['a'\]\[1\] must be Discrete, .*, got Text"),
        (Tuple([]), r"must have something to choose, got Tuple\(\)"),
        (Box(0, 1, (0,)), "must have something to choose"),
        (Tuple([Discrete(2**25), Box(0, 1, (1,))]), r"at most 16777216 choices .* got Discrete\(33554432\) at index 0"),
    ],
)
def test_an_unsupported_space_is_named_in_one_sentence(space, message):
    with pytest.raises(APIUsageError, match=message) as caught:
        ActionLayout(space)
    assert "\n" not in str(caught.value)
