"""See several steps at once: a pole balanced without being shown how fast anything moves.

Usage: python examples/frame_stack.py [iterations]
"""

import sys

import numpy as np
from gymnasium.spaces import Box

import pufferlib
from pufferlib import PuffeRL
from pufferlib.wrappers import FrameStack, ObservationWrapper


class Positions(ObservationWrapper):
    """Shows where the cart and the pole are, and hides how they move."""

    def __init__(self, env):
        super().__init__(env, Box(-np.inf, np.inf, (2,)))

    def transform(self, observations):
        return observations[:, ::2]


def train(name, env, iterations):
    trainer = PuffeRL(env, learning_rate=3e-3, batch_size=8192)
    for _ in range(iterations):
        statistics = trainer.evaluate()
        trainer.train()
    print(f"{name:<10} {statistics['episode/length_mean']:6.1f} steps until the pole falls")
    trainer.close()


iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 60
train("one frame", Positions(pufferlib.make("puffer_cartpole", num_envs=256)), iterations)
train("four", FrameStack(Positions(pufferlib.make("puffer_cartpole", num_envs=256)), num_frames=4), iterations)
