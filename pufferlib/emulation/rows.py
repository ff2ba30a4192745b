"""Structured observations and actions as rows of numbers, and back to what the environment takes.

The leaves of an action space lie in the row in the order in which the space lists them. A number that is one of n
choices counts from 0 to n - 1, whatever the `start` of its space. The row of a Discrete is one int32 of shape (); of
any nesting of Discrete, MultiDiscrete and MultiBinary it is int32, of a MultiDiscrete; of any nesting of Boxes
float32, of a Box of one dimension; and where both are mixed float32, of a Tuple.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import ArrayLike
from typing_extensions import override

from pufferlib import spaces
from pufferlib.errors import APIUsageError
from pufferlib.spaces import Layout, Leaf, leaf_array

Split = Callable[[np.ndarray], Any]
"""From a row to the environment's action, or to a part of it; from many rows to those of all."""

SUPPORTED = "Discrete, MultiDiscrete, MultiBinary, Box, or Dict and Tuple of these"


class ActionLayout:
    """The places of the parts of an environment's action in a row; small, compiled once, and it pickles.

    Attributes:
        space: the environment's own action space.
        canonical: the space of the row, see the module; what a PufferEnv declares as `single_action_space`.
        split: called with a row of the canonical space, float32 or int32, gives the environment's action: new arrays
            and NumPy integers of the dtypes that `space` has, inside its bounds. With many rows, `(count, *row_shape)`,
            it gives all actions in one structure, as Gymnasium's vector environments take them: arrays `(count,
            *leaf_shape)`. A NaN stays one in a Box of floats and is a ValueError elsewhere.
    """

    def __init__(self, space: gymnasium.Space):
        self.space = space
        leaves = list(_leaves(space))
        self.canonical = _canonical(space, leaves)
        is_float = spaces.action_dtype(self.canonical).kind == "f"
        widths = [int(np.prod(leaf.shape)) for leaf in leaves]
        columns = [slice(end - width, end) for end, width in zip(np.cumsum(widths).tolist(), widths, strict=True)]
        if isinstance(space, Discrete):
            columns = [slice(None)]  # the row is one number
        self.split = _compile(space, iter(columns), is_float)

    @override
    def __reduce__(self):
        return ActionLayout, (self.space,)


# ------------------------------------------------------------------------------------------------------- the canonical


def _leaves(space: gymnasium.Space, path: str = "action_space") -> Iterator[gymnasium.Space]:
    if isinstance(space, (Dict, Tuple)):
        for key, child in spaces.children(space):
            yield from _leaves(child, f"{path}[{key!r}]")
    elif isinstance(space, (Discrete, MultiDiscrete, MultiBinary, Box)):
        yield space
    else:
        raise APIUsageError(f"{path} must be {SUPPORTED}, got {type(space).__name__}; write a wrapper that offers that")


def _canonical(space: gymnasium.Space, leaves: list[gymnasium.Space]) -> gymnasium.Space:
    boxes = [leaf for leaf in leaves if isinstance(leaf, Box)]
    choices = [part.choices for leaf in leaves if not isinstance(leaf, Box) for part in spaces.action_parts(leaf)]
    if isinstance(space, Discrete):
        return Discrete(space.n)
    if choices and not boxes:
        return MultiDiscrete(choices)
    parts = [part for leaf in leaves for part in _mixed_parts(leaf) if part.shape != (0,)]
    if not parts:
        raise APIUsageError(f"an action space must have something to choose, got {space}; offer at least one number")
    if choices:
        mixed = Tuple(parts)
        spaces.check_action_space(mixed)
        return mixed
    return Box(np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts]))


def _mixed_parts(leaf: gymnasium.Space) -> list[gymnasium.Space]:
    if not isinstance(leaf, Box):
        return [Discrete(part.choices) for part in spaces.action_parts(leaf)]
    with np.errstate(over="ignore"):  # bounds beyond those of float32 become infinite
        return [Box(leaf.low.ravel().astype(np.float32), leaf.high.ravel().astype(np.float32))]


# ----------------------------------------------------------------------------------------------------- rows to actions


def _compile(space: gymnasium.Space, columns: Iterator[slice], is_float: bool) -> Split:
    # The columns are the last dimension of what is split.
    if isinstance(space, Dict):
        named = [(key, _compile(child, columns, is_float)) for key, child in spaces.children(space)]
        return lambda rows: {key: split(rows) for key, split in named}
    if isinstance(space, Tuple):
        parts = [_compile(child, columns, is_float) for _, child in spaces.children(space)]
        return lambda rows: tuple([split(rows) for split in parts])
    place = next(columns)
    if isinstance(space, Discrete):
        return _compile_choice(space, place.start)
    return _compile_array(space, place, is_float)


