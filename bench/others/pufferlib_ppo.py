"""PuffeRL with nothing set but the steps, 16 environments given as a function; see bench/others.py."""

import json
import sys
import time

import gymnasium

import pufferlib

task, steps, seed, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
trainer = pufferlib.PuffeRL(lambda: gymnasium.make(task), num_envs=16, seed=seed, logger=pufferlib.NoLogger())
started = time.time()
trainer.learn(steps)
seconds = time.time() - started
taken = trainer.global_step
policy = trainer.policy
score = pufferlib.evaluate(policy, lambda: gymnasium.make(task), episodes=20)["episode_return"].mean
print(json.dumps({"steps": taken, "seconds": seconds, "start": started - began, "score": score}))
