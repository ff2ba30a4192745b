"""Policies in plain torch that the kernel computes: what is traced, what is not and why, and that both train alike."""

import functools
import importlib
import random
import sys
import threading

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import nn
from torch.distributions import Normal
from torch.nn import functional
from traced_policies import layers_of

import pufferlib
import pufferlib.pytorch
from bench.policy_corpus import Drawn
from pufferlib import NoLogger, PufferEnv, PuffeRL, ocean
from pufferlib.emulation import nativize
from pufferlib.emulation.tensors import features
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.fast.cpu import NetworkGradients
from pufferlib.fast.traced_values import UntracedError
from pufferlib.models import ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.spaces import Layout


class Game(PufferEnv):
    """Random observations; the reward is the first action, or a number of it."""

    def __init__(self, observations, actions, num_agents=16):
        self.single_observation_space, self.single_action_space = observations, actions
        self.num_agents = num_agents
        super().__init__()

    def reset(self, seed=None):
        self.random = np.random.default_rng(seed)
        self.steps = 0
        self._observe()
        return self.observations, []

    def _observe(self):
        shape, space = self.observations.shape, self.single_observation_space
        if space.dtype.kind == "f":
            self.observations[:] = self.random.normal(size=shape)
        elif space.dtype == bool:
            self.observations[:] = self.random.random(shape) < 0.5
        else:
            low, high = (space.low, space.high) if isinstance(space, Box) else (0, space.nvec - 1)
            self.observations[:] = self.random.integers(low, np.add(high, 1, dtype=np.int64), shape)

    def step(self, actions):
        self.steps += 1
        self.rewards[:] = np.asarray(actions, np.float32).reshape(self.num_agents, -1)[:, 0]
        self.terminals[:] = self.steps % 10 == 0
        self._observe()
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self):
        pass


NUMBERS, CHOICES = Box(-np.inf, np.inf, (7,), np.float32), Discrete(3)
IMAGES, PARTS = Box(0, 255, (2, 8, 9), np.uint8), MultiDiscrete([3, 2, 4])
FLOATS = Box(-1, 1, (2,), np.float32)


class Towers(nn.Module):
    """As CleanRL has it."""

    spaces = NUMBERS, CHOICES

    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(7, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 3))
        self.critic = nn.Sequential(nn.Linear(7, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations):
        return self.actor(observations), self.critic(observations)


class Residual(nn.Module):
    spaces = NUMBERS, CHOICES

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(7, 24), nn.RMSNorm(24), nn.LayerNorm(24)
        self.gelu = nn.GELU("tanh")
        self.up, self.down, self.gate = nn.Linear(24, 48), nn.Linear(48, 24, bias=False), nn.Linear(24, 24)
        self.head, self.value = nn.Linear(24, 3), nn.Linear(24, 1)

    def forward(self, observations, state=None):
        hidden = self.first(observations)
        change = self.down(functional.silu(self.up(self.norm(hidden))))
        hidden = hidden + 0.5 * change * torch.sigmoid(self.gate(hidden)) - 0.1
        hidden = self.last(self.gelu(hidden))
        return self.head(hidden), self.value(hidden).squeeze(-1)


class Atari(nn.Module):
    """Convolutions on bytes that are divided by 255."""

    spaces = IMAGES, CHOICES

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            *(nn.Conv2d(2, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 12, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(12 * 2 * 3, 32), nn.ReLU()),
        )
        self.head, self.value = nn.Linear(32, 3), nn.Linear(32, 1)

    def forward(self, observations):
        hidden = self.network(observations / 255.0)
        return self.head(hidden), self.value(hidden)


class Impala(nn.Module):
    """A residual sum of images."""

    spaces = IMAGES, CHOICES

    def __init__(self):
        super().__init__()
        self.first, self.pool = nn.Conv2d(2, 8, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)
        self.second, self.third = nn.Conv2d(8, 8, 3, padding="same"), nn.Conv2d(8, 8, 3, padding=1)
        self.body = nn.Linear(8 * 4 * 5, 20)
        self.head, self.value = nn.Linear(20, 3), nn.Linear(20, 1)

    def forward(self, observations):
        images = self.pool(self.first(observations.float() / 255.0))
        images = images + self.third(torch.relu(self.second(torch.relu(images))))
        hidden = torch.relu(self.body(torch.relu(images).flatten(1)))
        return self.head(hidden), self.value(hidden)


class Parts(nn.Module):
    """Several choices, the logits of two from one layer; the value is one of its columns."""

    spaces = NUMBERS, PARTS

    def __init__(self):
        super().__init__()
        self.seen, self.others = nn.Linear(3, 8), nn.Linear(4, 8)
        self.body, self.first, self.head = nn.Linear(16, 16), nn.Linear(16, 3), nn.Linear(16, 7)

    def forward(self, observations):
        seen = torch.cat([self.seen(observations[:, :3]), self.others(observations[:, 3:])], 1)
        hidden = functional.elu(self.body(functional.softplus(seen)))
        head = self.head(hidden)
        second, third, value = head.split([2, 4, 1], dim=1)
        return (self.first(hidden), second, third), value


class Gaussian(nn.Module):
    spaces = NUMBERS, FLOATS

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 16), nn.LeakyReLU())
        self.mean, self.value = nn.Linear(16, 2), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(1, 2))

    def forward(self, observations):
        hidden = self.body(observations)
        mean = self.mean(hidden)
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(hidden)


class Encoder(nn.Module):
    """In one of the library's recurrent wrappers."""

    spaces = NUMBERS, CHOICES
    hidden_size = 16

    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Linear(7, 16), nn.LayerNorm(16)
        self.head, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def encode_observations(self, observations):
        return functional.silu(self.norm(self.body(observations)))

    def decode_actions(self, hidden):
        return self.head(hidden), self.value(hidden).squeeze(-1)

    def forward(self, observations):
        return self.decode_actions(self.encode_observations(observations))


