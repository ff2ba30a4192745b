"""Cartpole against Gymnasium's CartPole-v1, and the end of an episode from every side."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from pufferlib import ocean
from pufferlib.ocean.cartpole.cartpole import THETA_LIMIT, X_LIMIT, Cartpole

CONTRACT_HEADERS = Path(ocean.__file__).parent / "include"
CARTPOLE_HEADERS = Path(ocean.__file__).parent / "cartpole"


def balance(observations):
    """Actions that keep the pole upright and the cart near the middle."""
    lean = observations @ np.array([0.05, 0.1, 1.0, 0.3], np.float32)
    return (lean > 0).astype(np.int32)


def is_near_a_limit(state):
    return abs(abs(state[0]) - X_LIMIT) < 1e-5 or abs(abs(state[2]) - THETA_LIMIT) < 1e-5


@pytest.fixture
def peer():
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    yield env
    env.close()


def peer_step(peer, state, action):
    peer.state = np.asarray(state, np.float64)
    peer.steps_beyond_terminated = None
    observation, reward, terminal, _, _ = peer.step(action)
    return observation, reward, terminal


def test_every_step_agrees_with_gymnasium(peer):
    env = Cartpole(20)
    env.reset(0)
    generator = np.random.default_rng(0)
    episodes = 0
    for step in range(400):
        before = env.observations.copy()
        # Half of the carts are driven at random, half survive for long and visit the fast and far states.
        actions = np.where(np.arange(20) % 2, generator.integers(0, 2, 20), balance(before)).astype(np.int32)
        env.step(actions)
        for i in range(20):
            expected, reward, terminal = peer_step(peer, before[i], int(actions[i]))
            assert env.rewards[i] == reward == 1.0
            if not is_near_a_limit(expected):
                assert env.terminals[i] == terminal, f"step {step}, cart {i}"
            if env.terminals[i] or env.truncations[i]:
                episodes += 1
            else:
                np.testing.assert_allclose(env.observations[i], expected, rtol=1e-5, atol=1e-6)
    assert episodes > 100


def test_whole_episodes_agree_with_gymnasium(peer):
    env = Cartpole(50)
    env.reset(1)
    for i in range(50):
        env.reset(i)
        peer.state = env.observations[0].astype(np.float64)
        peer.steps_beyond_terminated = None
        for step in range(200):
            action = step * (i + 3) // 5 % 2
            env.step(np.full(50, action, np.int32))
            expected, _, terminal, _, _ = peer.step(action)
            assert env.terminals[0] == terminal
            if terminal:
                break
            np.testing.assert_allclose(env.observations[0], expected, rtol=1e-5, atol=1e-5)
        assert terminal


def test_half_an_action_is_half_the_force(peer):
    peer.force_mag = 5.0
    env = Cartpole(1, continuous=True)
    env.reset(0)
    for action in (1, 1, 0, 1, 0, 0):
        expected, _, _ = peer_step(peer, env.observations[0], action)
        env.step(np.array([[action - 0.5]], np.float32))
        np.testing.assert_allclose(env.observations[0], expected, rtol=1e-5, atol=1e-6)


def test_full_continuous_actions_equal_the_discrete_ones_and_more_is_clamped():
    discrete, continuous, beyond = Cartpole(8), Cartpole(8, continuous=True), Cartpole(8, continuous=True)
    for env in (discrete, continuous, beyond):
        env.reset(3)
    generator = np.random.default_rng(0)
    for _ in range(200):
        actions = generator.integers(0, 2, 8)
        push = (2.0 * actions[:, None] - 1.0).astype(np.float32)
        discrete.step(actions)
        continuous.step(push)
        beyond.step(100.0 * push)
        np.testing.assert_array_equal(discrete.observations, continuous.observations)
        np.testing.assert_array_equal(discrete.observations, beyond.observations)


def test_truncation_comes_exactly_at_five_hundred_steps():
    env = Cartpole(32, report_interval=10**6)
    env.reset(0)
    for step in range(1, 1001):
        env.step(balance(env.observations))
        assert not env.terminals.any()
        assert env.truncations.all() == env.truncations.any() == (step % 500 == 0)
    (statistics,) = env.episode_statistics()
    assert statistics == {"perf": 1.0, "score": 500.0, "episode_return": 500.0, "episode_length": 500.0, "n": 64.0}


def test_falling_on_the_last_step_is_terminal_and_no_truncation():
    env = Cartpole(256)
    env.reset(0)
    give_up = 475 + np.arange(256) // 8  # the step from which on a cart only pushes to the right
    ended_at = np.zeros(256, int)
    for step in range(1, 501):
        env.step(np.where(step > give_up, 1, balance(env.observations)))
        ended_at[(ended_at == 0) & (env.terminals | env.truncations)] = step
    fell_last = (ended_at == 500) & env.terminals
    assert fell_last.any()
    assert not (env.truncations & env.terminals).any()
    assert (env.truncations & (ended_at == 500)).any()


def test_episodes_begin_within_the_start_range():
    env = Cartpole(4000)
    env.reset(0)
    assert np.abs(env.observations).max() <= 0.05
    assert np.all(np.abs(env.observations.mean(axis=0)) < 0.002)
    assert np.all(np.abs(env.observations.std(axis=0) - 0.1 / 12**0.5) < 0.001)


def test_a_constant_push_gives_the_golden_trajectory():
    env = Cartpole(1)
    env.reset(42)
    observed = [env.step(np.ones(1, np.int32))[0][0].copy() for _ in range(8)]
    # Printed by the two lines above; compared loosely because compilers may contract multiplications and additions.
    np.testing.assert_allclose(observed[0], [-0.0440292, 0.161926, -0.0154973, -0.277844], rtol=1e-4)
    np.testing.assert_allclose(observed[7], [0.0607701, 1.53222, -0.181767, -2.45523], rtol=1e-4)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc, to call cartpole_sin and cartpole_cos")
def test_sine_and_cosine_are_right_to_float_rounding(tmp_path):
    library = tmp_path / "trigonometry.so"
    includes = [f"-I{CONTRACT_HEADERS}", f"-I{CARTPOLE_HEADERS}"]
    source = str(Path(__file__).with_name("cartpole_trigonometry.c"))
    subprocess.run(["cc", "-O2", "-std=c11", "-shared", "-fPIC", *includes, source, "-o", str(library)], check=True)
    angles = np.linspace(-THETA_LIMIT, THETA_LIMIT, 20_001).astype(np.float32)
    sines, cosines = np.empty_like(angles), np.empty_like(angles)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (angles, sines, cosines)]
    ctypes.CDLL(str(library)).sin_and_cos(pointers[0], len(angles), *pointers[1:])
    exact = angles.astype(np.float64)
    spacing = np.spacing(np.maximum(np.abs(sines), np.float32(2**-10)))  # of float32 at the result
    assert np.max(np.abs(sines - np.sin(exact)) / spacing) < 1.5
    assert np.max(np.abs(cosines - np.cos(exact))) < 1.5 * 2**-24  # spacing just below 1
