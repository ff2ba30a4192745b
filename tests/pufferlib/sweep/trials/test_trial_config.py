import copy

import pytest

from pufferlib.config import load_config
from pufferlib.errors import ConfigError
from pufferlib.sweep.space import trial_args, trial_settings


def configuration(env_name="puffer_cartpole", *flags):
    return load_config(env_name, argv=["--train.device", "cpu", *flags])


def test_a_trial_is_a_copy_with_the_values_put_in():
    args = configuration()
    before = copy.deepcopy(args)
    values = {
        "train.learning_rate": 0.5,
        "policy.hidden_size": 32,
        "base.policy_name": "default",
        "env.continuous": True,
    }
    trial = trial_args(args, values)
    assert args == before
    assert trial["train"] == {**args["train"], "learning_rate": 0.5} and trial["policy_name"] == "default"
    assert trial["policy"] == {**args["policy"], "hidden_size": 32} and trial["env"]["continuous"] is True
    assert "sweep" not in trial
    assert trial_settings(args, trial, values) == {
        "train": {"learning_rate": 0.5},
        "policy": {"hidden_size": 32},
        "base": {"policy_name": "default"},
        "env": {"continuous": True},
    }


@pytest.mark.parametrize(("batch", "envs"), [(8192, 128), (100_000, "auto"), (5, 1)])
def test_environments_follow_the_batch_where_their_number_is_automatic(batch, envs):
    args = configuration()
    trial = trial_args(args, {"train.batch_size": batch, "train.bptt_horizon": 64})
    assert trial["env"]["num_envs"] == envs


@pytest.mark.parametrize("name", ["policy.hidden_size", "rnn.hidden_size"])
def test_the_widths_of_policy_and_recurrent_layer_stay_the_same(name):
    args = configuration("puffer_breakout", "--rnn.input-size", "64")
    trial = trial_args(args, {name: 128})
    assert (trial["policy"]["hidden_size"], trial["rnn"]["hidden_size"], trial["rnn"]["input_size"]) == (128,) * 3
    without = trial_args(configuration("puffer_cartpole"), {"policy.hidden_size": 128})
    assert without["rnn"] == configuration("puffer_cartpole")["rnn"]
    both = trial_args(args, {"rnn.hidden_size": 32, "policy.hidden_size": 96})
    assert both["rnn"]["hidden_size"] == both["policy"]["hidden_size"] == 96


@pytest.mark.parametrize("name", ["CartPole-v1", "puffer_squared"])
def test_a_recurrent_layer_takes_segments(name):
    args = configuration(name)
    values = {"base.rnn_name": "LSTM"}
    trial = trial_args(args, values)
    assert trial["train"]["shuffle"] == "segments"
    is_changed = args["train"]["shuffle"] != "segments"
    assert ("shuffle" in trial_settings(args, trial, values).get("train", {})) is is_changed
    assert trial_args(args, {"base.rnn_name": None})["train"]["shuffle"] == args["train"]["shuffle"]
    assert trial_args(args, {**values, "train.shuffle": "steps"})["train"]["shuffle"] == "steps"


def test_what_would_have_no_effect_has_one():
    args = configuration("puffer_cartpole", "--sweep.metric", "eval/return_mean")
    values = {"train.total_timesteps": 100_000, "train.num_minibatches": 8}
    trial = trial_args(args, values)
    assert trial["train"]["minibatch_size"] == "auto"
    assert trial["train"]["evaluations"] == 10
    settings = trial_settings(args, trial, values)["train"]
    assert settings == {
        **{"total_timesteps": 100_000, "num_minibatches": 8},
        **{"minibatch_size": "auto", "evaluations": 10},
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train.gamma": 2.0}, r"\[train\] gamma must be a number in \[0, 1\], got 2"),
        ({"vec.num_envs": 0}, r"\[vec\] num_envs must be"),
        ({"env.size": "big"}, r"\[env\] size must be an integer, got 'big'"),
        ({"env.sise": 1}, "did you mean 'size'"),
        ({"policy.depth": 3}, r"no setting .depth. in \[policy\]"),
        ({"base.rnn_name": 3}, r"\[base\] rnn_name must be text or None, got 3"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(values, message):
    with pytest.raises(ConfigError, match=message):
        trial_args(configuration("puffer_squared"), values)
