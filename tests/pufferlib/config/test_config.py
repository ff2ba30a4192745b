import contextlib
import dataclasses
import importlib
import math
import re
import subprocess
import sys
import types
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib import ocean
from pufferlib.config import (
    DEFAULTS,
    SECTIONS,
    TrainConfig,
    VecConfig,
    check_arguments,
    check_config,
    check_env,
    classes,
    defaults,
    env_settings,
    load_config,
    policy_arguments,
    policy_classes,
    resolve_env_count,
)
from pufferlib.errors import APIUsageError, ConfigError, PufferError, UnknownEnvironmentError
from pufferlib.settings import hints
from pufferlib.settings.setting import Interval, Setting, class_settings
from pufferlib.settings.values import convert, describe, fits, parse_as, parse_value

SQUARED = "puffer_squared"


class Encoder:
    """A policy.

    Args:
        hidden_size: units of
            each layer.
    """

    def __init__(self, env, hidden_size: int = 128, num_layers: int = 1, activation: Literal["relu", "tanh"] = "relu"):
        pass


class LSTMWrapper:
    def __init__(self, env, policy, input_size: int = 128, hidden_size: int = 128):
        pass


@pytest.fixture
def models(monkeypatch):
    """Stands in for pufferlib.models, whose real classes need seconds to import."""
    module = types.ModuleType("pufferlib.models")
    module.Default, module.LSTMWrapper, module.Any = Encoder, LSTMWrapper, Any
    module.__dict__.update(Default=type("Default", (Encoder,), {"__module__": module.__name__}))
    module.LSTMWrapper = type("LSTMWrapper", (LSTMWrapper,), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, "pufferlib.models", module)
    return module


@pytest.fixture
def ini(tmp_path, monkeypatch):
    """Writes an ini in place of squared's own."""
    path = tmp_path / "squared.ini"
    monkeypatch.setattr(ocean, "config_path", lambda name: path)

    def write(text):
        path.write_text(text)

    return write


# --- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-3", -3),
        ("1e6", 1_000_000),
        ("1_000_000", 1_000_000),
        ("1e-3", 0.001),
        ("1.0", 1.0),
        ("inf", math.inf),
        ("True", True),
        ("false", False),
        ("None", None),
        ("none", None),
        ("auto", "auto"),
        ("cuda:1", "cuda:1"),
        ("'7'", "7"),
        ("[64, 64]", [64, 64]),
        ("(1, 2", "(1, 2"),
        ("", ""),
    ],
)
def test_text_becomes_the_python_value_it_looks_like(text, value):
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)


@settings(deadline=None, max_examples=60)
@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_what_an_ini_holds_is_read_back_the_same(value):
    assert parse_value(defaults.format_value(value)) == value


@pytest.mark.parametrize(
    ("value", "kind", "converted"),
    [
        (1e6, int, 1_000_000),
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (1, float, 1.0),
        ("auto", int | Literal["auto"], "auto"),
        (None, int | None, None),
        ([64, 64.0], list[int], [64, 64]),
        ((1, 2), tuple[float, ...], (1.0, 2.0)),
    ],
)
def test_a_value_takes_the_declared_type(value, kind, converted):
    result = convert(value, kind)
    assert result == converted and type(result) is type(converted)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, int),
        (1, bool),
        (1, Literal[True]),
        (1.5, int),
        (math.inf, int),
        (math.nan, int),
        ("1", int),
        (None, float),
        (3, str),
        ("fast", int | Literal["auto"]),
        ([1, "a"], list[int]),
        (3, list[int]),
    ],
)
def test_a_value_of_another_type_does_not_fit(value, kind):
    assert not fits(value, kind)


def test_a_text_setting_takes_text_that_looks_like_a_number():
    assert parse_as("2024", str) == "2024"
    assert parse_as("2024", int) == 2024