class Cell(nn.Module):
    """A cell of torch, stepped by the policy itself."""

    spaces = NUMBERS, CHOICES

    def __init__(self):
        super().__init__()
        self.body, self.cell = nn.Linear(7, 12), nn.GRUCell(12, 20)
        self.head, self.value = nn.Linear(20, 3), nn.Linear(20, 1)

    def initial_state(self, batch, device="cpu"):
        return {"memory": torch.zeros(batch, 20, device=device)}

    def forward_eval(self, observations, state):
        state["memory"] = self.cell(torch.relu(self.body(observations)), state["memory"])
        return self.head(state["memory"]), self.value(state["memory"])

    def forward(self, observations, state):
        encoded, memory, outputs = torch.relu(self.body(observations)), state["memory"], []
        for step in range(observations.shape[1]):
            memory = self.carried(memory, step)
            memory = self.cell(encoded[:, step], memory * ~state["resets"][:, step, None])
            outputs.append(memory)
        hidden = torch.stack(outputs, 1)
        return self.head(hidden), self.value(hidden)

    def carried(self, memory, step):
        return memory


class TwoCells(nn.Module):
    """Of an LSTM, whose second one sees a norm of the first."""

    spaces = NUMBERS, FLOATS

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.LSTMCell(7, 10), nn.LSTMCell(10, 9), nn.RMSNorm(10)
        self.mean, self.value, self.log_std = nn.Linear(9, 2), nn.Linear(9, 1), nn.Parameter(torch.zeros(2))

    def initial_state(self, batch, device="cpu"):
        sizes = {"h1": 10, "c1": 10, "h2": 9, "c2": 9}
        return {name: torch.zeros(batch, size, device=device) for name, size in sizes.items()}

    def step(self, observations, h1, c1, h2, c2):
        h1, c1 = self.first(observations, (h1, c1))
        h2, c2 = self.second(self.norm(h1), (h2, c2))
        return h1, c1, h2, c2

    def heads(self, hidden):
        mean = self.mean(hidden)
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(hidden)

    def forward_eval(self, observations, state):
        h1, c1, h2, c2 = self.step(observations, state["h1"], state["c1"], state["h2"], state["c2"])
        state["h1"], state["c1"], state["h2"], state["c2"] = h1, c1, h2, c2
        return self.heads(h2)

    def forward(self, observations, state):
        states, outputs = [state[name] for name in ("h1", "c1", "h2", "c2")], []
        for step in range(observations.shape[1]):
            kept = ~state["resets"][:, step, None]
            states = self.step(observations[:, step], *(each * kept for each in states))
            outputs.append(states[2])
        return self.heads(torch.stack(outputs, 1))


class Base(nn.Module):
    spaces = NUMBERS, CHOICES

    def __init__(self):
        super().__init__()
        self.body, self.head, self.value = nn.Linear(7, 6), nn.Linear(6, 3), nn.Linear(6, 1)

    def forward(self, observations):
        hidden = self.hidden(observations)
        return self.head(hidden), self.value(hidden)


class Frozen(Base):
    def __init__(self):
        super().__init__()
        self.body.requires_grad_(False)

    def hidden(self, observations):
        return self.body(observations)


class Shares(Base):
    def __init__(self):
        super().__init__()
        self.again = nn.Linear(6, 6)
        self.third = nn.Linear(6, 6)
        self.third.weight = self.again.weight

    def hidden(self, observations):
        return self.third(self.again(self.body(observations)))


class Idle(Base):
    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(2, 2)

    def hidden(self, observations):
        return self.body(observations)


class Counted(Base):
    def hidden(self, observations):
        return self.body(observations.float())


class Constants(Base):
    """Buffers that normalise, a vector and a number that are learned, and a deviation that is not."""

    spaces = NUMBERS, FLOATS

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.linspace(-1, 1, 7))
        self.register_buffer("deviation", torch.linspace(0.5, 2, 7))
        self.register_buffer("log_std", torch.zeros(1, 2))
        self.gain, self.shift, self.temperature = (nn.Parameter(torch.ones(size)) for size in (6, 6, 1))
        self.mean_head = nn.Linear(6, 2)

    def forward(self, observations):
        hidden = self.body((observations - self.mean) / self.deviation)
        hidden = torch.tanh(hidden * self.gain - self.shift)
        mean = self.mean_head(hidden) / self.temperature
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(hidden)


class Twice(Base):
    def __init__(self):
        super().__init__()
        self.again, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def hidden(self, observations):
        hidden = self.norm(torch.tanh(self.again(torch.tanh(self.body(observations)))))
        return self.norm(torch.tanh(functional.linear(hidden, self.again.weight, bias=self.body.bias)))


class Kinds(Base):
    """Embeddings and one-hots of columns, beside numbers."""

    spaces = MultiDiscrete([5, 5, 4, 9]), CHOICES

    def __init__(self):
        super().__init__()
        self.kind, self.body = nn.Embedding(5, 7), nn.Linear(14 + 4 + 1, 6)

    def hidden(self, observations):
        kinds = self.kind(observations[:, :2].long()).flatten(1)
        others = functional.one_hot(observations[:, 2].long(), num_classes=4).float()
        return torch.relu(self.body(torch.cat([kinds, others, observations[:, 3:].float() / 9], dim=1)))


class KindOfEach(Base):
    """A kind for every entity, which is a number that stands for an integer."""

    spaces = Box(np.zeros((5, 2)), np.array([[3, 9]] * 5), dtype=np.int16), CHOICES

    def __init__(self):
        super().__init__()
        self.kind, self.body = nn.Embedding(4, 7), nn.Linear(8, 6)

    def hidden(self, observations):
        kinds = self.kind(observations[:, :, 0].long())
        seen = torch.cat([kinds, observations[..., 1:].float()], dim=-1)
        return torch.tanh(self.body(seen)).sum(dim=1)


class Filters(nn.Module):
    """Convolutions of all kinds."""

    spaces = IMAGES, CHOICES

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            *(nn.Conv2d(2, 8, (3, 2), (2, 1), (1, 0)), nn.ReLU(), nn.Conv2d(8, 8, 3, padding="same", groups=4)),
            *(nn.ELU(), nn.Conv2d(8, 6, (1, 3), dilation=(1, 2)), nn.MaxPool2d((1, 2)), nn.ReLU()),
        )
        self.head, self.value = nn.Linear(48, 3), nn.Linear(6, 1)

    def forward(self, observations):
        images = self.network(observations / 255)
        return self.head(images.flatten(1)), self.value(images.mean(dim=(2, 3)))


