"""The forms of an agent's observations and actions: one or many, as environments have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete, Tuple
from numpy.typing import ArrayLike
from torch import Tensor

from pufferlib.emulation.actions import ActionLayout
from pufferlib.emulation.gymnasium_env import GymnasiumPufferEnv
from pufferlib.emulation.gymnasium_vector_env import ActionRows, GymnasiumVectorPufferEnv
from pufferlib.emulation.packing import row_writer
from pufferlib.emulation.pettingzoo_env import PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.spaces.layout import Layout


def own_spaces(env: PufferEnv) -> tuple[gymnasium.Space, gymnasium.Space]:
    """The environment's own observation and action space of one agent, which may be structured.

    A PettingZoo environment whose agents differ has those of PufferLib's rows.
    """
    rows = env.single_observation_space, env.single_action_space
    if isinstance(env, GymnasiumPufferEnv):
        return env.env.observation_space, env.env.action_space
    if isinstance(env, GymnasiumVectorPufferEnv):
        return env.env.single_observation_space, env.env.single_action_space
    if isinstance(env, PettingZooPufferEnv):
        found = [(env.env.observation_space(agent), env.env.action_space(agent)) for agent in env.env.possible_agents]
        return found[0] if all(each == found[0] for each in found) else rows
    return rows


class ObservationForms:
    """Reads one or many observations of a space, packed into rows or not."""

    def __init__(self, space: gymnasium.Space):
        self._layout = Layout.of(space)
        self._row_shape = self._layout.row_space.shape
        self._is_structured = isinstance(space, (Dict, Tuple))
        self._latest: tuple[int | None, np.ndarray, Callable[[Any], None]] | None = None

    def read(self, observations: Any) -> tuple[np.ndarray, bool]:
        """New rows `(rows, *row_shape)` of the layout's dtype, and whether it was one observation.

        Raises:
            APIUsageError: if the observations are in none of the forms of `Agent.act`.
        """
        if isinstance(observations, Tensor):
            observations = observations.cpu().numpy()
        if self._is_structured and isinstance(observations, list):
            return np.concatenate([self.read(each)[0] for each in observations]), False
        if self._is_structured and isinstance(observations, np.ndarray):
            return self._read_rows(observations)
        if self._row_shape == (1,) and self._layout.leaves[0].shape == () and np.ndim(observations) == 2:
            observations = np.asarray(observations)[:, 0]  # rows of a Discrete space, which have one column
        count = self._count(observations)
        if self._latest is None or self._latest[0] != count:
            rows = np.zeros((1 if count is None else count, *self._row_shape), self._layout.row_space.dtype)
            self._latest = count, rows, row_writer(self._layout, rows[0, ...] if count is None else rows)
        _, rows, write = self._latest
        write(observations)
        return rows.copy(), count is None  # a policy may keep its input

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_latest": None}

    def _count(self, observations: Any) -> int | None:
        leaf = self._layout.leaves[0]
        try:
            for key in leaf.path:
                observations = observations[key]
            shape = np.shape(observations)
        except (LookupError, TypeError, ValueError):  # the writer raises the right error
            return None
        if shape == leaf.shape:
            return None
        if not shape or shape[1:] != leaf.shape or not shape[0]:
            many = ", ".join(map(str, ("rows", *leaf.shape)))
            raise APIUsageError(f"{leaf.name} must have shape {leaf.shape} for one or ({many}) for many, got {shape}")
        return shape[0]

    def _read_rows(self, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        is_one = rows.shape == self._row_shape
        if rows.dtype != self._layout.row_space.dtype or not (is_one or rows.shape[1:] == self._row_shape):
            space = self._layout.row_space
            raise APIUsageError(
                f"an array of structured observations must be rows of {space.dtype} and shape {space.shape}, got "
                f"{rows.dtype} and {rows.shape}; pass the observations as the environment returns them"
            )
        return np.array(rows[None] if is_one else rows), is_one


class ActionForms:
    """Turns the choices of a policy into actions of a space, inside its bounds."""

    def __init__(self, space: gymnasium.Space, are_rows: bool):
        """Prepares for a space.

        Args:
            space: of one action, as `pufferlib.emulation.actions` allows it.
            are_rows: whether many actions of a structured space stay rows, as for PufferEnvs.
        """
        self._space = space
        self._rows = ActionRows(space)
        self._are_kept = are_rows and isinstance(space, (Dict, Tuple))
        self._is_discrete = isinstance(space, Discrete)
        self._split = ActionLayout(space).split if isinstance(space, (Dict, Tuple)) else None

    def one(self, rows: np.ndarray) -> Any:
        """The action for `env.step`, of rows `(1, *row_shape)`."""
        if self._is_discrete:
            return int(rows.item()) + int(self._space.start)
        return self._rows.for_env(rows)[0] if self._split is None else self._split(rows[0])

    def many(self, rows: np.ndarray) -> Any:
        """The actions for a vector, of rows `(rows, *row_shape)`."""
        return rows if self._are_kept else self._rows.for_env(rows)


def mask_of(rows: ArrayLike | Tensor, num_rows: int) -> np.ndarray:
    """Rows as a mask `(num_rows,)` of bools; an APIUsageError if there are no such rows.

    Args:
        rows: a bool for each, one bool for the only one, an index, or several.
        num_rows: in all.
    """
    found = np.atleast_1d(rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows))
    if found.dtype == bool:
        if found.shape != (num_rows,):
            raise APIUsageError(f"a mask of the rows must have shape ({num_rows},), got {found.shape}")
        return found
    if found.size and (found.dtype.kind not in "iu" or found.ndim != 1):
        raise APIUsageError(f"rows must be bools or indices, got {found.dtype} of shape {found.shape}")
    if found.size and not (found.min() >= 0 and found.max() < num_rows):
        raise APIUsageError(f"rows must be in [0, {num_rows}), got {found.tolist()}")
    mask = np.zeros(num_rows, bool)
    mask[found.astype(np.intp)] = True
    return mask
