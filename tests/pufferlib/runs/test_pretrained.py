"""The agents that come with the package: that they fit today's environments and policies, and play as well as said."""

import json
import math
from dataclasses import replace

import pytest
import torch

from pufferlib import evaluate, ocean, vector
from pufferlib.config import check_config, check_section
from pufferlib.errors import CheckpointError, UnknownEnvironmentError
from pufferlib.families import catalog
from pufferlib.play.scores import counts_by_agent
from pufferlib.runs.checkpoint import save
from pufferlib.runs.description import model_settings, pretrained_names, pretrained_path
from pufferlib.runs.loaders import load_policy

QUICK = ("puffer_breakout", "puffer_cartpole", "puffer_memory", "puffer_multiagent", "puffer_spaces")
EPISODES = 24
MAX_BYTES = 1_100_000  # that of chess, with 1,858 actions; most have less than 100,000
MAX_SHORTFALL = 0.02  # of the recorded mean: floats that are summed in another order play other episodes


def remake(name):
    return f"the trained agent of {name} does not fit any more; run `python bench/pretrain.py {name}`"


def pretrained_facts(name):
    return json.loads(pretrained_path(name).with_suffix(".json").read_text())


def loaded(name):
    """The agent as commands load it, and its settings."""
    given = {"load_model_path": str(pretrained_path(name)), "train": {"device": "cpu", "data_dir": "experiments"}}
    settings = model_settings(name, given, is_policy_named=False)
    check_config(settings)
    entry = catalog.find(name)
    with vector.make(
        entry.creator, env_kwargs=check_section("env", {**settings["env"], "num_envs": 1}, name)
    ) as vecenv:
        return load_policy(settings, vecenv, name), settings


def agents_of(name):
    """In one environment."""
    return catalog.find(name).agents_per_env


def score_of(policy, name, metric, sample):
    """The score of some games, and how many episodes of agents that is to be of.

    A game is an episode of an environment, and its agents' scores are one number, so that the standard error is that of
    the games. Where agents begin and end apart all of them play once: the first few snakes of an arena say little, as
    they meet each other, and a few long lives make most of the mean.
    """
    agents, is_apart = agents_of(name), counts_by_agent(catalog.find(name).creator)
    episodes = max(EPISODES, agents) if is_apart else EPISODES * agents
    found = evaluate(policy, name, episodes if is_apart else EPISODES, sample)[metric]
    error = found.standard_error if is_apart else math.sqrt(agents) * found.standard_error
    return replace(found, standard_error=error), episodes


def test_every_environment_has_an_agent():
    assert {*ocean.names()} == {*pretrained_names()}, "run bench/pretrain.py"


@pytest.mark.quick("puffer_multiagent")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in pretrained_names()]
)
def test_an_agent_fits_and_plays_as_well_as_recorded(name):
    try:
        policy, settings = loaded(name)
        metric, recorded = settings["solve"]["metric"], pretrained_facts(name)["score"]
        # By the likeliest actions, but where it takes chance to play well.
        way = "greedy" if recorded["greedy"][metric]["mean"] >= settings["solve"]["threshold"] else "sampled"
        found, episodes = score_of(policy, name, metric, sample=way == "sampled")
    except Exception as error:
        raise AssertionError(remake(name)) from error
    expected = recorded[way][metric]["mean"]
    assert found.episodes == episodes, f"episodes do not end: {remake(name)}"
    least = max(settings["solve"]["threshold"], (1 - MAX_SHORTFALL) * expected)
    assert found.mean >= least - 4 * found.standard_error, remake(name)


@pytest.mark.quick("puffer_breakout", "puffer_drone", "puffer_poker", "puffer_slimevolley", "puffer_spaces")
@pytest.mark.parametrize("name", pretrained_names())
def test_an_agent_is_small_and_says_how_it_was_made(name):
    path, facts = pretrained_path(name), pretrained_facts(name)
    assert path.stat().st_size < MAX_BYTES
    assert all(tensor.dtype == torch.float32 for tensor in torch.load(path, weights_only=True).values())
    assert facts.keys() - {"training_env"} == {"settings", "command", "steps", "seed", "threads", "score", "versions"}
    assert facts["command"].startswith(f"python bench/pretrain.py {name}")
    assert facts["settings"]["train"]["seed"] == facts["seed"] and facts["steps"] > 0
    assert facts["threads"] == 1  # of more, sums are in another order and the agent is another
    assert facts["settings"]["train"]["data_dir"] == "experiments"  # and no folder of the machine that made it
    for score in facts["score"].values():
        (episodes,) = {one["episodes"] for one in score.values()}
        assert episodes >= 1_000 and episodes % agents_of(name) == 0
        assert all(one["standard_error"] >= 0 for one in score.values())


def test_where_there_is_none_the_others_are_named(monkeypatch, tmp_path):
    with pytest.raises(
        CheckpointError, match="no trained agent of CartPole-v1 comes with the package.*puffer_cartpole"
    ):
        pretrained_path("CartPole-v1")
    with pytest.raises(UnknownEnvironmentError, match="puffer_pong"):
        pretrained_path("puffer_pongg")


def test_weights_with_a_description_of_their_own_are_played_by_it(tmp_path):
    """As those of the package are, wherever somebody keeps theirs."""
    settings = {**pretrained_facts("puffer_cartpole")["settings"]}
    settings["train"] = {**settings["train"], "gamma": 0.25}
    (tmp_path / "mine.json").write_text(json.dumps({"settings": settings}))
    save(tmp_path / "mine.pt", {})
    given = {"load_model_path": str(tmp_path / "mine.pt"), "train": {"device": "cpu", "data_dir": "here"}}
    found = model_settings("puffer_cartpole", given, is_policy_named=False)
    assert (found["train"]["gamma"], found["train"]["device"]) == (0.25, "cpu")
    with pytest.raises(CheckpointError, match="must be of a run of puffer_pong, got one of puffer_cartpole"):
        model_settings("puffer_pong", given, is_policy_named=False)
