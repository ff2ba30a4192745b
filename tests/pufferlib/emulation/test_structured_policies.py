"""What the default policies see of structured observations, and training on them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium_environments import Nested
from traced_policies import layers_of

from pufferlib import PuffeRL, vector
from pufferlib.emulation import GymnasiumPufferEnv, Layout
from pufferlib.emulation.rows import row_writer
from pufferlib.emulation.tensors import features, num_features
from pufferlib.models import Continuous, Default, MinGRUWrapper

SPACE = Dict(
    {
        "a": Box(0, 255, (2,), np.uint8),
        "b": Box(0, 9, (2,), np.uint8),
        "c": Discrete(3, start=5),
        "d": MultiDiscrete([2, 3], start=[0, 1]),
        "e": MultiBinary(2),
        "f": Tuple([Box(-9, 9, (1, 2), np.float64)]),
    }
)
OBSERVATION = {
    "a": np.array([0, 51], np.uint8),
    "b": np.array([3, 9], np.uint8),
    "c": 6,
    "d": np.array([1, 1]),
    "e": np.array([1, 0], np.int8),
    "f": (np.array([[-2.5, 4.0]]),),
}
NUMBERS = [0, 0.2, 3, 9, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, -2.5, 4]


def rows_of(space, observation, *leading):
    layout = Layout.of(space)
    row = np.zeros(layout.row_space.shape, layout.row_space.dtype)
    row_writer(layout, row)(observation)
    return layout, torch.from_numpy(np.tile(row, (*leading, 1)))


def env_of(layout, action_space):
    return SimpleNamespace(single_observation_space=layout.row_space, single_action_space=action_space, emulated=layout)


def test_leaves_become_numbers_side_by_side():
    layout, rows = rows_of(SPACE, OBSERVATION, 2, 3)
    assert num_features(layout) == len(NUMBERS)
    found = features(rows, layout)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(NUMBERS).expand(2, 3, -1))


def test_a_choice_outside_its_space_is_no_choice():
    layout, rows = rows_of(Discrete(3, start=5), 0, 4)
    assert not features(rows, layout).any()


def test_rows_that_were_converted_are_taken_apart_too():
    space = Dict({"x": Box(-9, 9, (2,), np.float64), "y": Box(-9, 9, (), np.float64)})
    layout, rows = rows_of(space, {"x": np.array([1.0, 2.0]), "y": 3.0}, 4)
    assert torch.equal(features(rows.float(), layout), features(rows, layout))


@pytest.mark.parametrize("leading", [(5,), (5, 12)])
def test_the_default_policy_takes_rows_of_bytes(leading):
    layout, rows = rows_of(SPACE, OBSERVATION, *leading)
    policy = Default(env_of(layout, Discrete(4)), 16)
    logits, values = policy(rows)
    assert logits.shape == (*leading, 4) and values.shape == leading


def test_the_layers_read_the_numbers_that_the_bytes_stand_for():
    layout, _ = rows_of(SPACE, OBSERVATION)
    env = env_of(layout, Discrete(4))
    for policy in (Default(env, 16), MinGRUWrapper(env, Default(env, 16), 16, 16)):
        assert layers_of(policy, env).fields.row_bytes == math.prod(layout.row_space.shape)
    row = SimpleNamespace(single_observation_space=layout.row_space, single_action_space=Discrete(4))
    assert layers_of(Default(row, 16), row).fields is None  # as amounts


def test_the_continuous_policy_takes_rows_of_bytes():
    layout, rows = rows_of(SPACE, OBSERVATION, 5)
    logits, values = Continuous(env_of(layout, Box(-1, 1, (2,), np.float32)))(rows)
    assert logits.mean.shape == (5, 2) and values.shape == (5,)


@pytest.mark.quick("True")
@pytest.mark.parametrize("recurrent", [False, True])
def test_nested_observations_and_mixed_actions_train(recurrent):
    vecenv = vector.make(GymnasiumPufferEnv, env_kwargs={"env_creator": Nested}, backend="Serial", num_envs=4)
    policy = Default(vecenv, 16)
    if recurrent:
        policy = MinGRUWrapper(vecenv, policy, 16, 16)
    trainer = PuffeRL(vecenv, policy, batch_size=256, num_steps=32, device="cpu")
    for _ in range(2):
        trainer.evaluate()
        losses = trainer.train()
    trainer.vecenv.close()
    assert np.isfinite(losses["policy_loss"]) and trainer.global_step == 512