class ChannelsLast(Base):
    """Pictures as most simulators have them."""

    spaces = Box(0, 255, (8, 9, 2), np.uint8), CHOICES

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3, 2), nn.ReLU())
        self.body = nn.Linear(24, 6)

    def hidden(self, observations):
        images = observations.permute(0, 3, 1, 2).float() / 255.0
        return torch.relu(self.body(self.network(images - 0.5).flatten(1)))


class DividedBefore(ChannelsLast):
    """And pooled first; without a subtraction."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(2, 6, (2, 3)), nn.ReLU())
        self.body = nn.Linear(36, 6)

    def hidden(self, observations):
        images = torch.permute(observations / 255, (0, 3, 1, 2))
        return torch.relu(self.body(self.network(images).flatten(1)))


class Flags(Base):
    """Of which some are asked for."""

    spaces = Box(0, 1, (2, 4), np.bool_), CHOICES

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 6)

    def hidden(self, observations):
        numbers = observations.to(torch.float32).flatten(1) + (~observations).float().flatten(1) * 0.5
        return torch.tanh(self.body(numbers))


class Lines(Base):
    spaces = Box(-9, 9, (3, 12), np.float32), CHOICES

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 8, 3, 2, 1), nn.Conv1d(8, 4, 2, dilation=2)
        self.body = nn.Linear(16, 6)

    def hidden(self, observations):
        return torch.relu(self.body(self.second(torch.relu(self.first(observations))).flatten(1)))


class Attends(Base):
    """To entities that are there, by torch's function."""

    spaces = Box(-9, 9, (5, 7), np.float32), CHOICES
    heads = 2

    def __init__(self):
        super().__init__()
        self.body, self.norm, self.three = nn.Linear(7, 6), nn.RMSNorm(6), nn.Linear(6, 18)

    def split(self, hidden):
        rows, entities, numbers = hidden.shape
        return hidden.view(rows, entities, self.heads, numbers // self.heads).transpose(1, 2)

    def hidden(self, observations):
        hidden = self.body(observations)
        query, key, value = self.three(self.norm(hidden)).chunk(3, dim=-1)
        mask = (observations[:, :, 0] > 0).unsqueeze(1).unsqueeze(1)
        query, key, value = self.split(query), self.split(key), self.split(value)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return (hidden + attended.transpose(1, 2).flatten(2)).amax(dim=1)


class AttendsToItself(nn.Module):
    """By torch's module, with the library's head."""

    spaces = Attends.spaces

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(7, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = ActionHead(6, CHOICES)

    def forward(self, observations):
        hidden = self.body(observations)
        return self.head(torch.tanh(self.attention(hidden, hidden, hidden)[0].mean(dim=1)))


class AttendsByHand(Base):
    """From one entity, the first, to the others, in rows that are one line of numbers."""

    spaces = Box(-9, 9, (24,), np.float32), CHOICES

    def __init__(self):
        super().__init__()
        self.query, self.key, self.body = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(6, 6)

    def hidden(self, observations):
        entities = observations.view(observations.shape[0], 4, 6)
        scores = torch.matmul(self.query(entities[:, :1]), self.key(entities).transpose(-2, -1)) * 5**-0.5
        scores = scores.masked_fill(entities[:, None, :, 0] < 0, -1e9)
        return (functional.softmax(scores, dim=-1) @ self.body(entities)).squeeze(1)


class Transformer(Base):
    spaces = Box(-9, 9, (5, 16), np.float32), CHOICES

    def __init__(self):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(16, 4, batch_first=True), nn.LayerNorm(16)
        self.body = nn.Linear(80, 6)

    def hidden(self, observations):
        hidden = self.norm(observations)
        mask = observations[:, :, 0] > 1
        attended, _ = self.attention(hidden, hidden, hidden, key_padding_mask=mask, need_weights=False)
        return torch.relu(self.body((observations + attended).flatten(1)))


class Mixed(Base):
    """Parts of a row of bytes, each of its own type."""

    spaces = (
        Dict(
            {
                "camera": Box(0, 255, (2, 4, 5), np.uint8),
                "pose": Tuple([Box(-9, 9, (2, 3), np.float32), Box(-9, 9, (1,), np.float64)]),
                "kind": Discrete(4),
                "kinds": MultiDiscrete([3, 2]),
                "near": Box(-90, 90, (3,), np.int16),
                "is_open": Box(0, 1, (2,), bool),
            }
        ),
        CHOICES,
    )

    def __init__(self):
        super().__init__()
        self.emulated = Layout.of(self.spaces[0])
        self.sees, self.kind = nn.Conv2d(2, 6, (4, 5)), nn.Embedding(4, 6)
        self.turns, self.others, self.body = nn.Linear(3, 6), nn.Linear(9, 6), nn.Linear(6, 6)

    def hidden(self, observations):
        parts = nativize(observations, self.emulated)
        place, angle = parts["pose"][0], parts["pose"][1].squeeze(1).float()
        seen = self.sees(parts["camera"] / 255.0).flatten(1)
        hot = functional.one_hot(parts["kinds"][:, 0].long(), 3).float()
        others = self.others(
            torch.cat([hot, angle.unsqueeze(1), parts["near"].float() / 90, parts["is_open"].float()], dim=1)
        )
        hidden = seen + self.kind(parts["kind"]) + others
        return torch.tanh(hidden + self.turns(place).max(1)[0])


class Alike(Base):
    """Parts of a row of one type."""

    spaces = Dict({"first": Box(-9, 9, (3,), np.float32), "second": Box(-9, 9, (2, 2), np.float32)}), CHOICES

    def __init__(self):
        super().__init__()
        self.emulated = Layout.of(self.spaces[0])
        self.body = nn.Linear(5, 6)

    def hidden(self, observations):
        parts = pufferlib.pytorch.nativize_tensor(observations, self.emulated)
        return self.body(torch.cat([parts["first"], parts["second"].sum(dim=1)], dim=-1))


class Several(Base):
    """Loops over modules, and a list of heads."""

    spaces = NUMBERS, PARTS

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.heads = nn.ModuleList([nn.Linear(6, size) for size in (3, 2, 4)])

    def forward(self, observations):
        hidden = self.body(observations)
        for layer in self.layers:
            hidden = hidden + torch.relu(layer(hidden))
        return [head(hidden) for head in self.heads], self.value(hidden)


def recurrent(wrapper):
    def make():
        return wrapper(Game(*Encoder.spaces), Encoder(), 16, 16, 2)

    make.spaces = Encoder.spaces
    return make


PICTURE = Box(0, 255, (4, 5), np.uint8)
STRUCTURES = {
    "state": Discrete(16),
    "state below zero": Discrete(5, start=-2),
    "states": MultiDiscrete([[2, 3], [30, 1]], start=[[0, 4], [7, 0]]),
    "fractions": Dict({"a": NUMBERS, "b": Box(-1, 1, (3, 2), np.float32)}),
    "pairs": Tuple((Discrete(3), Discrete(4), Box(0, 9, (2,), np.int64))),
    "all": Dict(
        {"picture": PICTURE, "to": Tuple((NUMBERS, Discrete(4))), "on": MultiBinary(3), "of": Box(0, 9, (2,), np.int8)}
    ),
}


def library_policy(kind, observations, actions):
    def make():
        env = pufferlib.make(Drawn, num_envs=1, observations=observations, actions=actions)
        if kind in (Default, Continuous):
            return kind(env)
        return kind(env, Default(env, 16), 16, 16)

    make.spaces = observations, actions
    return make


def camera(dtype, one_hot=False):
    def make():
        settings = {"filters": [6, 4], "sizes": [3, 2], "strides": [2, 1], "channels_last": True, "one_hot": one_hot}
        return Convolutional(Game(*make.spaces), 16, **settings)

    low, high = (-9, 9) if dtype == np.float32 else (0, 4 if one_hot else 255)
    make.spaces = Box(low, high, (9, 8, 3), dtype), CHOICES
    return make


STRUCTURED = {
    **{f"Default, {name}": library_policy(Default, space, CHOICES) for name, space in STRUCTURES.items()},
    "Continuous, all": library_policy(Continuous, STRUCTURES["all"], Box(-1, 1, (2,), np.float32)),
    "Continuous, one number": library_policy(Continuous, Box(-1, 1, (), np.float32), Box(-1, 1, (2,), np.float32)),
    "MinGRUWrapper, all": library_policy(MinGRUWrapper, STRUCTURES["all"], PARTS),
    "LSTMWrapper, all": library_policy(LSTMWrapper, STRUCTURES["all"], CHOICES),
}


class OneChoice(Base):
    """A list of the logits of one choice, as of any other number of them."""

    spaces = NUMBERS, MultiDiscrete([3])

    def forward(self, observations):
        logits, values = super().forward(observations)
        return [logits], values

    def hidden(self, observations):
        return self.body(observations)


POLICIES = {
    **STRUCTURED,
    **{kind.__name__: kind for kind in (Towers, Residual, Atari, Impala, Parts, Gaussian, Encoder, Cell, TwoCells)},
    **{kind.__name__: kind for kind in (Frozen, Shares, Idle, Constants, Twice, Kinds, KindOfEach, Filters, Lines)},
    **{kind.__name__: kind for kind in (ChannelsLast, DividedBefore)},
    **{kind.__name__: kind for kind in (Attends, AttendsToItself, AttendsByHand, Transformer, Several, Mixed, Alike)},
    "OneChoice": OneChoice,
    "Convolutional": camera(np.uint8),
    "Convolutional of numbers": camera(np.float32),
    "Convolutional of integers": camera(np.int32),
    "Convolutional of categories": camera(np.int64, one_hot=True),
    "Flags": Flags,
    "LSTM": recurrent(LSTMWrapper),
    "MinGRU": recurrent(MinGRUWrapper),
}


def make_trainer(make_policy, folder, spaces=None, **settings):
    torch.manual_seed(0)
    policy = make_policy()
    spaces = spaces or make_policy.spaces
    if isinstance(spaces[0], (Dict, Tuple)) or make_policy in STRUCTURED.values():
        env = pufferlib.make(Drawn, num_envs=16, observations=spaces[0], actions=spaces[1])
    else:
        env = Game(*spaces)
    given = {"seed": 1, "device": "cpu", "logger": NoLogger(), "data_dir": str(folder), "precision": "float32"}
    sizes = {"batch_size": 256, "minibatch_size": 128, "learning_rate": 0.01, "n_epochs": 2}
    return PuffeRL(env, policy, **given, **sizes, **settings)


@pytest.mark.quick("Default, all", "Mixed", "LSTM", "Frozen", "Attends")
@pytest.mark.parametrize("name", POLICIES)
def test_the_kernel_trains_a_policy_as_torch_does(name, tmp_path):
    results = []
    for fused in (False, True):
        trainer = make_trainer(POLICIES[name], tmp_path, fused=fused)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused, trainer.computed_by
        before = [parameter.detach().clone() for parameter in trainer.policy.parameters()]
        for _ in range(2):
            trainer.evaluate()
            metrics = trainer.train()
        change = [after.detach() - each for after, each in zip(trainer.policy.parameters(), before, strict=True)]
        results.append((torch.cat([each.flatten() for each in change]), trainer.rollout.actions.clone(), metrics))
        trainer.release()
    plain, found = results
    assert plain[0].abs().max() > 0.005
    torch.testing.assert_close(found[0], plain[0], rtol=2e-3, atol=5e-4)
    torch.testing.assert_close(found[1], plain[1], rtol=1e-3, atol=1e-3)
    assert found[2] == pytest.approx(plain[2], rel=2e-2, abs=2e-3)


class Unknown(Base):
    def hidden(self, observations):
        return torch.sin(self.body(observations))


class Normalises(Base):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def hidden(self, observations):
        return self.norm(self.body(observations))


class Keeps(Base):
    def hidden(self, observations):
        self.kept = self.body(observations)
        return self.kept


class Branches(Base):
    def hidden(self, observations):
        hidden = self.body(observations)
        return hidden if hidden.sum() > 0 else -hidden


class Doubles(Base):
    def __init__(self):
        super().__init__()
        self.double()

    def forward(self, observations):
        hidden = self.body(observations.double())
        return self.head(hidden), self.value(hidden)


class AllFrozen(Base):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)
        self.idle = nn.Parameter(torch.zeros(1))

    def hidden(self, observations):
        return self.body(observations)


class Computed(Kinds):
    def hidden(self, observations):
        return self.kind((observations[:, 0].float() * 0.5).long())[:, :6]


class Wraps256(Base):
    spaces = Box(0, 255, (7,), np.uint8), CHOICES

    def hidden(self, observations):
        return self.body((observations + 1).float())


class BrightPixels(Base):
    """A byte of 51 is 0.2 in torch, and may be a last digit more or less in the kernel."""

    spaces = Box(0, 255, (7,), np.uint8), CHOICES

    def hidden(self, observations):
        return self.body((observations / 255 > 0.2).float())


class LargeIntegers(Base):
    spaces = Box(0, 2**30, (7,), np.int32), CHOICES

    def hidden(self, observations):
        return self.body((observations > 2**24).float())


class KeepsInAList(Base):
    def __init__(self):
        super().__init__()
        self.seen = []

    def hidden(self, observations):
        self.seen.append(observations)
        return self.body(observations)


CALLS = 0


class CountsInAGlobal(Base):
    def hidden(self, observations):
        global CALLS
        CALLS += 1
        return self.body(observations)


class MakesNoise(Base):
    def hidden(self, observations):
        return self.body(observations + torch.randn(7))


class Settings:
    scale = 1.0


class ReadsAnObject(Base):
    def __init__(self):
        super().__init__()
        self.settings = [Settings()]

    def hidden(self, observations):
        return self.settings[0].scale * self.body(observations)


class StopsGradients(Base):
    """Its critic is not to train the body, and begins at zero, so that it does not at first."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.value.weight)

    def forward(self, observations):
        hidden = torch.tanh(self.body(observations))
        with torch.no_grad():
            seen = hidden * 1.0
        return self.head(hidden), self.value(seen)


class AsksForGradients(Base):
    def forward(self, observations):
        hidden = torch.tanh(self.body(observations))
        return self.head(hidden) * (1.0 if torch.is_grad_enabled() else 3.0), self.value(hidden)


class Drops(Base):
    def hidden(self, observations):
        hidden = self.body(observations)
        return hidden if self.draw() < 0.5 else torch.tanh(hidden)

    def draw(self):
        return torch.rand(()).item()


class DropsByPython(Drops):
    def draw(self):
        return random.random()


class DropsByNumPy(Drops):
    def draw(self):
        return np.random.random()


class DropsByItsOwn(Drops):
    def __init__(self):
        super().__init__()
        self.random = np.random.default_rng(0)

    def draw(self):
        return self.random.random()


class Uncopied(Base):
    """It has what no copy can be made of in a list."""

    def __init__(self):
        super().__init__()
        self.locks = [threading.Lock()]

    def hidden(self, observations):
        return self.body(observations)


class Partial(Base):
    """Its forward is no plain function."""

    forward = functools.partialmethod(Base.forward)

    def hidden(self, observations):
        return self.body(observations)


class Hooked(Base):
    def __init__(self):
        super().__init__()
        self.body.register_forward_hook(lambda module, inputs, output: output - output.mean(0))

    def hidden(self, observations):
        return self.body(observations)


class Maxima(Attends):
    def hidden(self, observations):
        hidden = self.body(observations)
        return torch.maximum(hidden[:, 0], hidden[:, 1])


class Padded(Kinds):
    def __init__(self):
        super().__init__()
        self.kind = nn.Embedding(5, 6, padding_idx=0)

    def hidden(self, observations):
        return self.kind(observations[:, 0].long())


class Averages(Attends):
    def __init__(self):
        super().__init__()
        self.head, self.value = nn.Linear(5, 3), nn.Linear(5, 1)

    def hidden(self, observations):
        return self.body(observations).mean(dim=2)


class Compares(Attends):
    def __init__(self):
        super().__init__()
        self.head, self.value = nn.Linear(25, 3), nn.Linear(25, 1)

    def hidden(self, observations):
        hidden = self.body(observations)
        return (hidden @ hidden.transpose(1, 2)).flatten(1)


class Wraps(Lines):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(3, 8, 3, 2, 1, padding_mode="circular")


class Unmasks(AttendsByHand):
    def hidden(self, observations):
        entities = self.body(observations.view(observations.shape[0], 4, 6))
        scores = entities @ entities.transpose(1, 2)
        scores = scores.masked_fill(entities[:, :, :1] > 0, 0.0)
        return (scores.softmax(2) @ entities).sum(1)


class Peeks(Mixed):
    def hidden(self, observations):
        parts = nativize(observations, self.emulated)
        return self.kind(parts["kind"]) * observations[:, :1].float()


class Halves(Base):
    spaces = Dict({"half": Box(-9, 9, (7,), np.float16), "whole": Box(-9, 9, (7,), np.float32)}), CHOICES

    def __init__(self):
        super().__init__()
        self.emulated = Layout.of(self.spaces[0])

    def hidden(self, observations):
        return self.body(nativize(observations, self.emulated)["half"].float())


class ReadsATensor(Base):
    """Its number is a tensor, of which a change in place would not be seen."""

    def __init__(self):
        super().__init__()
        self.scale = torch.tensor(2.0)

    def hidden(self, observations):
        return self.body(observations) * self.scale.item()


class Limits(Base):
    """Its weights are cut in each call, by a way that no count of changes tells of."""

    def hidden(self, observations):
        for parameter in self.parameters():
            parameter.data.clamp_(-9.0, 9.0)
        return self.body(observations)


class Gated(Base):
    """A part without gradients begins to count later."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(6, 6).requires_grad_(False)
        self.register_buffer("gate", torch.zeros(1))

    def hidden(self, observations):
        hidden = self.body(observations)
        with torch.no_grad():
            added = self.part(hidden)
        return hidden + added * self.gate


class Far(Base):
    """Its numbers are far from zero, where float32 has few digits."""

    spaces = Box(-1e9, 1e9, (7,), np.float64), CHOICES

    def hidden(self, observations):
        return self.body((observations - 1e8).float())


class FarParts(Halves):
    spaces = Dict({"far": Box(-1e9, 1e9, (7,), np.float64), "near": Box(-1, 1, (2,), np.float32)}), CHOICES

    def hidden(self, observations):
        return self.body((nativize(observations, self.emulated)["far"] - 1e8).float())


class CutsSegments(Cell):
    """Gradients go back through at most eight steps."""

    def carried(self, memory, step):
        return memory.detach() if step % 8 == 0 else memory


class LimitsGradients(Cell):
    def carried(self, memory, step):
        if memory.requires_grad:
            memory.register_hook(lambda gradient: gradient.clamp(-1.0, 1.0))
        return memory


class CountsSegments(Cell):
    """What it keeps when it learns may decide later."""

    calls = 0

    def forward(self, observations, state):
        self.calls += 1
        return super().forward(observations, state)


class Forgets(Cell):
    """Its segments are not what its steps are."""

    def forward(self, observations, state):
        return super().forward(observations, {**state, "resets": torch.ones_like(state["resets"])})


class Counts(Cell):
    def forward_eval(self, observations, state):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward_eval(observations, state)


class Scales(Cell):
    def forward_eval(self, observations, state):
        result = super().forward_eval(observations, state)
        state["memory"] = 0.5 * state["memory"]
        return result


@pytest.mark.quick(
    "Unknown-the function sin",
    "Normalises-BatchNorm1d",
    "Keeps-keeps something in a call: kept",
    "Hooked-has hooks or replaced methods",
    "Forgets-differs from what the kernel makes of it",
    "Doubles-double",
)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ReadsATensor, "has item in a form that no layer has (test_traced_layers.py, line"),
        (Limits, "has data in a form that no layer has (test_traced_layers.py, line"),
        (Gated, "differs from what the kernel makes of it: gradient of body"),
        (Far, "has sub in a form that the kernel does not know"),
        (FarParts, "has sub in a form that the kernel does not know"),
        (CutsSegments, "differs from what the kernel makes of it: gradient of"),
        (LimitsGradients, "has register_hook in a form that no layer has (test_traced_layers.py, line"),
        (CountsSegments, "keeps something in a call: calls"),
        (Forgets, "differs from what the kernel makes of it"),
        (Counts, "keeps something in a call: calls"),
        (Scales, "differs from what the kernel makes of it"),
        (KeepsInAList, "keeps something in a call: seen"),
        (CountsInAGlobal, "keeps something in a call: a class or a global name"),
        (MakesNoise, "a tensor that it makes in a call (test_traced_layers.py, line"),
        (ReadsAnObject, "uses settings, a Settings that may change"),
        (StopsGradients, "differs from what the kernel makes of it: gradient of body"),
        (AsksForGradients, "differs from what the kernel makes of it: acting's log-probabilities"),
        (Drops, "has item in a form that no layer has"),
        (DropsByPython, "keeps something in a call: random numbers"),
        (DropsByNumPy, "keeps something in a call: random numbers"),
        (DropsByItsOwn, "uses random, a Generator that may change"),
        (Hooked, "has hooks or replaced methods"),
        (Uncopied, "cannot be traced: cannot pickle '_thread.lock' object"),
        (Partial, "cannot be traced: "),
        (Unknown, "the function sin"),
        (Normalises, "BatchNorm1d"),
        (Keeps, "keeps something in a call: kept"),
        (Branches, "cannot be traced: symbolically traced variables"),
        (Doubles, "double"),
        (Computed, "categories that are not numbers of the observation (test_traced_layers.py, line"),
        (Wraps256, "arithmetic of integers, which may wrap"),
        (BrightPixels, "a comparison of numbers that were divided by 255"),
        (LargeIntegers, "a comparison with 16777216, of integers that the kernel has as float32"),
        (Maxima, "the function maximum"),
        (Padded, "Embedding with other settings"),
        (Averages, "mean over something else than entities or pixels"),
        (Compares, "flatten in a form that the kernel does not know (test_traced_layers.py, line"),
        (Wraps, "a convolution whose padding is not of as many zeros on both sides"),
        (Unmasks, "a mask of (4, 1) for attention of (4, 4)"),
        (Peeks, "bytes of a packed observation beside its parts"),
        (Halves, "the part observation['half'] of a type that the kernel does not read"),
    ],
)
def test_what_is_not_traced_is_left_to_torch_with_the_first_operation(kind, reason, tmp_path):
    trainer = make_trainer(kind, tmp_path)
    assert trainer.computed_by.startswith(f"torch (the policy {kind.__name__} ") and reason in trainer.computed_by
    trainer.evaluate()
    trainer.train()
    trainer.release()


