"""What keeps a policy from learning is said at the beginning, once, with what helps."""

import contextlib
import re
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import pufferlib
from pufferlib import PuffeRL
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.models import Default
from pufferlib.play import environments

SEEN, NARROW = Box(-np.inf, np.inf, (3,), np.float32), Box(-0.1, 0.1, (2,), np.float32)


class Odd(gymnasium.Env):
    """Random numbers of any size, and episodes of any length."""

    def __init__(self, reward=1.0, scale=1.0, limit=20, action_space=None, bound=np.inf):
        self.reward, self.scale, self.limit, self.steps = reward, scale, limit, 0
        self.observation_space = Box(-bound, bound, (3,), np.float32)
        self.action_space = Discrete(2) if action_space is None else action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        is_right = bool(np.sum(action) > 0)
        return self._observation(), self.reward * is_right, False, self.steps >= self.limit, {}

    def _observation(self):
        return (self.np_random.uniform(-1, 1, 3) * self.scale).astype(np.float32)


SMALL = {"batch_size": 512, "num_steps": 64, "minibatch_size": 64, "num_workers": 1}


def notes(capsys, env, steps=10_240, **settings):
    trainer = PuffeRL(env, num_envs=8, **{**SMALL, "normalize_rewards": False, **settings})
    trainer.learn(steps)
    trainer.release()
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("note: ") for line in lines if line.startswith("note: ")]


@pytest.fixture(autouse=True)
def here(in_tmp_path):
    pass


@pytest.mark.quick(
    "keywords0-settings0-None",
    "keywords4-settings4-observations are as large as 9,.*; normalize_observations=True scales them",
)
@pytest.mark.parametrize(
    "keywords, settings, found",
    [
        ({}, {}, None),
        ({"reward": 1000.0}, {}, "rewards are as large as 1,000, where 1 .* normalize_rewards=True scales them"),
        (
            {"reward": 1000.0},
            {"reward_clip": 1.0},
            "rewards are as large as 4.., and are clipped to 1, .* reward_clip=0",
        ),
        ({"reward": 1000.0}, {"normalize_rewards": True}, None),
        (
            {"scale": 1e4},
            {"normalize_observations": False},
            "observations are as large as 9,.*; normalize_observations=True scales them",
        ),
        ({"scale": 1e4}, {"normalize_observations": True}, None),
        ({"limit": 60}, {"gamma": 0.1}, "episodes last 60 steps, and gamma 0.1 sees 1 steps ahead; a larger gamma"),
        (
            {"action_space": NARROW},  # and a deviation of 1
            {"policy": Default(SimpleNamespace(single_observation_space=SEEN, single_action_space=NARROW), 16)},
            "% of the numbers in the policy's actions lie outside",
        ),
    ],
)
def test_an_environment_that_is_unusual_is_told_of_with_what_helps(capsys, keywords, settings, found):
    said = notes(capsys, lambda: Odd(**keywords), 1_024, n_epochs=8, **settings)
    if found is None:
        assert said == []
    else:
        assert len(said) == 1 and re.search(found, said[0])


def test_a_training_of_few_steps_of_the_optimizer_says_so(capsys):
    said = notes(capsys, Odd, 1_024, n_epochs=1, minibatch_size=512)
    assert said == [
        "1,024 steps are 2 optimizer steps, where a policy needs hundreds; train for longer, or set a smaller "
        "batch_size or minibatch_size"
    ]


def test_nothing_is_said_where_nothing_is_shown(capsys):
    trainer = PuffeRL(lambda: Odd(reward=1e4), num_envs=8, **SMALL)
    trainer.learn(1_024, dashboard=False)
    trainer.release()
    assert "note: " not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["CartPole-v1", "puffer_squared", "puffer_breakout", "Pendulum-v1"])
def test_an_environment_that_is_usual_has_no_findings(name):
    assert pufferlib.check_env(name, steps=400) == []


