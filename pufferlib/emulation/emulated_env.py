"""What the emulations of Gymnasium and PettingZoo share: how they are made, reset and closed."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from pufferlib.emulation.creation import SeedOnce, make_env
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import PufferWarning


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


class EmulatedEnv(PufferEnv):
    """A PufferEnv around an environment of another interface.

    Attributes:
        env: the environment.
        options: passed to every reset of the environment; may be replaced.
        before_restart: called when an episode has ended, while the environment still shows its end; None for nothing.
    """

    env: Any

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
        """Takes an environment, or makes one.

        Args:
            env: the environment, closed with this one, or a class or function in the place of `env_creator`.
            env_creator: called as `env_creator(*env_args, **env_kwargs)` where `env` is not given.
            env_args: for `env_creator`.
            env_kwargs: for `env_creator`.
            buf: the arrays of its agents to fill.
            seed: of the first reset, where that gives none.
            options: for `env.reset`, at every reset.

        Raises:
            APIUsageError: if not exactly one of `env` and `env_creator` is given, it is no environment of the kind that
                the class emulates, or one of its spaces has a part that rows cannot hold.
            MissingExtraError: if the package of its kind is not installed.
        """
        self.options = options
        self.before_restart: Callable[[], None] | None = None
        self._seeds = SeedOnce(seed)
        self._is_closed = False
        self._describe(make_env(env, env_creator, env_args, env_kwargs))
        super().__init__(buf)
        self._connect()

    @abc.abstractmethod
    def _describe(self, env: object) -> None:
        """Sets `env` to the environment, once it was checked, and the spaces and agents that it has as a PufferEnv."""

    @abc.abstractmethod
    def _connect(self) -> None:
        """Readies what writes into the arrays."""

    @abc.abstractmethod
    def _clear_step(self) -> None:
        """Puts back what the last step left in the arrays beside observations."""

    @abc.abstractmethod
    def _begin_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Resets the environment and shows the first observations."""

    def _restart(self) -> None:
        if self.before_restart is not None:
            self.before_restart()
        self._begin_episode(None, self.options)

    @override
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, list[dict]]:
        """Begins an episode.

        Args:
            seed: for the environment. None goes on with its random streams; at the first reset it stands for the seed
                given to the constructor.
            options: for the environment, at this reset alone; None stands for those of the constructor.

        Returns:
            Observations `(num_agents, *row_shape)` and no infos.
        """
        self._clear_step()
        self._begin_episode(self._seeds.next(seed), self.options if options is None else options)
        return self.observations, []

    @override
    def render(self) -> Any:
        """What the environment renders in the mode that it was made with."""
        return self.env.render()

    @override
    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.env.close()
