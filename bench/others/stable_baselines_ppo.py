"""Stable-Baselines3's PPO by its defaults, 16 environments in this process; see bench/others.py."""

import json
import sys
import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

task, steps, seed, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(2)
model = PPO("MlpPolicy", make_vec_env(task, 16, seed=seed), seed=seed, device="cpu")
started = time.time()
model.learn(steps)
seconds = time.time() - started
score, _ = evaluate_policy(model, make_vec_env(task, 1, seed=seed + 1_000_003), n_eval_episodes=20)
print(json.dumps({"steps": model.num_timesteps, "seconds": seconds, "start": started - began, "score": float(score)}))
