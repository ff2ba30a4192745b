"""Use trained agents in loops of your own: the one that comes with the package, and one that you trained.

Usage: python examples/agent.py [training iterations]
"""

import sys

import gymnasium

import pufferlib

# Many rows: observations in, actions out.
agent = pufferlib.load_agent("puffer_breakout")
env = pufferlib.make("puffer_breakout", num_envs=4)
observations, _ = env.reset(seed=1)
points = 0.0
for _ in range(500):
    observations, rewards, terminals, truncations, _ = env.step(agent.act(observations))
    agent.reset(terminals | truncations)  # what its recurrent layers remember of a game ends with it
    points += rewards.sum()
print(f"breakout: {points:.0f} points in 500 steps of 4 games")

# One observation in, one action out: an agent of your own, in an environment of Gymnasium.
trainer = pufferlib.PuffeRL("CartPole-v1", num_envs=8, num_workers=1, num_steps=32, batch_size=256, learning_rate=0.01)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):
    trainer.evaluate()
    trainer.train()
agent = pufferlib.load_agent(trainer.close())

env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=1)
steps, is_over = 0, False
while not is_over:
    observation, _, terminated, truncated, _ = env.step(agent.act(observation))
    steps, is_over = steps + 1, terminated or truncated
print(f"CartPole: the pole stands for {steps} of 500 steps")
