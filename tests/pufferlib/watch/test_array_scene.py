"""Environments that draw themselves, on the off-screen screen; each case in a process of its own."""

from __future__ import annotations

import importlib.util

import command
import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib.errors import APIUsageError, is_installed
from pufferlib.families import catalog
from pufferlib.play.scores import array_settings
from pufferlib.watch.scene import ArrayScene

pytestmark = pytest.mark.skipif(importlib.util.find_spec("raylib") is None, reason="raylib is not installed")

PRELUDE = """
import faulthandler
faulthandler.enable()
import gymnasium
import numpy as np
import pufferlib
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.ocean.screen import Screen
from pufferlib.watch.scene import ArrayScene

class Counter(gymnasium.Env):
    '''Draws the number of its step, in red, and that of its episode, in blue; an episode has three steps.'''
    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"
    episode, drawn = 0, 0
    def reset(self, seed=None, options=None):
        self.time, self.episode = 0, self.episode + 1
        return np.zeros(1, np.float32), {}
    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 0.0, self.time == 3, False, {}
    def render(self):
        self.drawn += 1
        frame = np.full((20, 30, 3), (50 * self.time, 7, 50 * self.episode), np.uint8)
        frame[0, 0] = (0, 255, 0)
        return frame

def shown(screen, *scenes):
    screen.begin()
    for index, scene in enumerate(scenes):
        scene.draw(10 + 800 * index, 20, 1.0, 0.5)
    frame = screen.frame()
    screen.end()
    return frame
"""


@pytest.fixture
def run(tmp_path):
    def run(code):
        exit_code, output, errors = command.run_code(tmp_path, PRELUDE + code)
        errors = [line for line in errors.splitlines() if "XDG_RUNTIME_DIR" not in line]  # of pygame's SDL
        assert (exit_code, errors, output) == (0, [], "")

    return run


def test_pictures_are_enlarged_and_every_step_is_drawn_once(run):
    run(
        """
env = GymnasiumPufferEnv(Counter())
env.reset()
scene = ArrayScene(env)
assert (scene.size, scene.steps_per_second) == ((26 * 30, 26 * 20), 12.0)
assert scene.title == "counter"
screen = Screen(820, 560, "test", False)
seen = []
for _ in range(4):
    scene.remember()
    env.step(np.zeros(1, np.int32))
    for _ in range(3):
        frame = shown(screen, scene)
        inside = frame[20 : 20 + 520, 10 : 10 + 780]
        assert (inside[:26, :26] == (0, 255, 0)).all()  # a pixel is a square
        assert len(np.unique(inside @ np.array([1, 256, 65536]))) == 2
        assert (frame[:20] == frame[0, 0]).all() and (frame[:, :10] == frame[0, 0]).all()
    seen.append(tuple(inside[-1, -1].tolist()))
assert seen == [(50, 7, 50), (100, 7, 50), (150, 7, 50), (50, 7, 100)], seen  # the end of the first episode was seen
assert env.env.drawn == 5, env.env.drawn
scene.close()
scene.close()
assert env.before_restart is None
screen.close()
"""
    )


def test_a_scene_outlives_its_screen_and_stands_beside_others(run):
    run(
        """
first, second = (GymnasiumPufferEnv(Counter()) for _ in range(2))
first.reset()
second.reset()
second.step(np.zeros(1, np.int32))
scenes = ArrayScene(first), ArrayScene(second)
pictures = []
for _ in range(2):
    screen = Screen(1600, 560, "test", False)
    pictures.append(shown(screen, *scenes))
    screen.close()
assert np.array_equal(*pictures)
assert pictures[0][300, 400, 0] == 0 and pictures[0][300, 1200, 0] == 50
"""
    )


@pytest.mark.skipif(not is_installed("pygame"), reason="pygame is not installed")
def test_pygame_draws_beside_raylib(run):
    """Both bring an SDL; the screen is opened before anything imports pygame."""
    run(
        """
screen = Screen(700, 500, "test", False)
env = pufferlib.make("CartPole-v1", render_mode="rgb_array")
env.reset(seed=1)
scene = ArrayScene(env)
frame = shown(screen, scene)
assert np.array_equal(frame[20:420, 10:610], env.render())
scene.close()
env.close()
screen.close()
"""
    )


@pytest.mark.skipif(not is_installed("pygame"), reason="pygame is not installed")
@pytest.mark.skipif(not is_installed("pettingzoo"), reason="pettingzoo is not installed")
def test_several_agents_are_one_picture(run):
    run(
        """
env = pufferlib.make("pettingzoo:butterfly/pistonball_v6", render_mode="rgb_array", n_pistons=5)
env.reset(seed=1)
scene = ArrayScene(env)
screen = Screen(1000, 700, "test", False)
before = shown(screen, scene)
for _ in range(5):
    scene.remember()
    env.step(np.ones_like(env.actions))
assert not np.array_equal(before, shown(screen, scene))
"""
    )


@pytest.mark.skipif(not is_installed("ale_py"), reason="ale_py is not installed")
def test_atari_has_the_pace_of_the_console():
    env = pufferlib.make("ALE/Pong-v5", frameskip=4, **array_settings(catalog.find("ALE/Pong-v5")))
    env.reset(seed=1)
    scene = ArrayScene(env)
    assert (scene.size, scene.steps_per_second) == ((480, 630), 15.0)
    env.close()


def test_which_settings_make_an_environment_draw():
    assert array_settings(catalog.find("CartPole-v1")) == {"render_mode": "rgb_array"}
    assert array_settings(catalog.find("puffer_squared")) == {}


class Blind(gymnasium.Env):
    observation_space, action_space = Box(0, 1, (1,)), Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"render_modes": ["human", "rgb_array"]}, "make it with render_mode='rgb_array', got None"),
        ({"render_modes": ["human", "ansi"]}, "and its render modes are human, ansi"),
        ({}, "and it has no render modes"),
    ],
)
def test_an_environment_that_does_not_draw_says_what_to_do(metadata, message):
    env = pufferlib.emulation.GymnasiumPufferEnv(Blind())
    env.env.metadata = metadata
    env.reset(seed=1)
    with pytest.raises(APIUsageError, match=message):
        ArrayScene(env)


class Drawing(pufferlib.PufferEnv):
    single_observation_space = Box(0, 1, (1,))
    single_action_space = Discrete(2)
    num_agents = 1
    frame = np.zeros((200, 700, 3), np.uint8)

    def render(self):
        return self.frame


def test_an_environment_in_python_draws_too():
    env = Drawing()
    scene = ArrayScene(env)
    assert (scene.size, scene.steps_per_second, scene.title) == ((700, 200), 30.0, "drawing")
    env.frame = np.zeros((200, 700))
    with pytest.raises(APIUsageError, match=r"got float64 of shape \(200, 700\)"):
        ArrayScene(env)
