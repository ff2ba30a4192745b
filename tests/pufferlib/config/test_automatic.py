"""What follows from what is seen of an environment, where the user sets nothing; by every door the same."""

import math
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from torch import nn

import pufferlib
from pufferlib import PuffeRL, pufferl, vector
from pufferlib.config import TrainConfig, load_config, resolve_sizes
from pufferlib.config.automatic import LINES, Facts
from pufferlib.config.sections import SECTIONS
from pufferlib.models import Continuous, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.runs.calls import settings_from_keywords

AMOUNTS = Box(-1, 1, (4,), np.float32)
CART_POLE = partial(gymnasium.make, "CartPole-v1")
PENDULUM = partial(gymnasium.make, "Pendulum-v1")


def facts(observations=AMOUNTS, actions=None, num_agents=16, agents_per_env=1, **others):
    return Facts(observations, Discrete(2) if actions is None else actions, num_agents, agents_per_env, **others)


def trained_with(env, policy=None, **settings):
    """A trainer that is let go of at once."""
    trainer = PuffeRL(env, policy, device="cpu", **settings)
    trainer.release()
    return trainer


def test_every_line_sets_what_exists():
    for line in LINES:
        assert line.seen and line.measured
        for name, value in line.settings.items():
            section, _, key = name.partition(".")
            if section in SECTIONS:
                SECTIONS[section].settings()[key].check(value)


def test_a_full_vector_keeps_what_the_signature_promises():
    found = settings_from_keywords({}, facts(num_agents=256, agents_per_env=256))
    assert (found["learning_rate"], found["update_epochs"], found["batch_size"]) == (3e-4, 4.0, 32_768)
    assert (found["shuffle"], found["normalize_rewards"], found["minibatch_size"]) == ("segments", False, 1_024)


@pytest.mark.parametrize(
    ("num_agents", "expected"), [(64, 1_024), (256, 1_024), (1_024, 1_024), (4_096, 4_096), (8_192, 8_192)]
)
def test_a_full_vectors_minibatches_grow_with_very_large_batches_alone(num_agents, expected):
    found = settings_from_keywords({}, facts(num_agents=num_agents, agents_per_env=num_agents))
    assert (found["bptt_horizon"], found["minibatch_size"]) == (128, expected)


@pytest.mark.parametrize(
    ("num_agents", "expected"),
    [
        (1, (2_048, 128, 128)),
        (16, (2_048, 128, 128)),
        (20, (2_560, 128, 160)),
        (64, (4_096, 64, 256)),
        (256, (8_192, 32, 512)),
        (1_000, (32_000, 32, 2_000)),
    ],
)
def test_a_small_batch_is_cut_into_minibatches_of_steps(num_agents, expected):
    found = settings_from_keywords({}, facts(num_agents=num_agents))
    assert (found["batch_size"], found["bptt_horizon"], found["minibatch_size"]) == expected
    assert found["shuffle"] == "steps"
    resolve_sizes(TrainConfig.from_dict(found), num_agents, "cpu")


@pytest.mark.parametrize(
    "given",
    [
        {"batch_size": 512},
        {"minibatch_size": 384},
        {"minibatch_size": 8_192},
        {"num_steps": 10},
        {"shuffle": "segments"},
        {"prio_alpha": 0.5},
        {"batch_size": "auto", "n_epochs": 1},
    ],
)
@pytest.mark.parametrize("is_recurrent", [False, True])
def test_the_rest_fits_what_is_given(given, is_recurrent):
    found = settings_from_keywords(given, facts(is_recurrent=is_recurrent))
    names = {"num_steps": "bptt_horizon", "n_epochs": "update_epochs"}
    for name, value in given.items():
        assert value == "auto" or found[names.get(name, name)] == value
    resolve_sizes(TrainConfig.from_dict(found), 16, "cpu")


def test_sizes_are_those_of_all_processes():
    found = settings_from_keywords({}, facts(num_agents=48, world_size=3))
    assert (found["batch_size"], found["bptt_horizon"]) == (3_072, 64)
    resolve_sizes(TrainConfig.from_dict(found), 16, "cpu", 3)


