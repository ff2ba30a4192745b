import errno
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import sysconfig
import types
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import pufferlib
from pufferlib import cli, ocean
from pufferlib.config import TrainConfig, VecConfig
from pufferlib.config.flags import BenchOptions, EvalOptions
from pufferlib.errors import CheckpointError, PufferWarning
from pufferlib.play import environments

SQUARED = "puffer_squared"


@pytest.fixture
def calls(monkeypatch):
    """Records what the command line hands to the trainer and the evaluation, without importing torch."""
    recorded = []
    trainer = types.ModuleType("pufferlib.pufferl")
    trainer.train = lambda env_name, args: recorded.append((env_name, args))
    evaluating = types.ModuleType("pufferlib.watch.evaluating")
    evaluating.evaluate_command = lambda env_name, args, options: recorded.append((env_name, args, options))
    recorded_settings = types.ModuleType("pufferlib.runs.description")
    recorded_settings.run_settings = recorded_settings.model_settings = lambda env_name, args, *_: args
    recorded_settings.pretrained_path = None
    for module in (trainer, evaluating, recorded_settings):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("pufferlib.config.check_config", lambda args: None)
    return recorded


def trained(calls, *flags):
    assert cli.main(["train", SQUARED, *flags]) == 0
    return calls[-1][1]


def run_python(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600, check=False, **keywords
    )


# --- flags


@pytest.mark.parametrize(
    "flags",
    [
        ["--train.learning-rate", "0.5"],
        ["--train.learning_rate", "0.5"],
        ["--train.learning-rate=0.5"],
        ["--train.learning-rate", "0.1", "--train.learning-rate", "0.5"],
    ],
)
def test_a_flag_may_be_spelt_in_every_usual_way(calls, flags):
    assert trained(calls, *flags)["train"]["learning_rate"] == 0.5


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (["--train.anneal-lr", "False"], False),
        (["--train.anneal-lr=false"], False),
        (["--train.anneal-lr"], True),
        (["--train.anneal-lr", "--train.seed", "1"], True),
        (["--train.anneal-lr", "True"], True),
    ],
)
def test_booleans_switch_on_and_off(calls, flags, value):
    assert trained(calls, *flags)["train"]["anneal_lr"] is value


@pytest.mark.parametrize("text", ["1e6", "1_000_000", "1000000"])
def test_integers_may_be_written_as_people_write_them(calls, text):
    steps = trained(calls, "--train.total-timesteps", text)["train"]["total_timesteps"]
    assert steps == 1_000_000 and type(steps) is int


def test_the_recurrent_layer_switches_on_and_off(calls):
    assert trained(calls, "--rnn-name", "LSTM")["rnn_name"] == "LSTM"
    assert trained(calls, "--rnn-name", "None")["rnn_name"] is None
    assert trained(calls, "--base.rnn-name", "LSTM")["rnn_name"] == "LSTM"


def test_every_section_is_within_reach(calls):
    args = trained(
        calls,
        *("--vec.num-envs", "2", "--env.size", "5", "--policy.hidden-size", "64", "--rnn.hidden-size", "32"),
        *("--rnn-name", "LSTM", "--load-model-path", "latest", "--policy-name", "Convolutional"),
    )
    assert args["vec"]["num_envs"] == 2 and args["env"]["size"] == 5
    assert args["policy"]["hidden_size"] == 64 and args["rnn"]["hidden_size"] == 32
    assert (args["load_model_path"], args["policy_name"]) == ("latest", "Convolutional")


def test_evaluation_ends_by_itself_unless_told_when(calls):
    assert cli.main(["eval", SQUARED]) == 0
    assert calls[-1][2] == EvalOptions()
    assert cli.main(["eval", SQUARED, "--episodes", "7", "--sample", "--headless", "--train.device", "cpu"]) == 0
    assert calls[-1][2] == EvalOptions(episodes=7, sample=True, headless=True)
    assert calls[-1][1]["train"]["device"] == "cpu"


