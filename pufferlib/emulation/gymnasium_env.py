"""A Gymnasium environment as a PufferEnv of one agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from typing_extensions import override

from pufferlib.emulation.actions import ActionLayout
from pufferlib.emulation.emulated_env import EmulatedEnv, warn_of_left_out
from pufferlib.emulation.infos import final_observation, plain_numbers
from pufferlib.emulation.packing import row_writer
from pufferlib.environment import StepResult, fitting_actions
from pufferlib.errors import APIUsageError
from pufferlib.spaces.layout import Layout


class GymnasiumPufferEnv(EmulatedEnv):
    """Steps a `gymnasium.Env` whose observations and actions may have any structure.

    Observations are packed into rows as `emulated` describes (see pufferlib.spaces.layout), unless their space is a
    Box, which stays as it is. Actions are rows of `single_action_space` and reach the environment in its own space,
    clipped to its bounds.

    When an episode ends the environment is reset in the same step. Infos are empty but for such steps, which give

    - where the episode was truncated and not terminated, `{"final_observation": row, "agent_id": 0}` with the last
      observation of the old episode, as `observations` would hold it;
    - one dict of the numbers in the environment's last info, if there are any. What is no single number is left out,
      and so is a name that means something else here (`n`, `agent_id`, `final_observation`).

    An exception of the environment passes through as it is.
    """

    env: gymnasium.Env

    @override
    def _describe(self, env: object) -> None:
        self.env = _checked(env)
        self._layout = Layout.of(self.env.observation_space)
        warn_of_left_out(self.env, self._layout.left_out)
        self._actions = ActionLayout(self.env.action_space)
        self.single_observation_space = self._layout.row_space
        self.single_action_space = self._actions.canonical
        self.num_agents = 1

    @override
    def _connect(self) -> None:
        self._write = row_writer(self._layout, self.observations[0, ...])
        self._to_action = _converter(self._actions)
        self._reward = memoryview(self.rewards)  # takes a number in half the time that the array does
        self._has_ended = False  # in the last step

    @property
    @override
    def emulated(self) -> Layout | None:
        return self._layout if self._layout.is_packed else None

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        """Steps the environment with `actions[0]`, a row of `single_action_space`; see the class for the infos."""
        if actions is not self.actions:
            actions = fitting_actions(actions, self.actions)
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
        self._restart()
        return [*infos, numbers] if numbers else infos

    def _clear_flags(self) -> None:
        self._has_ended = False
        self.terminals[0] = self.truncations[0] = False

    @override
    def _clear_step(self) -> None:
        self.rewards[0] = 0.0
        self.masks[0] = True
        self._clear_flags()

    @override
    def _begin_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        observation, _ = self.env.reset(seed=seed, options=options)
        self._write(observation)


def _converter(layout: ActionLayout) -> Callable[[np.ndarray], Any]:
    split, space = layout.split, layout.space
    if not isinstance(space, Discrete):
        return lambda actions: split(actions[0])
    last, start = int(space.n) - 1, int(space.start)

    def convert(actions: np.ndarray) -> int:  # as `split` does, and faster: this is for every step
        choice = actions.item()
        return start + (choice if 0 <= choice <= last else 0 if choice < 0 else last)

    return convert


def _checked(env: object) -> gymnasium.Env:
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
