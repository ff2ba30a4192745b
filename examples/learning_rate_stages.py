"""Lower the learning rate in stages of your own.

Usage: python examples/learning_rate_stages.py [iterations per stage]
"""

import sys

import pufferlib
from pufferlib import PuffeRL

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 10

trainer = PuffeRL(env=pufferlib.make("puffer_cartpole", num_envs=256))

for learning_rate in (3e-3, 1e-3, 1e-4):
    trainer.learning_rate = learning_rate  # from the next train() on
    for _ in range(iterations):
        episodes = trainer.evaluate()
        losses = trainer.train()
    score = episodes.get("score", 0.0)
    print(f"learning rate {learning_rate:.0e}: score {score:5.1f}, the policy moves by {losses['approx_kl']:.0e}")

trainer.close()
