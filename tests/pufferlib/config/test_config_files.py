import json
from pathlib import Path

import pytest

from pufferlib import cli
from pufferlib.config import load_config
from pufferlib.config.flags import BenchOptions
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
    monkeypatch.setattr("pufferlib.play.environments.bench_command", lambda name, args, **options: calls.append(args))
    return calls


@pytest.mark.parametrize(
    ("lines", "flags", "expected"),
    [
        ("minibatch_size = 4096", ["--train.num-minibatches", "8"], {"minibatch_size": "auto", "num_minibatches": 8}),
        ("num_iterations = 7", ["--train.total-timesteps", "1e6"], {"num_iterations": None}),
        ("shuffle = steps", ["--rnn-name", "LSTM"], {"shuffle": "segments"}),
        ("shuffle = segments", ["--rnn-name", "LSTM", "--train.shuffle", "steps"], {"shuffle": "steps"}),
    ],
)
def test_a_flag_takes_out_what_would_count_in_its_place_in_a_file_too(tmp_path, lines, flags, expected):
    path = tmp_path / "mine.ini"
    path.write_text(f"[train]\n{lines}\n")
    by_flag = load_config(SQUARED, argv=["--config", str(path), *flags])
    assert {name: by_flag["train"][name] for name in expected} == expected
    assert load_config(SQUARED, argv=flags, config=path) == by_flag


@pytest.mark.parametrize("name", [5, ["x"]])
def test_a_description_whose_environment_is_no_text_is_one_sentence(tmp_path, name):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"settings": {"env_name": name, "train": {}}}))
    with pytest.raises(ConfigError, match="must be for puffer_squared, found one for"):
        load_config(SQUARED, config=path)


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


def described(path, env_name=SQUARED, **changes):
    """A run's config.json of its own settings, as a trainer writes it."""
    settings = load_config(env_name, argv=["--train.gamma", "0.5", "--rnn-name", "LSTM", "--rnn.hidden-size", "32"])
    settings |= {"resume": "experiments/another", "load_model_path": "latest", **changes}
    settings["train"]["data_dir"] = "elsewhere"
    path.write_text(json.dumps({"settings": settings, "versions": {}}))
    return path


def test_a_file_may_be_the_description_of_a_run(tmp_path):
    path = described(tmp_path / "config.json")
    args = load_config(SQUARED, argv=["--config", str(path), "--train.seed", "3"])
    expected = load_config(SQUARED, ["--train.gamma=0.5", "--rnn-name=LSTM", "--rnn.hidden-size=32", "--train.seed=3"])
    assert args == expected  # neither where it lay, nor what it went on with or began from
    assert load_config(SQUARED, ["--config", str(path), "--train.gamma", "0.6"])["train"]["gamma"] == 0.6


def test_steps_count_over_the_iterations_before_them(tmp_path):
    path = described(tmp_path / "config.json")
    path.write_text(path.read_text().replace('"num_iterations": null', '"num_iterations": 2'))
    for flags, iterations in (
        ([], 2),
        (["--train.total-timesteps", "6000"], None),
        (["--train.num-iterations", "3", "--train.total-timesteps", "6000"], None),
        (["--train.total-timesteps", "6000", "--train.num-iterations", "3"], 3),
    ):
        assert load_config(SQUARED, flags, config=path)["train"]["num_iterations"] == iterations
        assert load_config(SQUARED, ["--config", str(path), *flags])["train"]["num_iterations"] == iterations


def test_minibatches_that_are_counted_stand_in_for_their_size_before(tmp_path):
    path = tmp_path / "my.ini"
    path.write_text("[train]\nnum_minibatches = 8\n")
    size = load_config(SQUARED, [])["train"]["minibatch_size"]
    assert size != "auto"
    for flags, expected in (
        ([], size),
        (["--train.num-minibatches", "8"], "auto"),
        (["--config", str(path)], "auto"),
        (["--config", str(path), "--train.minibatch-size", "512"], 512),
        (["--train.minibatch-size", "512", "--train.num-minibatches", "8"], 512),
    ):
        assert load_config(SQUARED, flags)["train"]["minibatch_size"] == expected