def test_bounds_stand_beside_the_numbers_they_bound():
    assert describe(int | Literal["auto"] | None, " in [1, 9]") == "an integer in [1, 9], 'auto' or None"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("[0, 1)", (0, 0.5), (1, -0.1)), ("(0, inf]", (1e-9, math.inf), (0,)), ("(-inf, inf)", (-5,), (math.inf,))],
)
def test_intervals_read_as_in_mathematics(text, inside, outside):
    assert all(value in Interval(text) for value in inside)
    assert all(value not in Interval(text) for value in (*outside, math.nan))


# --- loading


def test_default_ini_says_what_the_schema_says():
    assert DEFAULTS.read_text() == defaults.render(), "run python -m pufferlib.config.defaults"


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
    check_env(name, args["env"])


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


# --- the train section


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"gamma": "high"}, r"\[train\] gamma must be a number in \[0, 1\], got 'high'"),
        ({"gamma": math.nan}, "gamma must be"),
        ({"learning_rate": math.inf}, "learning_rate must be"),
        ({"adam_beta1": 1.0}, r"\[0, 1\)"),
        ({"compile": 1}, "True or False"),
        ({"optimizer": "adm"}, "'muon', 'adam' or 'sgd', got 'adm'; did you mean 'adam'"),
        ({"batch_size": "atuo"}, "an integer in .* or 'auto'"),
        ({"device": "gpu"}, "cuda:N"),
        ({"bptt_horizon": 0}, "bptt_horizon"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_wrong_train_setting_is_one_sentence(values, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.from_dict(values)


def test_the_train_section_takes_what_users_pass():
    args = load_config(SQUARED)
    config = TrainConfig.from_dict({**args["train"], "env": SQUARED, "total_timesteps": 1e6, "learning_rate": 1})
    assert type(config.total_timesteps) is int and type(config.learning_rate) is float
    assert config.max_grad_norm > 0
    assert TrainConfig(max_grad_norm=math.inf, device="cuda:1").device == "cuda:1"


def test_the_train_section_cannot_be_edited():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig().gamma = 0.5


def test_every_setting_has_a_help_text_that_ends():
    for one in [*TrainConfig.settings().values(), *VecConfig.settings().values()]:
        assert one.help.endswith("."), one.name


def test_the_vector_takes_its_seed_and_size_from_the_run():
    assert VecConfig().keywords("cpu", seed=7)["seed"] == 7
    assert VecConfig(seed=3).keywords("cpu", seed=7)["seed"] == 3
    assert [VecConfig().keywords(device, 0)["num_envs"] for device in ("cpu", "cuda")] == [1, 2]
    assert VecConfig().keywords("cuda", 0, are_single=True)["num_envs"] == 16
    assert VecConfig(num_envs=4).keywords("cuda", 0)["num_envs"] == 4


# --- sizes


def test_sizes_follow_the_agents_and_the_device():
    config = TrainConfig(bptt_horizon=64, update_epochs=1.25, total_timesteps=10_000_000)
    resolved = config.resolve(1024, "cpu")
    assert (resolved.batch_size, resolved.minibatch_size, resolved.max_minibatch_size) == (65_536, 2048, 2048)
    assert (resolved.segments, resolved.minibatch_segments, resolved.accumulation_steps) == (1024, 32, 1)
    assert resolved.minibatches_per_epoch == 40.0
    assert (resolved.total_epochs - 1) * resolved.batch_size < 10_000_000 <= resolved.total_epochs * resolved.batch_size
    assert config.resolve(4096, "cuda").minibatch_size == 8192


@pytest.mark.parametrize(("device", "most"), [("cpu", 16_384), ("mps", 16_384), ("cuda", 65_536)])
def test_an_automatic_minibatch_is_a_share_of_the_batch_within_limits(device, most):
    config = TrainConfig(total_timesteps=10**9)
    sizes = [config.resolve(agents, device).minibatch_size for agents in (1, 16, 1024, 2**16)]
    assert sizes == [64, 256, 2048, most]  # the whole batch, the least, a 32nd, the most
    few = dataclasses.replace(config, num_minibatches=4)
    assert few.resolve(256, device).minibatch_size == 4096
    assert dataclasses.replace(few, minibatch_size=128).resolve(256, device).minibatch_size == 128


def test_iterations_stand_in_for_steps():
    resolved = TrainConfig(num_iterations=3, total_timesteps=1).resolve(10, "cpu")
    assert (resolved.total_epochs, resolved.total_timesteps) == (3, 3 * 640)


def test_large_minibatches_accumulate():
    resolved = TrainConfig(minibatch_size=4096, max_minibatch_size=1024).resolve(64, "cpu")
    assert resolved.accumulation_steps == 4


def test_processes_share_the_batch_and_the_minibatch():
    sizes = {"batch_size": 131_072, "num_minibatches": 8, "max_minibatch_size": 1024}
    config = TrainConfig(bptt_horizon=64, total_timesteps=10**6, **sizes)
    resolved = config.resolve(512, "cpu", world_size=2)
    assert (resolved.batch_size, resolved.minibatch_size) == (131_072, 16_384)  # of both
    assert (resolved.segments, resolved.minibatch_segments) == (1024, 128)  # of each
    assert (resolved.accumulation_steps, resolved.minibatches_per_epoch, resolved.total_epochs) == (8, 8.0, 8)
    many = TrainConfig(total_timesteps=10**9, num_minibatches=2)
    assert many.resolve(8192, "cuda", world_size=4).minibatch_size == 4 * 65_536


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 1536}, r"multiple of 1024 \(2 processes \* 8 agents \* bptt_horizon 64\), got 1536"),
        ({"minibatch_size": 192}, r"multiple of 128 \(2 processes \* bptt_horizon\), got 192"),
        ({"minibatch_size": 1024, "max_minibatch_size": 192}, r"multiple of 384 \(2 processes \* max_minibatch_size\)"),
    ],
)
def test_sizes_that_processes_cannot_share_name_possible_ones(values, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**values).resolve(8, "cpu", world_size=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": 100}, r"multiple of 512 \(8 agents \* bptt_horizon 64\), got 100; the nearest: 512"),
        ({"batch_size": 1000}, "the nearest: 512 or 1024"),
        ({"minibatch_size": 100}, "minibatch_size must be a multiple of 64.* 64 or 128"),
        ({"minibatch_size": 1024}, "at most the batch of 512"),
        ({"minibatch_size": 512, "max_minibatch_size": 192}, "multiple of 192"),
        ({"minibatch_size": 512, "max_minibatch_size": 32}, "max_minibatch_size must be a multiple of 64"),
        ({"total_timesteps": 511}, "at least one batch of 512 agent steps, got 511"),
    ],
)
def test_impossible_sizes_name_possible_ones(values, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig(**values).resolve(8, "cpu")


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 10_000), st.integers(1, 2000), st.sampled_from(["cpu", "cuda"]))
def test_automatic_sizes_always_fit(num_agents, horizon, device):
    resolved = TrainConfig(bptt_horizon=horizon, total_timesteps=10**9).resolve(num_agents, device)
    limit = 65_536 if device == "cuda" else 16_384
    assert resolved.batch_size == num_agents * horizon
    assert resolved.minibatch_size % horizon == 0
    assert resolved.minibatch_size <= max(horizon, min(limit, resolved.batch_size))
    minibatches = math.ceil(resolved.segments / resolved.minibatch_segments)
    assert minibatches * resolved.minibatch_segments - resolved.segments < minibatches  # shared out evenly


