"""One C environment of several agents as a `pettingzoo.ParallelEnv`."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from pettingzoo import ParallelEnv
from typing_extensions import override

from pufferlib.emulation.emulated_env import ACTION_MASK
from pufferlib.errors import APIUsageError
from pufferlib.interop.ocean_envs import OceanInside, mask_info, write_actions
from pufferlib.ocean.environment import OceanEnv
from pufferlib.spaces import num_choices


class OceanParallelEnv(OceanInside, ParallelEnv):
    """A C environment whose agents act at the same time: `agent_0`, `agent_1` and so on, all of the same spaces.

    Observations are copies, and the last one of an agent is its final one. An agent whose episode has ended
    is gone until `reset`. In C its place is taken again at once, so where agents end at different times the newcomer
    stands by, with actions of zeros, until all have ended. Infos are empty, `options` have no meaning.

    Where the environment has action masks, an observation is a dict of `observation` and `action_mask`, int8.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array", "human"]}

    def __init__(self, name: str | type[OceanEnv], render_mode: str | None = None, **env_kwargs: object):
        self._open(name, 1, render_mode, env_kwargs, is_of_one_agent=False)
        self.metadata["name"] = type(self.ocean).__name__.lower()
        self.possible_agents = [f"agent_{row}" for row in range(self.ocean.num_agents)]
        self.agents: list[str] = []
        space = self.ocean.single_observation_space
        if self.ocean.has_action_masks:
            choices = num_choices(self.ocean.single_action_space)
            space = Dict({"observation": space, ACTION_MASK: Box(0, 1, (choices,), np.int8)})
        self.observation_spaces = dict.fromkeys(self.possible_agents, space)
        self.action_spaces = dict.fromkeys(self.possible_agents, self.ocean.single_action_space)
        self._rows = {agent: row for row, agent in enumerate(self.possible_agents)}
        self._has_begun = False  # C began the next episode when the last one ended, for all agents in one step

    @override
    def observation_space(self, agent: str) -> gymnasium.Space:
        return self.observation_spaces[agent]

    @override
    def action_space(self, agent: str) -> gymnasium.Space:
        return self.action_spaces[agent]

    @override
    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict[str, np.ndarray], dict]:
        if seed is not None or not self._has_begun:
            self.ocean.reset(seed)
        self._has_begun = False
        self.agents = list(self.possible_agents)
        self._show()
        return self._seen(self.ocean.observations.copy()), {agent: {} for agent in self.agents}

    @override
    def step(self, actions: dict[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Steps all agents that are there, with one action for each of `agents`.

        Returns observations, rewards, terminations, truncations and infos by agent. Raises APIUsageError if there is no
        agent, or none of these actions for one.
        """
        self._write_actions(actions)
        ocean, agents = self.ocean, self.agents
        ocean.step(ocean.actions)
        ended = ocean.terminals | ocean.truncations
        columns = ended.reshape(-1, *[1] * (ocean.observations.ndim - 1))
        results = (
            self._seen(np.where(columns, self._final, ocean.observations)),
            self._of_agents(ocean.rewards.tolist()),
            self._of_agents(ocean.terminals.tolist()),
            self._of_agents(ocean.truncations.tolist()),
            {agent: {} for agent in agents},
        )
        self.agents = [agent for agent in agents if not ended[self._rows[agent]]]
        self._has_begun = bool(ended.all())
        self._show()
        return results

    def _write_actions(self, actions: dict[str, Any]) -> None:
        if not self.agents:
            raise APIUsageError("step() is for an episode under way, and none is; call reset() first")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise APIUsageError(f"an action for each of {self.agents} is expected, got none for {missing}")
        self.ocean.actions[:] = 0
        for agent in self.agents:
            write_actions(self.ocean, self._rows[agent], actions[agent])

    def _seen(self, observations: np.ndarray) -> dict[str, Any]:
        rows = self._of_agents(observations)
        if not self.ocean.has_action_masks:
            return rows
        return {agent: {"observation": row, **mask_info(self.ocean, self._rows[agent])} for agent, row in rows.items()}

    def _of_agents(self, rows: np.ndarray | list) -> dict[str, Any]:
        return {agent: rows[self._rows[agent]] for agent in self.agents}
