import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.spaces import Box, Discrete

from pufferlib import ocean, vector
from pufferlib.config import load_config
from pufferlib.dashboard.score import Score
from pufferlib.families import catalog
from pufferlib.play.scores import evaluate_model
from pufferlib.runs import checkpoint
from pufferlib.runs.loaders import load_env, load_policy

SQUARED = "puffer_squared"


# --- environments of Python


@pytest.fixture
def untrained(tmp_path, monkeypatch):
    """Settings and the path of an untrained policy of any environment."""

    def save(env_name, **env):
        monkeypatch.chdir(tmp_path)
        args = load_config(env_name)
        args["env"].update(env)
        args["train"]["device"] = "cpu"
        with vector.make(catalog.find(env_name).creator, env_kwargs=args["env"], backend="Serial") as vecenv:
            policy = load_policy(args, vecenv, env_name)
        checkpoint.save(tmp_path / "model.pt", policy.state_dict())
        return {**args, "load_model_path": "model.pt"}

    return save


class Lottery(gymnasium.Env):
    """One step, which may win; says so at the end."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"success": 7.0}

    def step(self, action):
        has_won = self.np_random.random() < 0.5
        return np.zeros(2, np.float32), 3.0, True, False, {"success": has_won, "episode_length": 1, "where": "here"}


@pytest.fixture
def lottery():
    gymnasium.register("Lottery-v0", Lottery)
    yield "Lottery-v0"
    del gymnasium.registry["Lottery-v0"]


def test_what_the_environment_says_at_the_end_is_scored_too(untrained, lottery):
    scores = evaluate_model(lottery, untrained(lottery), 50)
    assert list(scores) == ["episode_return", "success", "episode_length"]
    assert scores["episode_return"] == Score(3.0, 0.0, 50)
    assert 0.2 < scores["success"].mean < 0.8 and scores["success"].episodes == 50


# --- the real thing


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Settings and the path of an untrained policy of a small squared."""
    monkeypatch.chdir(tmp_path)
    args = load_config(SQUARED)
    args["env"].update(num_envs=4, size=5)
    args["train"]["device"] = "cpu"
    with load_env(SQUARED, args) as vecenv:
        policy = load_policy(args, vecenv, SQUARED)
    checkpoint.save(tmp_path / "model.pt", policy.state_dict())
    return {**args, "load_model_path": "model.pt"}


def test_a_saved_policy_is_scored_on_the_environment_it_was_trained_in(saved, tmp_path):
    processes = psutil.Process().children()
    scores = evaluate_model(SQUARED, saved, 20)
    assert {"score", "perf", "episode_return", "episode_length"} <= scores.keys()
    assert all(score.episodes == 20 for score in scores.values())
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    assert psutil.Process().children() == processes


def test_weights_that_are_not_finite_are_not_played(saved, tmp_path):
    weights = checkpoint.load(tmp_path / "model.pt")
    weights["head.linear.bias"][0] = np.nan
    checkpoint.save(tmp_path / "model.pt", weights)
    expected = "model.pt must hold finite weights, but the weight 'head.linear.bias' is nan; take an earlier model"
    with pytest.raises(checkpoint.CheckpointError, match=expected):
        evaluate_model(SQUARED, saved, 3)


def test_environments_are_closed_when_the_policy_does_not_load(saved, monkeypatch):
    closed = []
    close = ocean.env_class(SQUARED).close
    monkeypatch.setattr(ocean.env_class(SQUARED), "close", lambda self: closed.append(close(self)))
    saved["load_model_path"] = "missing.pt"
    with pytest.raises(checkpoint.CheckpointError):
        evaluate_model(SQUARED, saved, 3)
    assert len(closed) >= 3