@pytest.mark.parametrize(
    ("device", "buffers", "agents_per_env", "expected"),
    [("cpu", 1, 1, 1024), ("cpu", 4, 1, 256), ("mps", 1, 2, 512), ("cuda", 2, 1, 4096), ("cpu", 1, 5000, 1)],
)
def test_automatic_environments_add_up_to_the_agents_that_suit_the_device(device, buffers, agents_per_env, expected):
    assert resolve_env_count("auto", device, buffers, agents_per_env) == expected
    assert resolve_env_count(7, device, buffers, agents_per_env) == 7


@pytest.mark.parametrize(("device", "expected"), [("cpu", 256), ("cuda", 8192)])
def test_automatic_environments_are_shared_by_processes_on_cpus_alone(device, expected):
    assert resolve_env_count("auto", device, 1, 1, world_size=4) == expected
    assert resolve_env_count(7, device, 1, 1, world_size=4) == 7


@pytest.mark.parametrize(("device", "agents", "minibatch"), [("cpu", 1024, 16_384), ("cuda", 8192, 65_536)])
def test_breakouts_sizes_follow_the_device(device, agents, minibatch):
    args = load_config("puffer_breakout")
    vec = VecConfig.from_dict(args["vec"]).keywords(device, seed=0)
    count = resolve_env_count(args["env"]["num_envs"], device, vec["num_envs"], 1) * vec["num_envs"]
    resolved = TrainConfig.from_dict(args["train"]).resolve(count, device)
    assert (count, resolved.minibatch_size) == (agents, minibatch)
    assert resolved.batch_size == agents * 64 == resolved.minibatch_size * (agents * 64 // minibatch)


def test_the_number_of_environments_is_an_integer_or_auto():
    assert check_env(SQUARED, {"num_envs": "auto"}) == {"num_envs": "auto"}
    assert "1024 agents in all on a CPU" in env_settings(SQUARED)["num_envs"].help
    with pytest.raises(ConfigError, match="num_envs must be an integer or 'auto', got 'many'"):
        check_env(SQUARED, {"num_envs": "many"})


# --- keyword arguments of classes


def test_arguments_that_a_class_hands_on_are_settings_too():
    known = class_settings("env", ocean.env_class(SQUARED))
    assert {"num_envs", "size", "report_interval"} <= known.keys()
    assert not {"buf", "seed", "arguments", "kwargs"} & known.keys()
    assert known["size"].kind is int and "2 to 128" in known["size"].help


def test_the_help_of_an_argument_is_its_docstring():
    assert class_settings("policy", Encoder)["hidden_size"].help == "Units of each layer."


def test_wrong_keyword_arguments_are_config_errors():
    assert check_arguments("policy", {"hidden_size": 64.0}, Encoder) == {"hidden_size": 64}
    with pytest.raises(ConfigError, match="did you mean 'hidden_size'"):
        check_arguments("policy", {"hiden_size": 64}, Encoder)
    with pytest.raises(ConfigError, match=r"\[policy\] activation must be 'relu' or 'tanh', got 'tan'"):
        check_arguments("policy", {"activation": "tan"}, Encoder)


def test_a_name_selects_the_policy_and_the_recurrent_layer(models):
    args = load_config(SQUARED)
    assert policy_classes({**args, "rnn_name": None}) == (models.Default, None)
    assert policy_classes({**args, "rnn_name": "LSTM"}) == (models.Default, models.LSTMWrapper)
    assert policy_classes({**args, "rnn_name": "LSTMWrapper"})[1] is models.LSTMWrapper


def test_an_environment_may_bring_its_own_policy(models, monkeypatch):
    own = types.ModuleType("pufferlib.ocean.squared.torch")
    own.Default = Encoder
    monkeypatch.setitem(sys.modules, own.__name__, own)
    monkeypatch.setattr(classes.importlib.util, "find_spec", lambda name: own)
    assert policy_classes({**load_config(SQUARED), "rnn_name": "LSTM"}) == (Encoder, models.LSTMWrapper)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda args: args.update(policy_name="Defualt"), "policy_name must name a class.*'Default'"),
        (lambda args: args.update(rnn_name="Recurrent"), "rnn_name must name a class, found no 'Recurrent'; .*'LSTM'"),
        (lambda args: args.update(policy_name="Policy"), "found no 'Policy'; did you mean 'Default'"),
        (lambda args: args["vec"].update(backend="PufferEnv"), "got 'PufferEnv'; did you mean 'auto'"),
        (lambda args: args.update(rnn_name="LTSM"), "rnn_name must name a class.*'LSTM'"),
        (lambda args: args.update(polcy_name="Default"), "did you mean 'policy_name'"),
        (lambda args: args["policy"].update(hiden_size=3), r"'hiden_size' in \[policy\]"),
        (lambda args: args["rnn"].update(hidden_size="big"), r"\[rnn\] hidden_size must be an integer"),
        (lambda args: args["env"].update(sise=3), "did you mean 'size'"),
        (lambda args: args["vec"].update(backend="native"), "did you mean 'Native'"),
        (lambda args: args["train"].update(gamma=None), "gamma must be"),
        (lambda args: args.update(env_name="puffer_sqared"), "puffer_squared"),
    ],
)
def test_check_config_finds_every_kind_of_mistake(models, edit, message):
    args = {**load_config(SQUARED), "rnn_name": "LSTM"}
    check_config(args)
    edit(args)
    with pytest.raises(PufferError, match=message):
        check_config(args)


