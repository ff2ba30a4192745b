"""The bases of emulated environments: how they are made, seeded and reset, and their infos."""

from __future__ import annotations

import abc
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from pufferlib.emulation.rows import ActionLayout
from pufferlib.environment import Buffers, PufferEnv, refuse_to_copy
from pufferlib.errors import APIUsageError, PufferWarning, require_results
from pufferlib.seeding import mix_seed
from pufferlib.spaces import Layout, is_number

_RESERVED = ("n", "agent_id", "final_observation")  # these have a meaning in the infos of a PufferEnv


def final_observation(observations: np.ndarray, agent: int) -> dict[str, Any]:
    """The info of an agent whose episode was cut off: a copy of its row, which the next observation overwrites."""
    return {"final_observation": observations[agent, ...].copy(), "agent_id": agent}


def plain_numbers(info: Mapping[str, Any] | None) -> dict[str, float]:
    """The entries of an info, if there is one, that are single numbers or flags; an APIUsageError if it is no dict."""
    if info is not None and not isinstance(info, Mapping):
        raise APIUsageError(f"the info of a step must be a dict, got {info!r:.80}; return {{}} for none")
    return {
        name: float(value)
        for name, value in (info or {}).items()
        if isinstance(name, str) and name not in _RESERVED and is_number(value)
    }


def is_refusal(error: TypeError, keywords: Iterable[str]) -> bool:
    """Whether something was called with one of these keywords and takes none of that name."""
    return re.search(rf"unexpected keyword argument '({'|'.join(keywords)})'", str(error)) is not None


def _given_or_made(env: object, creator: Callable | None, args: Sequence[Any], kwargs: Mapping | None) -> object:
    if creator is None and (isinstance(env, type) or (callable(env) and not hasattr(env, "step"))):
        env, creator = None, env  # a class or a function in the place of the environment
    if (env is None) == (creator is None):
        found = "neither" if env is None else "both"
        raise APIUsageError(f"pass exactly one of env and env_creator, got {found}")
    if env is not None:
        if args or kwargs:
            raise APIUsageError("env_args and env_kwargs are for env_creator, got them with env; leave them out")
        return env
    if not callable(creator):
        raise APIUsageError(f"env_creator must be callable, got {type(creator).__name__}; an environment goes to env")
    return creator(*args, **({} if kwargs is None else kwargs))


def warn_of_left_out(env: object, names: Iterable[str]) -> None:
    """Warns of the parts of observations that are no numbers, once: Python shows the same warning once by default."""
    parts = ", ".join(names)
    if parts:
        warnings.warn(
            f"{env} observes what is no number and no policy sees it: {parts}; a wrapper such as "
            "gymnasium.wrappers.FilterObservation or TransformObservation leaves it out, or makes numbers of it",
            PufferWarning,
            stacklevel=1,
        )


ACTION_MASK = "action_mask"
"""The key of Gymnasium's infos and of PettingZoo's observations for what an agent may do."""


def flat_mask(given: ArrayLike | tuple[ArrayLike, ...], choices: int, of: object) -> np.ndarray:
    """An action mask of another library, an array or one for each part of the action, as `(choices,)` bool."""
    flat = np.concatenate([np.ravel(part) for part in given]) if isinstance(given, (tuple, list)) else np.ravel(given)
    if len(flat) != choices:
        raise APIUsageError(
            f"an action mask must have a number for each of {choices} choices, got {len(flat)} from {of}; give one for "
            "each action of its space"
        )
    return flat.astype(bool)


def single_number(reward: object, of: object) -> float:
    """A reward that is an array of one number, as that number."""
    found = np.asarray(reward)
    if found.size != 1 or found.dtype.kind not in "biuf":
        raise APIUsageError(f"a reward must be a number, got {reward!r:.80} from {of}; return a float from step()")
    return found.item()


def library_seed(seed: int | None) -> int | None:
    """A seed as every library takes it, in [0, 2**32): NumPy's RandomState has no more."""
    return None if seed is None else int(seed) % 2**32


