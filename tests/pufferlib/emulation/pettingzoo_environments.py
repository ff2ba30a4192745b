"""A scripted parallel PettingZoo environment."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Leaving(ParallelEnv):
    """Agent `i` leaves after `lengths[i]` steps, as its entry of `ends` says; it is paid 10 * i + the step.

    Observes (episode, agent, step). Notes the actions of every step and the arguments of every reset.
    """

    metadata = {"name": "leaving", "render_modes": []}
    render_mode = None

    def __init__(self, lengths=(2, 4, 4), ends=("terminated", "truncated", "terminated")):
        self.lengths, self.ends = lengths, ends
        self.possible_agents = [f"agent_{index}" for index in range(len(lengths))]
        self.taken, self.resets, self.episode = [], [], -1

    def observation_space(self, agent):
        return Box(-np.inf, np.inf, (3,), np.float32)

    def action_space(self, agent):
        return Discrete(5)

    def reset(self, seed=None, options=None):
        self.resets.append((seed, options))
        self.agents = list(self.possible_agents)
        self.episode, self.time = self.episode + 1, 0
        return self.observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.taken.append(actions)
        self.time += 1
        number = {agent: index for index, agent in enumerate(self.possible_agents)}
        rewards = {agent: 10.0 * number[agent] + self.time for agent in self.agents}
        ending = {agent: self.time == self.lengths[number[agent]] for agent in self.agents}
        terminated = {agent: ending[agent] and self.ends[number[agent]] == "terminated" for agent in self.agents}
        truncated = {agent: ending[agent] and self.ends[number[agent]] == "truncated" for agent in self.agents}
        infos = {agent: {"place": number[agent]} if ending[agent] else {} for agent in self.agents}
        observations = self.observe()
        self.agents = [agent for agent in self.agents if not ending[agent]]
        return observations, rewards, terminated, truncated, infos

    def observe(self):
        return {
            agent: np.array([self.episode, self.possible_agents.index(agent), self.time], np.float32)
            for agent in self.agents
        }


class Different(Leaving):
    """Its agents see and do different things."""

    def __init__(self, observation_spaces, action_spaces, samples=None):
        super().__init__((9,) * len(observation_spaces), ("terminated",) * len(observation_spaces))
        self._spaces = dict(zip(self.possible_agents, zip(observation_spaces, action_spaces, strict=True), strict=True))
        self.samples = samples

    def observation_space(self, agent):
        return self._spaces[agent][0]

    def action_space(self, agent):
        return self._spaces[agent][1]

    def observe(self):
        return dict(zip(self.possible_agents, self.samples, strict=True))