def _compile_choice(space: Discrete, column: int | None) -> Split:
    # Without a column a row is one number.
    start, kind, last = int(space.start), space.dtype.type, int(space.n) - 1
    number = functools.cache(lambda choice: kind(start + choice))  # making one takes time

    def split(rows: np.ndarray) -> np.integer | np.ndarray:
        numbers = rows if column is None else rows[..., column]
        if numbers.ndim == 0:
            return number(int(min(max(numbers.item(), 0), last)))
        if numbers.dtype.kind == "f" and np.isnan(numbers).any():
            raise ValueError(f"an action must be a number, got {numbers}")
        numbers = np.minimum(np.maximum(numbers, 0), last)  # np.clip takes ten times as long
        numbers = numbers.astype(np.int64) + start if start else numbers
        return numbers.astype(space.dtype, copy=False)

    return split


def _compile_array(space: MultiDiscrete | MultiBinary | Box, place: slice, is_float: bool) -> Split:
    dtype, shape = space.dtype, space.shape
    low, high, start = _box_bounds(space) if isinstance(space, Box) else _choice_bounds(space)
    is_rounded = is_float and dtype.kind != "f"
    is_integer_box = isinstance(space, Box) and dtype.kind != "f"

    def split(rows: np.ndarray) -> np.ndarray:
        numbers = np.minimum(np.maximum(rows[..., place], low), high)
        if is_rounded:
            if np.isnan(numbers).any():
                raise ValueError(f"an action must be a number, got {rows[..., place]}")
            numbers = np.rint(numbers)
        whole = (*rows.shape[:-1], *shape)
        if not is_integer_box:
            return (numbers + start).astype(dtype, copy=False).reshape(whole)
        with np.errstate(invalid="ignore"):  # floats miss large bounds by some, and the largest integer by one
            integers = numbers.astype(dtype).reshape(whole)
        np.maximum(integers, space.low, out=integers)
        return np.minimum(integers, space.high, out=integers)

    return split


def _choice_bounds(space: MultiDiscrete | MultiBinary) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, counts = (part.ravel() for part in spaces.categories(space))
    return np.zeros_like(counts), counts - 1, start


def _box_bounds(space: Box) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # Floats are cut to what the dtype holds, integers are float64.
    low, high = space.low.ravel(), space.high.ravel()
    if space.dtype.kind == "f":
        largest = np.finfo(space.dtype).max
        low, high = np.maximum(low, -largest), np.minimum(high, largest)
    else:
        low, high = low.astype(np.float64), high.astype(np.float64)
    return low, high, np.zeros_like(low)


_INT64 = np.dtype(np.int64)
_INTEGERS = (int, np.int64)


def row_writer(layout: Layout, row: np.ndarray) -> Callable[[Any], None]:
    """Makes the function that writes an observation into one row, or many into rows; it is called at every step.

    What an environment returns is cast to the leaf's dtype where nothing but precision is lost: float64 to float32, and
    integers to smaller ones that hold them. Values outside a space's bounds are not looked for.

    The row is contiguous, with the shape and dtype of `layout.row_space`, and the function keeps views of it. Rows have
    further dimensions before those, and so have all parts of the observations that go there. The function raises an
    APIUsageError that names the part of an observation which is missing, or has another shape or kind than its space.
    """
    leading = row.ndim - len(layout.row_space.shape)
    slots = []
    for leaf in layout.leaves:
        view = leaf_array(row, leaf, layout) if layout.is_packed else row
        of_rows = replace(leaf, shape=row.shape[:leading] + leaf.shape)
        slots.append((leaf.path, view, of_rows.shape, leaf.dtype, of_rows))
    ndarray = np.ndarray

    def write(observation: Any) -> None:
        try:
            for path, view, shape, dtype, leaf in slots:
                value = observation
                for key in path:
                    value = value[key]
                if type(value) is ndarray and value.dtype is dtype and value.shape == shape:
                    view[...] = value
                else:
                    _store(leaf, view, value)
        except (LookupError, TypeError) as error:
            raise _unfit(leaf, f"none ({type(error).__name__}: {error})") from error

    return write


def _store(leaf: Leaf, view: np.ndarray, value: ArrayLike) -> None:
    if type(value) in _INTEGERS and leaf.dtype is _INT64 and leaf.shape == ():  # a Discrete one
        view[()] = value
        return
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise _unfit(leaf, f"a {type(value).__name__} that is no array") from error
    if array.shape != leaf.shape:
        raise _unfit(leaf, f"{array.dtype} of shape {array.shape}")
    is_sure, is_possible = _casting(array.dtype, leaf.dtype)
    if not is_possible:
        raise _unfit(leaf, f"{array.dtype} of shape {array.shape}")
    view[...] = array
    if not is_sure and not np.array_equal(view, array):
        raise _unfit(leaf, f"{array.dtype} with values that do not fit, between {array.min()} and {array.max()}")


@functools.cache
def _casting(source: np.dtype, target: np.dtype) -> tuple[bool, bool]:
    is_sure = np.can_cast(source, target, "safe") or (source.kind == "f" and target.kind == "f")
    is_float = target.kind == "f"
    return is_sure or is_float, is_sure or (source.kind in "biu" and target.kind in "biuf")


def _unfit(leaf: Leaf, found: str) -> APIUsageError:
    return APIUsageError(
        f"{leaf.name} must be {leaf.dtype} of shape {leaf.shape}, got {found}; "
        "make the environment's observations fit its observation_space"
    )
