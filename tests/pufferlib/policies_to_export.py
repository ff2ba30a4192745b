"""One policy of each kind, with weights far from where training begins, and the spaces that it is for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from torch import nn
from torch.distributions import Normal

from pufferlib.models import Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
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