@pytest.mark.parametrize(
    ("seen", "name", "expected"),
    [
        (facts(), "train.learning_rate", 1e-3),
        (facts(actions=MultiDiscrete([2, 3])), "base.policy_name", "Default"),
        (facts(actions=Tuple([Discrete(2), Box(-1, 1, (1,), np.float32)])), "base.policy_name", "Default"),
        (facts(actions=Box(-1, 1, (2,), np.float32)), "base.policy_name", "Continuous"),
        (facts(actions=Box(-1, 1, (2,), np.float32)), "train.normalize_observations", True),
        (facts(), "train.normalize_observations", None),
        (facts(Box(-np.inf, np.inf, (3,), np.float32)), "train.normalize_observations", True),
        (facts(Box(0, 255, (8,), np.uint8)), "train.normalize_observations", True),
        (facts(Box(0, 5, (8,), np.uint8)), "train.normalize_observations", None),
        (facts(Box(1, 50, (8,), np.uint8)), "train.normalize_observations", None),
        (facts(Box(-128, 50, (8,), np.int8)), "train.normalize_observations", True),
        (facts(Box(0, 5, (8,), np.uint8)), "policy.one_hot", True),
        (facts(Box(0, 5, (8,), np.uint8), agents_per_env=64), "policy.one_hot", True),
        (facts(Box(0, 5, (8,), np.uint8), is_own_policy=True), "policy.one_hot", None),
        (facts(Box(0, 5, (8,), np.uint8), Box(-1, 1, (2,), np.float32)), "policy.one_hot", None),
        (facts(Box(0, 1, (8,), np.uint8)), "policy.one_hot", None),
        (facts(Box(0, 255, (4, 84, 84), np.uint8)), "base.policy_name", "Convolutional"),
        (facts(Box(0, 255, (4, 84, 84), np.uint8), Box(-1, 1, (2,), np.float32)), "train.learning_rate", 2.5e-4),
        (facts(Box(0, 255, (4, 84, 84), np.uint8)), "policy.channels_last", None),
        (facts(Box(0, 255, (84, 84, 3), np.uint8)), "base.policy_name", "Convolutional"),
        (facts(Box(0, 255, (210, 160, 12), np.uint8)), "policy.channels_last", True),
        (facts(Box(0, 255, (84, 84), np.uint8)), "policy.channels_last", None),
        (facts(Box(0, 255, (35, 84, 3), np.uint8)), "policy.strides", [2, 2]),
        (facts(Box(0, 255, (15, 84, 3), np.uint8)), "base.policy_name", "Default"),
        (facts(Box(0, 255, (15, 84, 3), np.uint8)), "policy.channels_last", None),
        (facts(Box(0, 255, (9, 9, 9), np.uint8)), "base.policy_name", "Default"),
        (facts(Box(0, 255, (4, 84, 84, 3), np.uint8)), "base.policy_name", "Default"),
        (facts(Box(0, 1, (84, 84, 3), np.uint8)), "base.policy_name", "Default"),
        (facts(Box(0, 255, (3, 32, 32), np.uint8)), "policy.sizes", [4, 3]),
        (facts(Box(0, 255, (3, 32, 32), np.uint8)), "train.learning_rate", 1e-3),
        (facts(Box(0, 255, (3, 32, 32), np.uint8), Box(-1, 1, (2,), np.float32)), "train.learning_rate", 2.5e-4),
        (facts(Box(0, 255, (3, 36, 36), np.uint8)), "policy.sizes", None),
        (facts(Box(0, 1, (0,), np.float32)), "train.normalize_observations", None),
        (facts(Box(0, 1, (3,), bool), Box(-1, 1, (2,), np.float32)), "train.normalize_observations", None),
        (facts(Box(0, 1, (8,), np.uint8), is_amounts=False), "train.normalize_observations", None),
        (facts(Box(-np.inf, np.inf, (3,), np.float32), is_own_policy=True), "train.normalize_observations", None),
        (facts(is_recurrent=True), "train.shuffle", "segments"),
        (facts(actions=Discrete(64)), "policy.hidden_size", 64),
        (facts(actions=MultiDiscrete([3, 65])), "policy.hidden_size", 128),
        (facts(actions=Box(-1, 1, (65,), np.float32)), "policy.hidden_size", None),
        (facts(), "train.ent_coef", None),
        (facts(sees_names=True, is_amounts=False), "train.ent_coef", 0.05),
        (facts(agents_per_env=64), "train.normalize_rewards", None),
        (facts(actions=Box(-1, 1, (2,), np.float32), agents_per_env=64), "train.normalize_rewards", True),
        (facts(Box(0, 1, (6,), np.uint8), agents_per_env=64), "base.rnn_name", "LSTM"),
        (facts(Box(0, 1, (6,), bool), agents_per_env=64), "base.rnn_name", "LSTM"),
        (facts(Box(-2, 2, (2,), np.int64), agents_per_env=64), "base.rnn_name", "LSTM"),
        (facts(Box(0, 1, (7,), np.uint8), agents_per_env=64), "base.rnn_name", None),
        (facts(Box(0, 1, (2,), np.float32), agents_per_env=64), "base.rnn_name", None),
        (facts(Box(0, 1, (6,), np.uint8), agents_per_env=63), "base.rnn_name", None),
    ],
)
def test_settings_follow_from_what_is_seen(seen, name, expected):
    section, _, key = name.partition(".")
    assert seen.settings(section).get(key) == expected


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Discrete(16), True),
        (MultiDiscrete([3, 4]), True),
        (Dict({"room": Discrete(4), "keys": MultiDiscrete([2, 2])}), True),
        (Dict({"room": Discrete(4), "degrees": Box(-9, 40, (1,), np.float32)}), False),
        (AMOUNTS, False),
    ],
    ids=str,
)
def test_names_of_states_are_seen(space, expected):
    class Rooms(gymnasium.Env):
        observation_space, action_space = space, Discrete(2)

    assert Facts.of(vector.as_puffer_env(Rooms()), 1).sees_names is expected


