"""One policy of each kind, with weights far from where training begins, and the spaces that it is for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from pufferlib.models import Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper, recur
from pufferlib.policy import NormalizedObservations

VECTOR = Box(-1.0, 1.0, (7,))
BYTES = Box(0, 3, (3, 5), np.uint8)
BOARD = Box(np.array([[0, -3], [2, 5], [-1, -100]]), np.array([[4, 1], [2, 250], [1, 100]]), dtype=np.int16)
IMAGES = Box(0, 255, (3, 40, 36), np.uint8)
PLANES = Box(-1, np.array([[[2]], [[0]]]) + np.zeros((2, 5, 6), np.int8), dtype=np.int8)
SMALL = {"filters": [5, 20], "sizes": [3, 2], "strides": [1, 2]}
CHOICE, CHOICES, NUMBERS = Discrete(3), MultiDiscrete([2, 4]), Box(-1.0, 1.0, (2,))
MIXED = Tuple((Discrete(3), NUMBERS))


def spaces_of(observation_space, action_space, emulated=None):
    return SimpleNamespace(
        single_observation_space=observation_space, single_action_space=action_space, emulated=emulated
    )


def normalized(env, policy):
    policy = NormalizedObservations(env, policy, clip=2.0)
    policy.mean += torch.randn(policy.mean.shape, generator=torch.Generator().manual_seed(1))
    policy.variance *= 0.3
    return policy


def wrapped(wrapper, env, policy, **settings):
    return wrapper(env, policy, input_size=policy.hidden_size, hidden_size=policy.hidden_size, **settings)


def with_dropout(policy):
    """A policy of pufferlib.models whose encoder drops at random what each of its layers returns, while it trains."""
    policy.encoder = nn.Sequential(*(part for layer in policy.encoder for part in (layer, nn.Dropout(0.5))))
    return policy


def without_biases(policy):
    """A policy with an LSTM whose cells have no biases."""
    policy.cells = nn.ModuleList(nn.LSTMCell(cell.input_size, cell.hidden_size, bias=False) for cell in policy.cells)
    return policy


class Residual(nn.Module):
    """Layers of one's own around a stream, and a value beside them."""

    def __init__(self, env):
        super().__init__()
        self.first, self.up, self.gate = nn.Linear(15, 20), nn.Linear(20, 33), nn.Linear(20, 33)
        self.norm, self.scaled, self.act = nn.LayerNorm(20), nn.RMSNorm(20), nn.Linear(33, 20)
        self.actor, self.critic = nn.Sequential(nn.Linear(37, 9), nn.SiLU(), nn.Linear(9, 3)), nn.Linear(20, 1)

    def forward(self, observations):
        stream = functional.elu(self.first(observations.float().flatten(1) / 255))
        normal = self.norm(stream)
        stream = stream + self.act(self.up(normal) * torch.sigmoid(self.gate(normal))) * 0.5 - 0.1
        sides = [functional.gelu(stream, approximate="tanh")[:, 3:], functional.softplus(self.scaled(stream))]
        return self.actor(torch.cat(sides, 1)), self.critic(functional.leaky_relu(stream)).squeeze(-1)


class Pictures(nn.Module):
    """Convolutions with padding, windows, and a sum of images."""

    def __init__(self, env):
        super().__init__()
        self.wide = nn.Conv2d(3, 5, 3, padding=1)
        self.first, self.second = nn.Conv2d(5, 5, 3, 2, padding=1), nn.Conv2d(5, 4, 2)
        self.most, self.mean = nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 2)
        self.head = nn.Linear(4 * 3 * 4, 4)

    def forward(self, observations):
        seen = torch.tanh(self.wide(observations.float()))
        image = torch.relu(self.first(seen)) + self.most(seen)
        output = self.head(functional.silu(self.second(self.mean(image))).flatten(1))
        return output[:, :3], output[:, 3]


