"""Train an agent: make an environment, make a trainer, repeat.

Usage: python examples/basic_training.py [iterations]
"""

import sys

import pufferlib
from pufferlib import PuffeRL

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 30

env = pufferlib.make("puffer_cartpole", num_envs=256)
trainer = PuffeRL(env=env, learning_rate=3e-3, gamma=0.98)

for iteration in range(iterations):
    episodes = trainer.evaluate()  # means over the episodes that ended; empty when none did
    losses = trainer.train()
    if episodes:
        print(f"{iteration:3}  length {episodes['episode_length']:5.1f}  entropy {losses['entropy']:.3f}")

print("weights in", trainer.close())
