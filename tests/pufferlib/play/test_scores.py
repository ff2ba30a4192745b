import math
import statistics
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib import evaluate, ocean, vector
from pufferlib.config import load_config
from pufferlib.dashboard.score import Score
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, DivergedError, UnknownEnvironmentError
from pufferlib.models import Default
from pufferlib.play import scores
from pufferlib.play.player import Episodes
from pufferlib.play.scores import ScoreSheet
from pufferlib.runs.loaders import load_env

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


def test_a_policy_plays_on_one_thread_which_others_that_are_busy_cannot_hold_up():
    before = torch.get_num_threads()
    policy = Threaded()
    try:
        torch.set_num_threads(3)
        evaluate(policy, Races, 4)
        assert policy.counts == {1} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# --- what is counted


def test_every_environment_plays_its_share_so_short_episodes_do_not_crowd_out_long_ones():
    played.clear()
    found = evaluate(Biased(), Races, 200)
    assert found["episode_length"].episodes == 200
    # 200 environments played one episode each, however long it was: lengths 1 to 5 are about equally frequent.
    assert found["episode_length"].mean == pytest.approx(3, abs=0.35)
    assert len(played) == 200  # and none went on meanwhile


def test_more_episodes_than_environments_are_played_in_turn(monkeypatch):
    monkeypatch.setattr(scores, "MAX_ENVIRONMENTS", 8)
    found = evaluate(Biased(), Races, 21)
    assert found["score"].episodes == 21


def test_episodes_that_do_not_end_are_given_up():
    found = evaluate(Biased(), Races, 200, max_steps=2)  # races take 1 to 5 steps
    assert 20 < found["episode_length"].episodes < 180
    assert found["episode_length"].mean <= 2


def test_greedy_play_takes_the_likeliest_action():
    found = evaluate(Biased(), Races, 50)
    assert found["score"].mean == 2 * found["episode_length"].mean


def test_sampled_play_draws_from_the_policy():
    found = evaluate(Biased(), Races, 100, sample=True)
    probabilities = torch.tensor([0.0, 0.0, 0.5]).softmax(0)
    expected = float(probabilities @ torch.arange(3.0)) * found["episode_length"].mean
    assert found["score"].mean == pytest.approx(expected, rel=0.15)
    assert found["score"].mean != 2 * found["episode_length"].mean


def test_the_seed_decides_what_is_played():
    first, same, other = (evaluate(Biased(), Races, 40, sample=True, seed=seed) for seed in (1, 1, 2))
    assert first == same and first != other


def test_recurrent_state_begins_anew_with_every_episode(monkeypatch):
    monkeypatch.setattr(scores, "MAX_ENVIRONMENTS", 5)
    found = evaluate(Counting(), Races, 30)
    assert found["score"] == Score(2.0, 0.0, 30)


def test_teams_report_once_an_episode():
    found = evaluate(Biased(), partial(Races, agents=3), 10)
    assert found["score"].episodes == 10
    assert found["score"].mean == pytest.approx(6 * found["episode_length"].mean)


def test_agents_whose_episodes_end_together_have_the_mean_that_is_reported():
    """In multiagent agent i ends every (i + 1) * 8 steps, and those that end in a step are reported as one."""

    class RightForTheFirst(torch.nn.Module):
        def forward(self, observations, state):
            return observations[:, 4:].float(), observations[:, 0].float()

    found = evaluate(RightForTheFirst(), "puffer_multiagent", 6)
    assert found["perf"].episodes == found["episode_length"].episodes == 24
    assert found["episode_length"].mean == 20  # of each agent 6, as they were counted
    assert found["episode_return"].mean == 2  # of the first 8, of the others none
    assert 0 < found["perf"].mean < 1


# --- what may be given


class Stroll(gymnasium.Env):
    """Three steps that pay what is done."""

    observation_space = Box(0, 1, (2,), np.float32)
    action_space = Discrete(3)
    is_open = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 3
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), float(action), self.left == 0, False, {}

    def close(self):
        self.is_open = False


def untrained(env):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Default(env)


@pytest.mark.parametrize(
    "given",
    [
        lambda: SQUARED,
        lambda: pufferlib.make(SQUARED, num_envs=3),
        lambda: load_env(SQUARED, load_config(SQUARED)),
    ],
    ids=["name", "environment", "vector"],
)
def test_what_has_a_name_is_made_anew_and_says_what_it_reports(given):
    found = evaluate(untrained(pufferlib.make(SQUARED)), given(), 6)
    assert found.keys() == {"perf", "score", "episode_return", "episode_length"}
    assert {score.episodes for score in found.values()} == {6}


