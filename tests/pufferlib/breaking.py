"""An environment that gives a number that is none, and trainers of it."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from pufferlib import pufferl, vector
from pufferlib.environment import PufferEnv
from pufferlib.models import Default

AGENTS, HORIZON = 4, 8


class BreakingEnv(PufferEnv):
    """Gives one agent a number that is none, at one step of the run."""

    def __init__(self, what="reward", agent=2, step=13, value=math.nan, action_space=None, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.single_action_space = action_space or Discrete(3)
        self.num_agents = AGENTS
        super().__init__(buf)
        self.broken = what, agent, step, value
        self.random = np.random.default_rng(seed)
        self.time = 0

    def reset(self, seed=None):
        self.observations[:] = self.random.normal(size=self.observations.shape)
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.observations[:] = self.random.normal(size=self.observations.shape)
        self.rewards[:] = self.random.normal(size=AGENTS)
        what, agent, step, value = self.broken
        if self.time == step and what != "observation":
            self.rewards[agent] = value
        if self.time == step and what != "reward":
            self.observations[agent, 1] = value
        return self.observations, self.rewards, self.terminals, self.truncations, []


def make_trainer(env_kwargs=None, policy=Default, env=BreakingEnv, loss=None, **settings):
    vecenv = vector.make(env, env_kwargs=env_kwargs or {}, backend="Serial")
    torch.manual_seed(0)
    policy = policy(vecenv.driver_env, 16) if policy is Default else policy(vecenv.driver_env)
    settings = {"device": "cpu", "bptt_horizon": HORIZON, "batch_size": AGENTS * HORIZON, **settings}
    settings = {"minibatch_size": HORIZON, "total_timesteps": 10_000, **settings}
    return pufferl.PuffeRL(settings, vecenv, policy, loss=loss)


def train(trainer, epochs=8):
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()