class LibraryEnv(PufferEnv):
    """A PufferEnv around an environment, or a vector of environments, of another library.

    Args:
        env: the environment, closed with this one, or a class or function in the place of `env_creator`.
        env_creator: called as `env_creator(*env_args, **env_kwargs)` where `env` is not given.
        env_args: for `env_creator`.
        env_kwargs: for `env_creator`.
        buf: the arrays of its agents to fill.
        seed: of the first reset, where that gives none.
        options: for `env.reset`, at every reset; the attribute may be replaced. A vector environment begins the
            episodes that follow by itself, without them.

    Raises:
        APIUsageError: if not exactly one of `env` and `env_creator` is given, it is of another kind, or one of its
            spaces has a part that rows cannot hold.
        MissingExtraError: if the package of its kind is not installed.
    """

    env: Any
    own_spaces: tuple[gymnasium.Space, gymnasium.Space] | None = None  # of one agent, where they are not the rows'
    _layout: Layout | None  # of the observations in rows; None where they are not packed
    _actions: ActionLayout
    __reduce_ex__ = refuse_to_copy

    def __init__(
        self,
        env: object = None,
        env_creator: Callable[..., Any] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        buf: Buffers | None = None,
        seed: int = 0,
        options: dict[str, Any] | None = None,
    ):
        self.options = options
        self._first_seed: int | None = seed  # until the first reset
        self._is_closed = False
        self._describe(_given_or_made(env, env_creator, env_args, env_kwargs))
        super().__init__(buf)
        self._connect()

    @property
    @override
    def emulated(self) -> Layout | None:
        return self._layout if self._layout is not None and self._layout.is_packed else None

    @abc.abstractmethod
    def _describe(self, env: object) -> None:
        """Sets `env` to the environment, once it was checked, and the spaces and agents that it has as a PufferEnv."""

    def _take_spaces(self, observation_space: gymnasium.Space, action_space: gymnasium.Space) -> None:
        self.own_spaces, self._layout = (observation_space, action_space), Layout.of(observation_space)
        warn_of_left_out(self.env, self._layout.left_out)
        self._actions = ActionLayout(action_space)
        self.single_observation_space = self._layout.row_space
        self.single_action_space = self._actions.canonical

    def env_seeds(self, seed: int) -> list[int]:
        """The seeds of a vector's environments, 31 bits of `mix_seed(seed, i)`, which every generator takes."""
        return [mix_seed(seed, index) % 2**31 for index in range(self.num_agents)]

    @abc.abstractmethod
    def _connect(self) -> None:
        """Readies what writes into the arrays."""

    def _clear_step(self) -> None:  # of what it left in the arrays beside observations
        self.rewards[:] = 0.0
        self.terminals[:] = self.truncations[:] = False
        self.masks[:] = True

    def _reset_inside(self, seed: Any, options: dict[str, Any] | None) -> tuple[Any, Any]:
        # The observations and infos of the environment's own reset.
        try:
            results = self.env.reset(seed=seed, options=options)
        except TypeError as error:
            if is_refusal(error, ("seed", "options")):
                raise APIUsageError(f"{error}; define reset(self, seed=None, options=None)") from error
            raise
        return require_results(self.env, "reset", ("observations", "infos"), results)

    @abc.abstractmethod
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Resets the environment and shows the first observations."""

    @override
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, list[dict]]:
        """Begins an episode; returns observations `(num_agents, *row_shape)` and no infos.

        No seed continues the environment's random streams, or at the first reset takes that of the constructor. The
        options are for this reset alone; None stands for those of the constructor.
        """
        seed, self._first_seed = self._first_seed if seed is None else seed, None
        self._clear_step()
        self._start_episode(seed, self.options if options is None else options)
        return self.observations, []

    @override
    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.env.close()


class EmulatedEnv(LibraryEnv):
    """A single environment of another library.

    `before_restart`, which may be set, is called when an episode has ended, while the environment still shows its end.
    """

    before_restart: Callable[[], None] | None = None

    def _restart(self) -> None:
        if self.before_restart is not None:
            self.before_restart()
        self._start_episode(None, self.options)

    @override
    def render(self) -> Any:
        return self.env.render()
