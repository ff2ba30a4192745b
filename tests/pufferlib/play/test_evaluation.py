import math
import statistics
from types import SimpleNamespace

import gymnasium
import numpy as np
import psutil
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from pufferlib import ocean, vector
from pufferlib.config import load_config
from pufferlib.environment import PufferEnv
from pufferlib.families import catalog
from pufferlib.ocean import rendering
from pufferlib.play import evaluation
from pufferlib.play.evaluation import Score, evaluate, evaluate_command
from pufferlib.runs import checkpoint
from pufferlib.runs.loaders import load_env, load_policy

SQUARED = "puffer_squared"


class Races(PufferEnv):
    """One episode after the other; seed `s` runs episodes of s % 5 + 1 steps. The score is the sum of the actions."""

    def __init__(self, num_envs=1, report_interval=1, agents=1, buf=None, seed=0):
        assert num_envs == report_interval == 1
        self.single_observation_space = Box(0, 100, (1,), np.float32)
        self.single_action_space = Discrete(3)
        self.num_agents = agents
        super().__init__(buf)
        self.reset(seed)

    def reset(self, seed=None):
        self.length = seed % 5 + 1 if seed is not None else self.length
        self.start()
        return self.observations, []

    def start(self):
        self.steps, self.score = 0, 0.0
        self.observations[:] = 0

    def step(self, actions):
        self.steps += 1
        self.score += float(actions.sum())
        self.observations[:] = self.steps
        is_over = self.steps == self.length
        self.terminals[:] = is_over
        infos = [{"score": self.score, "episode_length": self.steps, "n": 1}] if is_over else []
        if is_over:
            played.append(self.length)
            self.start()
        return self.observations, self.rewards, self.terminals, self.truncations, infos


played: list[int] = []


class Biased(torch.nn.Module):
    """Prefers action 2 a little."""

    def forward(self, observations, state):
        return torch.tensor([0.0, 0.0, 0.5]).expand(len(observations), -1), observations[:, 0]


class Counting(Biased):
    """Acts 2 in the first step of an episode, as its state tells, and 0 after."""

    def initial_state(self, batch, device):
        return {"count": torch.zeros(batch, 1, device=device)}

    def forward_eval(self, observations, state):
        is_first = (state["count"] == 0).float()
        state["count"] = state["count"] + 1
        return torch.cat([1 - is_first, torch.full_like(is_first, -9), is_first], 1), observations[:, 0]


class Threaded(Biased):
    """Notes the threads that torch has while it acts."""

    def __init__(self):
        super().__init__()
        self.counts = set()

    def forward(self, observations, state):
        self.counts.add(torch.get_num_threads())
        return super().forward(observations, state)


@pytest.fixture
def races(monkeypatch):
    """Makes `evaluate` play races with a policy."""

    def play(policy, episodes, environment=Races, **keywords):
        played.clear()
        entry = SimpleNamespace(creator=environment, settings=["num_envs"])
        monkeypatch.setattr(evaluation, "catalog", SimpleNamespace(find=lambda name: entry))
        monkeypatch.setattr(evaluation, "load_policy", lambda args, vecenv, name: policy)
        args = {**load_config(SQUARED), "env": keywords.pop("env", {})}
        args["train"].update(device="cpu", seed=keywords.pop("seed", 0))
        return evaluate(SQUARED, args, episodes, **keywords)

    return play


def test_a_policy_plays_on_one_thread_which_others_that_are_busy_cannot_hold_up(races):
    before = torch.get_num_threads()
    policy = Threaded()
    try:
        torch.set_num_threads(3)
        races(policy, 4)
        assert policy.counts == {1} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# --- what is counted


def test_every_environment_plays_its_share_so_short_episodes_do_not_crowd_out_long_ones(races):
    scores = races(Biased(), 200)
    assert scores["episode_length"].episodes == 200
    # 200 environments played one episode each, however long it was: lengths 1 to 5 are about equally frequent.
    assert scores["episode_length"].mean == pytest.approx(3, abs=0.35)
    assert len(played) == 200  # and none went on meanwhile


