import contextlib
import inspect

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from trained import weights
from typing_extensions import get_overloads

import pufferlib
from pufferlib import PuffeRL, pufferl, vector
from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.config.automatic import Facts
from pufferlib.errors import APIUsageError, ConfigError, UnknownEnvironmentError
from pufferlib.loggers.logger import NoLogger
from pufferlib.models import Default
from pufferlib.ocean import env_class
from pufferlib.runs import calls

SQUARED = env_class("puffer_squared")


class CornerEnv(pufferlib.PufferEnv):
    """One agent that is paid for action 0."""

    def __init__(self, buf=None, seed=0):
        self.single_observation_space = Box(0, 1, (2,), np.float32)
        self.single_action_space = Discrete(2)
        self.num_agents = 1
        super().__init__(buf)
        self.times_closed = 0

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        self.rewards[:] = actions == 0
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self):
        self.times_closed += 1


class CrowdEnv(CornerEnv):
    """As many environments as are asked for, of 100 agents each."""

    def __init__(self, num_envs, buf=None, seed=0):
        super().__init__()
        self.num_agents = 100 * num_envs
        pufferlib.PufferEnv.__init__(self, buf)


def settings_from_keywords(given, num_agents, world_size=1, agents_per_env=256):
    """What keywords ask for in environments of `num_agents` agents in each process, by default a full vector."""
    spaces = Box(0, 1, (2,), np.float32), Discrete(2)
    facts = Facts(*spaces, num_agents * world_size, agents_per_env, world_size=world_size)
    return calls.settings_from_keywords(given, facts)


@pytest.fixture
def env():
    env = pufferlib.make("puffer_squared", num_envs=4)
    yield env
    env.close()


def made(*arguments, **keywords):
    """A trainer that is let go of at once."""
    trainer = PuffeRL(*arguments, **{"batch_size": 64, **keywords})
    trainer.release()
    return trainer


@pytest.mark.parametrize(
    ("kind", "settings", "backend"),
    [("cuda", {}, "Device"), ("cuda", {"compile": True}, "Native"), ("cpu", {}, "Native")],
)
def test_an_environment_for_a_trainer_on_a_gpu_may_go_there(kind, settings, backend, env, monkeypatch):
    monkeypatch.setattr(calls, "resolve_device", lambda name: torch.device(kind))
    with contextlib.ExitStack() as undo:
        vecenv = calls._adopt(env, "auto", TrainConfig(**settings), undo)
        assert type(vecenv).__name__ == backend


# --- both forms are one trainer


def test_both_forms_train_alike(env, tmp_path):
    settings = {"bptt_horizon": 16, "batch_size": 64, "seed": 5, "optimizer": "adam", "data_dir": str(tmp_path)}
    trained = []
    for form in ("config", "keyword"):
        torch.manual_seed(0)
        policy = Default(env)
        if form == "config":
            vecenv = vector.make(SQUARED, env_kwargs={"num_envs": 4}, seed=5)
            config = {**settings_from_keywords(settings, 4, agents_per_env=4), "device": "cpu"}
            config["normalize_observations"] = False  # the policy is the user's
            trainer = PuffeRL(config, vecenv, policy)
        else:
            trainer = PuffeRL(env, policy, device="cpu", **settings)
        for _ in range(3):
            trainer.evaluate()
            trainer.train()
        trainer.release()
        trained.append(weights(policy))
    assert torch.equal(*trained)


