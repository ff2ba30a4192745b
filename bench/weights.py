"""A fingerprint of the weights after a few iterations: what a change that moves no arithmetic leaves as it was.

    python bench/weights.py                 every case, one line each
    python bench/weights.py fused mlp       these alone

Run it before and after a change, on one machine, with the same number of threads, and compare the lines. Numbers of one
machine are not those of another: compilers and matrix products round differently.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from typing import Any

import torch
from torch import nn

import pufferlib
from pufferlib import pufferl

ITERATIONS = 3

SMALL = {"env.num_envs": 256, "train.total_timesteps": 10_000_000}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "fused": ("puffer_breakout", {}),
    "unfused": ("puffer_breakout", {**SMALL, "train.fused": False}),
    "lstm": ("puffer_breakout", {**SMALL, "rnn_name": "LSTM"}),
    "mlp": ("puffer_squared", {**SMALL, "rnn_name": None}),
    "priorities": ("puffer_squared", {**SMALL, "train.prio_alpha": 0.8, "train.update_epochs": 1.3}),
    "accumulated": ("puffer_squared", {**SMALL, "train.fused": False, "train.max_minibatch_size": 512}),
    "adam": ("puffer_cartpole", {**SMALL, "train.optimizer": "adam", "train.max_grad_norm": 0.5}),
    "sgd": ("puffer_cartpole", {**SMALL, "train.optimizer": "sgd", "train.fused": False}),
    "buffers": ("puffer_pong", {**SMALL, "vec.num_envs": 2, "vec.num_workers": 2}),
    "template": ("puffer_template", {"env.num_envs": 128}),
    "python": ("CartPole-v1", {"vec.backend": "Serial"}),
    "steps": ("Pendulum-v1", {"vec.backend": "Serial", "train.shuffle": "steps", "train.target_kl": 0.02}),
    "normalized": (
        "CartPole-v1",
        {
            "vec.backend": "Serial",
            "train.shuffle": "segments",
            "rnn_name": "MinGRU",
            "train.normalize_observations": True,
        },
    ),
    "bfloat16": ("puffer_squared", {**SMALL, "train.precision": "bfloat16"}),
}


class OwnPolicy(nn.Module):
    """What a user may write: without a state, two layers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(121, 32), nn.ReLU())
        self.action, self.value = nn.Linear(32, 5), nn.Linear(32, 1)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(observations.float().flatten(1))
        return self.action(hidden), self.value(hidden)


def by_configuration(name: str, folder: str) -> pufferl.PuffeRL:
    """A trainer of one of CASES."""
    env_name, settings = CASES[name]
    args = pufferl.load_config(env_name)
    for key, value in {**settings, "train.seed": 7, "train.data_dir": folder, "train.device": "cpu"}.items():
        section, _, setting = key.rpartition(".")
        (args[section] if section else args)[setting] = value
    vecenv = pufferl.load_env(env_name, args)
    policy = pufferl.load_policy(args, vecenv, env_name)
    return pufferl.PuffeRL({**args["train"], "env": env_name}, vecenv, policy)


def by_keyword(folder: str) -> pufferl.PuffeRL:
    """A trainer of a policy of one's own."""
    torch.manual_seed(7)
    env = pufferlib.make("puffer_squared", num_envs=64)
    return pufferlib.PuffeRL(env, OwnPolicy(), device="cpu", seed=7, data_dir=folder)


def fingerprint(trainer: pufferl.PuffeRL) -> str:
    """Of the weights after some iterations, and of the last losses."""
    for _ in range(ITERATIONS):
        trainer.evaluate()
        losses = trainer.train()
    digest = hashlib.sha256()
    for value in (*trainer.policy.parameters(), *trainer.policy.buffers()):
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    trainer.close()
    return f"{digest.hexdigest()[:16]}  " + "  ".join(f"{name} {value:.9g}" for name, value in losses.items())


def main() -> None:
    """Prints a line for every case that is asked for."""
    for name in sys.argv[1:] or [*CASES, "keyword"]:
        with tempfile.TemporaryDirectory() as folder:
            trainer = by_keyword(folder) if name == "keyword" else by_configuration(name, folder)
            print(f"{name:<13}{fingerprint(trainer)}", flush=True)


if __name__ == "__main__":
    main()
