import subprocess
import sys

import pytest

from pufferlib import ocean
from pufferlib.config import (
    TrainConfig,
    VecConfig,
    check_section,
    load_config,
)
from pufferlib.config.flags import FlagTable
from pufferlib.errors import APIUsageError, ConfigError, UnknownEnvironmentError

SQUARED = "puffer_squared"


@pytest.fixture
def ini(tmp_path, monkeypatch):
    """Writes an ini in place of squared's own."""
    path = tmp_path / "squared.ini"
    monkeypatch.setattr(ocean, "config_path", lambda name: path)

    def write(text):
        path.write_text(text)

    return write


def test_load_config_has_the_documented_shape():
    args = load_config(SQUARED)
    assert {name for name, value in args.items() if isinstance(value, dict)} >= {"vec", "env", "policy", "rnn", "train"}
    assert args["env_name"] == SQUARED and args["package"] == "ocean"
    assert args["policy_name"] == "Default"
    assert args["load_model_path"] is None and args["resume"] is None
    assert args["train"].keys() == TrainConfig.settings().keys()
    assert args["vec"].keys() == VecConfig.settings().keys()


@pytest.mark.parametrize("name", ocean.names())
def test_every_environment_has_a_valid_configuration(name):
    args = load_config(name)
    assert args["env_name"] == name
    TrainConfig.from_dict(args["train"])
    VecConfig.from_dict(args["vec"])
    check_section("env", args["env"], name)


def test_load_config_ignores_the_host_program_and_its_folder(monkeypatch, tmp_path):
    before = load_config(SQUARED)
    monkeypatch.setattr(sys, "argv", ["host", "--train.gamma", "0.1", "--nonsense"])
    monkeypatch.chdir(tmp_path)
    assert load_config(SQUARED) == before
    assert not list(tmp_path.iterdir())


def test_editing_one_configuration_leaves_the_next_alone():
    first = load_config(SQUARED)
    first["train"]["gamma"] = 0.1
    first["env"].clear()
    assert load_config(SQUARED) != first
    assert load_config(SQUARED)["env"]


def test_the_environment_overrides_the_defaults(ini):
    ini("[base]\nrnn_name = LSTM\n[train]\ngamma = 0.5  ; a comment\n[policy]\nhidden_size = 64\n")
    args = load_config(SQUARED)
    assert args["rnn_name"] == "LSTM" and args["train"]["gamma"] == 0.5
    assert args["policy"] == {"hidden_size": 64}
    assert "solve" not in args


def test_the_learning_threshold_is_part_of_the_configuration(ini):
    ini("[solve]\nmetric = score\nthreshold = 800\n")
    assert load_config(SQUARED)["solve"] == {"metric": "score", "threshold": 800.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trian]\ngamma = 1\n", r"no section \[trian\]; did you mean 'train'"),
        ("[train]\ngama = 1\n", r"no setting 'gama' in \[train\]; did you mean 'gamma'"),
        ("[train]\ngamma = 2\n", r"gamma must be a number in \[0, 1\], got 2"),
        ("[train]\nGamma = 1\n", "'Gamma'"),
        ("[env]\nsise = 3\n", r"no setting 'sise' in \[env\]; did you mean 'size'"),
        ("[env]\nsize = big\n", "size must be an integer, got 'big'"),
        ("gamma = 1\n", "must be an ini file"),
        ("[train]\ngamma = 1\ngamma = 1\n", "must be an ini file"),
    ],
)
def test_a_mistake_in_an_ini_names_the_file_and_the_remedy(ini, text, message):
    ini(text)
    with pytest.raises(ConfigError, match=message) as error:
        load_config(SQUARED)
    assert "squared.ini" in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_environment_names_the_nearest():
    with pytest.raises(UnknownEnvironmentError, match="puffer_squared"):
        load_config("puffer_sqared")


def test_loading_a_configuration_needs_no_torch():
    code = (
        f"import sys; from pufferlib.config import load_config; load_config({SQUARED!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("flags", "shuffle"),
    [
        ([], "steps"),
        (["--rnn-name", "LSTM"], "segments"),
        (["--train.shuffle", "steps", "--rnn-name", "LSTM"], "steps"),
        (["--rnn-name", "None"], "steps"),
    ],
)
def test_a_recurrent_layer_takes_segments_unless_told(flags, shuffle):
    assert load_config("CartPole-v1", flags)["train"]["shuffle"] == shuffle


def test_flags_come_after_the_inis(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--train.gamma", "0.1"])
    flags = "--train.gamma 0.5 --rnn-name=LSTM --env.size 5 --policy.hidden-size 8 --resume latest"
    args = load_config(SQUARED, argv=flags.split())
    assert (args["train"]["gamma"], args["rnn_name"], args["resume"]) == (0.5, "LSTM", "latest")
    assert (args["env"]["size"], args["policy"]["hidden_size"]) == (5, 8)
    assert load_config(SQUARED, argv=[]) == load_config(SQUARED)
    creator = ocean.env_class(SQUARED)  # something to call has no name to look its settings up by
    assert load_config(creator, argv=["--env.size", "7"])["env"] == {"size": 7}


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["--train.gama", "1"], ConfigError, "there is no flag --train.gama; did you mean '--train.gamma'"),
        (["--train.gamma", "2"], ConfigError, r"gamma must be a number in \[0, 1\], got 2"),
        (["--zzz"], ConfigError, "`puffer train puffer_squared --help` lists them all"),
        (["train"], ConfigError, "expected a flag such as --train.seed 1, got 'train'"),
        ("--train.gamma 1", APIUsageError, r"argv must be a list of texts, such as sys.argv\[1:\], got '--train"),
        ([1], APIUsageError, r"argv must be a list of texts"),
    ],
)
def test_a_wrong_flag_is_one_sentence(argv, error, message):
    with pytest.raises(error, match=message):
        load_config(SQUARED, argv=argv)


def test_an_unknown_flag_names_the_help_of_its_own_command():
    with pytest.raises(ConfigError, match="`puffer eval puffer_squared --help` lists them all"):
        FlagTable(SQUARED, "eval").parse(["--zzz", "1"])
