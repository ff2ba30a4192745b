"""RLtools' PPO, compiled at run time for a Gymnasium environment of continuous actions; see bench/others.py."""

import json
import sys
import time

import gymnasium
import numpy as np
from gymnasium.wrappers import RescaleAction
from rltools import PPO

task, steps, seed, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])


def make(seed=seed):
    env = RescaleAction(gymnasium.make(task), -1.0, 1.0)
    env.reset(seed=seed)
    return env


def play(state):
    env, total = make(), 0.0
    observation, _ = env.reset()
    is_over = False
    while not is_over:
        observation, reward, is_terminal, is_cut, _ = env.step(state.action(observation))
        total += float(reward)
        is_over = is_terminal or is_cut
    return total


state = PPO(make, TOTAL_STEP_LIMIT=steps, enable_evaluation=False).State(seed)
started = time.time()
while not state.step():
    pass
seconds = time.time() - started
score = float(np.mean([play(state) for _ in range(20)]))
print(json.dumps({"steps": steps, "seconds": seconds, "start": started - began, "score": score}))