def test_an_ini_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "my.ini"
    path.write_bytes("\ufeff[train]\ngamma = 0.5\n".encode())
    assert load_config(SQUARED, config=path)["train"]["gamma"] == 0.5


def test_the_description_of_a_run_keeps_the_values_that_its_sweep_chose_from(tmp_path):
    choices = {"train": {"minibatch_size": [1024, 4096]}, "env": {"size": [3, 5]}}
    path = described(tmp_path / "config.json", sweep=load_config(SQUARED)["sweep"] | choices)
    sweep = load_config(SQUARED, config=path)["sweep"]
    assert (sweep["train"]["minibatch_size"], sweep["env"]["size"]) == ([1024, 4096], [3, 5])
    with pytest.raises(ConfigError, match="'sise'"):
        load_config(SQUARED, config=described(path, sweep={"env": {"sise": [3]}}))


def test_the_description_of_another_environments_run_is_refused(tmp_path):
    path = described(tmp_path / "config.json", "puffer_cartpole")
    with pytest.raises(ConfigError, match="must be for puffer_squared, found one for puffer_cartpole"):
        load_config(SQUARED, config=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"settings": {"train": {"gama": 1}}}', r"config.json: there is no setting 'gama' in \[train\]"),
        ('{"settings": {"train": {"gamma": "x"}}}', r"config.json: \[train\] gamma must be a number"),
        ('{"settings": {"train": {}, "trian": {}}}', r"config.json: there is no section \[trian\]"),
        ('{"settings": {"train": {}, "env": {"sise": 3}}}', r"config.json: there is no setting 'sise' in \[env\]"),
        ('{"settings": {"train": {}, "sweep": {"train": {"gamma": {"mix": 1}}}}}', r"config.json: .*'mix'"),
        ('{"settings": {}}', "must be an ini file or the config.json of a run, found neither"),
        ('{"agent_steps": 3}\n{"agent_steps": 4}\n', "must be an ini file or the config.json of a run, found neither"),
    ],
)
def test_a_mistake_in_a_description_names_it(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_config(SQUARED, config=path)


@pytest.fixture
def stared(monkeypatch):
    """The configurations that a command of no effect is called with."""
    found = []
    verb = cli.Verb("look", "builtins:dict", settings=lambda args, options, flags: found.append((args, flags)))
    monkeypatch.setattr(cli.Verb, "call", lambda *_, options: None)
    monkeypatch.setitem(cli.VERBS, "stare", verb)
    monkeypatch.setattr("pufferlib.config.flags.StareOptions", BenchOptions, raising=False)
    return found


def test_what_a_file_names_counts_over_what_a_run_was_begun_with(file, stared):
    assert cli.main(["stare", SQUARED, "--config", str(file)]) == 0
    saved = {"train": {"gamma": 0.1, "seed": 3}, "env": {}, "sweep": {}}
    _, flags = stared[0]
    found = cli.flags_over(saved, flags, but="resume")["train"]
    assert found == {"gamma": 0.5, "seed": 3, "learning_rate": 0.5, "shuffle": "segments"}  # by its rnn_name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\ngama = 1\n", r"best.ini: there is no setting 'gama' in \[train\]; did you mean 'gamma'"),
        ("[trian]\ngamma = 1\n", r"best.ini: there is no section \[trian\]; did you mean 'train'"),
        ("[base]\nenv_name = puffer_pong\n", "best.ini must be for puffer_squared, found one for puffer_pong"),
        (
            "[sweep.train.gamma]\nvalues = [0.9, 0.99]\n",
            "a list of values is for the search space of a sweep in Python",
        ),
        ("[DEFAULT]\ngamma = 1\n", r"best.ini: there is no section \[DEFAULT\]"),
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


@pytest.mark.parametrize(
    "form", ["--config {}", "--config={}", "--train.seed 3 --config {}", "--config {} --seconds 1"]
)
def test_a_file_may_name_the_environment(tmp_path, stared, form):
    path = tmp_path / "my.ini"
    path.write_text("[base]\nenv_name = puffer_cartpole\n[train]\ngamma = 0.5\n")
    assert cli.main(["stare", *form.format(path).split()]) == 0
    args, _ = stared[0]
    assert (args["env_name"], args["train"]["gamma"]) == ("puffer_cartpole", 0.5)


def test_a_description_of_a_run_names_the_environment(tmp_path, stared):
    assert cli.main(["stare", "--config", str(described(tmp_path / "config.json", "puffer_cartpole"))]) == 0
    args, _ = stared[0]
    assert (args["env_name"], args["train"]["gamma"]) == ("puffer_cartpole", 0.5)


STRANGE = "raise SystemExit('this was imported')\n"


@pytest.mark.usefixtures("in_tmp_path")
def test_a_description_of_a_run_imports_nothing_that_is_not_typed(stared, capsys):
    Path("strange.py").write_text(STRANGE)
    file = described(Path("config.json"))
    told = json.loads(file.read_text())
    told["settings"]["env_name"] = "strange:Env"
    Path("env.json").write_text(json.dumps(told))
    assert cli.main(["stare", "--config", "env.json"]) == 2
    assert "env.json is for the environment strange:Env, and a module is imported only" in capsys.readouterr().err
    described(Path("policy.json"), policy_name="strange:Net")
    assert cli.main(["stare", SQUARED, "--config", "policy.json"]) == 2
    assert "only where you name it yourself; add --policy-name strange:Net if you trust it" in capsys.readouterr().err
    told["settings"] |= {"env_name": SQUARED, "sweep": {"base": {"policy_name": ["Default", "strange:Net"]}}}
    Path("sweep.json").write_text(json.dumps(told))
    assert cli.main(["stare", SQUARED, "--config", "sweep.json"]) == 2
    assert "sweep.json is for a sweep over policies in modules" in capsys.readouterr().err
    assert not stared


@pytest.mark.usefixtures("in_tmp_path")
def test_what_is_typed_may_be_a_module_that_a_description_names_too(stared, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("own_net.py").write_text("from pufferlib.models import Default\n\n\nclass Net(Default):\n    pass\n")
    described(Path("policy.json"), policy_name="own_net:Net")
    assert cli.main(["stare", SQUARED, "--config", "policy.json", "--policy-name", "own_net:Net"]) == 0
    assert stared[0][0]["policy_name"] == "own_net:Net" and stared[0][0]["train"]["gamma"] == 0.5
    Path("own.ini").write_text("[base]\npolicy_name = own_net:Net\n")
    assert cli.main(["stare", SQUARED, "--config", "own.ini"]) == 0


def test_the_first_file_that_names_one_counts_and_others_must_be_for_it(tmp_path, stared, capsys):
    texts = {"rate.ini": "[train]\ngamma = 0.5\n", "pole.ini": "[base]\nenv_name = puffer_cartpole\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    flags = [f"--config={tmp_path / name}" for name in texts]
    assert cli.main(["stare", *flags]) == 0 and stared[0][0]["env_name"] == "puffer_cartpole"
    assert cli.main(["stare", SQUARED, *flags]) == 2
    assert "pole.ini must be for puffer_squared, found one for puffer_cartpole" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--config rate.ini", "needs an environment right after 'stare', or the file of a --config that names one"),
        ("--config", "needs an environment right after 'stare'"),
        ("--config none.ini", "--config must name a file of settings, got 'none.ini' (No such file or directory)"),
        ("rate.ini", "a file of settings comes after --config, got 'rate.ini' alone; `puffer stare --config rate.ini`"),
    ],
)
@pytest.mark.usefixtures("in_tmp_path")
def test_where_nothing_names_an_environment_it_says_so(stared, capsys, words, message):
    Path("rate.ini").write_text("[train]\ngamma = 0.5\n")
    assert cli.main(["stare", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_help_tells_of_it(capsys):
    assert cli.main(["train", "--help"]) == 0
    assert "--config None\n" in capsys.readouterr().out
