"""One row space for agents whose own spaces may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from pufferlib import spaces
from pufferlib.emulation.actions import ActionLayout, Split
from pufferlib.emulation.packing import row_writer
from pufferlib.errors import APIUsageError
from pufferlib.spaces.layout import Layout, only_numbers


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
