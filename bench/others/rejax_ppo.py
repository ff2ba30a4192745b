"""rejax (JAX, the environment of gymnax and the update in one jitted program) on CartPole; see bench/others.py."""

import json
import sys
import time

import jax
from rejax import PPO

task, steps, seed, began = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
algorithm = PPO.create(
    env=task,
    total_timesteps=steps,
    eval_freq=steps,
    num_envs=16,
    num_steps=128,
    num_minibatches=4,
    num_epochs=4,
    learning_rate=1e-3,
    agent_kwargs={"hidden_layer_sizes": (64, 64)},
)
key = jax.random.PRNGKey(seed)
train = jax.jit(algorithm.train).lower(key).compile()
compiled = time.time()
_, (_, returns) = train(key)
scores = jax.block_until_ready(returns)[-1]
seconds = time.time() - compiled
print(json.dumps({"steps": steps, "seconds": seconds, "start": compiled - began, "score": float(scores.mean())}))
