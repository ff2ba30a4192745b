import pytest

from pufferlib import cli
from pufferlib.config import load_config
from pufferlib.errors import ConfigError

SQUARED = "puffer_squared"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "best.ini"
    path.write_text(
        "; a comment\n[base]\npackage = other\nenv_name = puffer_squared\nrnn_name = LSTM\n[env]\nsize = 5\n"
        "[train]\ngamma = 0.5\nlearning_rate = 0.5\n[sweep.train.gamma]\nmax = 0.99\n"
    )
    return path


@pytest.fixture
def played(monkeypatch):
    """The configuration that `puffer bench` gets."""
    calls = []
    monkeypatch.setattr("pufferlib.play.benchmark.bench_command", lambda name, args, **options: calls.append(args))
    return calls


def test_a_file_comes_after_the_environment_and_before_the_flags(file):
    args = load_config(SQUARED, argv=["--train.gamma", "0.6", "--config", str(file)])
    assert (args["package"], args["env_name"], args["rnn_name"]) == ("ocean", SQUARED, "LSTM")
    assert (args["train"]["gamma"], args["train"]["learning_rate"], args["env"]["size"]) == (0.6, 0.5, 5)
    assert args["train"]["bptt_horizon"] == load_config(SQUARED)["train"]["bptt_horizon"]
    assert args["sweep"]["train"]["gamma"] == {"distribution": "logit_normal", "min": 0.95, "max": 0.99}
    assert load_config(SQUARED, config=file, argv=["--train.gamma=0.6"]) == args


def test_the_command_line_takes_files(file, played, monkeypatch):
    second = file.with_name("second.ini")
    second.write_text("[env]\nsize = 6\n")
    monkeypatch.setenv("PUFFER_FLAGS", "--train.gamma 0.7")
    assert cli.main(["bench", SQUARED, "--seconds", "1", "--config", str(file), f"--config={second}"]) == 0
    assert (played[0]["train"]["gamma"], played[0]["env"]["size"], played[0]["rnn_name"]) == (0.7, 6, "LSTM")


def test_what_a_file_names_counts_over_what_a_run_was_begun_with(file):
    found = []
    cli.VERBS["stare"] = cli.Verb("look", found.append, "BenchOptions")
    try:
        assert cli.main(["stare", SQUARED, "--config", str(file)]) == 0
    finally:
        del cli.VERBS["stare"]
    saved = {"train": {"gamma": 0.1, "seed": 3}, "env": {}, "sweep": {}}
    assert found[0].flags_over(saved, but="resume")["train"] == {"gamma": 0.5, "seed": 3, "learning_rate": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\ngama = 1\n", r"best.ini: there is no setting 'gama' in \[train\]; did you mean 'gamma'"),
        ("[trian]\ngamma = 1\n", r"best.ini: there is no section \[trian\]; did you mean 'train'"),
        ("[base]\nenv_name = puffer_pong\n", "best.ini must be for puffer_squared, found one for puffer_pong"),
        ("gamma\n", "best.ini must be an ini file"),
        (None, r"--config must name a file of settings, got '.*best.ini' \(No such file"),
    ],
)
def test_a_mistake_in_a_file_names_it(tmp_path, text, message):
    path = tmp_path / "best.ini"
    if text is not None:
        path.write_text(text)
    for call in (lambda: load_config(SQUARED, config=path), lambda: load_config(SQUARED, ["--config", str(path)])):
        with pytest.raises(ConfigError, match=message):
            call()


def test_help_tells_of_it(capsys):
    assert cli.main(["train", "--help"]) == 0
    assert "--config None\n" in capsys.readouterr().out
