"""Policies as people write them in torch, by the kernel and by torch.

    python -m pytest -n0 bench/policies.py --benchmark-enable
    python bench/record.py policies -- python -m pytest -q -n0 bench/policies.py --benchmark-enable

One round is one iteration of breakout, `evaluate()` and `train()`, with one pass over each batch in float32. A policy
that the kernel does not take fails here with the reason: what is measured is never torch twice.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import pufferlib
from pufferlib import NoLogger, PuffeRL
from pufferlib.models import LSTMWrapper, MinGRUWrapper, recur

INPUTS, ACTIONS = 118, 3  # of breakout


class CleanRL(nn.Module):
    """CleanRL's agent for classic control."""

    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(INPUTS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(
            nn.Linear(INPUTS, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, ACTIONS)
        )

    def forward(self, observations):
        return self.actor(observations), self.critic(observations)


class Trunk(nn.Module):
    """One layer of 128 with GELU, and two heads."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, 128), nn.GELU())
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    def forward(self, observations):
        hidden = self.body(observations)
        return self.actor(hidden), self.critic(hidden)


class Wide(Trunk):
    """Two layers of 512 with ELU, as Sample Factory's default for vectors."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(INPUTS, 512), nn.ELU(), nn.Linear(512, 512), nn.ELU())
        self.actor, self.critic = nn.Linear(512, ACTIONS), nn.Linear(512, 1)


class Normed(Trunk):
    """LayerNorm after each of two layers of 256."""

    def __init__(self):
        super().__init__()
        layers = [nn.Linear(INPUTS, 256), nn.LayerNorm(256), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(256, 256), nn.LayerNorm(256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, ACTIONS), nn.Linear(256, 1)


class Residual(nn.Module):
    """Two blocks of RMSNorm and a gated layer around a stream of 128."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(INPUTS, 128)
        self.norm1, self.up1, self.gate1, self.down1 = self.block()
        self.norm2, self.up2, self.gate2, self.down2 = self.block()
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    @staticmethod
    def block():
        return nn.RMSNorm(128), nn.Linear(128, 256), nn.Linear(128, 256), nn.Linear(256, 128)

    def forward(self, observations):
        hidden = self.first(observations)
        normal = self.norm1(hidden)
        hidden = hidden + self.down1(self.up1(normal) * functional.silu(self.gate1(normal)))
        normal = self.norm2(hidden)
        hidden = hidden + self.down2(self.up2(normal) * functional.silu(self.gate2(normal)))
        return self.actor(hidden), self.critic(hidden)


class Parts(nn.Module):
    """The ball and the bricks through layers of their own."""

    def __init__(self):
        super().__init__()
        self.state, self.bricks = nn.Linear(10, 64), nn.Linear(INPUTS - 10, 64)
        self.body = nn.Linear(128, 64)
        self.actor, self.critic = nn.Linear(64, ACTIONS), nn.Linear(64, 1)

    def forward(self, observations):
        seen = torch.cat([self.state(observations[:, :10]), self.bricks(observations[:, 10:])], dim=1)
        hidden = functional.relu(self.body(functional.relu(seen)))
        return self.actor(hidden), self.critic(hidden)


class Encoder(nn.Module):
    """In a recurrent wrapper of the library."""

    hidden_size = 128

    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(INPUTS, 128), nn.LayerNorm(128)
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    def encode_observations(self, observations):
        return functional.silu(self.norm(self.body(observations)))

    def decode_actions(self, hidden):
        return self.actor(hidden), self.critic(hidden)

    def forward(self, observations):
        return self.decode_actions(self.encode_observations(observations))


class Cell(Encoder):
    """A GRU cell of torch, which runs over segments step by step, as people write it."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(128, 128)

    def initial_state(self, batch, device="cpu"):
        return {"memory": torch.zeros(batch, 128, device=device)}

    def forward_eval(self, observations, state):
        state["memory"] = self.cell(self.encode_observations(observations), state["memory"])
        return self.decode_actions(state["memory"])

    def forward(self, observations, state):
        return self.decode_actions(self.recur(self.encode_observations(observations), **state))

    def recur(self, inputs, memory, resets):
        outputs = []
        for step in range(inputs.shape[1]):
            memory = self.cell(inputs[:, step], memory * ~resets[:, step, None])
            outputs.append(memory)
        return torch.stack(outputs, 1)


class Recur(Cell):
    """The same by the library's function."""

    def forward(self, observations, state):
        hidden, _ = recur(self.cell, self.encode_observations(observations), state["memory"], state["resets"])
        return self.decode_actions(hidden)


_OWN = CleanRL, Trunk, Wide, Normed, Residual, Parts, Cell, Recur
POLICIES = {
    **{kind.__name__: lambda env, kind=kind: kind() for kind in _OWN},
    "LSTM": lambda env: LSTMWrapper(env, Encoder(), 128, 128),
    "MinGRU": lambda env: MinGRUWrapper(env, Encoder(), 128, 128),
}


@pytest.mark.parametrize("by", ["kernel", "torch"])
@pytest.mark.parametrize("policy", POLICIES)
def test_train(benchmark, policy, by, tmp_path):
    env = pufferlib.make("puffer_breakout", num_envs=1024)
    torch.manual_seed(0)
    settings = {"batch_size": 65_536, "minibatch_size": 16_384, "n_epochs": 1, "fused": by == "kernel"}
    given = {"logger": NoLogger(), "data_dir": str(tmp_path), "device": "cpu", "precision": "float32"}
    trainer = PuffeRL(env, POLICIES[policy](env), **settings, **given)
    assert trainer.computed_by.startswith("C kernel") == (by == "kernel"), trainer.computed_by

    def iterate():
        trainer.evaluate()
        trainer.train()

    benchmark.extra_info["steps"] = trainer.config.batch_size
    benchmark.pedantic(iterate, rounds=5, warmup_rounds=1)
    trainer.release()
