"""Minimise a loss of your own: a function with the signature of `pufferlib.ppo.losses.ppo_loss`.

Its keywords are `[train]` settings by name, or have defaults; its metrics are logged as `losses/<name>`.

Usage: python examples/custom_loss.py [iterations]
"""

import sys

import pufferlib
from pufferlib import PuffeRL
from pufferlib.ppo.losses import PPOLoss, mean, ppo_loss


def cautious_loss(*tensors, caution=0.1, **coefficients):
    """PPO's loss, and a penalty on going far from the policy that acted."""
    loss = ppo_loss(*tensors, **coefficients)
    logprobs, _, _, old_logprobs, *_, weights = tensors
    distance = mean((logprobs - old_logprobs).square(), weights)
    return PPOLoss(loss.total + caution * distance, {**loss.metrics, "distance": distance}, loss.ratio)


env = pufferlib.make("puffer_cartpole", num_envs=256)
trainer = PuffeRL(env, learning_rate=3e-3, loss=cautious_loss)
print(f"computed by {trainer.computed_by}")

for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    episodes = trainer.evaluate()
    losses = trainer.train()
    print(f"{iteration:3}  score {episodes.get('score', 0.0):5.1f}  distance {losses['distance']:.2g}")

trainer.close()
