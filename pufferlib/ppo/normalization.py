"""Scales rewards by a running deviation; policies that normalise observations are in pufferlib.normalized."""

from __future__ import annotations

import math

import numpy as np

from pufferlib.distributed import Ranks
from pufferlib.metrics.moments import EPSILON, Moments


class RewardNormalizer:
    """Divides rewards by the running deviation of their discounted sum, and clips them.

    The deviation is that of the discounted sum of an episode's rewards so far, taken at every step (Engstrom et al.
    2020, "Implementation Matters in Deep Policy Gradients"). The mean stays: shifting rewards would change which policy
    is best.

    Attributes:
        moments: of these sums, over all processes.
        sums: `(agents,)` float64, of every agent's running episode.
    """

    def __init__(self, num_agents: int, gamma: float, clip: float, ranks: Ranks):
        self.moments = Moments()
        self.sums = np.zeros(num_agents)
        self._gamma = gamma
        self._clip = clip
        self._ranks = ranks

    def normalize(self, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> None:
        """Adds the steps of a rollout to the statistics, then scales its rewards in place.

        Args:
            rewards: `(T, S)` float32; S is a multiple of the agents, whose segments follow each other in time.
            ended: `(T, S)` bool, set where the episode ended with that reward.
            masks: `(T, S)` bool, False for absent agents, whose steps do not count.
        """
        agents = len(self.sums)
        groups = [slice(begin, begin + agents) for begin in range(0, rewards.shape[1], agents)]
        sums = np.concatenate([self._add_up(rewards[:, each], ended[:, each])[masks[:, each]] for each in groups])
        own = Moments(len(sums), float(sums.mean()), float(sums.var())) if len(sums) else Moments()
        self.moments = self.moments.with_all(self._ranks.gather(own))
        # LaTeX: r \leftarrow r / \sqrt{\sigma^2 + \epsilon} ; r = rewards, \sigma^2 = variance, \epsilon = EPSILON
        rewards /= math.sqrt(self.moments.variance + EPSILON)
        np.clip(rewards, -self._clip, self._clip, out=rewards)

    def _add_up(self, rewards: np.ndarray, ended: np.ndarray) -> np.ndarray:
        # The discounted sums after each step, (T, agents).
        found = np.empty(rewards.shape)
        for step in range(len(rewards)):
            # LaTeX: G_t = \gamma G_{t-1} + r_t ; G = self.sums, \gamma = self._gamma, r = rewards
            self.sums *= self._gamma
            self.sums += rewards[step]
            found[step] = self.sums
            self.sums[ended[step]] = 0.0
        return found
