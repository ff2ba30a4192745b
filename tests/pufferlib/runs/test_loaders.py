import contextlib

import pytest
import torch
from trained import weights

from pufferlib import distributed, vector
from pufferlib.config import load_config
from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError, ConfigError
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.ocean.squared.squared import Squared
from pufferlib.runs import checkpoint
from pufferlib.runs.loaders import load_env, load_policy, resolve_device

SQUARED = "puffer_squared"


@pytest.fixture
def args():
    args = load_config(SQUARED)
    args["env"]["num_envs"] = 4
    args["train"]["device"] = "cpu"
    return args


@pytest.fixture
def make_env():
    made = []
    yield lambda args: made.append(load_env(SQUARED, args)) or made[-1]
    for vecenv in made:
        vecenv.close()


# --- devices


@pytest.mark.parametrize(
    ("section", "settings", "backend", "num_envs"),
    [
        ("train", {}, "Device", 1),
        ("vec", {"num_envs": 3}, "Device", 3),
        ("vec", {"num_envs": 3, "batch_size": 3}, "Device", 3),
        ("vec", {"backend": "Device"}, "Device", 1),
        ("vec", {"num_envs": 3, "batch_size": 1}, "Native", 3),
        ("vec", {"backend": "Native"}, "Native", 2),
        ("train", {"compile": True}, "Native", 2),
        ("train", {"cuda_graphs": False}, "Native", 2),
        ("train", {"cpu_offload": True}, "Native", 2),
        ("train", {"skip_nonfinite": True}, "Native", 2),
        ("env", {"num_envs": 2000}, "Native", 2),  # too few threads for a GPU
        ("env", {"num_envs": "auto"}, "Device", 1),
    ],
)
def test_on_cuda_c_environments_can_go_to_the_gpu(section, settings, backend, num_envs, args, make_env, monkeypatch):
    monkeypatch.setattr("pufferlib.runs.loaders.resolve_device", lambda name: torch.device("cuda"))
    args["env"]["num_envs"] = 2048
    args[section].update(settings)
    vecenv = make_env(args)
    assert (type(vecenv).__name__, vecenv.num_envs) == (backend, num_envs)


def test_on_cuda_a_class_of_c_environments_has_as_many_as_it_says(monkeypatch):
    monkeypatch.setattr("pufferlib.runs.loaders.resolve_device", lambda name: torch.device("cuda"))

    class Alone(Squared):
        def __init__(self, buf=None, seed=0):
            super().__init__(num_envs=3, buf=buf, seed=seed)

    for kind, agents in ((Squared, 2048), (Alone, 48)):
        args = load_config(kind)
        with contextlib.closing(load_env(kind, args)) as vecenv:
            assert (type(vecenv).__name__, vecenv.num_agents) == ("Native", agents)


def test_the_gpu_takes_few_environments_where_it_is_asked_to(args, make_env, monkeypatch):
    monkeypatch.setattr("pufferlib.runs.loaders.resolve_device", lambda name: torch.device("cuda"))
    args["vec"]["backend"] = "Device"
    assert type(make_env(args)).__name__ == "Device"


def test_auto_takes_the_best_device_there_is(monkeypatch):
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert resolve_device("auto").type == expected
    assert resolve_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "meta"])
def test_a_device_that_is_not_there_is_refused(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=f"train.device is '{name}' but torch sees no such device; use"):
        resolve_device(name)


def test_a_gpu_beyond_the_last_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ConfigError, match="torch sees no such device"):
        resolve_device("cuda:2")


@pytest.mark.parametrize(("visible", "local_rank", "taken"), [(8, 3, 3), (4, 0, 0), (1, 3, 0), (1, 0, 0)])
def test_of_several_processes_each_takes_its_own_gpu_or_the_only_one_it_sees(monkeypatch, visible, local_rank, taken):
    current = []
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    monkeypatch.setattr(distributed, "connect", lambda: Ranks(local_rank, 8))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert resolve_device("cpu") == torch.device("cpu") and current == []
    assert resolve_device("cuda") == resolve_device("auto") == torch.device("cuda", taken)
    assert current == [taken, taken]


def test_a_process_without_a_gpu_of_its_own_is_told(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(distributed, "connect", lambda: Ranks(3, 4))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError, match="torch sees no such device"):
        resolve_device("cuda")


def test_a_name_that_is_no_device_is_refused():
    with pytest.raises(ConfigError, match="must be auto, cuda, mps or cpu, got 'toaster'"):
        resolve_device("toaster")