class Cells(nn.Module):
    """Cells of torch, one of which is read twice; states whose names C or a header has for something else."""

    def __init__(self, env):
        super().__init__()
        self.encoder, self.long, self.short = nn.Linear(7, 18), nn.LSTMCell(18, 9), nn.LSTMCell(9, 20)
        self.mean, self.value = nn.Linear(29, 2), nn.Linear(29, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def initial_state(self, batch, device="cpu"):
        sizes = {"long": 9, "memory": 9, "values": 20, "short memory": 20}
        return {name: torch.zeros(batch, size, device=device) for name, size in sizes.items()}

    def forward_eval(self, observations, state):
        hidden, memory = self.long(torch.tanh(self.encoder(observations)), (state["long"], state["memory"]))
        state["long"], state["memory"] = hidden, memory
        short, memory = self.short(hidden, (state["values"], state["short memory"]))
        state["values"], state["short memory"] = short, memory
        found = torch.cat([hidden, short], 1)
        mean = self.mean(found)
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(found)

    def forward(self, observations, state):
        before = [(state["long"], state["memory"]), (state["values"], state["short memory"])]
        hidden, _ = recur(self.long, torch.tanh(self.encoder(observations)), before[0], state["resets"])
        found = torch.cat([hidden, recur(self.short, hidden, before[1], state["resets"])[0]], -1)
        mean = self.mean(found)
        return Normal(mean, self.log_std.exp().expand_as(mean)), self.value(found)


class Gated(nn.Module):
    """A GRU cell that sees the observation itself."""

    def __init__(self, env):
        super().__init__()
        self.cell, self.head = nn.GRUCell(7, 19), nn.Linear(19, 4)

    def initial_state(self, batch, device="cpu"):
        return {"memory": torch.zeros(batch, 19, device=device)}

    def forward_eval(self, observations, state):
        state["memory"] = self.cell(observations, state["memory"])
        output = self.head(state["memory"])
        return output[:, :3], output[:, 3]

    def forward(self, observations, state):
        output = self.head(recur(self.cell, observations, state["memory"], state["resets"])[0])
        return output[..., :3], output[..., 3]


class Encoder(nn.Module):
    """In a wrapper of the library."""

    hidden_size = 17

    def __init__(self, env):
        super().__init__()
        self.body, self.norm = nn.Linear(7, 17), nn.LayerNorm(17)
        self.actor, self.critic = nn.Linear(17, 3), nn.Linear(17, 1)

    def encode_observations(self, observations):
        return self.norm(self.body(observations))

    def decode_actions(self, hidden):
        return self.actor(functional.silu(hidden)), self.critic(hidden)


def _case(observation_space, action_space, make):
    env = spaces_of(observation_space, action_space)
    return lambda: (spread(make(env)), env)


CASES = {
    "default": _case(BYTES, CHOICE, lambda env: Default(env, 20, num_layers=2)),
    "choices": _case(VECTOR, CHOICES, lambda env: Default(env, 16, activation="relu")),
    "mixed": _case(VECTOR, MIXED, lambda env: Default(env, 16, activation="tanh")),
    "continuous": _case(VECTOR, NUMBERS, lambda env: normalized(env, Continuous(env, [24, 9], [11]))),
    "images": _case(IMAGES, CHOICE, lambda env: Convolutional(env, 19)),
    "board": _case(Box(-1.0, 1.0, (42,)), CHOICE, lambda env: Convolutional(env, 20, **SMALL, image_shape=[6, 7])),
    "planes": _case(
        PLANES, CHOICE, lambda env: wrapped(MinGRUWrapper, env, Convolutional(env, 16, **SMALL, one_hot=True))
    ),
    "lstm": _case(
        VECTOR, CHOICE, lambda env: normalized(env, wrapped(LSTMWrapper, env, Default(env, 21), num_layers=2))
    ),
    "categories": _case(
        BOARD, CHOICE, lambda env: wrapped(MinGRUWrapper, env, Default(env, 20, num_layers=2, one_hot=True))
    ),
    "few categories": _case(BYTES, CHOICES, lambda env: Default(env, 64, activation="tanh", one_hot=True)),
    "mingru": _case(VECTOR, NUMBERS, lambda env: wrapped(MinGRUWrapper, env, Default(env, 33), num_layers=2)),
    "dropout": _case(VECTOR, CHOICE, lambda env: with_dropout(Default(env, 20, num_layers=2))),
    "unbiased": _case(VECTOR, CHOICE, lambda env: without_biases(wrapped(LSTMWrapper, env, Default(env, 21)))),
    "image_mingru": _case(IMAGES, CHOICES, lambda env: wrapped(MinGRUWrapper, env, Convolutional(env, 16))),
}
OWN = {
    "residual": _case(Box(0, 255, (3, 5), np.uint8), CHOICE, Residual),
    "pictures": _case(Box(-1.0, 1.0, (3, 17, 19)), CHOICE, Pictures),
    "cells": _case(VECTOR, NUMBERS, lambda env: normalized(env, Cells(env))),
    "gated": _case(VECTOR, CHOICE, Gated),
    "wrapped": _case(VECTOR, CHOICE, lambda env: wrapped(MinGRUWrapper, env, Encoder(env), num_layers=2)),
}
CASES.update(OWN)


@torch.no_grad()
def spread(policy: nn.Module) -> nn.Module:
    """Draws weights that make logits and values of about 1, and logarithms of deviations."""
    generator = torch.Generator().manual_seed(0)
    for parameter in policy.parameters():
        fan_in = parameter[0].numel() if parameter.dim() > 1 else 9
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * (2.0 / fan_in) ** 0.5)
    return policy.eval()


def flat_results(logits, values, state):
    """What a policy returned, in the order in which an export gives it."""
    results = []
    for part in logits if isinstance(logits, tuple) else (logits,):
        results += [part.mean, part.stddev.log()] if isinstance(part, Normal) else [part]
    return [*results, values.reshape(-1), *state.values()]
