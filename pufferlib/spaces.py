"""Spaces of actions and observations as rows of numbers, and the layout of observations of any structure."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from typing_extensions import override

from pufferlib.errors import APIUsageError

_NUMBERS = (Box, Discrete, MultiDiscrete, MultiBinary)

LeafPath = tuple[str | int, ...]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)  # those that NumPy and torch share


@dataclass(frozen=True)
class Leaf:
    """A part of an observation that is one array."""

    path: LeafPath  # the keys that lead to it, () where the observation is this leaf
    space: gymnasium.Space  # Box, Discrete, MultiDiscrete or MultiBinary
    shape: tuple[int, ...]  # of its array, () for Discrete
    dtype: np.dtype  # of its array
    offset: int  # bytes from the beginning of the row

    @property
    def stop(self) -> int:
        """The offset of the first byte after it."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    @property
    def name(self) -> str:
        """Its name in messages: `observation['camera'][0]`."""
        return path_name(self.path)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest value of every element, flat."""
        if isinstance(self.space, Box):
            low, high = self.space.low, self.space.high
        else:
            low, counts = categories(self.space)
            high = low + counts - 1
        return np.asarray(low, self.dtype).reshape(-1), np.asarray(high, self.dtype).reshape(-1)


Structure = Leaf | dict[str, Any] | tuple[Any, ...]
"""Leaves, in dicts and tuples nested like the space."""


@dataclass(frozen=True)
class Layout:
    """The places of the leaves of an observation space in a row."""

    structure: Structure  # the leaves, nested like the space
    leaves: list[Leaf]  # the same in the order of the row
    row_space: Box  # of a row: the space itself where it is a Box, else a one-dimensional Box
    left_out: tuple[str, ...] = ()  # the parts that are no numbers, such as `observation['mission'] (MissionSpace)`

    @classmethod
    def of(cls, space: gymnasium.Space) -> Layout:
        """Lays out an observation space.

        Raises APIUsageError, naming the part, if no part of it is a number, or a part has a dtype that cannot be
        packed.
        """
        numbers, left_out = only_numbers(space)
        leaves: list[Leaf] = []
        structure = None if numbers is None else _place(numbers, (), leaves)
        if not leaves:
            raise APIUsageError(
                "an observation must hold a Box, Discrete, MultiDiscrete or MultiBinary, "
                f"got only {', '.join(left_out) or space}; add one"
            )
        if isinstance(space, Box):
            return cls(structure, leaves, space)
        dtypes = {leaf.dtype for leaf in leaves}
        if len(dtypes) != 1:
            length = _round_up(max(leaves[-1].stop, 1), max(dtype.itemsize for dtype in dtypes))
            return cls(structure, leaves, Box(0, 255, (length,), np.uint8), left_out)
        low, high = (np.concatenate(bounds) for bounds in zip(*(leaf.bounds() for leaf in leaves), strict=True))
        return cls(structure, leaves, Box(low, high, dtype=dtypes.pop()), left_out)

    @property
    def is_packed(self) -> bool:
        """Whether a row is anything else than the observation itself."""
        return not (isinstance(self.structure, Leaf) and isinstance(self.structure.space, Box))

    @functools.cached_property
    def is_bytes(self) -> bool:
        """Whether leaves have to be viewed as their own dtype."""
        return any(leaf.dtype != self.row_space.dtype for leaf in self.leaves)

    @property
    def is_amounts(self) -> bool:
        """Whether a row is nothing but numbers of Boxes of one floating dtype."""
        return self.row_space.dtype.kind == "f" and all(isinstance(leaf.space, Box) for leaf in self.leaves)

    def parts_text(self) -> str:
        """The leaves with their dtypes, for messages."""
        return ", ".join(f"{leaf.name} of {leaf.dtype}" for leaf in self.leaves)

    def elements(self, leaf: Leaf) -> slice:
        """The place of a leaf in a row, in elements of the row's dtype."""
        itemsize = self.row_space.dtype.itemsize
        return slice(leaf.offset // itemsize, leaf.stop // itemsize)


def children(space: Dict | Tuple) -> Iterable[tuple[str | int, gymnasium.Space]]:
    """The parts of a space with their keys."""
    return space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)