@pytest.mark.parametrize("sample", [False, True])
def test_c_environments_that_are_stepped_together_play_the_same_episodes(sample, monkeypatch):
    """Sampled ones too, as all of them act in every step and draw from one stream."""
    policy = pufferlib.load_agent(SQUARED)
    together = evaluate(policy, SQUARED, 23, sample, seed=5)
    monkeypatch.setattr(scores, "is_stepped_in_c", lambda creator: False)
    apart = evaluate(policy, SQUARED, 23, sample, seed=5)
    assert together == apart and together["episode_length"].standard_error > 0


def test_each_report_of_c_environments_that_are_stepped_together_is_of_its_own_episode(monkeypatch):
    """One that plays less than others counts no more episodes, however soon they end."""
    monkeypatch.setattr(scores, "MAX_ENVIRONMENTS", 4)
    found = evaluate(untrained(pufferlib.make(SQUARED)), SQUARED, 7)
    assert {score.episodes for score in found.values()} == {7}
    assert found["score"].mean == pytest.approx(found["episode_return"].mean)


def test_an_environment_made_by_a_name_is_played_with_the_settings_that_it_was_made_with():
    env = pufferlib.make(SQUARED, size=2)
    assert evaluate(untrained(env), env, 20)["episode_length"].mean <= 6  # steps that a grid of that size gives


def test_a_trainer_goes_on_in_an_environment_that_was_evaluated_in(tmp_path):
    env = pufferlib.make(SQUARED, num_envs=64)
    trainer = pufferlib.PuffeRL(env, learning_rate=0.01, num_steps=8, batch_size=512, data_dir=str(tmp_path))
    trainer.evaluate()
    evaluate(trainer.policy, env, 3)
    trainer.train()
    trainer.evaluate()
    trainer.close()


def test_a_trainer_of_a_function_is_played_in_environments_that_it_makes(tmp_path):
    with closing(pufferlib.PuffeRL(lambda: Stroll(), num_envs=2, data_dir=str(tmp_path))) as trainer:
        assert evaluate(trainer, episodes=5) == evaluate(trainer.policy, Stroll, 5)
    alone = pufferlib.PuffeRL(Stroll(), data_dir=str(tmp_path))
    with closing(alone), pytest.raises(APIUsageError, match="as this PuffeRL names none; pass env="):
        evaluate(alone)


@pytest.mark.parametrize("given", [Stroll, lambda: Stroll()])
def test_a_class_or_function_of_other_libraries_makes_what_is_played(given):
    found = evaluate(Biased(), given, 40)
    assert found == {"episode_return": Score(6.0, 0.0, 40), "episode_length": Score(3.0, 0.0, 40)}


def test_a_ready_environment_is_played_in_and_left_open():
    env = Stroll()
    for _ in range(2):
        assert evaluate(Biased(), env, 5)["episode_return"] == Score(6.0, 0.0, 5)
    assert env.is_open
    env.reset()


