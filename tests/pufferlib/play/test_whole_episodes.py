"""Scores that do not depend on how long episodes are: of a policy at every length of training."""

import math

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from trained import weights

from pufferlib import APIUsageError, NoLogger, PuffeRL, evaluate, pufferl, vector
from pufferlib.config import load_config
from pufferlib.environment import PufferEnv
from pufferlib.models import Default
from pufferlib.ocean import env_class
from pufferlib.play.scores import final_episodes, play_whole_episodes

pytestmark = pytest.mark.usefixtures("in_tmp_path")

weekly = pytest.mark.weekly
SHORT, LONG = 5, 100


class Lengths(PufferEnv):
    """Episodes of 5 or of 100 steps, as a coin says, and the score is the length: 52.5 in the mean, whoever plays."""

    def __init__(self, num_envs=1, report_interval=1, buf=None, seed=0):
        self.single_observation_space = Box(0, 1, (1,), np.float32)
        self.single_action_space = Discrete(2)
        self.num_agents = num_envs
        super().__init__(buf)
        self.reset(seed)

    def reset(self, seed=None):
        self.coin = np.random.default_rng(seed)
        self.steps = np.zeros(self.num_agents, int)
        self.lengths = self.coin.choice((SHORT, LONG), self.num_agents)
        self.observations[:] = 0
        return self.observations, []

    def step(self, actions):
        self.steps += 1
        ended = self.steps == self.lengths
        infos = [{"score": float(length), "n": 1} for length in self.lengths[ended]]
        self.rewards[:], self.terminals[:] = 1, ended
        self.steps[ended] = 0
        self.lengths[ended] = self.coin.choice((SHORT, LONG), ended.sum())
        return self.observations, self.rewards, self.terminals, self.truncations, infos


def make_trainer(env=Lengths, **settings):
    sizes = {"num_envs": 32, "batch_size": 1024, "device": "cpu", "logger": NoLogger(), "num_workers": 1}
    return PuffeRL(env=env, **{**sizes, **settings})


def is_within_noise(one, other):
    """Whether two scores differ by less than four standard errors of their difference, and a little for rounding."""
    return abs(one.mean - other.mean) <= 4 * math.hypot(one.standard_error, other.standard_error) + 1e-6


@pytest.mark.slow
def test_episodes_that_ended_are_short_and_whole_ones_are_not():
    args = load_config(Lengths, ["--env.num-envs", "32", "--train.device", "cpu", "--vec.num-workers", "1"])
    vecenv = pufferl.load_env(Lengths, args)
    trainer = PuffeRL(args["train"], vecenv, Default(vecenv.driver_env, 8), NoLogger())
    ended = trainer.evaluate()  # 32 steps of each agent
    assert ended["score"] == ended["episode/length_mean"] == SHORT
    count = 160
    scores = trainer.score(count)
    expected, error = (SHORT + LONG) / 2, (LONG - SHORT) / 2 / math.sqrt(count)
    for name in ("environment/score", "episode/length_mean", "episode/return_mean"):
        assert scores[name].episodes == count
        assert scores[name].mean == pytest.approx(expected, abs=4 * error)
    trainer.release()


@pytest.mark.slow
def test_a_training_does_not_notice_that_it_is_scored():
    alone, scored = make_trainer("puffer_squared", seed=2), make_trainer("puffer_squared", seed=2)
    for trainer in (alone, scored):
        for _ in range(3):
            trainer.evaluate()
            if trainer is scored:
                first, second = trainer.score(20), trainer.score(20)
                assert first == second and {"environment/score", "episode/return_mean"} <= first.keys()
            trainer.train()
    assert (weights(alone.policy) == weights(scored.policy)).all()
    alone.release()
    scored.release()


