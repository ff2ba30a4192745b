"""PufferLib 3.0's PPO on a Gymnasium environment, by its own defaults; see bench/others.py."""

import json
import sys
import time

import gymnasium
import numpy as np

import pufferlib.emulation
import pufferlib.models
import pufferlib.pufferl
import pufferlib.vector

task, steps, seed, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
sys.argv = sys.argv[:1]  # its configuration reads the program's arguments


def make(buf=None, seed=0):
    return pufferlib.emulation.GymnasiumPufferEnv(gymnasium.make(task), buf=buf, seed=seed)


args = pufferlib.pufferl.load_config("default")
envs = pufferlib.vector.make(make, num_envs=16, backend=pufferlib.vector.Serial, seed=seed)
args["train"].update(env=task, total_timesteps=steps, seed=seed, device="cpu", batch_size=2_048, bptt_horizon=16)
args["train"].update(minibatch_size=512, max_minibatch_size=512)
policy = pufferlib.models.Default(envs.driver_env, hidden_size=64)
trainer = pufferlib.pufferl.PuffeRL(args["train"], envs, policy)
started, returns = time.time(), []
while trainer.global_step < steps:
    returns += trainer.stats.get("episode_return", [])
    trainer.evaluate()
    trainer.train()
seconds = time.time() - started
score = float(np.mean(returns[-20:])) if returns else float("nan")
print(json.dumps({"steps": trainer.global_step, "seconds": seconds, "start": started - began, "score": score}))