def test_evaluation_by_the_likeliest_actions_is_asked_for_in_every_way(calls):
    for flags, value in ((["--deterministic"], True), (["--deterministic", "False"], False), ([], None)):
        assert cli.main(["eval", SQUARED, *flags, "--episodes", "7"]) == 0
        assert calls[-1][2] == EvalOptions(episodes=7, deterministic=value)


def test_flags_of_the_shell_come_before_those_of_the_command(calls, monkeypatch):
    monkeypatch.setenv("PUFFER_FLAGS", "--train.seed 3 --train.total-timesteps=500_000")
    train = trained(calls, "--train.seed", "4")["train"]
    assert (train["seed"], train["total_timesteps"]) == (4, 500_000)
    assert cli.main(["envs"]) == 0  # which takes none


def test_a_flag_of_the_command_takes_out_what_the_shell_s_would_count_in_its_place(calls, monkeypatch):
    monkeypatch.setenv("PUFFER_FLAGS", "--train.minibatch-size 64 --train.shuffle steps")
    args = trained(calls, "--train.num-minibatches", "8", "--rnn-name", "MinGRU")
    assert (args["train"]["minibatch_size"], args["train"]["shuffle"]) == ("auto", "segments")


@pytest.mark.parametrize("text", ["--train.sed 3", "--train.tag 'one"])
def test_a_mistake_in_the_flags_of_the_shell_says_where_it_is(calls, monkeypatch, capsys, text):
    monkeypatch.setenv("PUFFER_FLAGS", text)
    assert cli.main(["train", SQUARED]) == 2
    assert capsys.readouterr().err.startswith("puffer: in PUFFER_FLAGS, ")


def test_a_verb_is_a_row_and_a_function(calls, capsys, monkeypatch):
    saved = {"resume": "folder", "env": {"size": 4}}

    def settings(args, options, flags):
        return cli.flags_over(saved, flags, but="resume")

    asked = stare(monkeypatch, None, summary="look at an environment", settings=settings)
    assert cli.main(["stare", SQUARED, "--seconds", "3", "--env.size", "5", "--resume", "latest"]) == 0
    options = {"options": BenchOptions(seconds=3.0)}
    assert asked == [((SQUARED, {"resume": "folder", "env": {"size": 5}}), options)]
    assert cli.main(["--help"]) == cli.main(["stare", "--help"]) == 0
    assert capsys.readouterr().out.count("look at an environment") == 2


def stare(monkeypatch, argument, options=BenchOptions, summary="look at runs", **more):
    """Adds a command; returns what its function is called with."""
    asked = []
    module = types.ModuleType("pufferlib.staring")
    module.stare = lambda *words, **given: asked.append((words, given))
    monkeypatch.setitem(sys.modules, "pufferlib.staring", module)
    monkeypatch.setitem(cli.VERBS, "stare", cli.Verb(summary, "staring:stare", argument, **more))
    monkeypatch.setattr("pufferlib.config.flags.StareOptions", options, raising=False)
    return asked