def test_a_ready_vector_environment_shares_the_episodes_among_its_environments():
    envs = gymnasium.vector.SyncVectorEnv([Stroll] * 3, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    assert evaluate(Biased(), envs, 7)["episode_length"] == Score(3.0, 0.0, 7)
    assert not envs.closed
    envs.close()


def test_a_ready_puffer_env_is_many_environments():
    env = ocean.env_class(SQUARED)(num_envs=5)
    found = evaluate(untrained(env), env, 7)
    assert found["episode_return"].episodes == found["episode_length"].episodes == 7
    env.step(env.actions)


def test_a_report_of_many_steps_belongs_to_none_of_their_episodes():
    # Of 4 games in one PufferEnv, which reports every 3 steps: some report is of one game, when another one ends.
    make = partial(ocean.env_class(SQUARED), num_envs=4, size=3, report_interval=3)
    found = evaluate(untrained(make()), make, 50, sample=True)
    assert found.keys() == {"episode_return", "episode_length"}
    assert found["episode_return"].episodes == found["episode_length"].episodes == 50


def test_a_vector_that_can_be_repeated_stays_as_it_is():
    with vector.make(Stroll, num_envs=2, backend="Serial") as vecenv:
        vecenv.async_reset(0)
        vecenv.recv()
        assert evaluate(Biased(), vecenv, 5)["episode_return"] == Score(6.0, 0.0, 5)
        vecenv.send(np.zeros(2, np.int32))


class Picking(Stroll):
    """Reports of every step how many apples it found."""

    def step(self, action):
        *results, info = super().step(action)
        return *results, {**info, "apples": 4.0}


@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_a_vector_of_another_library_says_what_its_environments_report(backend):
    with vector.make(Picking, num_envs=2, backend=backend) as vecenv:
        found = evaluate(Biased(), vecenv, 7)
    assert found == evaluate(Biased(), Picking, 7) and found["apples"] == Score(4.0, 0.0, 7)


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo's modules
def test_every_agent_adds_a_return_of_its_own():
    for package in ("pettingzoo", "pygame", "Box2D"):
        pytest.importorskip(package)
    env = pufferlib.make("pettingzoo:sisl/multiwalker_v9", max_cycles=5)
    assert evaluate(untrained(env), env, 2)["episode_return"].episodes == 6


def test_an_agent_is_played_in_what_it_was_trained_in_where_nothing_else_is_said():
    agent = pufferlib.load_agent(SQUARED)
    assert evaluate(agent, episodes=5) == evaluate(agent, SQUARED, 5)
    agent.settings["env"] = {**agent.settings["env"], "size": 3}
    with pytest.raises(APIUsageError, match=r"fails for \(5, 9\)"):
        evaluate(agent, episodes=5)
    with pytest.raises(APIUsageError, match="needs an environment, as this Biased names none; pass env="):
        evaluate(Biased())


# --- what stays as it was


class Noisy(Biased):
    """Draws from torch's generator and changes a buffer whenever it acts."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.modes = set()

    def forward(self, observations, state):
        torch.rand(1)
        self.calls = self.calls + 1
        self.modes.add(self.training)
        return super().forward(observations, state)


def test_the_policy_and_the_random_numbers_of_torch_are_as_before():
    policy, before = Noisy(), torch.get_rng_state()
    evaluate(policy, Races, 3)
    assert policy.training and policy.modes == {False}
    assert policy.calls == 0
    assert torch.equal(torch.get_rng_state(), before)


# --- mistakes


@pytest.mark.parametrize(
    ("policy", "env", "words"),
    [
        (Races, Biased(), "policy must be a torch module or an Agent, got the class Races"),
        (Biased(), 3, "env must be a PufferEnv, got int"),
        (Default, Races, "policy must be a torch module or an Agent, got the class Default"),
        (Biased(), "CartPole-v1", "Biased.forward must return logits"),
    ],
)
def test_what_does_not_fit_is_said(policy, env, words):
    with pytest.raises(APIUsageError, match=words):
        evaluate(policy, env, 2)


def test_a_policy_whose_weights_are_no_numbers_plays_nothing():
    agent = pufferlib.load_agent("puffer_cartpole")
    agent.policy.head.linear.bias.data[0] = torch.nan
    for policy in (agent, agent.policy):
        with pytest.raises(DivergedError, match="but the weight 'head.linear.bias' is nan; take an earlier model"):
            evaluate(policy, "puffer_cartpole", 2)


def test_an_unknown_name_and_no_episodes_are_refused():
    with pytest.raises(UnknownEnvironmentError, match="puffer_squared"):
        evaluate(Biased(), "puffer_sqared")
    with pytest.raises(APIUsageError, match="episodes must be a whole number, 1 or more, got 0"):
        evaluate(Biased(), Races, 0)


# --- scores


def test_the_standard_error_is_that_of_the_mean():
    numbers = [1.0, 4.0, 4.0, 10.0]
    score = Score.of(numbers)
    assert score == Score(4.75, statistics.stdev(numbers) / 2, 4)
    assert str(score) == "4.750 +- 1.887 (n = 4)"
    assert math.isnan(Score.of([3.0]).standard_error)
    assert str(Score.of([3.0])) == "3.000 (n = 1)"


@pytest.mark.parametrize("numbers", [[1.0, math.nan], [math.inf, -math.inf]])
def test_what_was_not_measured_in_an_episode_has_a_score_that_says_so(numbers):
    score = Score.of(numbers)
    assert math.isnan(score.mean) and math.isnan(score.standard_error) and score.episodes == 2


def test_nan_that_an_environment_reports_of_some_episodes_is_no_number_of_them():
    sheet = ScoreSheet()
    reports = [{"goal": 3.0}, {"goal": math.nan}, {"goal": 5.0}]
    sheet.add(Episodes(np.arange(3), np.ones(3), np.ones(3, int), reports))
    assert sheet.by_metric()["environment/goal"].mean == sheet.scores()["goal"].mean == 4.0
    assert sheet.scores()["goal"].episodes == 2


@pytest.mark.parametrize(("arguments", "words"), [({"max_steps": "5"}, "max_steps"), ({"max_steps": 0}, "max_steps")])
def test_a_limit_that_is_none_is_refused(arguments, words):
    with pytest.raises(APIUsageError, match=f"{words} must be a whole number, 1 or more"):
        evaluate(Default(pufferlib.make("puffer_squared", num_envs=1)), "puffer_squared", episodes=1, **arguments)


def test_a_seed_may_be_numpys():
    env = pufferlib.make("puffer_squared", num_envs=1)
    scores = [evaluate(Default(env), "puffer_squared", 2, sample=True, seed=seed) for seed in (3, np.int64(3))]
    assert scores[0].keys() == scores[1].keys()
