"""One C environment as Gymnasium's: its own checks, episodes and their ends, seeds, arguments, mistakes."""

from __future__ import annotations

import copy
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from checked_headers import quick_params
from contract import OF_ONE_AGENT
from gymnasium.utils.env_checker import check_env

import pufferlib
from pufferlib import ocean
from pufferlib.errors import APIUsageError, UnknownEnvironmentError
from pufferlib.interop.gymnasium_interop import OceanGymnasiumEnv
from pufferlib.models import Default
from pufferlib.ocean.cartpole.cartpole import Cartpole

each_name = pytest.mark.parametrize("name", quick_params(OF_ONE_AGENT))
other_scale = pytest.mark.filterwarnings("ignore:.*symmetric and normalized space:UserWarning")  # as Pendulum-v1's
unbounded = pytest.mark.filterwarnings("ignore:.*infinity. This is probably too:UserWarning")  # as CartPole-v1's space


def play(env, steps, seed):
    """Rows of all that a user sees, resetting where an episode ends."""
    env.action_space.seed(seed)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample()))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left[0], right[0])
        np.testing.assert_equal(left[1:], right[1:])


@each_name
@unbounded
@other_scale
def test_gymnasiums_own_check_passes(name):
    env = pufferlib.make_gymnasium(name)
    check_env(env, skip_render_check=True)
    env.close()
    env.close()
    made = gymnasium.make("pufferlib/" + name.removeprefix(ocean.PREFIX))
    check_env(made.unwrapped, skip_render_check=True)
    made.close()


@each_name
@unbounded
@other_scale
def test_frames_pass_it_too(name):
    env = pufferlib.make_gymnasium(name, render_mode="rgb_array")
    check_env(env)
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 and len(np.unique(frame)) > 1
    env.close()


@each_name
def test_a_seed_gives_the_same_play_also_later(name):
    env, other = pufferlib.make_gymnasium(name), pufferlib.make_gymnasium(name)
    first = play(env, 200, seed=5)
    env.reset()
    assert_same(first, play(env, 200, seed=5))
    assert_same(first, play(other, 200, seed=5))
    with pytest.raises(AssertionError):
        assert_same(first, play(other, 200, seed=6))
    seeded = [pufferlib.make_gymnasium(name, seed=3).reset()[0] for _ in range(2)]
    np.testing.assert_array_equal(*seeded)


def test_without_a_seed_chance_decides():
    starts = {tuple(pufferlib.make_gymnasium("puffer_cartpole").reset()[0]) for _ in range(4)}
    assert len(starts) == 4


def test_an_episode_ends_with_what_it_came_to_and_the_next_begins_with_reset():
    env, peer = pufferlib.make_gymnasium("puffer_cartpole"), gymnasium.make("CartPole-v1").unwrapped
    peer.reset(seed=0)
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        peer.state, peer.steps_beyond_terminated = np.float64(observation), None
        has_ended = False
        while not has_ended:
            expected = peer.step(1)
            observation, reward, has_ended, truncated, info = env.step(1)
            np.testing.assert_allclose(observation, expected[0], rtol=1e-4, atol=1e-5)
            assert (reward, truncated, info) == (1.0, False, {}) and type(reward) is float and type(has_ended) is bool
        assert abs(observation[2]) > 12 * np.pi / 180
        with pytest.raises(APIUsageError, match=r"call reset\(\) first"):
            env.step(1)
        following, info = env.reset()
        assert np.all(np.abs(following) <= 0.05) and info == {}


def test_a_time_limit_truncates():
    env = pufferlib.make_gymnasium("puffer_template", rounds=3)
    observation, _ = env.reset(seed=0)
    ends = []
    for _ in range(3):
        observation, _, *flags, _ = env.step(int(observation[0] >= 2))
        ends.append(flags)
    assert ends == [[False, False], [False, False], [False, True]]
    for make, name in ((gymnasium.make, "pufferlib/template"), (pufferlib.make_gymnasium, "puffer_template")):
        shorter = make(name, max_episode_steps=2)
        for _ in range(3):
            observation, _ = shorter.reset(seed=0)
            observation, _, *flags, _ = shorter.step(int(observation[0] >= 2))
            assert flags == [False, False]
            assert shorter.step(int(observation[0] >= 2))[2:4] == (False, True)


def test_a_reset_in_the_middle_goes_on_with_the_stream():
    env, other = pufferlib.make_gymnasium("puffer_cartpole"), pufferlib.make_gymnasium("puffer_cartpole")
    for each in (env, other):
        each.reset(seed=1)
        each.step(0)
    np.testing.assert_array_equal(env.reset()[0], other.reset(options={"anything": 1})[0])


def test_observations_are_the_callers():
    env = pufferlib.make_gymnasium("puffer_breakout")
    first, _ = env.reset(seed=0)
    kept = first.copy()
    second = env.step(2)[0]
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second) and second.base is None


