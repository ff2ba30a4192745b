"""A Gymnasium environment as a PufferEnv of one agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from typing_extensions import override

from pufferlib.emulation.actions import ActionLayout
from pufferlib.emulation.creation import SeedOnce, make_env
from pufferlib.emulation.infos import final_observation, plain_numbers
from pufferlib.emulation.layout import Layout, row_writer
from pufferlib.environment import Buffers, PufferEnv, StepResult
from pufferlib.errors import APIUsageError


class GymnasiumPufferEnv(PufferEnv):
    """Steps a `gymnasium.Env` whose observations and actions may have any structure.

    Observations are packed into rows as `emulated` describes (see pufferlib.emulation.layout), unless their space is a
    Box, which stays as it is. Actions are rows of `single_action_space` and reach the environment in its own space,
    clipped to its bounds.

    When an episode ends the environment is reset in the same step. Infos are empty but for such steps, which give

    - where the episode was truncated and not terminated, `{"final_observation": row, "agent_id": 0}` with the last
      observation of the old episode, as `observations` would hold it;
    - one dict of the numbers in the environment's last info, if there are any. What is no single number is left out,
      and so is a name that means something else here (`n`, `agent_id`, `final_observation`).

    An exception of the environment passes through as it is.

    Attributes:
        env: the environment.
        options: passed to every reset of the environment; may be replaced.
    """

    env: gymnasium.Env

    def __init__(
        self,
        env: gymnasium.Env | None = None,
        env_creator: Callable[..., gymnasium.Env] | None = None,
        env_args: Sequence[Any] = (),
        env_kwargs: Mapping[str, Any] | None = None,
        buf: Buffers | None = None,
        seed: int = 0,
        options: dict[str, Any] | None = None,
    ):
        """Takes an environment, or makes one.

        Args:
            env: the environment; it is closed with this one.
            env_creator: called as `env_creator(*env_args, **env_kwargs)` where `env` is not given.
            env_args: for `env_creator`.
            env_kwargs: for `env_creator`.
            buf: the arrays of one agent to fill.
            seed: of the first reset, where that gives none.
            options: for `env.reset`, at every reset.

        Raises:
            APIUsageError: if not exactly one of `env` and `env_creator` is given, it is no Gymnasium environment, or
                one of its spaces has a part that rows cannot hold.
        """
        self.env = _checked(make_env(env, env_creator, env_args, env_kwargs))
        self.options = options
        self._layout = Layout.of(self.env.observation_space)
        actions = ActionLayout(self.env.action_space)
        self.single_observation_space = self._layout.row_space
        self.single_action_space = actions.canonical
        self.num_agents = 1
        super().__init__(buf)
        self._seeds = SeedOnce(seed)
        self._write = row_writer(self._layout, self.observations[0, ...])
        self._to_action = _converter(actions)
        self._reward = memoryview(self.rewards)  # takes a number in half the time that the array does
        self._has_ended = False  # in the last step
        self._is_closed = False

    @property
    @override
    def emulated(self) -> Layout | None:
        return self._layout if self._layout.is_packed else None

    @override
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, list[dict]]:
        """Begins an episode.

        Args:
            seed: for the environment. None goes on with its random streams; at the first reset it stands for the seed
                given to the constructor.
            options: for the environment, at this reset alone; None stands for those of the constructor.

        Returns:
            Observations `(1, *row_shape)` and no infos.
        """
        self.rewards[0] = 0.0
        self.masks[0] = True
        self._clear_flags()
        self._begin_episode(self._seeds.next(seed), self.options if options is None else options)
        return self.observations, []

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        """Steps the environment with `actions[0]`, a row of `single_action_space`; see the class for the infos."""
        result = self.env.step(self._to_action(actions))
        try:
            observation, reward, terminated, truncated, info = result
        except ValueError as error:
            raise APIUsageError(
                "step() of a Gymnasium environment must return observation, reward, terminated, truncated and info, "
                f"got {len(result)} values from {self.env}; make it a current one"
            ) from error
        self._write(observation)
        self._reward[0] = reward
        if terminated or truncated:
            infos = self._end_episode(terminated, truncated, info)
        else:
            infos = []
            if self._has_ended:
                self._clear_flags()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def _end_episode(self, terminated: bool, truncated: bool, info: Mapping[str, Any]) -> list[dict]:
        self._has_ended = True
        self.terminals[0] = terminated
        self.truncations[0] = truncated
        infos = [] if terminated else [final_observation(self.observations, 0)]
        numbers = plain_numbers(info)
        self._begin_episode(None, self.options)
        return [*infos, numbers] if numbers else infos

    def _clear_flags(self) -> None:
        self._has_ended = False
        self.terminals[0] = self.truncations[0] = False

    def _begin_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        observation, _ = self.env.reset(seed=seed, options=options)
        self._write(observation)

    @override
    def render(self) -> Any:
        """What the environment renders in the mode that it was made with."""
        return self.env.render()

    @override
    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.env.close()


def _converter(layout: ActionLayout) -> Callable[[np.ndarray], Any]:
    """From the actions of one agent, `(1, *action_shape)`, to what the environment takes."""
    split, space = layout.split, layout.space
    if not isinstance(space, Discrete):
        return lambda actions: split(actions[0])
    last, start = int(space.n) - 1, int(space.start)

    def convert(actions: np.ndarray) -> int:  # as `split` does, and faster: this is for every step
        choice = actions.item()
        return start + (choice if 0 <= choice <= last else 0 if choice < 0 else last)

    return convert


def _checked(env: Any) -> gymnasium.Env:
    if not isinstance(env, gymnasium.Env):
        found = f"the class {env.__name__}" if isinstance(env, type) else type(env).__name__
        raise APIUsageError(
            f"GymnasiumPufferEnv takes a gymnasium.Env, got {found}; "
            "a PettingZoo environment goes to PettingZooPufferEnv"
        )
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), gymnasium.Space):
            raise APIUsageError(f"{type(env).__name__}.{name} must be a gymnasium.Space; set it in __init__")
    return env