# --- environments


def test_the_vector_is_what_the_settings_describe(args, make_env):
    args["vec"].update(num_envs=3, backend="Serial")
    args["env"]["size"] = 5
    vecenv = make_env(args)
    assert type(vecenv) is vector.Serial
    assert vecenv.num_agents == 12 and vecenv.single_observation_space.shape == (25,)


def test_c_environments_are_native_by_default(args, make_env):
    assert type(make_env(args)) is vector.Native


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ({"train": 1, "vec": None}, {"train": 1, "vec": None}, True),
        ({"train": 1, "vec": None}, {"train": 2, "vec": None}, False),
        ({"train": 1, "vec": 5}, {"train": 2, "vec": 5}, True),
        ({"train": 1, "vec": 5}, {"train": 1, "vec": 6}, False),
    ],
)
def test_environments_follow_their_own_seed_or_that_of_the_run(args, make_env, first, second, is_same):
    observations = []
    for seeds in (first, second):
        args["train"]["seed"], args["vec"]["seed"] = seeds["train"], seeds["vec"]
        vecenv = make_env(args)
        vecenv.async_reset()
        observations.append(vecenv.recv()[0].copy())
    assert (observations[0] == observations[1]).all() == is_same


@pytest.mark.parametrize(
    ("key", "value", "words"), [("sise", 5, "did you mean 'size'"), ("size", "big", "size must be")]
)
def test_environment_settings_are_checked(args, key, value, words):
    args["env"][key] = value
    with pytest.raises(ConfigError, match=words):
        load_env(SQUARED, args)


# --- policies


@pytest.mark.parametrize(
    ("rnn_name", "kind"),
    [(None, Default), ("LSTM", LSTMWrapper), ("MinGRU", MinGRUWrapper), ("MinGRUWrapper", MinGRUWrapper)],
)
def test_the_policy_is_what_the_settings_describe(args, make_env, rnn_name, kind):
    args["rnn_name"], args["policy"] = rnn_name, {"hidden_size": 24}
    policy = load_policy(args, make_env(args), SQUARED)
    assert type(policy) is kind and policy.hidden_size == 24


class Endless(torch.nn.Module):
    def __init__(self, env):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)


def test_a_recurrent_layer_needs_a_policy_with_two_ends(args, make_env):
    given = {**args, "policy_name": f"{__name__}:Endless", "rnn_name": "MinGRU"}
    with pytest.raises(ConfigError, match="MinGRU needs a policy with hidden_size, .* in Endless; add --rnn-name None"):
        load_policy(given, make_env(args), SQUARED)


def test_the_seed_of_the_run_decides_the_weights_and_nothing_global_does(args, make_env):
    vecenv = make_env(args)
    made = []
    for seed, noise in ((1, 10), (1, 20), (2, 10)):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        args["train"]["seed"] = seed
        made.append(weights(load_policy(args, vecenv, SQUARED)))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


@pytest.mark.parametrize(
    ("section", "key", "value"), [("policy", "hiden_size", 3), ("policy", "hidden_size", "wide"), ("rnn", "layers", 2)]
)
def test_policy_settings_are_checked(args, make_env, section, key, value):
    args["rnn_name"] = "MinGRU"
    args[section][key] = value
    with pytest.raises(ConfigError, match=rf"\[{section}\]"):
        load_policy(args, make_env(args), SQUARED)


def test_trained_weights_are_loaded_by_path_and_as_the_latest(args, make_env, tmp_path):
    vecenv = make_env(args)
    policy = load_policy({**args, "train": {**args["train"], "seed": 99}}, vecenv, SQUARED)
    path = tmp_path / f"{SQUARED}_1" / f"model_{SQUARED}_000001.pt"
    checkpoint.save(path, policy.state_dict())
    args["train"]["data_dir"] = str(tmp_path)
    for name in (str(path), "latest"):
        loaded = load_policy({**args, "load_model_path": name}, vecenv, SQUARED)
        assert torch.equal(weights(loaded), weights(policy))
    checkpoint.save(path.with_name("last.pt"), policy.state_dict())
    assert checkpoint.resolve_model(tmp_path, SQUARED, str(path.parent)) == path.with_name("last.pt")
    with pytest.raises(CheckpointError, match="must have shape"):
        load_policy({**args, "load_model_path": str(path), "policy": {"hidden_size": 8}}, vecenv, SQUARED)
