import json
import os
import pickle
import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib import load_agent
from pufferlib.errors import APIUsageError, CheckpointError, PufferError
from pufferlib.models import Default
from pufferlib.pufferl import train
from pufferlib.runs import checkpoint
from pufferlib.runs.description import pretrained_path

CARTPOLE = "puffer_cartpole"


class Corridor(gymnasium.Env):
    """An environment of a program of one's own."""

    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(2)
    closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        raise AssertionError("an agent steps nothing")

    def close(self):
        Corridor.closed += 1


class Own(Default):
    """A policy of a program of one's own."""


@pytest.fixture
def trainer(tmp_path):
    """Makes a trainer of a few steps, whose run is in the folder of the test."""

    def make(env, policy=None, **settings):
        made = pufferlib.PuffeRL(env, policy, data_dir=str(tmp_path), batch_size=64, num_steps=8, **settings)
        made.evaluate()
        made.train()
        return made

    return make


def assert_same_weights(agent, policy):
    for name, tensor in policy.state_dict().items():
        assert torch.equal(agent.policy.state_dict()[name], tensor), name


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A folder of one's own, which stays empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert os.listdir() == []


# --- from where


def test_the_agent_of_the_package_has_the_name_of_its_environment(nowhere):
    agent = load_agent(CARTPOLE)
    assert agent.settings["load_model_path"] == str(pretrained_path(CARTPOLE))
    env = pufferlib.make(CARTPOLE, num_envs=1)
    observations, _ = env.reset(seed=0)
    for _ in range(499):  # it never falls
        observations, _, terminals, _, _ = env.step(agent.act(observations))
        assert not terminals.any()
    assert repr(agent) == "<Agent of puffer_cartpole: Default on cpu>"


def test_a_device_of_torch_is_as_good_as_its_name():
    agent = load_agent(CARTPOLE, device=torch.device("cpu"))
    assert agent.device == torch.device("cpu") and agent.settings["train"]["device"] == "cpu"


@pytest.mark.quick("MinGRU")
@pytest.mark.parametrize("recurrence", [None, "MinGRU"])
def test_a_run_is_loaded_by_its_folder_its_weights_and_a_file_of_all(tmp_path, recurrence):
    args = pufferlib.pufferl.load_config("puffer_squared")
    args.update(rnn_name=recurrence)
    args["env"].update(size=5, num_envs=8)
    args["train"].update(device="cpu", total_timesteps=1024, batch_size=64, minibatch_size=32, bptt_horizon=8)
    args["train"].update(data_dir=str(tmp_path / "runs"), gamma=0.75)
    train("puffer_squared", args)
    (folder,) = (tmp_path / "runs").iterdir()
    (numbered,) = [path for path in folder.glob("model_*.pt") if path.read_bytes() == (folder / "last.pt").read_bytes()]
    for source in (folder, str(folder), numbered):
        agent = load_agent(source)
        assert agent.settings["train"]["gamma"] == 0.75
        assert agent.observation_space.shape == (25,)
        assert agent.act(np.zeros(25, np.uint8)) in agent.action_space
        for name, tensor in checkpoint.load(numbered).items():
            assert torch.equal(agent.policy.state_dict()[name], tensor)


def test_the_best_weights_of_a_run_count_before_the_last(trainer, tmp_path):
    made = trainer(pufferlib.make(CARTPOLE, num_envs=8))
    folder = made.run_folder
    made.close()
    assert load_agent(folder).settings["load_model_path"] == str(folder / "last.pt")
    checkpoint.keep_best(folder, "score", checkpoint.load(folder / "last.pt"), {"env": CARTPOLE, "score": 1.0})
    assert load_agent(folder).settings["load_model_path"] == str(folder / "best.pt")
    for name in ("best", "last"):
        (folder / f"{name}.pt").unlink()
    assert load_agent(folder).settings["load_model_path"].startswith(str(folder / "model_"))


def test_a_checkpoint_in_one_file_says_what_it_was_trained_with(trainer, tmp_path):
    made = trainer(pufferlib.make(CARTPOLE, num_envs=8), normalize_observations=True)
    path = made.save_checkpoint(tmp_path / "alone" / "one.pt")
    agent = load_agent(path)
    assert_same_weights(agent, made.policy)
    assert agent.settings["env_name"] == CARTPOLE and agent.settings["train"]["normalize_observations"]
    made.close()


def test_the_settings_may_lie_beside_the_weights(tmp_path):
    made = load_agent(CARTPOLE)
    torch.save(made.policy.state_dict(), tmp_path / "mine.pt")
    (tmp_path / "mine.json").write_text(json.dumps({"settings": made.settings}))
    assert_same_weights(load_agent(tmp_path / "mine.pt"), made.policy)


def test_an_environment_of_ones_own_is_given(trainer):
    made = trainer(Still, num_envs=8, num_workers=1)
    path = made.close()
    name = f"{__name__}:Still"
    with pytest.raises(
        CheckpointError, match=f"a module is imported only where you name it yourself; pass env='{name}'"
    ):
        load_agent(path)
    for env in (Still, Still(), name):
        agent = load_agent(path, env=env)
        assert agent.act(np.zeros(2)) in (0, 1)
        assert_same_weights(agent, made.policy)


def test_evaluate_plays_in_the_environment_that_an_agent_was_loaded_for(trainer):
    made = trainer(partial(Counting, length=3), num_envs=8, num_workers=1)
    path = made.close()
    for env in (Counting, partial(Counting, length=3), f"{__name__}:Counting", Counting(length=3)):
        agent = load_agent(path, env=env)
        assert pufferlib.evaluate(agent, episodes=4)["episode_length"].mean == 3
        assert pickle.loads(pickle.dumps(agent)).act(np.zeros(2)) in (0, 1)