class Indexes(Attends):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.body = nn.Linear(index(torch.zeros(2, 5, 7)).flatten(1).shape[1], 6)

    def hidden(self, observations):
        return self.body(self.index(observations).flatten(1))


@pytest.mark.parametrize(
    "index",
    [
        lambda x: x[:, 1:3],
        lambda x: x[:, 4, 2:5],
        lambda x: x[..., -1:],
        lambda x: x[:, None, :, 3],
        lambda x: x[:, 2:3][:, 0, ::9],
        lambda x: x.flatten(1)[:, 3:30].unflatten(1, (3, 9))[:, :, 1],
        lambda x: x[:, 0].chunk(3, -1)[1],
        lambda x: x.split([1, 4], 1)[1],
    ],
)
def test_an_index_of_columns_is_traced(index):
    assert layers_of(Indexes(index), Game(*Attends.spaces)).fit()


@pytest.mark.parametrize(
    "index",
    [
        lambda x: x[:, [0, 1, 2, 3, 4]],
        lambda x: x[:, [4, 3, 2, 1, 0]],
        lambda x: x[:, ::2],
        lambda x: x[:, 1:, ::3],
        lambda x: x.flatten(1)[:, 3:30].unflatten(1, (3, 3, 3))[:, :, 1],
        lambda x: x[[0]].expand_as(x),
    ],
)
def test_an_index_that_is_not_of_columns_is_not_traced(index):
    with pytest.raises(UntracedError, match="getitem|index"):
        layers_of(Indexes(index), Game(*Attends.spaces))


