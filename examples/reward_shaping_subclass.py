"""Change the rewards of an environment by a subclass: the cart should also stay in the middle.

Usage: python examples/reward_shaping_subclass.py [iterations]
"""

import sys

import numpy as np

from pufferlib import PuffeRL
from pufferlib.ocean.cartpole.cartpole import X_LIMIT, Cartpole


class CenteredCartpole(Cartpole):
    """Lowers the reward by the distance of the cart from the middle."""

    def step(self, actions):
        results = super().step(actions)
        self.rewards -= np.abs(self.observations[:, 0]) / X_LIMIT  # in place: the trainer reads this array
        return results


env = CenteredCartpole(num_envs=256)
trainer = PuffeRL(env, learning_rate=3e-3)

for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    episodes = trainer.evaluate()
    trainer.train()
    reward = trainer.rollout.rewards.mean()  # as the trainer saw it
    print(f"{iteration:3}  length {episodes.get('episode_length', 0.0):5.1f}  shaped reward {reward:.2f}")

trainer.close()