def test_actions_are_drawn_and_agents_of_one_environment_share_its_episodes():
    trainer = make_trainer("puffer_squared")
    mean = trainer.score(150)["environment/score"]
    drawn = evaluate(trainer.policy, "puffer_squared", 150, sample=True, seed=5)["score"]
    assert is_within_noise(mean, drawn)
    trainer.release()
    trainer = make_trainer("puffer_multiagent", num_envs=4)
    agents = trainer.vecenv.num_agents // 4
    assert trainer.score(3 * agents)["episode/length_mean"].episodes == 3 * agents
    trainer.release()


def test_environments_that_cannot_be_made_again_have_no_score():
    trainer = PuffeRL(env_class("puffer_squared")(num_envs=4), batch_size=64, logger=NoLogger(), device="cpu")
    assert trainer.score(10) == {}
    with pytest.raises(APIUsageError, match="needs 1 episode or more, got 0"):
        trainer.score(0)
    trainer.release()


def test_a_play_that_is_not_wanted_any_more_has_no_score():
    trainer = make_trainer()
    answers = iter([True] * 20)
    assert trainer.score(100, lambda: next(answers, False)) == {}
    trainer.release()


def test_how_many_episodes_are_played():
    vecenv = vector.make(env_class("puffer_squared"), env_kwargs={"num_envs": 2}, backend="Native")
    assert [final_episodes(given, vecenv) for given in ("auto", 0, 7)] == [1000, 0, 7]
    vecenv.close()
    vecenv = vector.make(Lengths, num_envs=2, backend="Serial")
    assert final_episodes("auto", vecenv) == 100
    vecenv.close()


def train(name, steps, **settings):
    args = load_config(name)
    args["train"].update(device="cpu", total_timesteps=steps, log_interval=1, seed=3, **settings)
    return args, pufferl.train(name, args)


def test_the_last_log_and_the_last_lines_tell_of_the_final_policy(capsys):
    _, logs = train("puffer_squared", 32_768, final_episodes=50)
    out = capsys.readouterr().out
    assert logs[-1]["final/n"] == 50 and {"final/score", "final/perf", "final/return_mean"} <= logs[-1].keys()
    lines = out.splitlines()
    assert lines[-2].startswith("the final policy: perf ") and lines[-2].endswith(", over 50 whole episodes")
    assert lines[-1].startswith("saved ")
    _, logs = train("puffer_squared", 32_768, final_episodes=0)
    assert not any(name.startswith("final/") for name in logs[-1])
    assert "final policy" not in capsys.readouterr().out


def test_what_goes_wrong_in_the_last_play_costs_no_training(monkeypatch, capsys):
    def fail(*arguments, **keywords):
        raise RuntimeError("the simulator has one licence")

    monkeypatch.setattr("pufferlib.pufferl.play_whole_episodes", fail)
    with pytest.warns(RuntimeWarning, match="could not be scored: RuntimeError: the simulator has one licence"):
        train("puffer_squared", 32_768)
    assert "saved " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["puffer_cartpole", *(pytest.param(f"puffer_{name}", marks=weekly) for name in ("maze", "freeway"))]
)
@pytest.mark.parametrize("steps", [150_000, *(pytest.param(n, marks=weekly) for n in (400_000, 1_000_000, 2_500_000))])
def test_a_run_of_any_length_is_scored_like_a_thousand_evaluated_episodes(name, steps):
    args, logs = train(name, steps)
    args["load_model_path"] = "latest"
    vecenv = pufferl.load_env(name, args)
    policy = pufferl.load_policy(args, vecenv, name)
    found = play_whole_episodes(policy, vecenv, 1000, 3, 20_000)["environment/score"]
    evaluated = evaluate(policy, name, 1000, sample=True, seed=99)["score"]
    vecenv.close()
    assert is_within_noise(found, evaluated)
    assert logs[-1]["final/n"] == 1000
    assert abs(logs[-1]["final/score"] - evaluated.mean) <= 4 * math.sqrt(2) * evaluated.standard_error + 1e-6