def test_a_verb_without_an_environment_takes_words_and_options(monkeypatch, capsys):
    asked = stare(monkeypatch, "RUN...", EvalOptions)
    command = "stare first --sample second --episodes 3 --no-headless third --max-steps=1e3"
    assert cli.main(command.split()) == 0
    given = EvalOptions(episodes=3, sample=True, headless=False, max_steps=1000)
    assert asked == [(("first", "second", "third"), {"options": given})]
    assert cli.main(["stare", "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: puffer stare RUN... [--option value ...]\n\nlook at runs\n")
    assert "--max-steps 20_000" in told


@pytest.mark.parametrize(
    ("argument", "words", "message"),
    [
        ("", "one", "takes no words, got 'one'"),
        ("RUN", "", "takes one RUN, got ''"),
        ("RUN", "one two", "takes one RUN, got 'one two'"),
        ("[RUN]", "one two", "takes one RUN at most, got 'one two'"),
        ("RUN...", "", "takes one RUN or more, got ''"),
        ("RUN", "one --secnds 3", "there is no flag --secnds; did you mean '--seconds'?"),
        ("RUN", "one -s", "there is no flag -s"),
        ("RUN", "one --seconds", "--seconds needs a value: a number in (0, inf)"),
        ("RUN", "one --no-seconds", "there is no flag --no-seconds"),
        ("RUN", "one --seconds 0", "seconds must be a number in (0, inf), got 0"),
    ],
)
def test_a_verb_without_an_environment_refuses_other_words_and_flags(monkeypatch, capsys, argument, words, message):
    asked = stare(monkeypatch, argument)
    assert cli.main(["stare", *words.split()]) == 2
    assert message in capsys.readouterr().err and asked == []


# --- mistakes


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("trian puffer_squared", "did you mean 'train'"),
        ("train", "needs an environment right after 'train'"),
        ("train --train.seed 1", "needs an environment right after 'train'"),
        ("train puffer_sqared", "did you mean 'puffer_squared'"),
        ("train puffer_squared --train.learing-rate 1", "did you mean '--train.learning-rate'"),
        ("train puffer_squared --learning-rate 1", "there is no flag --learning-rate"),
        ("train puffer_squared --seed 1", "did you mean '--train.seed' or '--vec.seed'"),
        ("train puffer_squared --learnin-rate 1", "did you mean '--train.learning-rate'"),
        ("train puffer_squared --trian.gamma 1", "did you mean '--train.gamma'"),
        ("train puffer_squared --train.lr 1", "there is no flag --train.lr; it is --train.learning-rate"),
        ("train puffer_squared --use-rnn", "there is no flag --use-rnn; the recurrent layer is --rnn-name: MinGRU"),
        ("train puffer_squared --mode train", "the command comes first, as in `puffer train"),
        ("train puffer_squared --env.mode 3", "there is no flag --env.mode; `puffer train puffer_squared --help`"),
        ("train puffer_squared --env.sise 3", "did you mean '--env.size'"),
        ("train puffer_squared --rnn-nam LSTM", "did you mean '--rnn-name'"),
        ("train puffer_squared --env-name puffer_pong", "there is no flag --env-name"),
        ("train puffer_squared --train.seed", "--train.seed needs a value: an integer"),
        ("train puffer_squared --train.seed --train.gamma 1", "--train.seed needs a value"),
        ("train puffer_squared --train.seed 1.5", "must be an integer"),
        ("train puffer_squared --train.compile maybe", "True or False, got 'maybe'"),
        ("train puffer_squared --train.gamma 2", "must be a number in [0, 1], got 2"),
        ("train puffer_squared train.gamma 1", "expected a flag"),
        ("train puffer_squared --episodes 3", "there is no flag --episodes"),
        (
            "bench puffer_breakout --rnn-name None --rnn.hidden-size 8",
            "--rnn.hidden-size needs a recurrent layer, found",
        ),
        ("eval puffer_squared --resume latest", "got --resume latest; --load-model-path latest takes the weights"),
        ("puffer_squared", "there is no command 'puffer_squared'; try `puffer train puffer_squared`"),
        ("eval puffer_squared --episodes 0", "episodes must be an integer in [1, inf), got 0"),
        ("bench puffer_squared --env.size 1", "size must be an integer from 2 to 128, got 1"),
        ("bench puffer_squared --resume latest", "no policy plays here, got --resume latest; leave it out"),
        ("play puffer_squared --load-model-path a.pt", "no policy plays here, got --load-model-path a.pt; leave it"),
        ("bench puffer_squared --env.num-envs 0", "num_envs"),
        ("envs atary", "there is no family of environments 'atary'; did you mean 'atari'"),
        ("envs atari mujoco", "takes one FAMILY at most"),
        ("train puffer_sqared --help", "did you mean 'puffer_squared'"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(calls, capsys, monkeypatch, tmp_path, command, words):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == 2
    out, err = capsys.readouterr()
    assert words in err and err.startswith("puffer: ") and err.count("\n") == 1
    assert out == "" and not calls and not list(tmp_path.iterdir())


def test_a_folder_of_a_run_in_place_of_the_environment_is_answered_with_its_flag(calls, capsys, tmp_path):
    (tmp_path / "config.json").touch()
    for name, flag in (("train", "--resume"), ("eval", "--load-model-path")):
        assert cli.main([name, str(tmp_path)]) == 2
        assert f"of a run; `puffer {name} ENV {flag} {tmp_path}`" in capsys.readouterr().err


def test_an_ini_may_have_settings_of_a_recurrent_layer_that_is_switched_off(calls):
    assert cli.main(["train", "puffer_breakout", "--rnn-name", "None"]) == 0
    assert calls[-1][1]["rnn"]


def fail_with(monkeypatch, error):
    def train(env_name, args):
        raise error

    monkeypatch.setattr(sys.modules["pufferlib.pufferl"], "train", train)


def test_what_the_trainer_finds_wrong_is_reported_the_same_way(calls, capsys, monkeypatch):
    fail_with(monkeypatch, CheckpointError("model.pt has no tensor encoder.weight"))
    assert cli.main(["train", SQUARED]) == 2
    assert capsys.readouterr().err == "puffer: model.pt has no tensor encoder.weight\n"


def test_control_c_ends_with_130_and_no_traceback(calls, capsys, monkeypatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    assert cli.main(["train", SQUARED]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator:\n can't allocate memory: 9 TB"),
    ],
)
def test_a_lack_of_memory_is_one_sentence(calls, capsys, monkeypatch, error):
    fail_with(monkeypatch, error)
    assert cli.main(["train", SQUARED]) == 2
    err = capsys.readouterr().err
    assert err.startswith("puffer: there is not enough memory (") and err.count("\n") == 1 and "have fewer" in err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA out of memory.\n Tried to allocate 2 GiB"), "memory on the GPU (CUDA out of memory. Tried"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "there is not enough memory ("),
        (OSError(errno.EMFILE, "Too many open files"), "allow more by `ulimit -n`"),
        (OSError(errno.ENFILE, "Too many open files in system"), "there are not enough file handles ("),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "allow more by `ulimit -u`"),
        (RuntimeError("can't start new thread"), "no more processes or threads may be started ("),
        (OSError(errno.EFBIG, "File too large"), "allow larger ones by `ulimit -f`"),
    ],
)
def test_what_the_machine_lacks_is_one_sentence(calls, capsys, monkeypatch, error, words):
    fail_with(monkeypatch, error)
    assert cli.main(["train", SQUARED]) == 2
    err = capsys.readouterr().err
    assert err.startswith("puffer: ") and err.count("\n") == 1 and words in err


def test_a_gpu_without_memory_names_what_helps(calls, capsys, monkeypatch):
    fail_with(monkeypatch, torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert cli.main(["train", SQUARED]) == 2
    err = capsys.readouterr().err
    assert "; try a smaller --train.minibatch-size, --train.cpu-offload True, or fewer or smaller" in err


def test_a_warning_of_ours_is_one_line_shown_once_and_others_are_as_they_were(calls, monkeypatch):
    told = []

    def train(*_):
        told.extend(
            warnings.formatwarning("full", kind, __file__, 1) for kind in (*[PufferWarning] * 2, RuntimeWarning)
        )

    monkeypatch.setattr(sys.modules["pufferlib.pufferl"], "train", train)
    formatted = warnings.formatwarning
    assert cli.main(["train", SQUARED]) == 0
    assert told == ["puffer: warning: full\n", "", formatted("full", RuntimeWarning, __file__, 1)]
    assert warnings.formatwarning is formatted


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), ValueError("ours"), RuntimeError("ours"), BrokenPipeError("a worker's")]
)
def test_an_error_of_ours_keeps_its_traceback(calls, monkeypatch, error):
    fail_with(monkeypatch, error)
    monkeypatch.setattr(cli, "is_stdout_gone", lambda: False)
    with pytest.raises(type(error)):
        cli.main(["train", SQUARED])


