"""Which keys mean which action; no window is needed to know it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from checked_headers import QUICK, params
from contract import COMPILED
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import pufferlib
from pufferlib import ocean
from pufferlib.environment import Keys
from pufferlib.errors import APIUsageError, is_installed
from pufferlib.watch.controls import Keyboard, KeyState, keyboard_for

FIRE = Keys({"left": 1, "right": 2, "space": 3, "left+space": 4}, idle=0)


def chosen(keyboard, *held, last=None):
    action = keyboard.action(held, last)
    return None if action is None else action.tolist()


def keyboard_of(name, **settings):
    env = pufferlib.make(name, **settings)
    try:
        return keyboard_for(env)
    finally:
        env.close()


def test_keys_of_choices():
    keyboard = Keyboard(Discrete(5), FIRE)
    assert chosen(keyboard) == 0
    assert [chosen(keyboard, key) for key in ("left", "right", "space", "a", "d", "x")] == [1, 2, 3, 1, 2, 0]
    assert chosen(keyboard, "space", "left") == chosen(keyboard, "a", "space") == 4
    assert chosen(keyboard, "left", "right") == 0  # they cancel each other out
    assert chosen(keyboard, "a", "right", "space") == 3
    assert keyboard.names == {"left", "right", "space", "a", "d"}


def test_a_letter_with_a_meaning_is_no_arrow():
    keyboard = Keyboard(Discrete(3), Keys({"down": 1, "s": 2}, idle=0))
    assert [chosen(keyboard, key) for key in ("down", "s", "w")] == [1, 2, 0]


def test_without_idle_the_last_action_goes_on():
    keyboard = Keyboard(Discrete(2), Keys({"left": 0, "right": 1}))
    last = None
    taken = []
    for held in ((), ("right",), (), ("left",), (), ("left", "right")):
        last = keyboard.action(held, last)
        taken.append(int(last))
    assert taken == [0, 1, 1, 0, 0, 0]


def test_actions_of_nothing_take_turns():
    keyboard = Keyboard(Discrete(3), Keys({"left": 0, "right": 1, "up": 2}, idle=[0, 1]))
    last = None
    taken = []
    for held in ((), (), (), ("left",), (), ("up",), ()):
        last = keyboard.action(held, last)
        taken.append(int(last))
    assert taken == [0, 1, 0, 0, 1, 2, 0]


def test_a_game_of_turns_waits():
    keyboard = Keyboard(Discrete(3), Keys({"left": 0, "right": 1}, waits=True))
    assert keyboard.waits
    assert [chosen(keyboard, *keys) for keys in ((), ("x",), ("left", "right"), ("d",))] == [None, None, None, 1]


def test_keys_of_numbers_add_up_within_bounds():
    car = Keyboard(
        Box(np.array([-1, 0, 0], np.float32), np.ones(3, np.float32)),
        Keys({"left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, 1, 0), "down": (0, 0, 0.8), "space": (0.5, 0.5, 0)}),
    )
    assert chosen(car) == [0, 0, 0]
    assert chosen(car, "left", "up") == [-1, 1, 0]
    assert chosen(car, "d", "w", "space") == [1, 1, 0]
    assert chosen(car, "left", "right", "down") == pytest.approx([0, 0, 0.8])


def test_keys_of_several_choices_change_what_they_name():
    keyboard = Keyboard(MultiDiscrete([3, 3]), Keys({"left": (0, 1), "right": (2, 1), "up": (1, 2)}, idle=(1, 1)))
    assert chosen(keyboard) == [1, 1]
    assert chosen(keyboard, "left", "up") == [0, 2]
    assert keyboard.action({"up"}).dtype == np.int32


def test_a_number_stands_for_a_row_of_one():
    keyboard = Keyboard(Box(-1, 1, (1,)), Keys({"left": -1.0, "right": 1.0}))
    action = keyboard.action({"left"})
    assert (action.shape, action.dtype, action.tolist()) == ((1,), np.float32, [-1.0])


@pytest.mark.parametrize(
    ("space", "keys"),
    [(Discrete(2), Keys({"left": 2})), (Discrete(2), Keys({"left": (0, 1)})), (Box(-1, 1, (2,)), Keys({"left": 1.0}))],
)
def test_an_action_that_is_none_is_a_mistake(space, keys):
    with pytest.raises(APIUsageError, match="must be of"):
        Keyboard(space, keys)


@pytest.mark.parametrize("name", params(COMPILED, QUICK, [pytest.mark.slow]))
def test_every_ocean_environment_of_one_agent_can_be_played(name):
    is_alone = getattr(ocean.env_class(name), "agents_per_env", 1) == 1
    assert (keyboard_of(name, num_envs=2) is not None) == is_alone


@pytest.mark.parametrize(
    ("name", "held", "action"),
    [
        ("puffer_breakout", ("left",), 1),
        ("puffer_breakout", ("d",), 2),
        ("puffer_pong", ("up",), 1),
        ("puffer_cartpole", ("right",), 1),
        ("puffer_squared", ("down",), 1),
        ("puffer_squared", (), None),
        ("CartPole-v1", ("right",), 1),
        ("MountainCar-v0", (), 1),
        ("MountainCar-v0", ("right",), 2),
        ("MountainCarContinuous-v0", ("left",), [-1.0]),
        ("FrozenLake8x8-v1", ("up",), 3),
        ("CliffWalking-v1", ("up",), 0),
        ("Acrobot-v1", ("right",), 2),
        ("Pendulum-v1", ("left",), [2.0]),
        ("FrozenLake-v1", ("up",), 3),
        ("FrozenLake-v1", (), None),
        ("Blackjack-v1", ("h",), 1),
    ],
)
def test_what_a_key_does(name, held, action):
    assert chosen(keyboard_of(name), *held) == action


@pytest.mark.parametrize(("name", "keys"), [("puffer_breakout", "left"), ("puffer_pong", "up")])
def test_continuous_games_move_to_the_same_side(name, keys):
    assert chosen(keyboard_of(name, num_envs=1, continuous=True), keys) == [-1.0]


@pytest.mark.skipif(not is_installed("Box2D"), reason="Box2D is not installed")
def test_box2d_in_both_kinds_of_actions():
    assert chosen(keyboard_of("LunarLander-v3"), "up") == 2
    assert chosen(keyboard_of("LunarLander-v3", continuous=True), "up", "left") == [1, -1]
    assert chosen(keyboard_of("CarRacing-v3"), "left", "up") == [-1, 1, 0]
    assert chosen(keyboard_of("CarRacing-v3", continuous=False), "left") == 2


@pytest.mark.skipif(not is_installed("ale_py"), reason="ale_py is not installed")
def test_atari_tells_its_keys():
    keyboard = keyboard_of("ALE/Pong-v5")
    held = ((), ("space",), ("right",), ("left",), ("d", "space"), ("left", "space"))
    assert [chosen(keyboard, *keys) for keys in held] == [0, 1, 2, 3, 4, 5]


@pytest.mark.skipif(not is_installed("minigrid"), reason="minigrid is not installed")
def test_minigrid_waits():
    keyboard = keyboard_of("MiniGrid-Empty-5x5-v0")
    assert keyboard.waits
    assert [chosen(keyboard, key) for key in ("left", "up", "space")] == [0, 2, 5]


@pytest.mark.skipif(not is_installed("mujoco"), reason="mujoco is not installed")
def test_a_robot_has_no_keys():
    assert keyboard_of("HalfCheetah-v5") is None


def test_several_agents_have_no_keys():
    class Pair(pufferlib.PufferEnv):
        single_observation_space = Box(0, 1, (1,))
        single_action_space = Discrete(2)
        num_agents = 2
        keys = Keys({"left": 0, "right": 1})

    assert keyboard_for(Pair()) is None


def test_an_environment_in_python_says_its_keys():
    class Own(pufferlib.PufferEnv):
        single_observation_space = Box(0, 1, (1,))
        single_action_space = Discrete(2)
        num_agents = 1
        keys = Keys({"space": 1}, idle=0)

    assert chosen(keyboard_for(Own()), "space") == 1


def test_an_unknown_environment_of_gymnasium_has_none():
    class Unknown(gymnasium.Env):
        observation_space = Box(0, 1, (1,))
        action_space = Discrete(2)

    assert keyboard_for(pufferlib.emulation.GymnasiumPufferEnv(Unknown())) is None


class FakeRaylib:
    """Keys that are down, went down, and are repeated, by their numbers."""

    KEY_LEFT, KEY_SPACE, KEY_RIGHT, KEY_A, KEY_D = 263, 32, 262, 65, 68
    KEY_ENTER, KEY_LEFT_SHIFT, KEY_RIGHT_SHIFT = 257, 340, 344

    def __init__(self, down=(), pressed=(), repeated=()):
        self.IsKeyDown = lambda code: code in down
        self.GetKeyPressed = iter([*pressed, 0]).__next__
        self.GetCharPressed = lambda: 0
        self.IsKeyPressedRepeat = lambda code: code in repeated


def test_keys_are_read_by_their_names():
    hands = KeyState(Keyboard(Discrete(5), FIRE), FakeRaylib((263, 68, 257, 999), (32, 257, 999), (262, 257)))
    hands.poll()
    assert (hands.held, hands.is_shift_held) == ({"left", "d"}, False)
    assert (hands.pressed, hands.repeated) == (["space", "enter", ""], ["right"])


def test_a_key_that_raylib_does_not_have_is_a_mistake():
    with pytest.raises(APIUsageError, match="there is no key 'jump'"):
        KeyState(Keyboard(Discrete(2), Keys({"jump": 1}, idle=0)), FakeRaylib())
