import copy

import pytest

from pufferlib.config import load_config
from pufferlib.errors import ConfigError
from pufferlib.sweep.trial_config import trial_args, trial_settings


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


@pytest.mark.parametrize(("batch", "envs"), [(8192, 128), (100_000, 1024), (5, 1)])
def test_environments_follow_the_batch_where_their_number_is_automatic(batch, envs):
    args = configuration()
    trial, notes = trial_args(args, {"train.batch_size": batch, "train.bptt_horizon": 64}, cores=2)
    assert trial["env"]["num_envs"] == ("auto" if envs == 1024 else envs) and len(notes) == (envs != 1024)


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