def test_the_signature_says_what_the_defaults_are():
    overloads = get_overloads(PuffeRL.__init__)
    declared = {
        name: parameter.default
        for name, parameter in inspect.signature(overloads[1]).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    found = settings_from_keywords({}, num_agents=256)
    aliases = {"n_epochs": "update_epochs", "num_steps": "bptt_horizon"}
    of_envs = {"num_envs": 256, "num_workers": "auto"}
    assert declared == {name: of_envs.get(name, found.get(aliases.get(name, name))) for name in declared}
    by_config = ["config", "vecenv", "policy", "logger", "eval_env", "loss"]
    assert list(inspect.signature(overloads[0]).parameters)[1:] == by_config


def test_a_configuration_takes_one_environment_too(env):
    config = {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 64}
    trainer = PuffeRL(config, env, Default(env))
    trainer.evaluate()
    assert type(trainer.vecenv) is vector.Native and trainer.config.batch_size == 32
    trainer.release()


def test_every_setting_is_a_keyword(env):
    trainer = made(env, optimizer="muon", prio_alpha=0.5, minibatch_size=16, num_steps=16, device=torch.device("cpu"))
    config = trainer.config
    assert (config.optimizer, config.prio_alpha, config.minibatch_size, config.device) == ("muon", 0.5, 16, "cpu")


# --- what is silent in a call


def test_the_defaults():
    found = settings_from_keywords({}, num_agents=256)
    assert (found["batch_size"], found["bptt_horizon"], found["minibatch_size"]) == (32_768, 128, 1_024)
    assert (found["optimizer"], found["adam_beta1"], found["adam_eps"]) == ("adam", 0.9, 1e-5)
    assert (found["reward_clip"], found["prio_alpha"], found["anneal_lr"], found["compile"]) == (0.0, 0.0, False, False)


@pytest.mark.parametrize("end", [{"total_timesteps": 100_000}, {"num_iterations": 5}])
def test_the_learning_rate_is_annealed_where_there_is_an_end(end):
    assert settings_from_keywords(end, 256)["anneal_lr"]
    assert not settings_from_keywords({**end, "anneal_lr": False}, 256)["anneal_lr"]


@pytest.mark.parametrize(
    ("given", "agents", "expected"),
    [
        ({}, 256, (32_768, 128, 1_024)),
        ({}, 1, (32_768, 128, 1_024)),
        ({}, 100, (38_400, 128, 1_024)),  # rounded up
        ({}, 1_024, (131_072, 128, 1_024)),
        ({}, 2_048, (262_144, 128, 2_048)),
        ({"num_steps": 32}, 100, (35_200, 32, 1_024)),
        ({"num_minibatches": 8}, 256, (32_768, 128, "auto")),
        ({"num_minibatches": 8, "minibatch_size": 512}, 256, (32_768, 128, 512)),
        ({"batch_size": 64}, 4, (64, 16, 16)),
        ({"batch_size": 960}, 4, (960, 120, 240)),
        ({"batch_size": 4 * 13}, 4, (52, 13, 13)),
        ({"batch_size": "auto"}, 4, (512, 128, 128)),
        ({"batch_size": 320, "n_epochs": 2, "bptt_horizon": 8}, 4, (320, 8, 80)),
        ({"batch_size": 20_000_000, "num_steps": 100}, 4, (20_000_000, 100, 156_300)),
    ],
)
def test_sizes_fit_the_agents(given, agents, expected):
    found = settings_from_keywords(given, agents)
    assert (found["batch_size"], found["bptt_horizon"], found["minibatch_size"]) == expected
    resolve_sizes(TrainConfig.from_dict(found), agents, "cpu")


def test_sizes_are_those_of_all_processes():
    found = settings_from_keywords({}, 100, world_size=3)
    assert (found["batch_size"], found["bptt_horizon"], found["minibatch_size"]) == (38_400, 128, 1_152)
    assert resolve_sizes(TrainConfig.from_dict(found), 100, "cpu", 3).segments == 100
    found = settings_from_keywords({"batch_size": 7 * 3 * 10}, 7, world_size=3)
    assert resolve_sizes(TrainConfig.from_dict(found), 7, "cpu", 3).minibatch_segments == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 1_000}, r"must be a multiple of 256 \(256 agents\), got 1000; the nearest: 768 or 1024"),
        ({"batch_size": 100}, r"must be a multiple of 256 \(256 agents\), got 100; the nearest: 256"),
        ({"batch_size": 256 * 131}, r"\(256 agents \* num_steps 128\), got 33536; the nearest: 32768 or 65536"),
        (
            {"batch_size": 4_096, "num_steps": 32},
            r"of 8192 \(256 agents \* num_steps 32\), got 4096; the nearest: 8192",
        ),
        ({"batch_size": "many"}, r"\[train\] batch_size must be an integer"),
        ({"total_timesteps": 10}, "total_timesteps must be at least one batch.*; ask for 32768 or more, or have"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        resolve_sizes(TrainConfig.from_dict(settings_from_keywords(given, 256)), 256, "cpu")


def test_the_default_policy_leaves_torchs_random_numbers_alone(env):
    before = torch.get_rng_state()
    made(env)
    assert torch.equal(torch.get_rng_state(), before)


# --- environments


@pytest.mark.parametrize(
    ("env", "keywords", "agents", "name"),
    [
        ("puffer_squared", {"num_envs": 8}, 8, "puffer_squared"),
        ("puffer_squared", {"batch_size": 512}, 256, "puffer_squared"),
        (SQUARED, {"num_envs": 8}, 8, "puffer_squared"),
        (CornerEnv, {"num_envs": 2, "num_workers": 1}, 2, f"{__name__}:CornerEnv"),
        (CrowdEnv, {"num_steps": 4, "batch_size": "auto"}, 2_000, f"{__name__}:CrowdEnv"),
        (CrowdEnv, {"num_steps": 4, "batch_size": "auto", "num_envs": 30}, 3_000, f"{__name__}:CrowdEnv"),
        (lambda: SQUARED(num_envs=4), {}, 4, "puffer_squared"),
    ],
    ids=["name", "name alone", "class of many", "class of one", "crowd", "crowd by number", "vector"],
)
def test_what_an_environment_may_be(env, keywords, agents, name):
    if not isinstance(env, (str, type)):
        env = vector.adopt(env())
    trainer = made(env, **keywords)
    assert (trainer.vecenv.num_agents, trainer.env_name) == (agents, name)
    assert not trainer.vecenv.is_open


def test_a_ready_environment_knows_its_number(env):
    assert made(vector.adopt(env), num_envs=4).vecenv.num_agents == 4


def test_threads_are_chosen_by_keyword(env):
    assert made(env, num_workers=1).vecenv.num_workers == 1


def test_a_failed_call_leaves_the_environment_open(env):
    with pytest.raises(APIUsageError, match="must return logits"):
        PuffeRL(env, Default(pufferlib.make("puffer_template", num_envs=1)) and WrongHead(), batch_size=64)
    with pytest.raises(ConfigError):
        PuffeRL(env, learning_rate=-1.0)
    assert made(env).vecenv.num_agents == 4


def test_a_failed_call_closes_what_it_made():
    envs = []

    def creator(buf=None, seed=0):
        envs.append(CornerEnv(buf, seed))
        return envs[-1]

    with pytest.raises(APIUsageError, match="must take observations"):
        PuffeRL(creator, WrongHead(), num_envs=2, num_workers=1, batch_size=64)
    assert len(envs) == 3 and all(env.times_closed == 1 for env in envs)  # one more, to learn the spaces


class WrongHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(121, 3)

    def forward(self, observations):
        return self.layer(observations.float()), self.layer(observations.float())[:, 0]


# --- misuse, one sentence each

MISUSE = {
    "no environment": (lambda env: PuffeRL(), "PuffeRL needs an environment first, got none; call PuffeRL.env, policy"),
    "policy alone": (lambda env: PuffeRL(policy=Default(env)), "PuffeRL needs an environment first, got none"),
    "config as env": (
        lambda env: PuffeRL(env={}),
        r"PuffeRL needs an environment first, got dict; call .* PuffeRL\(config, vecenv",
    ),
    "config second": (
        lambda env: PuffeRL(env, {}, Default(env)),
        r"policy must be an instance of torch.nn.Module, got dict; call .* PuffeRL\(config, vecenv",
    ),
    "env as config": (
        lambda env: PuffeRL(config=env, policy=Default(env)),
        r"config must be a mapping of \[train\] settings, got Squared; call PuffeRL",
    ),
    "policy as vecenv": (
        lambda env: PuffeRL({}, Default(env), env),
        r"vecenv must be a vector from load_env or pufferlib.vector.make, got Default; call .* PuffeRL\(config, v",
    ),
    "whole config": (
        lambda env: PuffeRL(pufferl.load_config("puffer_squared"), env, Default(env)),
        r"got the whole configuration; pass args\['train'\]",
    ),
    "no policy": (lambda env: PuffeRL({}, env), r"PuffeRL\(config, vecenv, policy\) needs policy, got none"),
    "settings beside a config": (
        lambda env: PuffeRL({}, env, Default(env), gamma=0.9),
        "'gamma'; settings belong into the configuration",
    ),
    "unknown keyword": (
        lambda env: PuffeRL(env, learning_rat=0.1),
        "PuffeRL has no keyword 'learning_rat'; did you mean 'learning_rate'",
    ),
    "keyword of the environment": (
        lambda env: PuffeRL("puffer_squared", difficulty=0.3),
        "PuffeRL has no keyword 'difficulty'; keywords of the environment go to pufferlib.make",
    ),
    "both names": (
        lambda env: PuffeRL(env, n_epochs=1, update_epochs=2),
        "n_epochs and update_epochs are two names of one setting, got both; pass one",
    ),
    "twice": (lambda env: PuffeRL(env, env=env), "multiple values for argument 'env'"),
    "too many": (
        lambda env: PuffeRL(env, Default(env), None, 3e-4),
        r"PuffeRL\(env, policy, logger\): too many positional arguments",
    ),
    "policy class": (
        lambda env: PuffeRL(env, WrongHead),
        "policy must be an instance of torch.nn.Module, got the class WrongHead; call",
    ),
    "swapped": (
        lambda env: PuffeRL(Default(env), env),
        r"PuffeRL needs an environment first, got Default; call PuffeRL\(env, policy\)",
    ),
    "no module": (lambda env: PuffeRL(env, 3), "policy must be an instance of torch.nn.Module, got int"),
    "no logger": (lambda env: PuffeRL(env, Default(env), 3e-4), "logger must have log, close and run_id, got float"),
    "gymnasium": (
        lambda env: PuffeRL(gymnasium.Env()),
        "Env.observation_space must be a gymnasium.Space; set it in __init__",
    ),
    "a number": (lambda env: PuffeRL(3), "env must be a PufferEnv, got int"),
    "other num_envs": (
        lambda env: PuffeRL(env, num_envs=8),
        "num_envs must be left out or be the 4 of the environment that is given, got 8; make the environment with num",
    ),
    "no trainable part": (
        lambda env: PuffeRL(env, nn.Identity()),
        "Identity must have parameters to train, got none that require gradients",
    ),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_answered_in_one_sentence(env, name):
    call, message = MISUSE[name]
    with pytest.raises(APIUsageError, match=message) as caught:
        call(env)
    assert "\n" not in str(caught.value)
    made(env)  # nothing was closed or taken


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(
        UnknownEnvironmentError, match="no environment 'puffer_brekout'; did you mean 'puffer_breakout'"
    ):
        PuffeRL("puffer_brekout")


def test_num_workers_of_a_vector_cannot_be_changed(env):
    vecenv = vector.adopt(env, num_workers=1)
    with pytest.raises(APIUsageError, match="num_workers must be left out or be the 1 of the environment"):
        PuffeRL(vecenv, num_workers=2)
    assert made(vecenv, logger=[NoLogger("named"), NoLogger()]).run_folder.name == "puffer_squared_named"