LEAST_PIXELS = 16
"""Along an edge of a picture that convolutions are for; in smaller ones layers of flat numbers learn as well."""


def image_edge(space: gymnasium.Space) -> int:
    """The pixels along the shorter edge of a picture; 0 where a space is not of integers from 0 to 255, or flat."""
    if not isinstance(space, Box) or space.dtype != np.uint8 or not np.all(space.high == 255):
        return 0
    shape = space.shape
    if has_channels_last(space):
        return min(shape[:2])
    is_channels_first = len(shape) == 2 or (len(shape) == 3 and shape[0] < min(shape[1:]))
    return min(shape[-2:]) if is_channels_first else 0


def has_channels_last(space: gymnasium.Space) -> bool:
    """Whether a space has the shape of pictures whose channels are their last dimension."""
    shape = space.shape or ()
    return len(shape) == 3 and shape[2] < min(shape[:2]) and not shape[0] < min(shape[1:])


def in_single_precision(space: gymnasium.Space) -> gymnasium.Space:
    """A space whose Boxes of float64 are of float32, which is what policies compute in."""
    if isinstance(space, (Dict, Tuple)):
        parts = {key: in_single_precision(child) for key, child in children(space)}
        return Dict(parts) if isinstance(space, Dict) else Tuple(parts.values())
    if not isinstance(space, Box) or space.dtype != np.float64:
        return space
    limit = np.finfo(np.float32).max
    low, high = (np.where(np.isinf(bound), bound, bound.clip(-limit, limit)) for bound in (space.low, space.high))
    return Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def as_declared(observation: Any, space: gymnasium.Space) -> Any:
    """An observation whose arrays of Boxes have the dtypes that a space of the same structure says."""
    if isinstance(space, (Dict, Tuple)):
        parts = {key: as_declared(observation[key], child) for key, child in children(space)}
        return parts if isinstance(space, Dict) else tuple(parts.values())
    return np.asarray(observation, space.dtype) if isinstance(space, Box) else observation


@contextlib.contextmanager
def precision_lowered() -> Iterator[None]:
    """Leaves out Gymnasium's warning of bounds that become float32, which is what is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*precision lowered by casting", UserWarning)
        yield


def only_numbers(space: gymnasium.Space, path: LeafPath = ()) -> tuple[gymnasium.Space | None, tuple[str, ...]]:
    """A space without the parts that are no numbers, None where nothing remains, and the names of these parts.

    A Tuple without some of its parts becomes a Dict whose keys are the indices of the others.
    """
    if isinstance(space, _NUMBERS):
        return space, ()
    if not isinstance(space, (Dict, Tuple)):
        return None, (f"{path_name(path)} ({type(space).__name__})",)
    parts = {key: only_numbers(child, (*path, key)) for key, child in children(space)}
    left_out = tuple(name for _, names in parts.values() for name in names)
    if not left_out:
        return space, ()
    kept = {key: part for key, (part, _) in parts.items() if part is not None}
    return (Dict(kept) if kept else None), left_out


def path_name(path: LeafPath) -> str:
    """The name of a part in messages: `observation['camera'][0]`."""
    return "observation" + "".join(f"[{key!r}]" for key in path)


def unpack(rows: np.ndarray, layout: Layout | None) -> Any:
    """The observations in rows, as dicts and tuples of arrays; `nativize` does the same in torch.

    Rows are `(..., *row_shape)`, the last dimension contiguous; the layout is `emulated` of the environment, and None
    gives the rows themselves. The result is nested like the space: arrays `(..., *leaf_shape)`, views of the rows.
    """
    if layout is None or not layout.is_packed:
        return rows
    return map_structure(lambda leaf: leaf_array(rows, leaf, layout), layout.structure)


def leaf_array(rows: np.ndarray, leaf: Leaf, layout: Layout) -> np.ndarray:
    """One leaf `(..., *leaf_shape)` of packed rows, a view."""
    elements = rows[..., layout.elements(leaf)].view(leaf.dtype)
    return elements.reshape((*rows.shape[:-1], *leaf.shape))


def map_structure(function: Callable[[Leaf], Any], structure: Structure) -> Any:
    """Calls `function(leaf)` for every leaf; returns the results, nested as the leaves are."""
    if isinstance(structure, dict):
        return {key: map_structure(function, part) for key, part in structure.items()}
    if isinstance(structure, tuple):
        return tuple(map_structure(function, part) for part in structure)
    return function(structure)


def _place(space: gymnasium.Space, path: LeafPath, leaves: list[Leaf]) -> Structure:
    if isinstance(space, (Dict, Tuple)):
        parts = {key: _place(child, (*path, key), leaves) for key, child in children(space)}
        return parts if isinstance(space, Dict) else tuple(parts.values())
    dtype = np.dtype(np.int64 if isinstance(space, Discrete) else space.dtype)
    if dtype.name not in DTYPES:
        raise APIUsageError(f"the space of {path_name(path)} must have a dtype of {', '.join(DTYPES)}, got {dtype}")
    offset = _round_up(leaves[-1].stop if leaves else 0, dtype.itemsize)
    leaves.append(Leaf(path, space, space.shape, dtype, offset))
    return leaves[-1]


def _round_up(offset: int, multiple: int) -> int:
    return -(-offset // multiple) * multiple


MAX_MIXED_CHOICES = 2**24  # float32 holds every integer below


@dataclass(frozen=True)
class ActionPart:
    """Some columns of an action row that are decided together."""

    columns: slice  # of the row
    choices: int | None  # of a discrete part, which has one column and counts from 0; None for numbers

    @property
    def width(self) -> int:
        """Columns."""
        return self.columns.stop - self.columns.start

    @property
    def outputs(self) -> int:
        """The policy's outputs for it: a logit for every choice, or a mean for every number."""
        return self.width if self.choices is None else self.choices