def test_what_is_given_is_never_changed():
    given = {"learning_rate": 3e-4, "n_epochs": 4, "normalize_rewards": False, "shuffle": "segments"}
    trainer = trained_with(CART_POLE, **given)
    config = trainer.config
    assert (config.learning_rate, config.update_epochs) == (3e-4, 4.0)
    assert (config.normalize_rewards, config.shuffle) == (False, "segments")
    said = " ".join(trainer.chosen)
    assert "minibatch_size 512" in said and "learning_rate" not in said and "update_epochs" not in said


def test_a_policy_of_the_users_stays_as_it_is():
    env = CART_POLE()
    policy = Default(vector.as_puffer_env(env), hidden_size=8)
    trainer = trained_with(env, policy)
    assert trainer.policy is policy and not trainer.config.normalize_observations
    assert not any("hidden_size" in sentence for sentence in trainer.chosen)


def test_a_policy_that_remembers_learns_from_segments():
    env = vector.as_puffer_env(CART_POLE())
    trainer = trained_with(env, MinGRUWrapper(env, Default(env, hidden_size=8), 8, 8))
    assert trainer.config.shuffle == "segments"


# --- by every door


def doors(creator):
    """The ways in which an environment of a kind is given by keyword."""
    return {
        "function": lambda: creator,
        "lambda": lambda: lambda: creator(),
        "instance": lambda: creator(),
        "PufferEnv": lambda: vector.as_puffer_env(creator()),
        "vector": lambda: vector.make(creator, num_envs=16, backend="Serial"),
        "gymnasium vector": lambda: gymnasium.vector.SyncVectorEnv([creator] * 16, autoreset_mode="SameStep"),
        "name": lambda: creator.args[0],
    }


