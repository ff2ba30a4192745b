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
from pufferlib.models import LSTMWrapper, MinGRUWrapper

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


class Recurrent(nn.Module):
    """A recurrence of its own between an encoder and two heads: `step` reads and replaces the state."""

    sizes = {"h": (128,), "c": (128,)}

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(INPUTS, 128)
        self.actor, self.critic = nn.Linear(128, ACTIONS), nn.Linear(128, 1)

    def initial_state(self, batch, device="cpu"):
        return {name: torch.zeros(batch, *size, device=device) for name, size in self.sizes.items()}

    def forward_eval(self, observations, state):
        hidden = self.step(functional.relu(self.body(observations)), state)
        return self.actor(hidden), self.critic(hidden)

    def forward(self, observations, state):
        encoded, outputs = functional.relu(self.body(observations)), []
        keep = (~state["resets"]).float().unsqueeze(-1)
        state = {name: state[name] for name in self.sizes}
        for step in range(observations.shape[1]):
            state = {name: value * keep[:, step] for name, value in state.items()}
            outputs.append(self.step(encoded[:, step], state))
        hidden = torch.stack(outputs, 1)
        return self.actor(hidden), self.critic(hidden)


class ModuleLSTM(Recurrent):
    """nn.LSTM."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(128, 128, batch_first=True)

    def step(self, x, state):
        output, (h, c) = self.rnn(x.unsqueeze(1), (state["h"].unsqueeze(0), state["c"].unsqueeze(0)))
        state["h"], state["c"] = h.squeeze(0), c.squeeze(0)
        return output.squeeze(1)


class ModuleGRU(Recurrent):
    """nn.GRU."""

    sizes = {"h": (128,)}

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(128, 128, batch_first=True)

    def step(self, x, state):
        output, h = self.rnn(x.unsqueeze(1), state["h"].unsqueeze(0))
        state["h"] = h.squeeze(0)
        return output.squeeze(1)


class HandLSTM(Recurrent):
    """An LSTM written by hand, its gates of one layer on [x, h]."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(256, 512)

    def step(self, x, state):
        i, f, g, o = self.gates(torch.cat([x, state["h"]], 1)).chunk(4, 1)
        state["c"] = torch.sigmoid(f) * state["c"] + torch.sigmoid(i) * torch.tanh(g)
        state["h"] = torch.sigmoid(o) * torch.tanh(state["c"])
        return state["h"]


class HandMinGRU(Recurrent):
    """A MinGRU written by hand."""

    sizes = {"h": (128,)}

    def __init__(self):
        super().__init__()
        self.candidate, self.gate = nn.Linear(128, 128), nn.Linear(128, 128)

    def step(self, x, state):
        z = torch.sigmoid(self.gate(x))
        state["h"] = (1 - z) * state["h"] + z * self.candidate(x)
        return state["h"]


POLICIES = {
    **{kind.__name__: lambda env, kind=kind: kind() for kind in (CleanRL, Trunk, Wide, Normed, Residual, Parts)},
    **{kind.__name__: lambda env, kind=kind: kind() for kind in (ModuleLSTM, ModuleGRU, HandLSTM, HandMinGRU)},
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