def check_action_space(space: gymnasium.Space) -> None:
    """Raises APIUsageError if the action of one agent is no row of numbers.

    A row is that of a Discrete, MultiDiscrete, MultiBinary or Box, or, for actions that mix them, of a Tuple of
    Discrete and one-dimensional float32 Box. The row of a Tuple is one float32 vector: its parts in their order, one
    number for each Discrete, which counts from 0 like every discrete number of a row, and k for a Box of k.
    """
    if isinstance(space, _NUMBERS):
        return
    if not isinstance(space, Tuple):
        raise APIUsageError(
            "an action space must be Discrete, MultiDiscrete, Box or a Tuple of Discrete and one-dimensional float32 "
            f"Box, got {type(space).__name__}; wrap the environment with pufferlib.emulation"
        )
    for index, part in enumerate(space.spaces):
        is_choice = isinstance(part, Discrete) and part.n <= MAX_MIXED_CHOICES
        if not is_choice and not (isinstance(part, Box) and part.dtype == np.float32 and len(part.shape) == 1):
            raise APIUsageError(
                f"a Tuple of actions must hold Discrete of at most {MAX_MIXED_CHOICES} choices and one-dimensional "
                f"float32 Box, got {part} at index {index}; wrap the environment with pufferlib.emulation"
            )
    if not space.spaces:
        raise APIUsageError("a Tuple of actions must have parts, got an empty one; add a Discrete or a Box")


def action_shape(space: gymnasium.Space) -> tuple[int, ...]:
    """The shape of one agent's action row, of a space that `check_action_space` allows."""
    check_action_space(space)
    return (action_parts(space)[-1].columns.stop,) if isinstance(space, Tuple) else space.shape


def action_dtype(space: gymnasium.Space) -> np.dtype:
    """The dtype of an action array: float32 for float boxes and mixed actions, int32 for everything else."""
    is_float = isinstance(space, Tuple) or (isinstance(space, Box) and space.dtype.kind == "f")
    return np.dtype(np.float32 if is_float else np.int32)


def action_parts(space: gymnasium.Space) -> tuple[ActionPart, ...]:
    """The parts of an action that a policy decides independently, in the order of the columns of a flattened row."""
    check_action_space(space)
    parts, column = [], 0
    for part in space.spaces if isinstance(space, Tuple) else [space]:
        is_box = isinstance(part, Box)
        width = math.prod(part.shape) if is_box else 1
        for choices in [None] if is_box else categories(part)[1].ravel().tolist():
            parts.append(ActionPart(slice(column, column + width), choices))
            column += width
    return tuple(parts)