CHOSEN = ("learning_rate", "update_epochs", "shuffle", "batch_size", "minibatch_size", "normalize_rewards", "target_kl")


@pytest.mark.parametrize("door", doors(CART_POLE))
def test_every_door_by_keyword_leads_to_the_same_settings(door):
    config = trained_with(doors(CART_POLE)[door]()).config
    assert [getattr(config, name) for name in CHOSEN] == [1e-3, 6.0, "steps", 2_048, 128, True, None]


@pytest.mark.parametrize("door", doors(PENDULUM))
def test_numbers_as_actions_have_towers_apart_by_every_door(door):
    trainer = trained_with(doors(PENDULUM)[door]())
    config = trainer.config
    assert [getattr(config, name) for name in CHOSEN] == [3e-4, 10.0, "steps", 2_048, 64, True, 0.02]
    assert type(trainer.policy.policy) is Continuous
    assert trainer.policy.policy.log_std.exp().item() == pytest.approx(2 * math.exp(-0.5))  # actions from -2 to 2


class Thermostat(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (), np.float32), Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float32(0.5), {}

    def step(self, action):
        return np.float32(0.5), float(action[0]), True, False, {}


def test_a_single_number_may_be_seen_and_numbers_be_done():
    trainer = trained_with(Thermostat)
    assert type(trainer.policy.policy) is Continuous


@pytest.mark.parametrize(("creator", "kind"), [(CART_POLE, Default), (PENDULUM, Continuous)])
def test_a_configuration_without_an_ini_has_them_too(creator, kind):
    args = load_config(creator)
    args["train"].update(device="cpu")
    vecenv = pufferl.load_env(creator, args)
    policy = pufferl.load_policy(args, vecenv, creator)
    by_configuration = PuffeRL(args["train"], vecenv, policy)
    by_configuration.release()
    by_keyword = trained_with(creator)
    lengths = ("anneal_lr", "log_interval", "checkpoint_interval", "total_timesteps")
    names = [name for name in TrainConfig.settings() if name not in lengths]
    assert [getattr(by_configuration.config, name) for name in names] == [
        getattr(by_keyword.config, name) for name in names
    ]
    assert type(policy.policy) is kind and vecenv.num_envs == 16


@pytest.mark.parametrize(("agents", "count"), [(63, 16), (64, 4), (100, 2), (300, 1)])
def test_as_many_full_vectors_of_ones_own_are_made_as_a_batch_has_room_for(agents, count):
    class Crowd(pufferlib.PufferEnv):
        def __init__(self, buf=None, seed=0):
            self.single_observation_space, self.single_action_space = AMOUNTS, Discrete(2)
            self.num_agents = agents
            super().__init__(buf)

        def reset(self, seed=None):
            return self.observations, []

        def step(self, actions):
            return self.observations, self.rewards, self.terminals, self.truncations, []

        def close(self):
            pass

    args = load_config(Crowd)
    args["train"].update(device="cpu")
    vecenv = pufferl.load_env(Crowd, args)
    vecenv.close()
    assert vecenv.num_envs == trained_with(Crowd).vecenv.num_envs == count
    assert trained_with(Crowd, num_envs=5).vecenv.num_envs == 5


@pytest.mark.quick("(36, 40, 3)")
@pytest.mark.parametrize(
    "shape",
    [
        *[(36, 40, 3), (16, 16, 4), (1, 20, 20), (20, 20), (7, 7, 3)],
        *[pytest.param(shape, marks=pytest.mark.slow) for shape in ((84, 84), (120, 101, 3))],
    ],
    ids=str,
)
def test_pictures_of_every_form_are_trained_on(shape, tmp_path):
    class Camera(gymnasium.Env):
        observation_space, action_space = Box(0, 255, shape, np.uint8), Discrete(3)

        def reset(self, *, seed=None, options=None):
            return np.zeros(shape, np.uint8), {}

        def step(self, action):
            return np.full(shape, 9, np.uint8), 1.0, True, False, {}

    trainer = PuffeRL(Camera, device="cpu", data_dir=str(tmp_path))
    trainer.learn(2_048, dashboard=False)
    trainer.release()
    args = load_config(Camera)
    assert args["policy"].get("channels_last", False) == (len(shape) == 3 and shape[2] < shape[0] > 7)
    assert (args["policy"].get("strides") == [8, 2, 2]) == (max(shape) > 100)


