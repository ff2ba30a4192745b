"""A task that only a time limit ends, and a recipe for it: keep a point at the target, by pushing it."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box

from pufferlib.environment import PufferEnv

LIMIT = 10  # steps of an episode

# That of the published PPO results for continuous control.
RECIPE = {
    "device": "cpu",
    "optimizer": "adam",
    "learning_rate": 3e-3,
    "lr_schedule": "linear",
    "adam_beta1": 0.9,
    "adam_eps": 1e-5,
    "gamma": 0.9,
    "gae_lambda": 0.95,
    "bptt_horizon": 32,
    "minibatch_size": 64,
    "update_epochs": 4.0,
    "shuffle": "steps",
    "prio_alpha": 0.0,
    "vf_coef": 0.5,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
    "clip_vloss": False,
    "reward_clip": 0.0,
    "normalize_observations": True,
    "normalize_rewards": True,
    "total_timesteps": 20_000,
    "log_interval": 1,
}


class TrackingEnv(PufferEnv):
    """Observation: target and position, times `scale`. Reward: minus the squared distance, times `scale`."""

    def __init__(self, agents=4, scale=1.0, tells_final=True, has_absent_agents=False, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.single_action_space = Box(-1, 1, (1,), np.float32)
        self.num_agents = agents
        super().__init__(buf)
        self.scale, self.tells_final, self.has_absent_agents = scale, tells_final, has_absent_agents
        self.reset(seed)

    def reset(self, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.time = np.arange(self.num_agents) % LIMIT  # so that limits come at different steps
        self.points = self.random.uniform(-1, 1, (self.num_agents, 2))
        self.show()
        return self.observations, []

    def show(self):
        self.observations[:] = self.scale * self.points
        if self.has_absent_agents:
            self.masks[:] = (self.time + np.arange(self.num_agents)) % 3 != 0

    def step(self, actions):
        self.time += 1
        self.points[:, 1] += 0.5 * np.clip(actions[:, 0], -1, 1)
        self.rewards[:] = -self.scale * (self.points[:, 0] - self.points[:, 1]) ** 2
        self.truncations[:] = self.time == LIMIT
        infos = []
        for agent in np.flatnonzero(self.truncations):
            if self.tells_final:
                infos.append({"final_observation": self.scale * self.points[agent], "agent_id": int(agent)})
            self.points[agent] = self.random.uniform(-1, 1, 2)
            self.time[agent] = 0
        self.show()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def snapshot(self):
        state = [self.time.astype(float), self.points.ravel()]
        return np.concatenate(state).tobytes() + repr(self.random.bit_generator.state).encode()

    def restore(self, snapshot):
        count = 3 * self.num_agents
        numbers = np.frombuffer(snapshot[: 8 * count])
        self.time = numbers[: self.num_agents].astype(int)
        self.points = numbers[self.num_agents :].reshape(-1, 2).copy()
        self.random = np.random.default_rng()
        self.random.bit_generator.state = eval(snapshot[8 * count :].decode())