def test_more_episodes_than_environments_are_played_in_turn(races, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_ENVIRONMENTS", 8)
    scores = races(Biased(), 21)
    assert scores["score"].episodes == 21


def test_episodes_that_do_not_end_are_given_up(races):
    scores = races(Biased(), 200, max_steps=2)  # races take 1 to 5 steps
    assert 20 < scores["episode_length"].episodes < 180
    assert scores["episode_length"].mean <= 2


def test_greedy_play_takes_the_likeliest_action(races):
    scores = races(Biased(), 50)
    assert scores["score"].mean == 2 * scores["episode_length"].mean


def test_sampled_play_draws_from_the_policy(races):
    scores = races(Biased(), 100, is_greedy=False)
    probabilities = torch.tensor([0.0, 0.0, 0.5]).softmax(0)
    expected = float(probabilities @ torch.arange(3.0)) * scores["episode_length"].mean
    assert scores["score"].mean == pytest.approx(expected, rel=0.15)
    assert scores["score"].mean != 2 * scores["episode_length"].mean


def test_the_seed_decides_what_is_played(races):
    first, same, other = (races(Biased(), 40, is_greedy=False, seed=seed) for seed in (1, 1, 2))
    assert first == same and first != other


def test_recurrent_state_begins_anew_with_every_episode(races, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_ENVIRONMENTS", 5)
    scores = races(Counting(), 30)
    assert scores["score"] == Score(2.0, 0.0, 30)


def test_teams_report_once_an_episode(races):
    scores = races(Biased(), 10, env={"agents": 3})
    assert scores["score"].episodes == 10
    assert scores["score"].mean == pytest.approx(6 * scores["episode_length"].mean)


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


def test_returns_and_lengths_are_counted_where_the_environment_reports_none(untrained, capsys):
    evaluate_command("CartPole-v1", untrained("CartPole-v1", max_episode_steps=7), episodes=40, headless=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["episode_return   7.000 +- 0.000 (n = 40)", "episode_length   7.000 +- 0.000 (n = 40)"]


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
    scores = evaluate(lottery, untrained(lottery), 50)
    assert list(scores) == ["episode_return", "success", "episode_length"]
    assert scores["episode_return"] == Score(3.0, 0.0, 50)
    assert 0.2 < scores["success"].mean < 0.8 and scores["success"].episodes == 50


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo's modules
def test_every_agent_adds_a_return_of_its_own(untrained):
    for package in ("pettingzoo", "pygame", "Box2D"):
        pytest.importorskip(package)
    name = "pettingzoo:sisl/multiwalker_v9"
    scores = evaluate(name, untrained(name, max_cycles=5), 2)
    assert scores["episode_return"].episodes == scores["episode_length"].episodes == 6


def test_a_person_watches_what_draws_by_itself_until_the_window_is_closed(untrained, monkeypatch, capsys):
    pygame = pytest.importorskip("pygame")
    frames = []
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(rendering, "has_display", lambda: True)
    flip = pygame.display.flip

    def show():
        frames.append(1)
        flip()
        if len(frames) == 4:
            pygame.event.post(pygame.event.Event(pygame.QUIT))

    monkeypatch.setattr(pygame.display, "flip", show)
    evaluate_command("CartPole-v1", untrained("CartPole-v1"), episodes=3)
    assert 4 <= len(frames) <= 6 and not pygame.display.get_init()
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 episodes did not end"


# --- scores


def test_the_standard_error_is_that_of_the_mean():
    numbers = [1.0, 4.0, 4.0, 10.0]
    score = evaluation._score(numbers)
    assert score == Score(4.75, statistics.stdev(numbers) / 2, 4)
    assert str(score) == "4.750 +- 1.887 (n = 4)"
    assert math.isnan(evaluation._score([3.0]).standard_error)


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
    scores = evaluate(SQUARED, saved, 20)
    assert {"score", "perf", "episode_return", "episode_length"} <= scores.keys()
    assert all(score.episodes == 20 for score in scores.values())
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    assert psutil.Process().children() == processes


def test_environments_are_closed_when_the_policy_does_not_load(saved, monkeypatch):
    closed = []
    close = ocean.env_class(SQUARED).close
    monkeypatch.setattr(ocean.env_class(SQUARED), "close", lambda self: closed.append(close(self)))
    saved["load_model_path"] = "missing.pt"
    with pytest.raises(checkpoint.CheckpointError):
        evaluate(SQUARED, saved, 3)
    assert len(closed) >= 3


def test_the_command_prints_a_line_for_every_statistic(saved, capsys):
    evaluate_command(SQUARED, saved, episodes=3, headless=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 4 and all("+-" in line and line.endswith("(n = 3)") for line in lines)


def test_closing_the_window_ends_the_play_and_leaves_no_window(saved, monkeypatch, capsys):
    frames, shut = [], []
    monkeypatch.setattr(rendering, "has_display", lambda: True)
    monkeypatch.setattr(rendering, "render", lambda name, env: frames.append(name) or np.zeros((2, 2, 3), np.uint8))
    monkeypatch.setattr(rendering, "is_closing", lambda: len(frames) == 3)
    monkeypatch.setattr(rendering, "close", lambda: shut.append(1))
    evaluate_command(SQUARED, saved, episodes=100)
    assert frames == ["squared"] * 3 and shut == [1]
    assert capsys.readouterr().out == "100 of 100 episodes did not end\n"