def test_arguments_reach_the_environment():
    env = gymnasium.make("pufferlib/breakout", frameskip=1, continuous=True)
    assert isinstance(env.action_space, gymnasium.spaces.Box) and env.spec.kwargs["frameskip"] == 1
    assert copy.deepcopy(env.spec).make().action_space == env.action_space
    moved = []
    for frameskip in (1, 4):
        env = pufferlib.make_gymnasium("puffer_breakout", frameskip=frameskip)
        start = env.reset(seed=0)[0]
        moved.append(env.step(2)[0][0] - start[0])
    assert moved[1] == pytest.approx(4 * moved[0], rel=1e-4)


def test_a_class_of_c_environments_is_taken_as_well():
    env = pufferlib.make_gymnasium(Cartpole, continuous=True)
    assert isinstance(env, OceanGymnasiumEnv) and env.reset(seed=0)[0].shape == (4,)
    assert env.step(np.zeros(1, np.float32))[1] == 1.0


def test_the_id_in_gymnasium_is_a_name_here_too():
    env = pufferlib.make_gymnasium("pufferlib/squared", size=3)
    assert env.spec.id == "pufferlib/squared" and env.reset()[0].shape == (9,)
    assert isinstance(pufferlib.make("pufferlib/cartpole", num_envs=3), Cartpole)


def test_a_name_of_gymnasiums_has_the_arguments_of_its_family():
    env = pufferlib.make_gymnasium("CartPole-v1", render_mode="rgb_array", max_episode_steps=7)
    first, again = (env.reset(seed=4)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert [env.step(step % 2)[3] for step in range(7)] == [False] * 6 + [True]
    assert env.render().shape == (400, 600, 3)
    env.close()
    with pytest.raises(TypeError, match="frobnicate"):
        pufferlib.make_gymnasium("CartPole-v1", frobnicate=1)


@pytest.mark.parametrize("name", ["MiniGrid-DoorKey-5x5-v0", "BabyAI-GoToRedBall-v0"])
def test_a_grid_world_is_made_as_its_agents_see_it(name):
    pytest.importorskip("minigrid")
    env, vecenv = pufferlib.make_gymnasium(name), pufferlib.make(name, num_envs=1)
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    action = pufferlib.Agent(Default(vecenv.driver_env, 8), vecenv).act(observation)
    assert env.action_space.contains(action)
    env.close()
    vecenv.close()


class Doubles(gymnasium.Env):
    """Observations in double precision, on their own or in a structure."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind="box"):
        box = gymnasium.spaces.Box(-1.0, 0.1, (2,), np.float64)
        inside = gymnasium.spaces.Tuple((box, gymnasium.spaces.Discrete(3)))
        self.observation_space = box if kind == "box" else gymnasium.spaces.Dict(inside=inside)
        self._seen = np.full(2, 0.1) if kind == "box" else {"inside": (np.full(2, 0.1), 2)}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen, {}

    def step(self, action):
        return self._seen, 0.0, False, False, {}


@pytest.mark.parametrize("kind", ["box", "dict"])
def test_observations_are_of_the_precision_that_the_space_declares(kind):
    gymnasium.register("Doubles-v0", Doubles)
    try:
        with closing(pufferlib.make_gymnasium("Doubles-v0", kind=kind)) as env:
            first, _ = env.reset(seed=1)
            second, *_ = env.step(0)
    finally:
        del gymnasium.registry["Doubles-v0"]
    assert env.observation_space.contains(first) and env.observation_space.contains(second)
    assert (first if kind == "box" else first["inside"][0]).dtype == np.float32


def test_an_environment_of_several_agents_is_none_of_gymnasiums():
    pytest.importorskip("pettingzoo")
    with pytest.raises(APIUsageError, match="with one agent, is expected, got pettingzoo:butterfly/pistonball_v6"):
        pufferlib.make_gymnasium("pettingzoo:butterfly/pistonball_v6")


def test_mistakes_are_named():
    with pytest.raises(UnknownEnvironmentError, match="puffer_breakout"):
        pufferlib.make_gymnasium("puffer_breakot")
    with pytest.raises(APIUsageError, match="render_mode must be one of"):
        pufferlib.make_gymnasium("puffer_breakout", render_mode="ansi")
    with pytest.raises(TypeError, match="frobnicate"):
        pufferlib.make_gymnasium("puffer_breakout", frobnicate=1)
    for keyword in ("num_envs", "buf", "report_interval"):
        with pytest.raises(APIUsageError, match=f"{keyword} is not an argument"):
            pufferlib.make_gymnasium("puffer_breakout", **{keyword: 3})
    env = pufferlib.make_gymnasium("puffer_cartpole")
    with pytest.raises(APIUsageError, match=r"call reset\(\) first"):
        env.step(0)
    env.reset()
    for wrong in ([0, 1], 0.5, "left", None):
        with pytest.raises(APIUsageError, match="actions must"):
            env.step(wrong)