class Offsets(Base):
    """The tile that a place lies in, as a category, and where it lies in the tile."""

    spaces = Dict({"place": Box(0, 9.99, (2,), np.float32), "kind": Discrete(4)}), CHOICES

    def __init__(self):
        super().__init__()
        self.emulated = Layout.of(self.spaces[0])
        self.tile, self.body = nn.Embedding(10, 4), nn.Linear(10, 6)

    def hidden(self, observations):
        place = nativize(observations, self.emulated)["place"]
        tile = place.long()
        return self.body(torch.cat([self.tile(tile).flatten(1), place - tile.float()], 1))


def test_what_stands_behind_the_point_is_not_left_out_where_random_rows_have_none(tmp_path):
    assert "behind the point" in make_trainer(Offsets, tmp_path).computed_by


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_observations_of_types_that_the_kernel_does_not_read_are_left_to_torch(dtype, tmp_path):
    trainer = make_trainer(Counted, tmp_path, spaces=(Box(0, 255, (7,), dtype), CHOICES))
    assert trainer.computed_by == f"torch (observations are {np.dtype(dtype)})"
    trainer.evaluate()
    trainer.train()
    trainer.release()


def test_the_first_unknown_operation_is_named_with_its_line(tmp_path):
    trainer = make_trainer(Unknown, tmp_path)
    assert "test_traced_layers.py, line" in trainer.computed_by
    trainer.release()


