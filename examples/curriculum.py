"""Teach one policy in stages of growing difficulty: every stage is a new environment and a new trainer.

Usage: python examples/curriculum.py [iterations per stage]
"""

import sys

from custom_environment import Walkers

import pufferlib
from pufferlib import PuffeRL

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 8
policy = None  # the first trainer makes one

for reach in (2, 4, 8):
    env = pufferlib.make(Walkers, num_envs=256, reach=reach)
    trainer = PuffeRL(env, policy, learning_rate=3e-3)
    policy = trainer.policy
    for _ in range(iterations):
        episodes = trainer.evaluate()
        trainer.train()
    print(f"targets below {2 * reach:2} steps away: {episodes['arrivals']:.1f} of 256 arrive in each step")
    trainer.close()