@pytest.mark.parametrize(
    "keywords, found",
    [
        ({"reward": 1000.0}, "rewards are as large as 1,000"),
        ({"scale": 1e4}, "observations are as large as 9,"),
        ({"limit": 10**9}, "no episode ended in 300 steps"),
        ({"reward": 0.0}, "every reward of 300 random steps was 0"),
        ({"reward": np.nan}, "is infinite or NaN"),
        ({"bound": 0.5}, "leave the bounds of Box"),
    ],
)
def test_check_env_says_what_is_unusual_before_a_training(keywords, found):
    (said,) = pufferlib.check_env(lambda: Odd(**keywords), steps=300)
    assert found in said


class Gates(Odd):
    """One of three gates is open."""

    def __init__(self):
        super().__init__(action_space=Discrete(3))

    def reset(self, **keywords):
        return super().reset(**keywords)[0], {"action_mask": self.action_masks()}

    def step(self, action):
        assert action == self.steps % 3, f"gate {action} is shut"
        *found, _ = super().step(action)
        return *found, {"action_mask": self.action_masks()}

    def action_masks(self):
        return np.arange(3) == self.steps % 3


def test_random_actions_are_allowed_ones():
    assert pufferlib.check_env(Gates, steps=50) == []
    with contextlib.closing(pufferlib.make(Gates, num_envs=2)) as envs:
        assert pufferlib.check_env(envs, steps=50) == []
    with contextlib.closing(pufferlib.make(Gates)) as env:
        assert all(rate > 0 for rate in environments.measure(env, 0, 0.01))


def test_check_env_takes_what_the_trainer_takes_and_leaves_it_open():
    env = Odd()
    assert pufferlib.check_env(env, steps=50) == [] == pufferlib.check_env(Odd, steps=50)
    env.step(0)
    with pytest.raises(APIUsageError, match="env must be a PufferEnv, got int"):
        pufferlib.check_env(3)


class Declared(Odd):
    """Observes what goes far outside of its Box at the third step of every episode."""

    def __init__(self, space, observations):
        super().__init__()
        self.observation_space, self.observations = space, observations

    def _observation(self):
        return self.observations[min(self.steps, 3) == 3]


UNIT = Box(0, 1, (2,), np.float64)
IN, OUT = np.array([0.5, 1.5]), np.array([0.5, 212.5])


@pytest.mark.quick("space1-observations1-None", "space6-observations6-is 9 in")
@pytest.mark.parametrize(
    "space, observations, found",
    [
        (UNIT, (IN, OUT), r"observation is 212\.5 in the first rollout, .* Box\(0\.0, 1\.0"),
        (UNIT, (IN, IN), None),  # not far
        (Box(0, np.inf, (2,), np.float32), (IN, -OUT), r"observation is -212\.5 in"),
        (Box(-np.inf, np.inf, (2,), np.float32), (IN, OUT), None),
        (Dict({"a": Discrete(2), "b": UNIT}), ({"a": 0, "b": IN}, {"a": 1, "b": OUT}), r"observation\['b'\] is"),
        (
            Dict({"a": Box(0, 1, ()), "b": UNIT}),
            ({"a": IN[0], "b": IN}, {"a": OUT[1], "b": IN}),
            r"observation\['a'\] is",
        ),
        (Box(0, 1, (2, 2), np.uint8), (np.ones((2, 2), np.uint8), np.full((2, 2), 9, np.uint8)), "is 9 in"),
    ],
)
def test_observations_far_outside_of_their_box_are_warned_of_once(recwarn, space, observations, found):
    trainer = PuffeRL(lambda: Declared(space, observations), num_envs=8, **{**SMALL, "batch_size": 1024})
    for _ in range(2):
        trainer.evaluate()
        trainer.train()
    trainer.release()
    said = [str(warning.message) for warning in recwarn if issubclass(warning.category, PufferWarning)]
    assert len(said) == (found is not None)
    assert found is None or re.search(found, said[0])


def test_a_game_in_c_that_comes_without_an_agent_is_looked_at_like_any_other(capsys, recwarn):
    env = Declared(UNIT, (IN, OUT))
    env.reward = 1000.0
    trainer = PuffeRL(env, **{**SMALL, "batch_size": 1024, "normalize_rewards": False})
    trainer.env_name = "puffer_new"
    trainer.learn(1_024)
    trainer.release()
    assert "note: rewards are as large as 1,000" in capsys.readouterr().out
    assert any("far outside its space" in str(warning.message) for warning in recwarn)