class Apart(Base):
    """A frozen body, which no gradient reaches anyway, and what it holds but does not read."""

    def __init__(self):
        super().__init__()
        self.settings, self.limits = Settings(), np.ones(7, np.float32)
        self.body.requires_grad_(False)

    def hidden(self, observations):
        with torch.no_grad():
            return self.body(observations) * len(self.limits)


def test_what_is_frozen_may_be_apart_from_gradients_and_a_comparison_leaves_all_weights(tmp_path):
    before = []

    def make():
        policy = Apart()
        before.extend(each.detach().clone() for each in policy.parameters())
        return policy

    make.spaces, make.__name__ = Apart.spaces, "Apart"
    trainer = make_trainer(make, tmp_path)
    assert trainer.computed_by == "C kernel"
    assert all(map(torch.equal, trainer.policy.parameters(), before))
    trainer.release()


class Scaled(Base):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def hidden(self, observations):
        return self.scale * self.body(observations)


BROUGHT = """
from torch import nn


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.value = nn.Linear(7, 6), nn.Linear(6, 3), nn.Linear(6, 1)

    def forward(self, observations):
        hidden = self.body(observations)
        hidden = hidden + nn.functional.relu(hidden, inplace=True)
        return self.head(hidden), self.value(hidden)
"""


@pytest.mark.parametrize("file", ["torch", "layers"])
def test_a_policy_that_a_game_of_ocean_brings_is_compared_as_any_other(file, tmp_path, monkeypatch):
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "__init__.py").touch()
    (tmp_path / "brought" / f"{file}.py").write_text(BROUGHT)
    monkeypatch.setattr(ocean, "__path__", [*ocean.__path__, str(tmp_path)])
    policy = importlib.import_module(f"pufferlib.ocean.brought.{file}").InPlace
    trainer = make_trainer(policy, tmp_path, Base.spaces)
    assert trainer.computed_by.startswith("torch (the policy InPlace differs from what the kernel makes of it")
    trainer.release()
    for name in ("brought", f"brought.{file}"):
        del sys.modules[f"pufferlib.ocean.{name}"]


