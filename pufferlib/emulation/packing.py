"""Observations written into rows, and the joint spaces of several agents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from numpy.typing import ArrayLike

from pufferlib import spaces
from pufferlib.emulation.actions import ActionLayout, Split
from pufferlib.errors import APIUsageError
from pufferlib.spaces import Layout, Leaf, only_numbers, path_name

_INT64 = np.dtype(np.int64)
_INTEGERS = (int, np.int64)


def row_writer(layout: Layout, row: np.ndarray) -> Callable[[Any], None]:
    """Makes the function that writes an observation into one row, or many into rows; it is called at every step.

    What an environment returns is cast to the leaf's dtype where nothing but precision is lost: float64 to float32, and
    integers to smaller ones that hold them. Values outside a space's bounds are not looked for.

    Args:
        layout: of the observations.
        row: contiguous, with the shape and dtype of `layout.row_space`; the function keeps views of it. Rows have
            further dimensions before those, and so have all parts of the observations that go there.

    Returns:
        A function of one observation, or of many in one structure. It raises APIUsageError if a part of it is missing,
        or has another shape or kind than its space; the message names it.
    """
    leading = row.ndim - len(layout.row_space.shape)
    leaves = [replace(leaf, shape=row.shape[:leading] + leaf.shape) if leading else leaf for leaf in layout.leaves]
    slots = [(leaf.path, _view(row, leaf, leading), leaf.shape, leaf.dtype, leaf) for leaf in leaves]
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
            raise _explained(layout, observation, error) from error

    def write_array(observation: ArrayLike) -> None:
        if type(observation) is ndarray and observation.dtype is dtype and observation.shape == shape:
            view[...] = observation
        else:
            _store(leaf, view, observation)

    if len(slots) == 1 and not slots[0][0]:
        _, view, shape, dtype, leaf = slots[0]
        return write_array
    return write


def _view(row: np.ndarray, leaf: Leaf, leading: int) -> np.ndarray:
    inside = np.empty(leaf.shape[leading:], leaf.dtype).strides
    return np.ndarray(leaf.shape, leaf.dtype, row, leaf.offset, row.strides[:leading] + inside)


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


def _explained(layout: Layout, observation: Any, error: Exception) -> Exception:
    for leaf in layout.leaves:
        value = observation
        for depth, key in enumerate(leaf.path):
            try:
                value = value[key]
            except (LookupError, TypeError):
                return APIUsageError(
                    f"{path_name(leaf.path[:depth])} must have an entry {key!r}, got {_described(value)}; "
                    "make the environment's observations fit its observation_space"
                )
    return error


def _described(value: object) -> str:
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value))}" if value else "an empty dict"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")


class AgentObservations:
    """The observations of agents as rows of one array; see PettingZooPufferEnv for what a row holds.

    Attributes:
        row_space: of every row.
        emulated: how rows are packed where all spaces are the same, None where nothing was packed or they differ.
        left_out: the names of the parts that are no numbers.
    """

    def __init__(self, agent_spaces: Sequence[gymnasium.Space]):
        layouts = [Layout.of(space) for space in agent_spaces]
        self._spaces = [only_numbers(space)[0] for space in agent_spaces]
        self.left_out = dict.fromkeys(name for layout in layouts for name in layout.left_out)
        self._layout = layouts[0] if all(layout == layouts[0] for layout in layouts) else None
        self.emulated = self._layout if self._layout and self._layout.is_packed else None
        self.row_space = self._layout.row_space if self._layout else _widest_box(map(_flat_space, self._spaces))

    def writers(self, rows: np.ndarray) -> list[Callable[[Any], None]]:
        """One function per agent, which writes an observation into the agent's row of `rows`."""
        if self._layout:
            return [row_writer(self._layout, row) for row in _each_row(rows)]
        return [_flat_writer(space, row) for space, row in zip(self._spaces, rows, strict=True)]


def _each_row(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[index, ...] for index in range(len(rows))]  # arrays, where a row has no dimension too


def _flat_space(space: gymnasium.Space) -> Box:
    flat = gymnasium.spaces.flatten_space(space)
    return Box(flat.low.astype(np.float32), flat.high.astype(np.float32))


def _flat_writer(space: gymnasium.Space, row: np.ndarray) -> Callable[[Any], None]:
    front = row[: gymnasium.spaces.flatdim(space)]
    layout = Layout.of(space)
    packed = np.zeros(layout.row_space.shape, layout.row_space.dtype)
    check = row_writer(layout, packed)

    def write(observation: Any) -> None:
        check(observation)
        front[:] = gymnasium.spaces.flatten(space, observation)

    return write


def _widest_box(boxes: Iterable[Box]) -> Box:
    boxes = list(boxes)
    length = max(box.shape[0] for box in boxes)
    low, high = np.full(length, np.inf, np.float32), np.full(length, -np.inf, np.float32)
    for box in boxes:
        front = slice(box.shape[0])
        low[front] = np.minimum(low[front], box.low)
        high[front] = np.maximum(high[front], box.high)
    return Box(low, high)


class AgentActions:
    """The actions of agents as rows of one array; see PettingZooPufferEnv.

    Attributes:
        row_space: of every row.
        splits: for every agent, from its row to what it takes.
    """

    def __init__(self, agent_spaces: Sequence[gymnasium.Space]):
        layouts = [ActionLayout(space) for space in agent_spaces]
        self.row_space = _common([layout.canonical for layout in layouts])
        self.splits: list[Split] = [_split(layout, self.row_space) for layout in layouts]


def _split(layout: ActionLayout, row_space: gymnasium.Space) -> Split:
    # The common row may be wider than the agent's own.
    split = layout.split
    is_number = isinstance(layout.canonical, Discrete) and not isinstance(row_space, Discrete)
    return (lambda row: split(row[0])) if is_number else split


def _common(rows: Sequence[gymnasium.Space]) -> gymnasium.Space:
    if all(row == rows[0] for row in rows):
        return rows[0]
    if all(isinstance(row, Discrete) for row in rows):
        return Discrete(max(row.n for row in rows))
    if all(isinstance(row, Box) for row in rows):
        return _widest_box(rows)
    if all(isinstance(row, (Discrete, MultiDiscrete)) for row in rows):
        choices = [[part.choices for part in spaces.action_parts(row)] for row in rows]
        length = max(map(len, choices))
        return MultiDiscrete(np.max([np.pad(each, (0, length - len(each))) for each in choices], axis=0))
    other = next(row for row in rows if row != rows[0])
    raise APIUsageError(
        f"agents must all act by choices, all by numbers, or all in the same way, got {rows[0]} and {other}; "
        "give them the same action space"
    )