def test_loading_a_configuration_needs_no_torch():
    code = (
        f"import sys; from pufferlib.config import load_config; load_config({SQUARED!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("False\n", "")


# --- names of other libraries


def test_hints_name_settings_that_there_are():
    known = {f"[{section}] {name}" for section, config in SECTIONS.items() for name in config.settings()}
    known.add("[env] num_envs")
    for text in hints.NAMES.values():
        assert set(re.findall(r"\[\w+\] \w+", text)) <= known, text
    for section, config in SECTIONS.items():
        assert not [name for name in config.settings() if name in hints.NAMES and section in ("base", "vec", "train")]


@pytest.mark.parametrize(
    ("section", "name", "words"),
    [
        ("train", "use_rnn", r"\[base\] rnn_name: MinGRU, LSTM or None"),
        ("train", "lr", r"it is \[train\] learning_rate"),
        ("train", "name", r"\[log\] name"),
        ("vec", "num_threads", r"\[vec\] num_workers"),
    ],
)
def test_a_setting_of_another_library_is_answered_with_what_it_is_called_here(section, name, words):
    args = load_config(SQUARED)
    args[section][name] = 1
    with pytest.raises(ConfigError, match=rf"no setting '{name}' in \[{section}\]; .*{words}"):
        SECTIONS[section].from_dict(args[section])


def test_a_hint_is_no_answer_to_a_keyword_of_an_environment():
    with pytest.raises(ConfigError, match=r"no setting 'mode' in \[env\]; it has"):
        check_env(SQUARED, {"mode": 1})


@pytest.mark.parametrize("value", ["128,128", "128, 64", 128])
def test_a_list_without_brackets_is_shown_with_them(value):
    setting = Setting("policy", "sizes", list[int], [64])
    with pytest.raises(ConfigError, match=rf"sizes must be a list .* got {value!r}; write '\[{value}\]'"):
        setting.check(value)


# --- the whole configuration


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("trian", "; did you mean 'train'?"), ("sweeep", "; it has package, "), ("wandb", "; metrics go to services by")],
)
@pytest.mark.parametrize("use", ["load_env", "load_policy", "train"])
def test_an_unknown_key_at_the_top_is_refused_wherever_the_configuration_goes(use, name, remedy):
    loaders = importlib.import_module("pufferlib.pufferl")
    args = {**load_config(SQUARED), name: {"gamma": 0.5}}
    calls = {
        "load_env": lambda: loaders.load_env(SQUARED, args),
        "load_policy": lambda: loaders.load_policy(args, None, SQUARED),
        "train": lambda: loaders.train(SQUARED, args, vecenv=object(), policy=object()),
    }
    with pytest.raises(ConfigError, match=re.escape(f"there is no {name!r} in the configuration{remedy}")):
        calls[use]()