def test_a_number_that_is_changed_between_iterations_counts_at_once(tmp_path):
    results = []
    for fused in (True, False):
        trainer = make_trainer(Scaled, tmp_path, fused=fused)
        for scale in (1.0, 3.0):
            trainer.policy.scale = scale
            trainer.evaluate()
            trainer.train()
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        results.append(trainer.rollout.values.clone())
        trainer.release()
    torch.testing.assert_close(*results, rtol=1e-3, atol=1e-3)


def test_a_policy_whose_outputs_have_no_gradients_is_an_error(tmp_path):
    with pytest.raises(APIUsageError, match="AllFrozen.forward must return logits and values that have gradients"):
        make_trainer(AllFrozen, tmp_path)


@pytest.mark.parametrize("part", ["head.linear", "attention.out_proj"])
def test_weights_that_are_computed_in_a_part_of_a_module_are_left_to_torch(part, tmp_path):
    def make():
        policy = AttendsToItself()
        torch.nn.utils.parametrizations.weight_norm(policy.get_submodule(part))
        return policy

    trainer = make_trainer(make, tmp_path, AttendsToItself.spaces)
    assert "has a parametrization, which computes a weight in each call" in trainer.computed_by
    trainer.release()


def test_a_parameter_without_a_gradient_is_left_as_it_is(tmp_path):
    for kind, name in ((Frozen, "body.weight"), (Idle, "idle.weight")):
        trainer = make_trainer(kind, tmp_path, weight_decay=0.1, optimizer="adam")
        assert trainer.computed_by == "C kernel"
        parameter = dict(trainer.policy.named_parameters())[name]
        before = parameter.detach().clone()
        trainer.evaluate()
        trainer.train()
        assert torch.equal(parameter, before) and parameter.grad is None
        trainer.release()


def test_a_parameter_that_is_frozen_or_freed_and_a_constant_that_is_replaced_count_at_once(tmp_path):
    results = []
    for fused in (True, False):
        trainer = make_trainer(Constants, tmp_path, fused=fused)
        policy = trainer.policy
        for change in (
            lambda policy: policy.body.requires_grad_(False),
            lambda policy: policy.deviation.mul_(2),
            lambda policy: setattr(policy, "mean", policy.mean + 1),
            lambda policy: policy.body.requires_grad_(True),
        ):
            trainer.evaluate()
            trainer.train()
            change(policy)
        trainer.evaluate()
        trainer.train()
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        results.append((trainer.rollout.values.clone(), policy.body.weight.detach().clone()))
        trainer.release()
    torch.testing.assert_close(*results, rtol=5e-3, atol=5e-3)


def test_a_setting_of_a_module_that_is_changed_later_counts_at_once(tmp_path):
    trainer = make_trainer(Transformer, tmp_path)
    assert trainer.computed_by == "C kernel"
    trainer.policy.attention.dropout = 0.5
    trainer.evaluate()
    assert trainer.computed_by.startswith("torch (the policy Transformer has MultiheadAttention")
    trainer.release()


@pytest.mark.parametrize("number", [5, -1])
def test_a_category_that_the_table_does_not_have_is_no_silent_zero(number, tmp_path):
    trainer = make_trainer(Kinds, tmp_path)
    assert trainer.computed_by == "C kernel"
    trainer.vecenv.envs[0]._observe = lambda: None
    trainer.evaluate()
    trainer.vecenv.envs[0].observations[:, 1] = number
    with pytest.raises(DivergedError, match="NaN"):
        trainer.evaluate()
    trainer.release()


