import pytest

from pufferlib.config import load_config
from pufferlib.sweep.command import best_ini
from pufferlib.sweep.space import trial_args, trial_settings

BREAKOUT = "puffer_breakout"


def test_a_trials_configuration_comes_back_from_its_file(tmp_path):
    args = load_config(BREAKOUT, argv=["--train.device", "cpu"])
    values = {
        "train.learning_rate": 0.012345678901234567,
        "train.total_timesteps": 12_345_678,
        "train.gamma": 1e-05,
        "train.optimizer": "adam",
        "train.target_kl": None,
        "train.minibatch_size": 5000,
        "policy.hidden_size": 128,
        "base.rnn_name": "LSTM",
        "env.frameskip": 2,
    }
    trial = trial_args(args, values)
    path = tmp_path / "best.ini"
    path.write_text(best_ini(BREAKOUT, trial_settings(args, trial, values), ["score 800", "of 100\ntrials"]))
    assert path.read_text().startswith(
        f"; score 800\n; of 100 trials\n; puffer train {BREAKOUT} --config THIS_FILE\n\n"
    )
    again = load_config(BREAKOUT, argv=["--train.device", "cpu"], config=path)
    assert {name: value for name, value in again.items() if name != "sweep"} == trial
    assert path.read_text().count("=") == len(values) + 1  # with the width that had to follow


VALUES = ["a", "64", "None", [1, 2], "a;b", (64, 64), "it's", "two\nlines", True, "", "~/x", 1e22]


@pytest.mark.parametrize("value", VALUES)
def test_values_of_policies_come_back_as_they_were(tmp_path, value):
    path = tmp_path / "best.ini"
    path.write_text(best_ini(BREAKOUT, {"policy": {"x": value}}, []))
    found = load_config(BREAKOUT, config=path)["policy"]["x"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("value", [object(), "a ; b"])
def test_what_an_ini_cannot_hold_is_left_out(tmp_path, value):
    path = tmp_path / "best.ini"
    path.write_text(best_ini(BREAKOUT, {"policy": {"x": value, "hidden_size": 64}}, []))
    assert "\n; x is left out, as an ini cannot hold it\nhidden_size = 64\n" in path.read_text()
    assert load_config(BREAKOUT, config=path)["policy"]["hidden_size"] == 64