# --- flags of a script of one's own


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


# --- another policy than that of the ini


class Narrow:
    def __init__(self, env, actor_sizes: list[int] = [64]):  # noqa: B006 - read, never written
        pass


def test_what_the_ini_says_of_its_own_policy_is_not_asked_of_another():
    args = load_config("CartPole-v1")
    assert "hidden_size" in args["policy"]
    args["policy_name"] = "Continuous"
    assert "hidden_size" not in policy_arguments(args, "policy", Narrow)
    args["policy"]["actor_sizes"] = [8]
    assert policy_arguments(args, "policy", Narrow) == {"actor_sizes": [8]}
    args["policy"]["hidden_size"] = 3  # the user's own
    with pytest.raises(ConfigError, match=r"no setting 'hidden_size' in \[policy\]"):
        policy_arguments(args, "policy", Narrow)


def test_what_both_policies_have_is_kept():
    args = {**load_config("puffer_breakout"), "rnn_name": "LSTM"}
    assert policy_arguments(args, "rnn", LSTMWrapper) == {"hidden_size": args["rnn"]["hidden_size"]}


# --- numbers that nothing can be done with


@pytest.mark.parametrize("kind", [float, Any])
@pytest.mark.parametrize("text", ["nan", "inf"])
def test_a_number_without_bounds_must_be_finite_and_is_told_so(kind, text):
    with pytest.raises(ConfigError, match=rf"^\[env\] speed must be finite, got {text}$"):
        Setting("env", "speed", kind, 1.0).parse(text)