@pytest.mark.parametrize("command", [["envs"], ["train", "--help"]])
def test_a_reader_that_goes_away_is_no_error(command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "pufferlib", *command], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=600
        )
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("module", [name for name in ("pufferlib", "pufferlib.pufferl") if find_spec(name)])
@pytest.mark.parametrize("is_linked", [False, True], ids=["", "installed for another Python"])
def test_a_checkout_that_was_not_installed_says_so(tmp_path, module, is_linked):
    kept = shutil.ignore_patterns("__pycache__", "ocean", "vector", "extensions")
    shutil.copytree(Path(pufferlib.__file__).parent, tmp_path / "pufferlib", ignore=kept)
    if is_linked:
        (tmp_path / "pufferlib" / "ocean").symlink_to(Path(pufferlib.ocean.__file__).parent)
    done = run_python("-S", "-E", "-B", "-m", module, "train", SQUARED, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "pip install -e ." in done.stderr


def test_the_console_script_is_this_command(monkeypatch):
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    monkeypatch.setattr(cli, "main", lambda: 7)
    assert pkgutil.resolve_name(re.search(r'^puffer = "(.+)"$', text, re.MULTILINE)[1])() == 7


OWN_MODULE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Own-v0", CartPoleEnv)
"""


@pytest.mark.parametrize("flags", [[], ["-P"]], ids=["", "safe path"])
def test_the_console_script_finds_modules_of_the_folder_that_it_is_run_in(tmp_path, flags):
    script = Path(sysconfig.get_path("scripts"), "puffer")
    if not script.exists():
        pytest.skip("pufferlib was installed without its console script")
    if flags and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 knows no safe path")
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    done = run_python(*flags, script, "bench", "own_module:Own-v0", "--seconds", "0.01", cwd=tmp_path)
    if flags:
        assert done.returncode == 2 and "there is no module 'own_module'" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "own_module:Own-v0: agent steps per second" in done.stdout


# --- what is printed


def test_training_says_at_once_what_it_prepares(tmp_path):
    code = f"""
import sys
from pufferlib import cli

class NoTorch:
    def find_spec(self, name, path, target=None):
        if name == "torch":
            sys.exit(0)

sys.meta_path.insert(0, NoTorch())
cli.main({["train", SQUARED]!r})
"""
    done = run_python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"preparing to train {SQUARED}\n", "")


def test_of_several_processes_one_says_what_it_begins(calls, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    trained(calls)
    assert capsys.readouterr().out == ""


@pytest.mark.quick("command0", "command2")
@pytest.mark.parametrize("command", [["--help"], ["envs"], ["train", "--help"], ["train", SQUARED, "--help"]])
def test_help_and_lists_do_not_wait_for_torch(tmp_path, command):
    code = f"import sys; from pufferlib.cli import main; sys.exit(main({command!r}) or 'torch' in sys.modules)"
    done = run_python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout and not list(tmp_path.iterdir())


def test_without_arguments_the_commands_are_listed(capsys):
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: puffer ") and all(f"\n  {verb} " in out for verb in cli.VERBS)


def test_help_lists_every_setting_with_its_default_and_meaning(capsys):
    assert cli.main(["train", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for one in [*TrainConfig.settings().values(), *VecConfig.settings().values()]:
        assert one.flag in out and one.meaning in out
    assert "--train.adam-eps 1e-12" in out


def test_help_for_an_environment_shows_its_values(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.main(["train", SQUARED, "--help"]) == 0
    out = capsys.readouterr().out
    args = pufferlib.config.load_config(SQUARED)
    assert f"--train.learning-rate {args['train']['learning_rate']}\n" in out
    assert f"--env.size {args['env']['size']}\n" in out
    assert all(len(line) <= 60 for line in out.splitlines() if line.startswith("      "))


def test_help_for_a_command_shows_its_own_options(capsys):
    assert cli.main(["eval", "--help"]) == 0
    assert "--episodes 100" in capsys.readouterr().out
    assert cli.main(["envs", "--help"]) == 0


def test_help_for_a_command_that_takes_words_says_what_they_are_and_not_what_the_class_of_its_options_is(capsys):
    assert cli.main(["runs", "--help"]) == 0
    out = capsys.readouterr().out
    assert "\nThe score is that of the final policy" in out and "How `puffer" not in out


def test_the_overview_says_what_an_environment_may_be(capsys):
    assert cli.main([]) == 0
    assert "ENV is a name that `puffer envs` lists" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("pufferlib 5")


def test_envs_lists_every_environment(capsys):
    assert cli.main(["envs"]) == 0
    mine, others, _ = capsys.readouterr().out.split("\n\n")
    header, *rows = mine.splitlines()
    assert [row.split()[0] for row in rows] == ocean.names()
    assert "\x1b" not in mine + others and header.split()[0] == "environment"
    squared = next(row for row in rows if row.startswith(SQUARED))
    assert "uint8[121]" in squared and "Discrete(5)" in squared
    header, *rows = others.splitlines()
    assert header.split()[:2] == ["family", "environments"]
    assert {row.split()[0] for row in rows} >= {"classic_control", "atari", "mujoco", "pettingzoo"}


def test_an_environment_that_was_not_compiled_says_how_to_do_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(ocean, "_FOLDER", tmp_path)
    monkeypatch.setattr(ocean, "__path__", [str(tmp_path)])
    folder = tmp_path / "uncompiled"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "uncompiled.ini").write_text("[base]\npackage = ocean\nenv_name = puffer_uncompiled\n")
    (folder / "uncompiled.py").write_text("from pufferlib.ocean.uncompiled import binding\n")
    assert cli.main(["train", "puffer_uncompiled"]) == 2
    assert capsys.readouterr().err == (
        "puffer: puffer_uncompiled is not compiled; run `python setup.py build_ext --inplace`, or `pip install -e .`, "
        "in the checkout\n"
    )


def test_an_environment_that_was_not_compiled_does_not_hide_the_others(monkeypatch):
    def env_class(name):
        raise ImportError(name)

    monkeypatch.setattr(ocean, "env_class", env_class)
    assert "not compiled: run `pip install -e .`" in environments.environments_table()


def test_the_list_says_what_environments_are_as_far_as_there_is_room(capsys):
    assert cli.main(["envs"]) == 0  # not to a terminal: whole
    assert "  walk to the target before the time is up\n" in capsys.readouterr().out
    cut, whole = (environments.environments_table(width).splitlines() for width in (120, 10**6))
    assert max(len(line) for line in cut) == 120 and any(line.endswith("...") for line in cut)
    assert all(long.startswith(line.removesuffix("...")) for line, long in zip(cut, whole, strict=True))


def test_bench_measures_both_sizes(capsys):
    assert cli.main(["bench", SQUARED, "--seconds", "0.05", "--env.num-envs", "3"]) == 0
    _title, header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["environments", "agents"]
    assert [row.split()[:2] for row in rows] == [["3", "3"], ["4096", "4096"]]
    for row in rows:
        median, low, high = (int(cell.replace(",", "")) for cell in row.split()[2:])
        assert 0 < low <= median <= high


def test_bench_draws_the_same_actions_each_time():
    env = ocean.env_class(SQUARED)(num_envs=50)
    first, second = environments.random_actions(env, 1), environments.random_actions(env, 1)
    assert all((a == b).all() and a.shape == env.actions.shape for a, b in zip(first, second, strict=True))
    assert len({a.tobytes() for a in first}) > 1
    env.close()


# --- the agents that come with the package


@pytest.mark.slow
def test_a_trained_agent_is_played_right_after_installing(tmp_path):
    done = run_python(
        "-m", "pufferlib", "eval", "puffer_cartpole", "--pretrained", "--headless", "--episodes", "3", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "perf             1.000 +- 0.000 (n = 3)" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_is_not_there_or_is_not_alone_is_one_sentence(capsys):
    assert cli.main(["eval", "CartPole-v1", "--pretrained"]) == 2
    assert "no trained agent of CartPole-v1 comes with the package" in capsys.readouterr().err
    assert cli.main(["eval", SQUARED, "--pretrained", "--load-model-path", "model.pt"]) == 2
    assert "--pretrained plays another policy than model.pt; pass one of them" in capsys.readouterr().err


def test_ctrl_c_while_the_command_is_imported_ends_it_quietly(monkeypatch):
    class Interrupting:
        def find_spec(self, name, *arguments):
            if name == "pufferlib.cli":
                raise KeyboardInterrupt

    from pufferlib.__main__ import main

    monkeypatch.delitem(sys.modules, "pufferlib.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert main() == cli.INTERRUPTED