def with_another_part():
    policy = Default(pufferlib.make(Drawn, num_envs=1, observations=Base.spaces[0], actions=Base.spaces[1]))
    policy.encoder[-1] = nn.SiLU()
    return policy


with_another_part.spaces = Base.spaces


@pytest.mark.parametrize(("make_policy", "kind"), [(Towers, nn.Tanh), (with_another_part, nn.SiLU)])
def test_a_difference_between_the_policy_and_its_layers_is_noticed(make_policy, kind, tmp_path, monkeypatch):
    from pufferlib.fast import traced_operations

    monkeypatch.setitem(traced_operations._MODULES, kind, "sigmoid")
    trainer = make_trainer(make_policy, tmp_path)
    assert "differs from what the kernel makes of it: values" in trainer.computed_by
    trainer.release()


def test_large_numbers_have_roundings_of_their_size(tmp_path):
    class Bytes(nn.Module):
        spaces = Box(0, 255, (64,), np.uint8), CHOICES

        def __init__(self):
            super().__init__()
            self.body, self.actor, self.critic = nn.Linear(64, 64), nn.Linear(64, 3), nn.Linear(64, 1)
            nn.init.orthogonal_(self.body.weight, 2.0)

        def forward(self, observations, state=None):
            hidden = self.body(observations.float()).relu()
            return self.actor(hidden), self.critic(hidden)

    trainer = make_trainer(Bytes, tmp_path)
    assert "kernel" in trainer.computed_by and "torch" not in trainer.computed_by
    trainer.release()


class Deeper(Default):
    """A subclass of the library's policy with another encoder."""

    spaces = NUMBERS, PARTS

    def __init__(self):
        super().__init__(Game(*self.spaces), hidden_size=16)
        self.encoder = nn.Sequential(nn.Linear(7, 16), nn.LayerNorm(16), nn.SiLU())


class Encodes(Default):
    """It has numbers for actions and an encoder method of its own, which calls the library's."""

    spaces = NUMBERS, FLOATS

    def __init__(self):
        super().__init__(Game(*self.spaces), hidden_size=16)
        self.more = nn.Linear(16, 16)

    def encode_observations(self, observations):
        return torch.tanh(self.more(super().encode_observations(observations)))


class EncodesAgain(Encodes):
    def encode_observations(self, observations):
        if self.emulated is not None:
            return self.encoder(features(observations, self.emulated))
        return self.more(self.encoder(observations.float()))


class Depth(Base):
    kind, depth = "plain", 2


class Asks(Depth):
    """Static attributes decide what is computed."""

    def __init__(self):
        super().__init__()
        self.emulated, self.norm, self.more, self.scale = None, None, nn.Linear(6, 6), 2.0

    def hidden(self, observations):
        if self.emulated:
            observations = features(observations, self.emulated)
        hidden = self.body(observations) if self.kind == "plain" and self.depth > 1 else observations.sin()
        if self.norm is None and not self.emulated:
            hidden = self.more(hidden)
            hidden = torch.relu(hidden)
        else:
            hidden = self.norm(hidden)
        if self.more and self.scale:
            return self.scale * hidden
        return hidden.sort()


def in_wrapper(wrapper):
    def make():
        return wrapper(Game(*Deeper.spaces), Deeper(), 16, 16)

    make.spaces = Deeper.spaces
    return make


STATIC = {
    **{kind.__name__: kind for kind in (Deeper, Encodes, EncodesAgain, Asks)},
    "DeeperLSTM": in_wrapper(LSTMWrapper),
    "DeeperMinGRU": in_wrapper(MinGRUWrapper),
}


@pytest.mark.quick("DeeperLSTM", "EncodesAgain", "Asks")
@pytest.mark.parametrize("name", STATIC)
def test_subclasses_and_questions_about_attributes_are_traced(name, tmp_path):
    results = []
    for fused in (False, True):
        trainer = make_trainer(STATIC[name], tmp_path, fused=fused)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused, trainer.computed_by
        for _ in range(2):
            trainer.evaluate()
            trainer.train()
        results.append(torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()]))
        trainer.release()
    torch.testing.assert_close(*results, rtol=2e-3, atol=5e-4)


@pytest.mark.parametrize(("name", "value"), [("scale", 3.0), ("norm", nn.LayerNorm(6)), ("kind", "other")])
def test_another_answer_counts_at_once(name, value, tmp_path):
    trainer = make_trainer(Asks, tmp_path)
    assert trainer.computed_by == "C kernel" and not trainer._backend.is_outdated()
    setattr(trainer.policy, name, value)
    assert trainer._backend.is_outdated()
    trainer.release()


class AsksParts(Base):
    def __init__(self):
        super().__init__()
        self.parts = [1]

    def hidden(self, observations):
        return self.body(observations) if self.parts else observations


def test_what_a_list_holds_may_decide_and_counts_at_once(tmp_path):
    trainer = make_trainer(AsksParts, tmp_path)
    assert trainer.computed_by == "C kernel"
    trainer.policy.parts.clear()
    assert trainer._backend.is_outdated()
    trainer.release()


def log(self):
    print(MakesNoise)


def test_what_no_call_reaches_is_no_reason_for_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(Base, "log", log, raising=False)
    monkeypatch.setitem(globals(), "MakesNoise", object())
    trainer = make_trainer(Counted, tmp_path)
    assert trainer.computed_by == "C kernel"
    trainer.release()


@pytest.mark.parametrize(
    ("dtype", "are_bytes"), [(np.uint8, True), (np.int8, True), (np.int16, False), (np.float32, False)]
)
def test_bytes_are_known_where_layers_see_them_as_they_are(dtype, are_bytes):
    env = Game(Box(0, 100, (9, 8), dtype), CHOICES)
    assert layers_of(Default(env, 16), env).are_bytes is are_bytes


@pytest.mark.parametrize("one_hot", [False, True])
def test_bytes_that_are_divided_or_categories_are_none(one_hot):
    make_policy = camera(np.uint8, one_hot)
    assert not layers_of(make_policy(), Game(*make_policy.spaces)).are_bytes
