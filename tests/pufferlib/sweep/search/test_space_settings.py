from typing import get_args

import pytest
from checked_headers import QUICK, params
from contract import COMPILED

from pufferlib import ocean
from pufferlib.config import load_config
from pufferlib.config.sections import dimension_keys
from pufferlib.errors import ConfigError
from pufferlib.sweep.space import DISTRIBUTIONS, Categorical, Dimension, resolved_name, space_of

SQUARED = "puffer_squared"
CARTPOLE = "puffer_cartpole"


def dimensions(*flags, env_name=SQUARED):
    return {one.name: one for one in space_of(load_config(env_name, argv=flags)).dimensions}


EVERY = [*ocean.names(), "CartPole-v1", "MountainCarContinuous-v0", "FrozenLake-v1"]


@pytest.mark.parametrize("name", params(EVERY, {*EVERY} - {*COMPILED} | {*QUICK}, [pytest.mark.slow]))
def test_every_environment_has_a_space_of_few_dimensions(name):
    args = load_config(name)
    space = space_of(args)
    assert {"train.total_timesteps", "train.learning_rate"} <= {*space.names} and len(space.names) <= 8
    assert ((space.centre > 0) & (space.centre < 1)).all()
    for one in space.dimensions:
        section, key = one.name.split(".")
        if isinstance(args[section][key], (int, float)) and one.min <= args[section][key] <= one.max:
            assert one.mean == args[section][key]


def test_a_range_is_of_the_settings_type():
    found = dimensions()
    assert found["train.total_timesteps"].is_integer and not found["train.learning_rate"].is_integer
    assert type(found["train.total_timesteps"].min) is int and type(found["train.learning_rate"].min) is float


def test_a_bound_may_be_a_multiple_of_the_configured_value():
    short = dimensions("--train.total-timesteps", "1_000_000")["train.total_timesteps"]
    assert (short.min, short.max, short.mean) == (50_000, 2_000_000, 1_000_000)
    found = dimensions("--train.learning-rate", "0.3", "--sweep.train.learning-rate.max", "0.25")["train.learning_rate"]
    assert (found.min, found.max, found.mean) == (0.03, 0.25, None)  # which is the middle
    flags = "--train.bptt-horizon 48 --sweep.train.bptt-horizon.distribution uniform_pow2"
    flags += " --sweep.train.bptt-horizon.min 0.25x --sweep.train.bptt-horizon.max 4x"
    horizon = dimensions(*flags.split())["train.bptt_horizon"]
    assert (horizon.min, horizon.max) == (16, 256)  # the nearest powers of two


def test_iterations_that_were_asked_for_are_not_overridden_by_the_steps_that_vary():
    flags = ["--train.num-iterations", "5"]
    with pytest.raises(ConfigError, match="num_iterations 5 .*--sweep.train.total-timesteps.distribution none"):
        dimensions(*flags)
    assert "train.total_timesteps" not in dimensions(*flags, "--sweep.train.total-timesteps.distribution", "none")


def test_a_sweep_of_a_run_to_resume_is_refused_before_it_has_trials():
    with pytest.raises(ConfigError, match="new runs, got --resume latest"):
        dimensions("--resume", "latest")


def test_a_dimension_is_taken_out_and_another_put_in():
    flags = ["--sweep.train.gamma.distribution", "none", "--sweep.env.size.distribution", "int_uniform"]
    found = dimensions(*flags, "--sweep.env.size.min", "3", "--sweep.env.size.max", "20", "--sweep.env.size.scale", "1")
    assert "train.gamma" not in found
    assert found["env.size"] == Dimension("env.size", "int_uniform", 3, 20, mean=11, scale=1.0)


