"""Rows of actions, and the joint spaces of many agents."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple
from typing_extensions import override

from pufferlib.errors import APIUsageError

MAX_MIXED_CHOICES = 2**24  # float32 holds every integer below


@dataclass(frozen=True)
class ActionPart:
    """Some columns of an action row that are decided together.

    Attributes:
        columns: of the row.
        choices: of a discrete part, which has one column and counts from 0; None for numbers.
    """

    columns: slice
    choices: int | None

    @property
    def width(self) -> int:
        """Columns."""
        return self.columns.stop - self.columns.start

    @property
    def outputs(self) -> int:
        """What a policy gives for it: a logit for every choice, or a mean for every number."""
        return self.width if self.choices is None else self.choices


def check_action_space(space: gymnasium.Space) -> None:
    """Checks that the action of one agent is a row of numbers.

    That is a Discrete, MultiDiscrete, MultiBinary or Box, or, for actions that mix them, a Tuple of Discrete and
    one-dimensional float32 Box. The row of a Tuple is one float32 vector: its parts in their order, one number for each
    Discrete, which counts from 0 like every discrete number of a row, and k for a Box of k.

    Raises:
        APIUsageError: if it is not; wrap the environment with pufferlib.emulation.
    """
    if isinstance(space, (Discrete, MultiDiscrete, MultiBinary, Box)):
        return
    if not isinstance(space, Tuple):
        raise APIUsageError(
            "an action space must be Discrete, MultiDiscrete, Box or a Tuple of Discrete and one-dimensional float32 "
            f"Box, got {type(space).__name__}; wrap the environment with pufferlib.emulation"
        )
    for index, part in enumerate(space.spaces):
        if not _is_mixed_part(part):
            raise APIUsageError(
                f"a Tuple of actions must hold Discrete of at most {MAX_MIXED_CHOICES} choices and one-dimensional "
                f"float32 Box, got {part} at index {index}; wrap the environment with pufferlib.emulation"
            )
    if not space.spaces:
        raise APIUsageError("a Tuple of actions must have parts, got an empty one; add a Discrete or a Box")


def _is_mixed_part(space: gymnasium.Space) -> bool:
    if isinstance(space, Discrete):
        return space.n <= MAX_MIXED_CHOICES
    return isinstance(space, Box) and space.dtype == np.float32 and len(space.shape) == 1


def action_shape(space: gymnasium.Space) -> tuple[int, ...]:
    """The shape of one agent's action row.

    Raises:
        APIUsageError: if it has none, see `check_action_space`.
    """
    check_action_space(space)
    return (action_parts(space)[-1].columns.stop,) if isinstance(space, Tuple) else space.shape


def action_dtype(space: gymnasium.Space) -> np.dtype:
    """The dtype of an action array: float32 for float boxes and mixed actions, int32 for everything else."""
    is_float = isinstance(space, Tuple) or (isinstance(space, Box) and space.dtype.kind == "f")
    return np.dtype(np.float32 if is_float else np.int32)


def action_parts(space: gymnasium.Space) -> tuple[ActionPart, ...]:
    """What a policy decides independently of each other, in the order of the columns of a flattened row.

    Raises:
        APIUsageError: if the space has no rows, see `check_action_space`.
    """
    check_action_space(space)
    parts, column = [], 0
    for width, choices in chain.from_iterable(map(_sizes, space.spaces if isinstance(space, Tuple) else [space])):
        parts.append(ActionPart(slice(column, column + width), choices))
        column += width
    return tuple(parts)


def _sizes(space: gymnasium.Space) -> list[tuple[int, int | None]]:
    if isinstance(space, Discrete):
        return [(1, int(space.n))]
    if isinstance(space, MultiDiscrete):
        return [(1, int(choices)) for choices in space.nvec.flat]
    if isinstance(space, MultiBinary):
        return [(1, 2)] * int(np.prod(space.shape))
    return [(int(np.prod(space.shape)), None)]


def joint_space(space: gymnasium.Space, num_agents: int) -> gymnasium.Space:
    """The space of `num_agents` rows of `space`; see `check_action_space` for the rows of a Tuple.

    Raises:
        APIUsageError: if the space has no fixed shape; wrap the environment with pufferlib.emulation.
    """
    if isinstance(space, Discrete):
        return MultiDiscrete(np.full(num_agents, space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(np.broadcast_to(space.nvec, (num_agents, *space.nvec.shape)).copy())
    if isinstance(space, MultiBinary):
        return MultiBinary((num_agents, *space.shape))
    if isinstance(space, Box):
        low = np.broadcast_to(space.low, (num_agents, *space.shape))
        high = np.broadcast_to(space.high, (num_agents, *space.shape))
        return Box(low, high, dtype=space.dtype)
    if isinstance(space, Tuple):
        return MixedRows(space, num_agents)
    raise APIUsageError(
        f"a space must be Box, Discrete, MultiDiscrete or MultiBinary, got {type(space).__name__}; "
        "wrap the environment with pufferlib.emulation"
    )


class MixedRows(Box):
    """Rows of mixed actions: a Box whose discrete columns hold whole numbers only."""

    def __init__(self, space: Tuple, num_agents: int):
        check_action_space(space)
        low = [np.zeros(1, np.float32) if isinstance(part, Discrete) else part.low for part in space.spaces]
        high = [np.float32([part.n - 1]) if isinstance(part, Discrete) else part.high for part in space.spaces]
        rows = (num_agents, 1)
        super().__init__(np.tile(np.concatenate(low), rows), np.tile(np.concatenate(high), rows), dtype=np.float32)
        discrete = [part for part in action_parts(space) if part.choices is not None]
        self._columns = [part.columns.start for part in discrete]
        self._choices = [part.choices for part in discrete]

    @override
    def sample(self, mask: None = None, probability: None = None) -> np.ndarray:
        """Draws rows, float32: every choice of a discrete column is equally likely."""
        rows = super().sample(mask, probability)
        rows[:, self._columns] = self.np_random.integers(0, self._choices, (len(rows), len(self._columns)))
        return rows

    @override
    def contains(self, x: Any) -> bool:
        """Whether `x` are such rows."""
        return super().contains(x) and not np.any(np.asarray(x)[:, self._columns] % 1)
