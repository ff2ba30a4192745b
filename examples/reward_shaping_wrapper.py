"""Change the rewards of any environment by a wrapper: each step costs something.

Usage: python examples/reward_shaping_wrapper.py [iterations]
"""

import sys

import pufferlib
from pufferlib import PuffeRL
from pufferlib.wrappers import PufferWrapper


class TimePenalty(PufferWrapper):
    """Subtracts a penalty from the reward of every step, and passes on everything else."""

    def __init__(self, env, penalty):
        super().__init__(env)
        self.penalty = penalty

    def step(self, actions):
        observations, rewards, terminals, truncations, infos = super().step(actions)
        return observations, rewards - self.penalty, terminals, truncations, infos


env = TimePenalty(pufferlib.make("puffer_squared", num_envs=256, size=5), penalty=0.05)
trainer = PuffeRL(env, learning_rate=3e-3)

for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    episodes = trainer.evaluate()
    trainer.train()
    print(f"{iteration:3}  {episodes['episode_length']:4.1f} steps, {episodes['perf']:.0%} reach the target")

trainer.close()