def test_a_name_that_imports_a_class_has_what_the_class_has(tmp_path, monkeypatch):
    (tmp_path / "own_poles.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\nclass Pole(CartPoleEnv):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_poles

    by_name, by_class = load_config("own_poles:Pole"), load_config(own_poles.Pole)
    assert by_name["train"] == by_class["train"] and by_name["policy"] == by_class["policy"]
    assert by_name["train"]["update_epochs"] == 6.0


def test_flags_count_over_what_was_chosen():
    args = load_config(CART_POLE, argv=["--train.learning-rate", "0.01", "--policy.hidden-size", "32"])
    assert (args["train"]["learning_rate"], args["train"]["update_epochs"]) == (0.01, 6.0)
    assert (args["policy"]["hidden_size"], args["policy"]["num_layers"]) == (32, 2)


def test_an_environment_that_needs_arguments_has_the_defaults():
    def make(size):
        raise AssertionError("it must not be made")

    assert load_config(make)["train"]["optimizer"] == "muon"


# --- what is told, and what comes of it


def test_the_first_lines_tell_what_was_chosen(capsys):
    trainer = PuffeRL(CART_POLE, device="cpu", learning_rate=5e-4)
    trainer.learn(2_048)
    trainer.release()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("chosen for less than a full vector: batch_size 2048, lr_schedule linear, ")
    assert lines[1] == "chosen for choices as actions: update_epochs 6.0, minibatch_size 128"
    assert lines[2].startswith("chosen for choices as actions, and no pictures: hidden_size 64")


def test_a_full_vector_says_little():
    trainer = trained_with(pufferlib.make("puffer_cartpole", num_envs=64))
    assert trainer.chosen == ("a full vector: minibatch_size 1024, hidden_size 64, num_layers 2",)


def test_a_full_vector_that_shows_little_has_a_policy_that_remembers():
    trainer = trained_with(pufferlib.make("puffer_memory", num_envs=64))
    assert isinstance(trainer.policy, LSTMWrapper) and trainer.policy.hidden_size == trainer.policy.policy.hidden_size
    assert trainer.chosen == (
        "a full vector: minibatch_size 1024",
        "a full vector that shows one of at most 64 things: hidden_size 128, num_layers 1, rnn_name LSTM",
    )
    env = pufferlib.make("puffer_memory", num_envs=64)
    own = trained_with(env, Default(env, hidden_size=8))
    assert isinstance(own.policy, Default) and own.chosen == ("a full vector: minibatch_size 1024",)


@pytest.mark.slow
@pytest.mark.parametrize(("creator", "steps", "least"), [(CART_POLE, 150_000, 400), (PENDULUM, 150_000, -300)])
def test_nothing_set_learns(creator, steps, least, tmp_path):
    trainer = PuffeRL(creator, device="cpu", seed=1, data_dir=str(tmp_path))
    trainer.learn(steps, dashboard=False)
    score = pufferlib.evaluate(trainer.policy, creator, 30, sample=True)["episode_return"].mean
    trainer.release()
    assert score >= least
    assert isinstance(trainer.policy, nn.Module)


class Pictures(gymnasium.Env):
    observation_space, action_space = Box(0, 255, (20, 20, 3), np.uint8), Discrete(3)

    def reset(self, seed=None, options=None):
        return np.zeros((20, 20, 3), np.uint8), {}


def test_every_call_has_lists_of_its_own():
    policy = load_config(Pictures)["policy"]
    before = list(policy["filters"])
    policy["filters"].append(99)
    assert load_config(Pictures)["policy"]["filters"] == before