@pytest.mark.parametrize(
    ("dimension", "message"),
    [
        ({"train": {"gamma": {"distribution": "uniform"}}}, r"\[sweep.train.gamma\] needs min, max"),
        ({"train": {"gamma": {"min": 0.5, "max": 0.6}}}, r"\[sweep.train.gamma\] needs distribution"),
        ({"train": {"gamma": {"distribution": "uniform", "min": 0, "max": 2}}}, r"gamma must be .* \[0, 1\], got 2"),
        (
            {"train": {"minibatch_size": {"distribution": "uniform", "min": "0.5x", "max": 9}}, "x": 1},
            "min is 0.5x of the configured value, which is 'auto'; write a number",
        ),
        (
            {"train": {"optimizer": {"distribution": "uniform", "min": 0, "max": 2}}},
            r"\[sweep.train.optimizer\] must be a number to have a range, and takes 'muon', 'adam' or 'sgd'",
        ),
        ({"train": {"optimizer": ["adm"]}}, "got 'adm'; did you mean 'adam'"),
        ({"policy": {"hiden_size": [1]}}, r"no setting 'hiden_size' in \[policy\]; did you mean 'hidden_size'"),
        ({"rnn": {"hidden_size": [1]}}, r"no setting 'hidden_size' in \[rnn\]; it has no settings"),
        ({"env": {"sise": [1]}}, "'sise'.* did you mean 'size'"),
        ({"log": {"tags": ["a"]}}, r"there is no section \[sweep.log.tags\]"),
        ({}, "found no dimension; add a section"),
    ],
)
def test_what_cannot_be_varied_is_one_sentence(dimension, message):
    args = load_config("puffer_template", argv=["--train.minibatch-size", "auto"])
    with pytest.raises(ConfigError, match=message):
        space_of({**args, "env_name": SQUARED, "sweep": dimension})


def test_lists_of_python_are_choices_and_names_need_no_section():
    space = {"learning_rate": [0.001, 0.01], "n_epochs": [1, 2], "num_steps": [16, 32], "size": (3, 5)}
    space |= {"batch_size": [1024], "vec.batch_size": [1], "rnn_name": [None, "LSTM"], "policy.num_layers": [1, 2]}
    space["gamma"] = {"distribution": "logit_normal", "min": 0.9, "max": 0.999}
    found = space_of(load_config(SQUARED), space).dimensions
    assert {one.name: one.choices for one in found if isinstance(one, Categorical)} == {
        "train.learning_rate": (0.001, 0.01),
        "train.update_epochs": (1.0, 2.0),
        "train.bptt_horizon": (16, 32),
        "train.batch_size": (1024,),
        "env.size": (3, 5),
        "vec.batch_size": (1,),
        "base.rnn_name": (None, "LSTM"),
        "policy.num_layers": (1, 2),
    }
    (gamma,) = [one for one in found if isinstance(one, Dimension)]
    assert (gamma.name, gamma.mean) == ("train.gamma", 0.995)


def test_a_name_is_looked_for_in_train_first():
    args = load_config("puffer_breakout")
    assert resolved_name(args, "seed") == "train.seed"
    assert resolved_name(args, "num_envs") == "env.num_envs"
    assert resolved_name(args, "hidden_size") == "policy.hidden_size"
    assert resolved_name(args, "input_size") == "rnn.input_size"
    assert resolved_name(args, "num_workers") == "vec.num_workers"


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"lerning_rate": [1]}, "no setting 'lerning_rate' that a sweep could vary; did you mean 'learning_rate'"),
        ({"learning_rate": "high"}, "must be a list of values or a dict of a range, got 'high'"),
        ({"n_epochs": [1], "update_epochs": [2]}, "'update_epochs' is train.update_epochs, which .* twice"),
        ({"trian.gamma": [1]}, "did you mean 'train'"),
        ({"gamma": [0.5, 0.5]}, "different numbers"),
        ({"gamma": [2]}, r"gamma must be a number in \[0, 1\], got 2"),
        ({"gamma": {"min": 1, "mix": 2}}, r"no setting 'mix' in \[sweep.train.gamma\]; did you mean 'min'"),
        ({}, "found no dimension"),
    ],
)
def test_a_mistake_in_a_search_space_is_one_sentence(space, message):
    with pytest.raises(ConfigError, match=message):
        space_of(load_config(CARTPOLE), space)


def test_the_configuration_knows_the_distributions_that_there_are():
    literal = get_args(dimension_keys("train.gamma")["distribution"].kind)[0]
    assert {*get_args(literal)} == {*DISTRIBUTIONS}
