"""Train a torch module of your own: it only needs a `forward` that turns observations into logits and values.

Usage: python examples/custom_policy.py [iterations]
"""

import sys

import torch
from torch import nn

import pufferlib
from pufferlib import PuffeRL


class ActorCritic(nn.Module):
    """Two networks, one that acts and one that values."""

    def __init__(self, env, hidden_size=64):
        super().__init__()
        inputs, num_actions = env.single_observation_space.shape[0], env.single_action_space.n
        self.actor = nn.Sequential(nn.Linear(inputs, hidden_size), nn.Tanh(), nn.Linear(hidden_size, num_actions))
        self.critic = nn.Sequential(nn.Linear(inputs, hidden_size), nn.Tanh(), nn.Linear(hidden_size, 1))

    def forward(self, observations):
        return self.actor(observations), self.critic(observations)


torch.manual_seed(0)
env = pufferlib.make("puffer_cartpole", num_envs=256)
trainer = PuffeRL(env, ActorCritic(env), learning_rate=3e-3)

for iteration in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
    episodes = trainer.evaluate()
    losses = trainer.train()
    print(f"{iteration:3}  score {episodes.get('score', 0.0):5.1f}  value loss {losses['value_loss']:.2f}")

trainer.close()
