"""An environment whose every number follows from the row, the time and the last action."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete

from pufferlib.environment import PufferEnv

NUM_ACTIONS = 3
ROW, STEP, EPISODE, ACTION = range(4)  # columns of an observation


def episode_length(row):
    """Steps of every episode of a row of the whole vector."""
    return 3 + row % 5


class ScriptedEnv(PufferEnv):
    """Agents with episodes of their own lengths, which end by a terminal and by a truncation in turn."""

    def __init__(self, index=0, agents=2, has_absent_agents=False, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = Discrete(NUM_ACTIONS)
        self.num_agents = agents
        super().__init__(buf)
        self.row = np.arange(index * agents, (index + 1) * agents)
        self.has_absent_agents = has_absent_agents
        self.time = 0

    def reset(self, seed=None):
        self.time = 0
        self.write(np.zeros(self.num_agents, int))
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.write(actions)
        ended = np.flatnonzero(self.terminals | self.truncations)
        infos = [{"episode_length": float(episode_length(self.row[agent])), "n": 1} for agent in ended]
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def write(self, actions):
        arrays = expected(self.row, np.full(self.num_agents, self.time), actions)
        self.observations[:], self.rewards[:], self.terminals[:], self.truncations[:], masks = arrays
        if self.has_absent_agents:
            self.masks[:] = masks

    def snapshot(self):
        return self.time.to_bytes(8, "little")

    def restore(self, snapshot):
        self.time = int.from_bytes(snapshot, "little")


def expected(row, time, last_action):
    """What a row must show at a time: observations, rewards, terminals, truncations, masks; arrays of one shape."""
    row, time, last_action = np.broadcast_arrays(row, time, last_action)
    last_action = np.where(time == 0, 0, last_action)
    length = episode_length(row)
    episode = time // length
    observations = np.stack([row, time % length, episode, last_action], -1).astype(np.float32)
    rewards = np.where(time == 0, 0.0, 100.0 * row + time + last_action / 4).astype(np.float32)
    ends = (time > 0) & (time % length == 0)
    return observations, rewards, ends & (episode % 2 == 1), ends & (episode % 2 == 0), (row + time) % 4 != 0
