import copy

import pytest

from pufferlib.config import TrainConfig, load_config, resolve_sizes
from pufferlib.errors import ConfigError
from pufferlib.sweep.trial_config import (
    num_agents,
    trial_args,
    trial_settings,
)


def configuration(env_name="puffer_cartpole", *flags):
    return load_config(env_name, argv=["--train.device", "cpu", *flags])


def test_a_trial_is_a_copy_with_the_values_put_in():
    args = configuration()
    before = copy.deepcopy(args)
    values = {"train.learning_rate": 0.5, "policy.hidden_size": 32, "base.policy_name": "Other", "env.continuous": True}
    trial, notes = trial_args(args, values, cores=2)
    assert args == before and notes == []
    assert trial["train"] == {**args["train"], "learning_rate": 0.5} and trial["policy_name"] == "Other"
    assert trial["policy"] == {**args["policy"], "hidden_size": 32} and trial["env"]["continuous"] is True
    assert "sweep" not in trial
    assert trial_settings(args, trial, values) == {
        "train": {"learning_rate": 0.5},
        "policy": {"hidden_size": 32},
        "base": {"policy_name": "Other"},
        "env": {"continuous": True},
    }


def test_sizes_are_repaired_and_told():
    args = configuration()
    values = {"train.bptt_horizon": 16, "train.minibatch_size": 32_768, "train.total_timesteps": 10}
    trial, notes = trial_args(args, values, cores=2)
    assert trial["train"]["minibatch_size"] == trial["train"]["total_timesteps"] == 16_384
    assert len(notes) == 2 and "[train] minibatch_size is 16384 instead of 32768: " in notes[0]
    resolve_sizes(TrainConfig.from_dict(trial["train"]), 1024, "cpu")
    assert trial_settings(args, trial, values)["train"] == {
        "bptt_horizon": 16,
        "minibatch_size": 16_384,
        "total_timesteps": 16_384,
    }


@pytest.mark.parametrize(("batch", "envs", "fitted"), [(8192, 256, 8192), (100_000, 1024, 98_304), (5, 1, 5)])
def test_environments_follow_the_batch_where_their_number_is_automatic(batch, envs, fitted):
    args = configuration()
    trial, notes = trial_args(args, {"train.batch_size": batch, "train.minibatch_size": "auto"}, cores=2)
    assert num_agents(trial, "cpu") == envs and trial["train"]["batch_size"] == fitted
    assert bool(notes) == (envs != 1024 or batch != fitted)


@pytest.mark.parametrize(
    ("values", "horizon", "fitted"),
    [
        ({"batch_size": 1024}, 16, 1024),
        ({"batch_size": 1000}, 16, 1024),
        ({"batch_size": 5000}, 32, 4096),
        ({"batch_size": 1}, 1, 64),
        ({"batch_size": 1024, "bptt_horizon": 64}, 64, 4096),
    ],
)
def test_segments_follow_a_batch_that_is_too_small_for_the_environments(values, horizon, fitted):
    args = configuration("puffer_cartpole", "--env.num-envs", "64")
    train = trial_args(args, {f"train.{name}": value for name, value in values.items()}, 2)[0]["train"]
    assert (train["bptt_horizon"], train["batch_size"]) == (horizon, fitted)


@pytest.mark.parametrize("name", ["policy.hidden_size", "rnn.hidden_size"])
def test_the_widths_of_policy_and_recurrent_layer_stay_the_same(name):
    args = configuration("puffer_breakout", "--rnn.input-size", "64")
    trial, notes = trial_args(args, {name: 128}, cores=2)
    assert (trial["policy"]["hidden_size"], trial["rnn"]["hidden_size"], trial["rnn"]["input_size"]) == (128,) * 3
    assert len(notes) == 2 and f": it must be {name}" in notes[0]
    assert trial_args(configuration("puffer_cartpole"), {"policy.hidden_size": 128}, 2)[1] == []
    both, _ = trial_args(args, {"rnn.hidden_size": 32, "policy.hidden_size": 96}, cores=2)
    assert both["rnn"]["hidden_size"] == both["policy"]["hidden_size"] == 96


def test_what_would_have_no_effect_has_one():
    args = configuration("puffer_cartpole", "--train.num-iterations", "5", "--sweep.metric", "eval/return_mean")
    values = {"train.total_timesteps": 100_000, "train.num_minibatches": 8}
    trial, notes = trial_args(args, values, cores=2)
    assert trial["train"]["num_iterations"] is None and trial["train"]["minibatch_size"] == "auto"
    assert trial["train"]["evaluations"] == 10 and len(notes) == 3
    settings = trial_settings(args, trial, values)["train"]
    assert settings == {
        **{"total_timesteps": 100_000, "num_minibatches": 8},
        **{"num_iterations": None, "minibatch_size": "auto", "evaluations": 10},
    }


def test_a_trial_has_no_more_workers_than_cores():
    assert trial_args(configuration("puffer_cartpole", "--vec.num-workers", "2"), {}, 2)[0]["vec"]["num_workers"] == 2
    trial, notes = trial_args(configuration("puffer_cartpole", "--vec.num-workers", "8"), {}, cores=2)
    assert trial["vec"]["num_workers"] == "auto" and "the trial may use 2 cores" in notes[0]


@pytest.mark.parametrize(
    ("env_name", "flags", "agents"),
    [
        ("puffer_cartpole", "", 1024),
        ("puffer_cartpole", "--vec.num-envs 4", 1024),
        ("puffer_template", "--vec.num-envs 2", 2048),
        ("CartPole-v1", "", 8),
        ("CartPole-v1", "--vec.num-envs auto", 16),
    ],
)
def test_agents_are_counted_without_environments(env_name, flags, agents):
    assert num_agents(configuration(env_name, *flags.split()), "cpu") == agents


def test_agents_that_only_environments_can_tell_are_left_to_them():
    args = {**configuration("CartPole-v1"), "env_name": lambda buf=None, seed=0: None}
    assert num_agents(args, "cpu") is None


def test_environments_that_are_there_tell_the_rest(monkeypatch):
    args = configuration("CartPole-v1")
    monkeypatch.setattr("pufferlib.sweep.trial_config.num_agents", lambda args, device_type: None)
    trial, notes = trial_args(args, {"train.minibatch_size": 1000, "train.batch_size": 1000}, cores=2)
    assert notes == [] and trial["train"]["minibatch_size"] == 1000


def test_gymnasiums_minibatches_divide_the_batch():
    trial, notes = trial_args(configuration("CartPole-v1"), {"train.minibatch_size": 1000}, cores=2)
    assert trial["train"]["minibatch_size"] == 256 and len(notes) == 1


@pytest.mark.parametrize(
    ("flags", "values", "message"),
    [
        ("", {"train.gamma": 2.0}, r"\[train\] gamma must be a number in \[0, 1\], got 2"),
        ("", {"vec.num_envs": 0}, r"\[vec\] num_envs must be"),
        ("", {"env.size": "big"}, r"\[env\] size must be an integer, got 'big'"),
        ("", {"env.sise": 1}, "did you mean 'size'"),
        ("", {"base.rnn_name": 3}, r"\[base\] rnn_name must be text or None, got 3"),
        ("--resume latest", {}, "got --resume latest; leave it out"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(flags, values, message):
    with pytest.raises(ConfigError, match=message):
        trial_args(configuration("puffer_squared", *flags.split()), values, cores=2)