def num_choices(space: gymnasium.Space) -> int:
    """The choices of all discrete parts of an action: the columns of action masks; APIUsageError for none."""
    choices = sum(part.choices or 0 for part in action_parts(space))
    if not choices:
        raise APIUsageError(
            f"action masks need actions with choices, got {space}; leave the masks out, or make the action Discrete"
        )
    return choices


def mask_parts(masks: np.ndarray, space: gymnasium.Space) -> list[tuple[ActionPart, np.ndarray]]:
    """Each discrete part of an action, and its columns of action masks `(rows, choices)`."""
    parts = [part for part in action_parts(space) if part.choices is not None]
    ends = np.cumsum([part.choices for part in parts])[:-1]
    return list(zip(parts, np.split(masks, ends, axis=1), strict=True))


def allowed_actions(
    actions: np.ndarray, masks: np.ndarray, space: gymnasium.Space, generator: np.random.Generator | None = None
) -> np.ndarray:
    """Actions `(rows, ...)` with allowed choices in place of theirs: drawn ones, or the first without a generator."""
    actions = actions.copy()
    for part, allowed in mask_parts(masks, space):
        keys = allowed if generator is None else allowed * generator.random(allowed.shape)
        actions.reshape(len(actions), -1)[:, part.columns.start] = keys.argmax(1)
    return actions


def categories(space: Discrete | MultiDiscrete | MultiBinary) -> tuple[np.ndarray, np.ndarray]:
    """The least value of each number of a space, and how many values it has: int64 of the space's shape."""
    if isinstance(space, MultiBinary):
        return np.zeros(space.shape, np.int64), np.full(space.shape, 2, np.int64)
    counts = space.n if isinstance(space, Discrete) else space.nvec
    return np.asarray(space.start, np.int64), np.asarray(counts, np.int64)


def joint_space(space: gymnasium.Space, num_agents: int, are_actions: bool = False) -> gymnasium.Space:
    """The space of `num_agents` rows of `space`; see `check_action_space` for those of actions, which count from 0."""
    if isinstance(space, (Discrete, MultiDiscrete)):
        starts, counts = (np.broadcast_to(part, (num_agents, *space.shape)).copy() for part in categories(space))
        return MultiDiscrete(counts, start=None if are_actions else starts)
    if isinstance(space, MultiBinary):
        return MultiBinary((num_agents, *space.shape))
    if isinstance(space, Box):
        low = np.broadcast_to(space.low, (num_agents, *space.shape))
        high = np.broadcast_to(space.high, (num_agents, *space.shape))
        return Box(low, high, dtype=space.dtype)
    if are_actions:
        return MixedRows(space, num_agents)
    raise APIUsageError(
        f"an observation space must be Box, Discrete, MultiDiscrete or MultiBinary, got {type(space).__name__}; "
        "wrap the environment with pufferlib.emulation"
    )


class MixedRows(Box):
    """Rows of mixed actions: a Box whose discrete columns hold whole numbers only."""

    def __init__(self, space: Tuple, num_agents: int):
        discrete = [part for part in action_parts(space) if part.choices is not None]
        low = [np.zeros(1, np.float32) if isinstance(part, Discrete) else part.low for part in space.spaces]
        high = [np.float32([part.n - 1]) if isinstance(part, Discrete) else part.high for part in space.spaces]
        rows = (num_agents, 1)
        super().__init__(np.tile(np.concatenate(low), rows), np.tile(np.concatenate(high), rows), dtype=np.float32)
        self._columns = [part.columns.start for part in discrete]
        self._choices = [part.choices for part in discrete]

    @override
    def sample(self, mask: None = None, probability: None = None) -> np.ndarray:
        """Draws rows, float32: every choice of a discrete column is equally likely."""
        rows = super().sample(mask, probability)
        rows[:, self._columns] = self.np_random.integers(0, self._choices, (len(rows), len(self._columns)))
        return rows

    @override
    def contains(self, x: object) -> bool:
        """Whether `x` are such rows."""
        return super().contains(x) and not np.any(np.asarray(x)[:, self._columns] % 1)


def is_number(value: object) -> bool:
    """Whether it is one number or flag: of Python, of NumPy, or a tensor without dimensions."""
    kind = value.dtype.kind if isinstance(value, (np.ndarray, np.generic)) else "f"
    return kind in "biuf" and getattr(value, "ndim", 0) == 0 and hasattr(type(value), "__float__")
