"""The environment that everything else takes, and the running episodes of its agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from pufferlib import spaces
from pufferlib.errors import APIUsageError
from pufferlib.machine import require_step_memory
from pufferlib.spaces import Layout


class EpisodeTracker:
    """Follows every agent's running episode, from batches of agents in any order.

    A step counts for the agents that acted on the observation before it. Later rewards of an agent that is absent, as
    one that waits for its turn, add to its return and not to its length, until an end of the episode that it had
    started. After that nothing counts until it is back.

    With several `seats` so many neighbours play a game, which is over once each of them has ended. Every agent then has
    an episode, with all its rewards since the first of them acted, also one that never did.

    Attributes:
        returns: `(num_agents,)` float64, sums of the rewards of the running episodes.
        lengths: `(num_agents,)` int64, the steps of the running episodes at which the agent acted.
        has_acted: `(num_agents,)` bool, the agents that act on the newest observation: the next step counts for them.
        is_pending: `(num_agents,)` bool, the agents whose episode ended and that were absent since.
    """

    def __init__(self, num_agents: int, seats: int = 1):
        self.returns = np.zeros(num_agents)
        self.lengths = np.zeros(num_agents, np.int64)
        self.has_acted = np.zeros(num_agents, bool)
        self.is_pending = np.ones(num_agents, bool)
        self._agents = np.arange(num_agents)
        self._seats, self._has_ended = seats, np.zeros(num_agents, bool)  # in a game that is not over
        # Until `take`: the first agent of the batch; agents, returns, lengths.
        self._ended: list[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]] = []

    def restart(self) -> None:
        """Drops all episodes, also the ended ones; each agent's next `step` has the results of a reset."""
        self.returns[:] = 0.0
        self.lengths[:] = 0
        self.has_acted[:] = False
        self.is_pending[:] = True
        self._has_ended[:] = False
        self._ended.clear()

    def step(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Adds the results of one step of a batch of agents.

        Args:
            rows: the agents.
            rewards: `(rows,)` float32, of the environment; at an end the last one of the old episode.
            ended: `(rows,)` bool, whether the episode ended with this step.
            masks: `(rows,)` bool, False for agents that are absent from now on.

        Returns:
            The episode starts of `begin`.
        """
        self._add(rows, rewards, ended)
        self.has_acted[rows] = masks
        return self.begin(rows, ended, masks)

    def begin(self, rows: slice | np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Returns the agents whose episode starts with the observations of a step, `(rows,)` bool; a part of `step`.

        Recurrent state is reset there. An agent that is absent after an end has a start at every step, up to its
        return.
        """
        begins = ended | self.is_pending[rows]
        self.is_pending[rows] = begins > masks
        return begins

    def sat_out(self, rows: slice | np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Returns the agents whose episode ends with the next `step` without an act of theirs: `take` omits it."""
        return ended & ~self.has_acted[rows] & (self.lengths[rows] == 0) & (self._seats == 1)

    def _add(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> None:
        self.lengths[rows] += self.has_acted[rows]
        has_begun = self.lengths[rows] > 0
        if self._seats > 1:
            has_begun = has_begun.reshape(-1, self._seats).any(1).repeat(self._seats)
            self._has_ended[rows] |= ended & has_begun
            ended = self._has_ended[rows].reshape(-1, self._seats).all(1).repeat(self._seats)
            self._has_ended[rows] &= ~ended
        self.returns[rows] += np.where(has_begun, rewards, 0.0)  # of an agent that waits for its turn, too
        ended, agents = ended & has_begun, self._agents[rows]
        if np.count_nonzero(ended):
            which = agents[ended]
            self._ended.append((int(agents[0]), (which, self.returns[which], self.lengths[which])))
            self.returns[which] = 0.0
            self.lengths[which] = 0

    def take(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The agents, returns and lengths of the episodes that ended since the last call: `(episodes,)` each.

        They are sorted by batch, so that sums do not depend on the order in which batches came.
        """
        if not self._ended:
            return self._agents[:0], self.returns[:0], self.lengths[:0]
        ended = [arrays for _, arrays in sorted(self._ended, key=lambda pair: pair[0])]
        agents, returns, lengths = (np.concatenate(arrays) for arrays in zip(*ended, strict=True))
        self._ended.clear()
        return agents, returns, lengths

    def state_dict(self) -> dict[str, np.ndarray]:
        """The running episodes of all agents, without `is_pending`; `take` the ended ones before."""
        return {name: getattr(self, name).copy() for name in ("returns", "lengths", "has_acted")}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores the result of `state_dict`."""
        for name, array in state.items():
            getattr(self, name)[:] = array


StepResult = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[dict]]

PUFFER_ENV_PARTS = ("single_observation_space", "single_action_space", "num_agents", "reset", "step", "close")
"""The parts of a PufferEnv that the trainer uses; every object that has them all is one."""


@dataclass(frozen=True)
class Buffers:
    """The arrays that an environment writes in place; C-contiguous, one row per agent."""

    observations: np.ndarray  # (rows, *observation_shape), the observation space's dtype
    actions: np.ndarray  # (rows, *action_shape), int32 (discrete) or float32 (box, mixed)
    rewards: np.ndarray  # (rows,) float32
    terminals: np.ndarray  # (rows,) bool
    truncations: np.ndarray  # (rows,) bool
    masks: np.ndarray  # (rows,) bool, False for an agent that is absent: no action belongs to its observation
    action_masks: np.ndarray | None = None  # (rows, choices) bool, False where not allowed; None where all always is

    @classmethod
    def empty(
        cls,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        rows: int,
        has_action_masks: bool = False,
    ) -> Buffers:
        """Allocates zeroed arrays (all masks are True) for `rows` agents with these single-agent spaces."""
        require_step_memory(rows * cls.row_bytes(observation_space, action_space, has_action_masks), rows)
        return cls(
            observations=np.zeros((rows, *observation_space.shape), observation_space.dtype),
            actions=np.zeros((rows, *spaces.action_shape(action_space)), spaces.action_dtype(action_space)),
            rewards=np.zeros(rows, np.float32),
            terminals=np.zeros(rows, bool),
            truncations=np.zeros(rows, bool),
            masks=np.ones(rows, bool),
            action_masks=np.ones((rows, spaces.num_choices(action_space)), bool) if has_action_masks else None,
        )

    @staticmethod
    def row_bytes(observation_space: gymnasium.Space, action_space: gymnasium.Space, has_action_masks: bool) -> int:
        """Bytes of one agent's row in all arrays together."""
        flags = 3 + (spaces.num_choices(action_space) if has_action_masks else 0)
        observation = math.prod(observation_space.shape) * np.dtype(observation_space.dtype).itemsize
        action = math.prod(spaces.action_shape(action_space)) * np.dtype(spaces.action_dtype(action_space)).itemsize
        return observation + action + np.dtype(np.float32).itemsize + flags * np.dtype(bool).itemsize

    def rows(self, begin: int, end: int) -> Buffers:
        """Views of the rows [begin, end)."""
        return Buffers(**{name: getattr(self, name)[begin:end] for name in self.names})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays that there are."""
        return tuple(name for name in self.__dataclass_fields__ if getattr(self, name) is not None)

    @property
    def result_names(self) -> tuple[str, ...]:
        """The names of the arrays that a step writes."""
        return tuple(name for name in self.names if name != "actions")


@dataclass(frozen=True)
class Origin:
    """The name and settings that an environment or a vector was made with; a run's folder records them."""

    env_name: str
    env: dict[str, Any]  # the settings of [env]
    vec: dict[str, Any]  # and of [vec]
    creator: Callable[..., Any] | None = None  # the class or function, where it was made by one and not by its name


@dataclass(frozen=True)
class Keys:
    """The keys of a keyboard with which a person plays an environment, for `puffer play`.

    Keys have raylib's names in small letters: `left`, `space`, `enter`, `w`, `one`. W, A, S and D are arrows too unless
    they are named. Left and right held together count as neither, and so do up and down.

    Attributes:
        actions: the action of a key, or of several held together, such as `up+right`: a number for a Discrete space, or
            a row for another space, where a number stands for a row of one. Rows of several keys are combined: each
            changes what differs from `idle`, and numbers of a Box add up within its bounds.
        idle: the action while no key is held. A list of actions of a Discrete space is played in turn. None repeats
            the last action of a Discrete space, and is zeros for another space.
        waits: whether nothing moves before a key is pressed, as in a game of turns; each press is one step, of that key
            alone or, if it means nothing alone, together with the keys that are held.
    """

    actions: Mapping[str, Any]
    idle: Any = None
    waits: bool = False


BOT_MOVES = -(2**31)
"""The action by which an agent has the environment's own bot move in its place; see `PufferEnv.has_bot_moves`."""


def fitting_actions(actions: ArrayLike, like: np.ndarray) -> np.ndarray:
    """Converts a caller's actions to an array like an environment's own; an APIUsageError where they do not fit."""
    if actions is like:
        return like
    actions = np.asarray(actions)
    if actions.shape != like.shape:
        raise APIUsageError(f"actions must have shape {like.shape}, got {actions.shape}; pass one row per agent")
    if actions.dtype != like.dtype and not np.can_cast(actions.dtype, like.dtype, "same_kind"):
        kind = "integers" if like.dtype.kind == "i" else "numbers"
        raise APIUsageError(f"actions must be {kind} that fit {like.dtype}, got {actions.dtype}; convert them first")
    if like.dtype.kind == "i" and not _keeps_numbers(actions, actions.astype(like.dtype)):
        raise APIUsageError(f"actions must be integers that fit {like.dtype}, got {actions.min()} to {actions.max()}")
    return actions


def store_result(env: object, name: str, target: np.ndarray, result: ArrayLike) -> None:
    """Writes what an environment returned into its rows; an APIUsageError where shape, kind or numbers do not fit."""
    result = np.asarray(result)
    if result.shape != target.shape:
        raise APIUsageError(
            f"{type(env).__name__} must return {name} of shape {target.shape}, got {result.shape}; "
            "return one row per agent"
        )
    are_fractions = result.dtype.kind == "f" and target.dtype.kind in "iu"
    target[...] = result if not are_fractions else 0
    if are_fractions or not _keeps_numbers(result, target):
        found = str(result.dtype) if are_fractions else f"{result.dtype} from {result.min()} to {result.max()}"
        raise APIUsageError(
            f"{type(env).__name__} must return {name} of {target.dtype}, as its space says, got {found}; "
            "change one of the two"
        )


def _keeps_numbers(before: np.ndarray, after: np.ndarray) -> bool:
    # Whether integers are the same after a cast to others.
    if before.dtype.kind not in "iu" or after.dtype.kind not in "iu" or np.can_cast(before.dtype, after.dtype):
        return True
    return np.array_equal(before, after)


class PufferEnv:
    """An environment, or many of them, whose agents are rows of shared arrays.

    A subclass sets `single_observation_space`, `single_action_space` and `num_agents`, then calls
    `super().__init__(buf)`, and from then on fills `self.observations`, `self.rewards`, `self.terminals`,
    `self.truncations` and `self.masks` in place. When an episode ends the environment resets at once: the observation
    returned is the first of the next episode, the reward and the flag are the last of the old one. An agent that ends
    before the others gets its last reward and its flag together with a mask of False, which stays until it is back.

    Attributes:
        single_observation_space: a Box, MultiDiscrete, MultiBinary or Discrete, of one agent.
        single_action_space: a Discrete, MultiDiscrete or Box, of one agent; or, for actions that mix choices and
            numbers, a Tuple of Discrete and one-dimensional float32 Box. A row of the actions is then one float32
            vector: the parts in their order, one number for each Discrete, counted from 0, and k for a Box of k.
        num_agents: rows in every array.
        observation_space: the joint space of all agents.
        action_space: the joint space of all agents.
        has_action_masks: whether `action_masks` is filled, which a subclass says before it calls `super().__init__`.
        action_masks: `(num_agents, choices)` bool, a column for each choice of each discrete part of an action, the
            parts in their order. False is what the agent may not do after the observation beside it. None where
            everything is always allowed.
        has_bot_moves: whether an action of BOT_MOVES, or one that begins with it, has the environment's own bot move
            for the agent, so that the bot may be a member of a pool of opponents.
        made_from: how it was made, where that was by its name.
        keys: how a person plays it; None where that is not known.
        simulator: the library that steps it, where an environment of its name has several.
    """

    made_from: Origin | None = None
    simulator: str | None = None
    keys: Keys | None = None
    has_action_masks: bool = False
    has_bot_moves: bool = False
    action_masks: np.ndarray | None = None
    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space
    num_agents: int
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray

    def __init__(self, buf: Buffers | None = None):
        """Checks the spaces, and takes the arrays.

        Args:
            buf: the arrays to fill; None allocates them.

        Raises:
            APIUsageError: if the subclass did not set its spaces and agents, or the arrays do not fit them.
        """
        for name in ("single_observation_space", "single_action_space", "num_agents"):
            if not hasattr(self, name):
                raise APIUsageError(f"{type(self).__name__} must set {name} before it calls super().__init__(buf)")
        if not isinstance(self.num_agents, (int, np.integer)) or self.num_agents < 1:
            raise APIUsageError(f"{type(self).__name__}.num_agents must be an integer from 1, got {self.num_agents!r}")
        spaces.joint_space(self.single_observation_space, 1)  # refuses what is no row of numbers
        expected = Buffers.empty(
            self.single_observation_space, self.single_action_space, self.num_agents, self.has_action_masks
        )
        buf = expected if buf is None else buf
        for name in expected.names:
            array, wanted = getattr(buf, name), getattr(expected, name)
            if array is None or array.shape != wanted.shape or array.dtype != wanted.dtype:
                found = "None" if array is None else f"{array.dtype} of shape {array.shape}"
                raise APIUsageError(
                    f"buf.{name} must be {wanted.dtype} of shape {wanted.shape}, got {found}; all environments of a "
                    "vector must have the same spaces and number of agents"
                )
            setattr(self, name, array)
        self.observation_space = spaces.joint_space(self.single_observation_space, self.num_agents)
        self.action_space = spaces.joint_space(self.single_action_space, self.num_agents, are_actions=True)
        self.agent_ids = np.arange(self.num_agents)

    @property
    def driver_env(self) -> PufferEnv:
        """This environment; a vector answers with its first one."""
        return self

    @property
    def emulated(self) -> Layout | None:
        """The layout of packed observations, for `pufferlib.emulation.nativize`; None if they are not packed."""
        return None

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[dict]]:
        """Begins an episode for every agent.

        Args:
            seed: restarts the random streams; None continues them.

        Returns:
            Observations and infos.
        """
        raise NotImplementedError

    def step(self, actions: np.ndarray) -> StepResult:
        """Steps every agent.

        Args:
            actions: shape `(num_agents, *action_shape)`, see `single_action_space`.

        Returns:
            Observations, rewards, terminals, truncations (the environment's own arrays) and a list of info dicts. A
            dict with an `n` holds means over `n` finished episodes. One with a `final_observation`, the row that the
            agent `agent_id` (counted within this environment) saw last, may come where an episode was truncated: the
            trainer takes its value for what would have come, and that of the observation before where there is none.
        """
        raise NotImplementedError

    def render(self) -> np.ndarray | None:
        """Draws the environment; returns the frame as `(height, width, 3)` uint8 where there is one."""
        raise NotImplementedError

    def snapshot(self) -> bytes | None:
        """The whole state as bytes, masks that stay from step to step included; None where it cannot be given."""
        return None

    def restore(self, snapshot: bytes) -> None:
        """Restores the state that `snapshot` returned."""
        raise APIUsageError(f"{type(self).__name__} cannot restore a snapshot; reset it instead")

    def close(self) -> None:
        """Frees what it holds; may be called twice."""


def refuse_to_copy(env: PufferEnv, protocol: object) -> None:
    """The `__reduce_ex__` of what writes into its arrays from elsewhere: a copy's would go into those of the first."""
    raise APIUsageError(
        f"an environment is made anew where another one is wanted, got a {type(env).__name__} to copy or pickle; pass "
        "on what makes it, such as its name, its class or a function"
    )


def check_env(env: object) -> None:
    """Raises an APIUsageError unless something can be stepped as a PufferEnv."""
    if isinstance(env, type):
        raise APIUsageError(f"env must be a PufferEnv, got the class {env.__name__}; make an instance of it")
    missing = [name for name in PUFFER_ENV_PARTS if not hasattr(env, name)]
    if missing:
        raise APIUsageError(
            f"env must be a PufferEnv, got {type(env).__name__} without {missing[0]}; wrap it with "
            "pufferlib.emulation, or make a vector with pufferlib.vector.make"
        )
