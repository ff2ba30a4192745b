"""Policies of numbers that a kernel can train, in an environment of numbers."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box

from pufferlib import PufferEnv, pufferl, vector
from pufferlib.models import Continuous, Default, LSTMWrapper, MinGRUWrapper


class DriftEnv(PufferEnv):
    """Points that actions push about; episodes are cut after 11 steps, and some agents are absent at times."""

    def __init__(self, dtype=np.float64, has_absent_agents=False, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (3,), dtype)
        self.single_action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.num_agents = 6
        super().__init__(buf)
        self.has_absent_agents = has_absent_agents
        self.step_count = 0

    def reset(self, seed=None):
        self.step_count = 0
        self.observations[:] = 5.0 + np.arange(18).reshape(6, 3) % 4
        return self.observations, []

    def step(self, actions):
        assert actions.dtype == np.float32 and actions.shape == (6, 2)
        self.step_count += 1
        actions = actions * self.masks[:, None]  # absent agents do nothing
        self.rewards[:] = 1.0 - np.square(actions - 0.3 * self.observations[:, :2]).mean(1)
        self.observations[:, :2] = 0.9 * self.observations[:, :2] + 0.1 * actions
        self.observations[:, 2] = 20.0 * np.sin(self.step_count + np.arange(6))
        self.truncations[:] = self.step_count % 11 == 0
        self.masks[:] = ~(self.has_absent_agents & ((np.arange(6) + self.step_count) % 3 == 0))
        infos = []
        if self.truncations.any():
            finals = self.observations.copy()
            infos = [{"final_observation": row, "agent_id": agent} for agent, row in enumerate(finals)]
            self.reset()
        return self.observations, self.rewards, self.terminals, self.truncations, infos


def make_trainer(make_policy, env_kwargs=None, **settings):
    vecenv = vector.make(DriftEnv, env_kwargs=env_kwargs or {}, backend="Serial")
    torch.manual_seed(0)
    config = {
        **{"device": "cpu", "bptt_horizon": 16, "batch_size": 96, "minibatch_size": 48, "total_timesteps": 10**6},
        **{"optimizer": "adam", "adam_eps": 1e-3, "learning_rate": 0.01, "update_epochs": 3, "ent_coef": 0.01},
        **settings,
    }
    return pufferl.PuffeRL(config, vecenv, make_policy(vecenv.driver_env))


def recurrent(env):
    return MinGRUWrapper(env, Default(env, 16, activation="relu"), 16, 16)


def with_lstm(env):
    return LSTMWrapper(env, Default(env, 16, activation="relu"), 16, 16, num_layers=2)


CONTINUOUS = {
    "shuffle": "steps",
    "prio_alpha": 0.0,
    "normalize_observations": True,
    "normalize_rewards": True,
    "minibatch_size": 32,
}
CASES = {
    "continuous": (lambda env: Continuous(env, [16, 16], [48]), CONTINUOUS, {}),
    "float32": (lambda env: Continuous(env, [32], [32, 32], "relu", -0.5), CONTINUOUS, {"dtype": np.float32}),
    "absent agents": (lambda env: Continuous(env, [16], [16]), CONTINUOUS, {"has_absent_agents": True}),
    "values that are not clipped": (lambda env: Continuous(env, [16], [16]), {"clip_vloss": False}, {}),
    "one encoder": (lambda env: Default(env, 16, 2, "tanh"), {"normalize_observations": True}, {}),
    "muon": (lambda env: Continuous(env, [16], [16]), {"optimizer": "muon"}, {}),
    "recurrent": (recurrent, {"normalize_observations": True}, {"has_absent_agents": True}),
    "LSTM": (with_lstm, {"normalize_observations": True}, {"has_absent_agents": True}),
}