EVERY_SETTING = [one for config in SECTIONS.values() for one in config.settings().values()]
STRANGE_NUMBERS = st.sampled_from(
    ["nan", "inf", "-inf", "1e30", "1e400", "-1e400", "9" * 400, "-" + "9" * 400, "9" * 5000]
)
STRANGE_TEXTS = st.one_of(
    STRANGE_NUMBERS,
    STRANGE_NUMBERS.map("[{}]".format),
    st.sampled_from(["[" * 300, "(" * 9000, "[{[]: 1}]", "'", "[1, 2", "\0", "1_", "0x1", "--", "None", ""]),
    st.text(max_size=8),
    st.floats().map(str),
    st.integers().map(str),
)


def assert_is_usable(one, value):
    """Whether a checked value is what the setting promises: in its bounds, and of a size that C and torch take."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        assert value in one.within and (isinstance(value, float) or value.bit_length() < 64)


@given(one=st.sampled_from(EVERY_SETTING), text=STRANGE_TEXTS)
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_value_or_one_sentence(one, text):
    try:
        assert_is_usable(one, one.parse(text))
    except ConfigError as error:
        assert str(error).startswith(f"{one.label} must be ") and len(str(error)) < 700


@given(
    one=st.sampled_from(EVERY_SETTING),
    value=st.one_of(
        st.sampled_from([10**400, -(10**400), 10**5000, 2**63, -(2**63) - 1, math.nan, math.inf, -math.inf]),
        st.integers(),
        st.floats(),
        st.fractions(),
        st.lists(st.integers(), max_size=2),
        st.none(),
        st.binary(max_size=3),
    ),
)
@settings(max_examples=300, deadline=None)
def test_any_value_is_taken_or_one_sentence(one, value):
    try:
        assert_is_usable(one, one.check(value))
    except ConfigError as error:
        assert str(error).startswith(f"{one.label} must be ") and len(str(error)) < 700


@given(
    tokens=st.lists(
        st.one_of(
            st.sampled_from(["--train.seed", "--vec.num-envs", "--rnn-name", "--env.size=", "--policy.x", "--", "="]),
            STRANGE_TEXTS,
        ),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_flags_are_a_configuration_or_one_sentence(tokens):
    with contextlib.suppress(ConfigError):
        load_config(SQUARED, argv=tokens)


@pytest.mark.parametrize(
    ("setting", "text", "message"),
    [
        ("seed", "1e30", r"\[train\] seed must be an integer in \[0, inf\), and of at most 63 bits, got 1000000"),
        ("seed", "nan", r"\[train\] seed must be an integer in \[0, inf\), got nan"),
        ("gamma", "9" * 400, r"\[train\] gamma must be a number in \[0, 1\], got 9{100}\.\.\.9{20}$"),
    ],
)
def test_a_number_that_is_too_large_says_so(setting, text, message):
    with pytest.raises(ConfigError, match=message):
        TrainConfig.settings()[setting].parse(text)
    with pytest.raises(ConfigError, match=r"\[vec\] num_envs must be an integer in \[1, 1e6\] or 'auto', got 10000000"):
        VecConfig.settings()["num_envs"].parse("1e20")
