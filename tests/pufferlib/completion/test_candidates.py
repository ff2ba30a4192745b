"""Which words may end a command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from pufferlib import cli, completion
from pufferlib.completion import candidates
from pufferlib.config.schema import BaseConfig, TrainConfig

VERBS = {name: (verb.summary, verb.argument) for name, verb in cli.VERBS.items()}
RUNS = ("puffer_squared_20260101_1", "puffer_squared_20260102_2", "puffer_pong_20260101_3")


BACKENDS = ["Serial", "Native", "Device", "Multiprocessing", "GymnasiumVector", "EnvPool", "Ray"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def words(line):
    return [word for word, _ in candidates(line, VERBS)]


def test_commands():
    assert words("puffer tr") == words(".venv/bin/puffer tr") == ["train"]
    assert {*cli.VERBS, "--help", "--version"} == {*words("puffer ")}
    assert words("puffer trains") == words("puffer trains ") == []
    assert dict(candidates("puffer ev", VERBS))["eval"] == cli.VERBS["eval"].summary


def test_environments():
    assert words("puffer train puffer_sq") == ["puffer_squared"]
    assert words("puffer train ") == [name for name in words("puffer train p") if name.startswith("puffer_")]
    assert {"CartPole-v1", "CartPole-v0"} == {*words("puffer train CartP")}
    assert words("puffer train none") == []


def test_environments_of_a_family_that_has_to_be_imported():
    pytest.importorskip("ale_py", reason="the games of Atari are not installed")
    assert words("puffer eval AL") == ["ALE/Pong-v5"]
    assert {"ALE/Breakout-v5", "ALE/Boxing-v5"} <= {*words("puffer eval ALE/B")}


def test_flags_and_their_sections():
    found = words("puffer train puffer_squared --")
    assert {"--config", "--resume", "--help", "--train.", "--env."} <= {*found} and "--headless" not in found
    assert "--headless" in words("puffer eval puffer_squared --h")
    assert "--env-name" not in found
    assert words("puffer train puffer_squared --train.learning-r") == ["--train.learning-rate"]
    assert len(words("puffer train puffer_squared --train.")) == len(TrainConfig.settings())
    assert "--env.size" in words("puffer train puffer_squared --env.")
    assert "--policy.hidden-size" in words("puffer train puffer_squared --policy.")
    assert words("puffer train --conf") == ["--config"]  # whose file may name the environment
    meanings = dict(candidates("puffer train puffer_squared --load", VERBS))
    assert meanings == {"--load-model-path": "The weights to start from"}


def test_settings_of_the_game_of_a_match():
    assert "--env" in words("puffer match --e") and "--env.bot-depth" not in words("puffer match bot random --env.")
    assert "--env.bot-depth" in words("puffer match bot random --env puffer_connect4 --env.b")
    assert "--env.bot-depth" in words("puffer match experiments/puffer_connect4_20260101_1 random --env.b")
    assert words("puffer match puffer_hex random --env.swap ") == ["True", "False"]


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("--train.optimizer", ["muon", "adam", "sgd"]),
        ("--train.device", ["auto", "cpu", "cuda", "mps"]),
        ("--train.anneal-lr", ["True", "False"]),
        ("--train.anneal_lr", ["True", "False"]),
        ("--headless", ["True", "False"]),
        ("--rnn-name", ["MinGRU", "LSTM", "None"]),
        (
            "--vec.backend",
            ["auto", "Serial", "Native", "Device", "Multiprocessing", "GymnasiumVector", "EnvPool", "Ray"],
        ),
        ("--env.continuous", ["True", "False"]),
        ("--env.num-envs", ["auto"]),
        ("--train.gamma", []),  # numbers, texts and unknown flags: files, if anything
        ("--config", []),
        ("--trian.gamma", []),
    ],
)
def test_values(flag, values):
    line = f"puffer eval puffer_cartpole {flag}"
    assert words(f"{line} ") == values
    assert words(f"{line}=") == [f"{flag}={value}" for value in values]
    assert words(f"puffer eval puffer_cartpole --train.seed 3 {flag} ") == values


def test_runs(tmp_path):
    for name in RUNS:
        (tmp_path / "experiments" / name).mkdir(parents=True)
        (tmp_path / "experiments" / name / "config.json").touch()
    (tmp_path / "experiments" / "notes").mkdir()
    assert words("puffer plot ") == ["latest", *sorted(RUNS)]
    assert words(f"puffer plot {RUNS[0]} puffer_p") == [RUNS[2]]
    assert words("puffer train puffer_squared --resume ") == ["latest", *RUNS[:2]]
    assert words("puffer eval puffer_squared --load-model-path ") == ["latest", "last", "best"]


def test_words_of_commands_without_an_environment():
    assert {"ocean", "classic_control"} <= {*words("puffer envs ")}
    assert words("puffer completion ") == ["bash", "zsh", "fish"]
    assert words("puffer completion bash ") == []


def test_nothing_of_the_users_is_run():
    Path("my_module.py").write_text("raise SystemExit('it was imported')")
    assert words("puffer train my_module:Env-v0 --env.") == []


@pytest.mark.quick("puffer -torch numpy gymnasium")
@pytest.mark.parametrize(
    ("line", "unwanted"),
    [
        ("puffer ", "torch numpy gymnasium"),
        ("puffer train --train.", "torch numpy gymnasium"),
        ("puffer train C", "torch"),
        ("puffer train puffer_squared --env.", "torch"),
    ],
)
def test_pressing_tab_never_waits_for_torch(line, unwanted):
    code = (
        "import sys; from pufferlib.cli import main; assert main(['--complete', sys.argv[1]]) == 0;"
        "found = {*sys.argv[2].split()} & {*sys.modules}; assert not found, found"
    )
    command = [sys.executable, "-c", code, line, unwanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_settings_with_words_of_their_own_exist():
    assert {*completion._TEXTS} <= {*TrainConfig.settings(), *BaseConfig.settings()}
