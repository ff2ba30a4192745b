"""Stable-Baselines3's PPO and ours on the same environments at equal steps, in turn: steps a second and final return.

    pip install stable-baselines3 'gymnasium[mujoco]'
    python bench/stable_baselines.py CartPole-v1 HalfCheetah-v5 --seeds 1 2 3
    python bench/stable_baselines.py HalfCheetah-v5 --seeds 1 --steps 1_000_000 --only defaults

Ours trains as `puffer train` does. Stable-Baselines3 trains by the tuned settings of RL Zoo, from the cards of its
models ppo-CartPole-v1 and ppo-HalfCheetah-v3 (the newest HalfCheetah there) on huggingface.co/sb3: CartPole with 8
environments where ours has 16, HalfCheetah with 1 where ours has 8, behind VecNormalize. For HalfCheetah it also trains
by its own defaults behind VecNormalize, with the 2,048 steps of a rollout collected from 8 environments: as many
networks, epochs and minibatches of the same sizes as ours. A schedule runs over the steps that are trained; RL Zoo's
settings are for 0.1 M and 1 M, ours for 0.2 M and 1 M.

All compute on the CPU with `--threads` threads of torch, and step their environments in this process one after the
other. Whole rollouts are collected, so the last may go beyond the steps. The clock runs from the first step to the
last; beside it stand steps per second of processor time, which other programs on the cores disturb least. The final
policies then play, outside of it, by their likeliest actions: the same episodes for all, one environment at a time,
from seeds that nobody trained on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from seeds import Rows, measure, parse

import pufferlib
from pufferlib import pufferl
from pufferlib.config import load_config

STEPS = {"CartPole-v1": 200_000, "HalfCheetah-v5": 300_000}  # unless --steps says otherwise
_FIRST_SEED = 1_000_003  # of the episodes that the final policies play

Act = Callable[[np.ndarray], np.ndarray]  # the likeliest action for an observation


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    act: Act
    steps: int
    seconds: float
    cpu_seconds: float  # of this process, all of its threads together


def falling(value: float) -> Callable[[float], float]:
    """A schedule from `value` to 0, by the part of the training that is left."""
    return lambda left: left * value


@dataclass(frozen=True)
class Recipe:
    """How Stable-Baselines3 trains."""

    num_envs: int
    normalizes: bool  # observations and rewards, by VecNormalize
    ppo: dict[str, Any]  # keyword arguments of PPO beside its defaults


_ZOO_CARTPOLE = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": falling(0.001),
    "clip_range": falling(0.2),
}
_ZOO_HALFCHEETAH = {
    "n_steps": 512,
    "batch_size": 64,
    "gae_lambda": 0.92,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.000401762,
    "learning_rate": 2.0633e-05,
    "clip_range": 0.1,
    "max_grad_norm": 0.8,
    "vf_coef": 0.58096,
    "policy_kwargs": {
        "log_std_init": -2,
        "ortho_init": False,
        "activation_fn": torch.nn.ReLU,
        "net_arch": {"pi": [256, 256], "vf": [256, 256]},
    },
}
RECIPES = {
    "CartPole-v1": {"RL Zoo's settings": Recipe(8, False, _ZOO_CARTPOLE)},
    "HalfCheetah-v5": {
        "its defaults": Recipe(8, True, {"n_steps": 256}),
        "RL Zoo's settings": Recipe(1, True, _ZOO_HALFCHEETAH),
    },
}


def theirs(env_name: str, recipe: Recipe, steps: int, seed: int, folder: str) -> Trained:
    """Trains by Stable-Baselines3."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    envs = make_vec_env(env_name, n_envs=recipe.num_envs, seed=seed)
    if recipe.normalizes:
        envs = VecNormalize(envs, gamma=recipe.ppo.get("gamma", 0.99))
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", **recipe.ppo)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    model.learn(steps)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    envs.close()

    def act(observation: np.ndarray) -> np.ndarray:
        seen = envs.normalize_obs(observation) if recipe.normalizes else observation
        return model.predict(seen, deterministic=True)[0]

    return Trained(act, model.num_timesteps, seconds, cpu_seconds)


def ours(env_name: str, steps: int, seed: int, folder: str) -> Trained:
    """Trains as `puffer train` does."""
    args = load_config(env_name, argv=["--vec.backend", "Serial"])
    args["train"].update(seed=seed, data_dir=folder, total_timesteps=steps, device="cpu")
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    trainer = pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy)
    try:
        begin, cpu_begin = time.perf_counter(), time.process_time()
        while trainer.epoch < trainer.total_epochs:
            trainer.evaluate()
            trainer.train()
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
        num_steps, model = trainer.global_step, trainer.close()
    except BaseException:
        trainer.release()
        raise
    return Trained(pufferlib.load_agent(model).act, num_steps, seconds, cpu_seconds)


def play(env_name: str, act: Act, episodes: int) -> list[float]:
    """The return of every episode."""
    env = gymnasium.make(env_name)
    returns = []
    for seed in range(_FIRST_SEED, _FIRST_SEED + episodes):
        observation, _ = env.reset(seed=seed)
        total, is_over = 0.0, False
        while not is_over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, is_over = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return returns


def rows(case: str, trained: Trained, returns: list[float]) -> Rows:
    """What is recorded of one side."""
    final = f"{case}: final policy, {len(returns)} episodes"
    return [
        (f"{case}: throughput", trained.steps / trained.seconds, "steps/s"),
        (f"{case}: throughput by processor time", trained.steps / trained.cpu_seconds, "steps/s"),
        (f"{case}: steps", trained.steps, "steps"),
        (f"{case}: time", trained.seconds, "s"),
        (f"{final}, mean", float(np.mean(returns)), "return"),
        (f"{final}, standard error", float(np.std(returns, ddof=1) / np.sqrt(len(returns))), "return"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environments", nargs="+", choices=list(RECIPES))
    parser.add_argument("--steps", type=int, help=f"agent steps of each, in place of {STEPS}")
    parser.add_argument("--episodes", type=int, default=30, help="that the final policies play, at least 2")
    parser.add_argument("--threads", type=int, default=1, help="of torch, for both")
    parser.add_argument("--only", help="of the sides, those whose name contains this, such as pufferlib or defaults")
    parser.add_argument("--print-only", action="store_true", help="leave bench/results as it is")
    options, settings = parse(parser)
    if settings:
        parser.error("takes no settings after --: each side trains by its own published ones")
    torch.set_num_threads(options.threads)

    trainers = {}
    for env_name in options.environments:
        steps = options.steps or STEPS[env_name]
        trainers[f"{env_name}, pufferlib"] = partial(ours, env_name, steps)
        for name, recipe in RECIPES[env_name].items():
            trainers[f"{env_name}, Stable-Baselines3 by {name}"] = partial(theirs, env_name, recipe, steps)

    trainers = {side: train for side, train in trainers.items() if options.only is None or options.only in side}

    def run(side: str, seed: int, folder: str) -> Rows:
        trained = trainers[side](seed, folder)
        returns = play(side.split(",")[0], trained.act, options.episodes)
        return rows(f"{side}, seed {seed}, {options.threads} thread(s)", trained, returns)

    for seed in options.seeds:  # in turn
        measure("stable_baselines", trainers, [seed], run, is_kept=not options.print_only)


if __name__ == "__main__":
    main()
