"""Train cartpole with Stable-Baselines3's PPO: its algorithm, our environments, nothing else of ours.

Usage: python examples/stable_baselines3_cartpole.py [rollouts]

Needs `pip install 'pufferlib[sb3]'`.
"""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import pufferlib
from pufferlib.interop.stable_baselines3 import as_vec_env

NUM_ENVS, STEPS = 64, 32

rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 50

envs = as_vec_env(pufferlib.make_gymnasium_vec("puffer_cartpole", NUM_ENVS))
model = PPO(
    "MlpPolicy",
    envs,
    **dict(n_steps=STEPS, batch_size=512, n_epochs=10, gae_lambda=0.9, learning_rate=2e-3, gamma=0.98),
    seed=0,
    device="cpu",
)
model.learn(rollouts * NUM_ENVS * STEPS)

mean, deviation = evaluate_policy(model, envs, n_eval_episodes=100)
print(f"{model.num_timesteps:,} steps, then {mean:.0f} +- {deviation:.0f} steps an episode, of 500")
envs.close()
