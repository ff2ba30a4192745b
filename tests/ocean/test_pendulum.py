"""Pendulum against Gymnasium's Pendulum-v1, and its own sine and cosine."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from pufferlib.ocean.pendulum.pendulum import MAX_SPEED, MAX_TORQUE, Pendulum


@pytest.fixture
def peer():
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    yield env
    env.close()


def angle_of(observation):
    return np.arctan2(observation[1], observation[0])


def torques(count, seed=0):
    """Of all sizes, and a fifth beyond what the motor has."""
    return np.random.default_rng(seed).uniform(-2.5, 2.5, (count, 1)).astype(np.float32)


def test_spaces_are_those_of_gymnasium(peer):
    env = Pendulum(1)
    assert env.single_observation_space == peer.observation_space
    assert env.single_action_space == peer.action_space


def test_every_step_agrees_with_gymnasium(peer):
    env = Pendulum(16)
    env.reset(0)
    for step in range(199):
        before, actions = env.observations.astype(np.float64), torques(16, step)
        env.step(actions)
        for i in range(16):
            peer.state = np.array([angle_of(before[i]), before[i, 2]])
            expected, reward, terminal, _, _ = peer.step(actions[i])
            assert not terminal and not env.terminals[i]
            np.testing.assert_allclose(env.observations[i], expected, rtol=1e-5, atol=1e-5)
            assert env.rewards[i] == pytest.approx(reward, rel=1e-5, abs=1e-5)


def test_whole_episodes_agree_with_gymnasium(peer):
    env = Pendulum(1, report_interval=10**6)
    for seed in range(20):
        env.reset(seed)
        peer.state = np.array([angle_of(env.observations[0].astype(np.float64)), env.observations[0, 2]])
        total = 0.0
        for step in range(200):
            # Towards where it moves, so that it goes round and round, and by chance: near the top nothing is forgiven.
            push = np.sign(env.observations[0, 2]) * 2.0 if seed % 2 else torques(200, seed)[step, 0]
            env.step(np.full((1, 1), push, np.float32))
            expected, reward, _, _, _ = peer.step(np.array([push], np.float32))
            total += reward
            if step < 199:
                np.testing.assert_allclose(env.observations[0], expected, atol=2e-3)
        (statistics,) = env.episode_statistics()
        assert statistics["episode_return"] == pytest.approx(total, rel=1e-4)
        assert statistics["score"] == statistics["episode_return"]


def test_perf_is_the_share_of_the_cost_of_hanging_that_was_saved():
    env = Pendulum(64, report_interval=10**6)
    env.reset(0)
    total = np.zeros(64)
    for actions in torques(200 * 64).reshape(200, 64, 1):
        env.step(actions)
        total += env.rewards
    assert env.truncations.all() and not env.terminals.any()
    (statistics,) = env.episode_statistics()
    expected = np.clip(1 + total / (200 * np.pi**2), 0, 1)
    assert statistics["perf"] == pytest.approx(expected.mean(), rel=1e-4)
    assert (statistics["n"], statistics["episode_length"]) == (64, 200)


def test_truncation_comes_exactly_at_two_hundred_steps():
    env = Pendulum(8)
    env.reset(0)
    for step in range(1, 401):
        env.step(np.zeros((8, 1), np.float32))
        assert not env.terminals.any()
        assert env.truncations.all() == env.truncations.any() == (step % 200 == 0)


def test_more_torque_than_the_motor_has_is_as_much_as_it_has():
    env, beyond = Pendulum(8), Pendulum(8)
    for each in (env, beyond):
        each.reset(3)
    for step in range(100):
        push = np.where(torques(8, step) > 0, MAX_TORQUE, -MAX_TORQUE).astype(np.float32)
        env.step(push)
        beyond.step(50 * push)
        np.testing.assert_array_equal(env.observations, beyond.observations)
        np.testing.assert_array_equal(env.rewards, beyond.rewards)


def test_episodes_begin_at_any_angle():
    env = Pendulum(4000)
    env.reset(0)
    angles, speeds = np.arctan2(env.observations[:, 1], env.observations[:, 0]), env.observations[:, 2]
    counts, _ = np.histogram(angles, 8, (-np.pi, np.pi))
    assert np.all(np.abs(counts - 500) < 5 * 500**0.5)
    counts, _ = np.histogram(speeds, 8, (-1, 1))
    assert np.all(np.abs(counts - 500) < 5 * 500**0.5)


def test_sine_and_cosine_are_right_to_float_rounding():
    env = Pendulum(20_000)
    env.reset(0)
    for step in range(20):
        env.step(torques(20_000, step))
        assert np.max(np.abs(env.observations)) <= MAX_SPEED
        cosine, sine = env.observations[:, :2].astype(np.float64).T
        # On the unit circle to rounding, and a small step along it is the speed: neither is off by itself.
        assert np.max(np.abs(np.hypot(cosine, sine) - 1)) < 3e-7
    before = np.arctan2(sine, cosine)
    env.step(np.zeros((20_000, 1), np.float32))
    cosine, sine, speed = env.observations.astype(np.float64).T
    turned = (np.arctan2(sine, cosine) - before + np.pi) % (2 * np.pi) - np.pi
    assert np.max(np.abs(turned - 0.05 * speed)) < 1e-6


def test_a_constant_torque_gives_the_golden_trajectory():
    env = Pendulum(1)
    env.reset(42)
    observed = [env.step(np.ones((1, 1), np.float32))[0][0].copy() for _ in range(8)]
    # Printed by the two lines above.
    np.testing.assert_allclose(observed[0], [-0.930127, -0.367239, -0.822277], rtol=1e-5)
    np.testing.assert_allclose(observed[7], [-0.999878, -0.015647, -0.913978], rtol=1e-5)