def test_a_module_that_a_file_names_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "code_of_a_stranger.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = load_agent(CARTPOLE)
    torch.save(made.policy.state_dict(), tmp_path / "mine.pt")
    for name in ("code_of_a_stranger:Env", "code_of_a_stranger:Env-v0", "os:system", "subprocess:Popen"):
        settings = {**made.settings, "env_name": name, "env": {"args": ["touch", str(tmp_path / "ran")]}}
        (tmp_path / "mine.json").write_text(json.dumps({"settings": settings}))
        with pytest.raises(CheckpointError, match="a module is imported only where you name it yourself"):
            load_agent(tmp_path / "mine.pt")
        agent = load_agent(tmp_path / "mine.pt", env="CartPole-v1")
        agent.env = None  # as in a copy that was pickled
        with pytest.raises(CheckpointError, match="a module is imported only where you name it yourself"):
            pufferlib.evaluate(agent)
        assert not (tmp_path / "ran").exists() and "code_of_a_stranger" not in sys.modules


def test_an_environment_that_is_given_need_not_be_there_under_its_name(tmp_path):
    made = load_agent(CARTPOLE)
    torch.save(made.policy.state_dict(), tmp_path / "mine.pt")
    for name in ("module_of_elsewhere:Pole-v0", "pole_of_elsewhere"):
        (tmp_path / "mine.json").write_text(json.dumps({"settings": {**made.settings, "env_name": name}}))
        with pytest.raises(PufferError, match="a module is imported only where|no name of an environment"):
            load_agent(tmp_path / "mine.pt")
        assert_same_weights(load_agent(tmp_path / "mine.pt", env="CartPole-v1"), made.policy)


class Counting(Corridor):
    """Its episodes are as long as the argument says."""

    def __init__(self, length: int = 5):
        self.length, self.steps = length, 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == self.length, False, {}


class Still(Corridor):
    """The one that can be stepped."""

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_an_environment_is_closed_where_it_was_made_and_never_stepped(tmp_path):
    env = pufferlib.make(Corridor)
    torch.save(Default(env).state_dict(), tmp_path / "mine.pt")
    settings = {**load_agent(CARTPOLE).settings, "policy": {}, "env_name": "corridor"}
    (tmp_path / "mine.json").write_text(json.dumps({"settings": settings}))
    before = Corridor.closed
    ready = Corridor()
    load_agent(tmp_path / "mine.pt", env=ready)
    assert Corridor.closed == before
    load_agent(tmp_path / "mine.pt", env=Corridor)
    assert Corridor.closed > before


# --- what cannot be loaded


def test_what_is_not_there_or_says_too_little_is_one_sentence(tmp_path):
    with pytest.raises(CheckpointError, match="there is no file and no folder of a run puffer_cartpoole; did you mean"):
        load_agent("puffer_cartpoole")
    with pytest.raises(CheckpointError, match=f"there are no weights in {tmp_path}"):
        load_agent(tmp_path)
    with pytest.raises(APIUsageError, match="source must be a path or the name of an environment of Ocean, got int"):
        load_agent(5)
    torch.save({"weight": torch.zeros(2)}, tmp_path / "bare.pt")
    with pytest.raises(CheckpointError, match="bare.pt does not say what it was trained with"):
        load_agent(tmp_path / "bare.pt")
    (tmp_path / "bare.json").write_text(json.dumps({"settings": load_agent(CARTPOLE).settings}))
    with pytest.raises(CheckpointError, match="bare.pt lacks the tensor 'encoder.0.weight'"):
        load_agent(tmp_path / "bare.pt")


@pytest.mark.parametrize("settings", [{}, {"normalize_observations": True}])
def test_a_policy_of_ones_own_is_given(trainer, settings):
    env = pufferlib.make(CARTPOLE, num_envs=8)
    made = trainer(env, Own(env), **settings)
    observations = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    expected = pufferlib.Agent(made.policy, env).value(observations)
    path = made.close()
    with pytest.raises(CheckpointError, match=r"was trained with the policy .*Own.*load_agent\(path, policy=module\)"):
        load_agent(path)
    agent = load_agent(path, policy=Own(env))
    np.testing.assert_array_equal(agent.value(observations), expected)
    assert pufferlib.evaluate(agent, episodes=4)["score"].episodes >= 4


def test_a_given_policy_that_does_not_fit_the_weights_is_refused(trainer):
    env = pufferlib.make(CARTPOLE, num_envs=8)
    path = trainer(env, Own(env)).close()
    with pytest.raises(CheckpointError, match="encoder.0.weight"):
        load_agent(path, policy=Default(env, 16))


@pytest.mark.slow
def test_loading_needs_no_trainer(tmp_path):
    code = (
        "import sys, pufferlib; pufferlib.load_agent('puffer_cartpole').act([0, 0, 0, 0]);"
        "assert not {'pufferlib.pufferl', 'pufferlib.cli', 'pufferlib.play.scores'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, number):
    made = load_agent(CARTPOLE)
    weights = {name: tensor.clone() for name, tensor in made.policy.state_dict().items()}
    weights["head.linear.weight"][1, 4] = number
    torch.save(weights, tmp_path / "mine.pt")
    (tmp_path / "mine.json").write_text(json.dumps({"settings": made.settings}))
    expected = f"mine.pt must hold finite weights, but the weight 'head.linear.weight' is {number}; take"
    with pytest.raises(CheckpointError, match=expected):
        load_agent(tmp_path / "mine.pt")
