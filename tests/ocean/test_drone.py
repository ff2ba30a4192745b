"""The physics of drone against float64 and against what is known of rigid bodies; the course, and what is observed."""

from __future__ import annotations

import numpy as np
import pytest
from contract import checksum, random_actions

from pufferlib.ocean.drone.drone import Drone

GRAVITY, STEP, DRAG, SPIN_DRAG = 9.81, 0.02, 0.3, 2.0
INERTIA = np.array([0.06, 0.06, 0.1])
HOVER, FALL = np.zeros(4), -np.ones(4)

SNAPSHOT_HEADER_BYTES = 8 + 104  # the counted steps, and SnapshotHeader in puffer_snapshot.h
BORROWED_BYTES = 6 * 8 + 8  # the pointers and the generator in front of the struct's numbers
NUMBERS = np.dtype(
    [("place", "f4", 3), ("velocity", "f4", 3), ("rotation", "f4", 4), ("spin", "f4", 3), ("zeros", "f4", 3)]
    + [("target", "f4", 3), ("next_target", "f4", 3), ("episode_return", "f4"), ("targets", "i4")]
    + [("num_reached", "i4"), ("steps", "i4")]
)


def numbers(env):
    """The struct's numbers, read from a snapshot: one record for each drone."""
    content = np.frombuffer(env.snapshot(), np.uint8)[SNAPSHOT_HEADER_BYTES:].reshape(env.num_envs, -1)
    return content[:, BORROWED_BYTES : BORROWED_BYTES + NUMBERS.itemsize].copy().view(NUMBERS)[:, 0]


def motion(state):
    """`(drones, 13)` float64: place, velocity, rotation, spin."""
    parts = [state[name].astype(np.float64) for name in ("place", "velocity", "rotation", "spin")]
    return np.concatenate(parts, axis=1)


def product(p, q):
    """Of quaternions, w first."""
    w = p[..., :1] * q[..., :1] - np.sum(p[..., 1:] * q[..., 1:], axis=-1, keepdims=True)
    return np.concatenate([w, p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + np.cross(p[..., 1:], q[..., 1:])], -1)


def turned(rotation, vector):
    """A vector of the body in the world."""
    pure = np.concatenate([np.zeros_like(vector[..., :1]), vector], axis=-1)
    return product(product(rotation, pure), rotation * [1, -1, -1, -1])[..., 1:]


def rates(y, actions):
    """How fast everything changes, from the laws and where the motors are: Newton's, Euler's, the quaternion's."""
    velocity, rotation, spin = y[:, 3:6], y[:, 6:10], y[:, 10:]
    motors = 0.25 * GRAVITY * (1.0 + np.clip(actions, -1.0, 1.0))
    places = np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]) * 0.2  # front left, front right, back ...
    pushes = motors[:, :, None] * np.array([0.0, 0.0, 1.0])
    torque = np.cross(places, pushes).sum(axis=1)
    torque[:, 2] += 0.05 * (motors @ [-1, 1, 1, -1])
    acceleration = turned(rotation, pushes.sum(axis=1)) - [0, 0, GRAVITY] - DRAG * velocity
    momentum = INERTIA * spin
    spin_rate = (torque - np.cross(spin, momentum)) / INERTIA - SPIN_DRAG * spin
    pure = np.concatenate([np.zeros((len(y), 1)), spin], axis=1)
    return np.concatenate([velocity, acceleration, 0.5 * product(rotation, pure), spin_rate], axis=1)


def moved(y, actions, seconds=STEP, steps=1):
    """After the classic method of Runge and Kutta, in `steps` parts."""
    h = seconds / steps
    for _ in range(steps):
        k1 = rates(y, actions)
        k2 = rates(y + 0.5 * h * k1, actions)
        k3 = rates(y + 0.5 * h * k2, actions)
        k4 = rates(y + h * k3, actions)
        y = y + h / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
        y[:, 6:10] /= np.linalg.norm(y[:, 6:10], axis=1, keepdims=True)
    return y


def flown(env, action, steps):
    """The motions after each of some steps with the same action; ends before an episode does."""
    actions, found = np.tile(np.float32(action), (env.num_envs, 1)), [motion(numbers(env))]
    for _ in range(steps):
        env.step(actions)
        assert not env.terminals.any() and not env.truncations.any()
        found.append(motion(numbers(env)))
    return np.array(found)


def made(num_envs=16, seed=0, **kwargs):
    env = Drone(num_envs, report_interval=10**6, **kwargs)
    env.reset(seed)
    return env


def test_every_step_is_that_of_the_reference():
    env, compared = made(64), 0
    for actions in random_actions(env, 300):
        before = motion(numbers(env))
        env.step(actions)
        goes_on = ~(env.terminals | env.truncations)
        after = motion(numbers(env))
        np.testing.assert_allclose(after[goes_on], moved(before, actions)[goes_on], rtol=3e-6, atol=3e-6)
        compared += goes_on.sum()
    assert compared > 15_000


def test_a_step_is_close_to_a_hundred_small_ones():
    env = made(64)
    for actions in random_actions(env, 60):
        env.step(actions)
    before = motion(numbers(env))
    actions = next(random_actions(env, 1, seed=1))
    np.testing.assert_allclose(moved(before, actions), moved(before, actions, steps=100), atol=2e-5)


def test_hovering_stays_where_it_is():
    motions = flown(made(), HOVER, 500)
    np.testing.assert_allclose(motions, np.broadcast_to(motions[:1], motions.shape), atol=1e-5)


def test_falling_is_that_of_a_body_in_air():
    motions = flown(made(), FALL, 40)
    seconds = STEP * np.arange(41)[:, None]
    speed = GRAVITY / DRAG * (1.0 - np.exp(-DRAG * seconds))
    np.testing.assert_allclose(motions[:, :, 5], np.broadcast_to(-speed, motions.shape[:2]), atol=1e-4)
    fallen = GRAVITY / DRAG * seconds - speed / DRAG
    np.testing.assert_allclose(motions[:, :, 2], np.broadcast_to(4.0 - fallen, motions.shape[:2]), atol=1e-4)
    assert np.all(motions[:, :, [0, 1, 3, 4, 10, 11, 12]] == 0.0)


def test_energy_goes_into_the_air():
    """What a falling drone lost is what the air took, the integral of drag times the square of its speed."""
    motions = flown(made(1), FALL, 40)[:, 0]
    energy = 0.5 * motions[:, 5] ** 2 + GRAVITY * motions[:, 2]
    power = DRAG * motions[:, 5] ** 2
    lost = np.concatenate([[0.0], np.cumsum(0.5 * STEP * (power[1:] + power[:-1]))])
    np.testing.assert_allclose(energy, energy[0] - lost, atol=2e-3)


def test_without_torque_angular_momentum_keeps_its_direction():
    env = made(32)
    generator = np.random.default_rng(0)
    for _ in range(15):
        env.step(generator.choice([-1.0, 1.0], (32, 4)).astype(np.float32))
    motions = flown(env, HOVER, 40)
    momenta = turned(motions[..., 6:10], INERTIA * motions[..., 10:])
    decay = np.exp(-SPIN_DRAG * STEP * np.arange(41))[:, None, None]
    assert np.linalg.norm(momenta[0], axis=-1).mean() > 0.05  # kg m^2/s
    np.testing.assert_allclose(momenta, momenta[:1] * decay, atol=3e-6)
    spins = motions[..., 10:] / decay  # what turns about two axes at once wobbles
    assert np.abs(spins[-1] - spins[0]).max() > 0.1


def test_rotations_stay_of_length_one():
    env = made(64)
    for actions in random_actions(env, 300):
        env.step(actions)
    np.testing.assert_allclose(np.linalg.norm(numbers(env)["rotation"], axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("action", "axis", "sign"),
    [
        ((0.1, -0.1, 0.1, -0.1), 0, 1),  # more push on the left: it rolls to the right, about x
        ((-0.1, -0.1, 0.1, 0.1), 1, 1),  # more at the back: the nose goes down, about y
        ((-0.1, 0.1, 0.1, -0.1), 2, 1),  # the pair that turns the other way: to the left, about z
    ],
)
def test_motors_turn_it_about_one_axis(action, axis, sign):
    spin = flown(made(), action, 5)[-1, :, 10:]
    assert np.all(sign * spin[:, axis] > 0.01)
    assert np.all(np.delete(spin, axis, axis=1) == 0.0)


def test_nose_down_flies_ahead():
    env = made()
    ahead = turned(motion(numbers(env))[:, 6:10], np.tile([1.0, 0.0, 0.0], (16, 1)))
    flown(env, (-0.1, -0.1, 0.1, 0.1), 10)
    velocity = flown(env, HOVER, 10)[-1, :, 3:6]
    np.testing.assert_array_less(0.1, np.sum(velocity * ahead, axis=1))
    np.testing.assert_allclose(
        velocity - np.sum(velocity * ahead, axis=1, keepdims=True) * ahead * [1, 1, 0], 0, atol=0.2
    )


def observed(state):
    """The observations of all drones."""
    y = motion(state)

    def seen(vectors, half):
        inverse = y[:, 6:10] * [1, -1, -1, -1]
        return shortened(turned(inverse, vectors), half)

    def shortened(vectors, half):
        return vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + half)

    has_next = (state["num_reached"] + 1 < state["targets"])[:, None]
    up = np.tile([0.0, 0.0, 1.0], (len(y), 1))
    parts = [
        seen(state["target"] - y[:, :3], 2.0),
        seen(state["next_target"] - y[:, :3], 2.0) * has_next,
        seen(y[:, 3:6], 4.0),
        shortened(y[:, 10:], 4.0),
        turned(y[:, 6:10] * [1, -1, -1, -1], up),
        y[:, 2:3] / 4.0 - 1.0,
    ]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("targets", [1, 10])
def test_observations_are_what_the_body_sees(targets):
    env = made(64, targets=targets)
    for actions in random_actions(env, 100):
        np.testing.assert_allclose(env.observations, observed(numbers(env)), atol=2e-6)
        env.step(actions)


def pilot(state):
    """Motor commands of a simple autopilot: lean towards the velocity that leads to the target."""
    y = motion(state)
    wanted = 2.0 * (state["target"] - y[:, :3])
    wanted *= np.minimum(1.0, 4.5 / np.maximum(np.linalg.norm(wanted, axis=1, keepdims=True), 1e-9))
    push = 3.0 * (wanted - y[:, 3:6]) + [0, 0, GRAVITY]
    push[:, :2] *= np.minimum(1.0, 8.0 / np.maximum(np.linalg.norm(push[:, :2], axis=1, keepdims=True), 1e-9))
    up = turned(y[:, 6:10], np.tile([0.0, 0.0, 1.0], (len(y), 1)))
    error = np.cross(up, push / np.linalg.norm(push, axis=1, keepdims=True))
    error = turned(y[:, 6:10] * [1, -1, -1, -1], error)
    torque = INERTIA * (60.0 * error - 12.0 * y[:, 10:])
    lift = np.sum(push * up, axis=1) / GRAVITY - 1.0
    x, y_, z = torque.T / (0.25 * GRAVITY * 4.0 * np.array([[0.2], [0.2], [0.05]]))
    z = np.clip(z, -0.1, 0.1)
    return np.stack([lift + x - y_ - z, lift - x - y_ + z, lift + x + y_ + z, lift - x + y_ - z], axis=1).clip(-1, 1)


def test_an_autopilot_flies_the_course_and_is_paid_for_it():
    env = made(32)
    total, score, is_done = np.zeros(32), np.zeros(32), np.zeros(32, bool)
    state = numbers(env)
    first = np.linalg.norm(state["target"] - state["place"], axis=1)
    metres = first.copy()  # of all ways to targets
    for _ in range(1000):
        env.step(pilot(state).astype(np.float32))
        now = numbers(env)
        is_reached = (now["num_reached"] > state["num_reached"]) & ~is_done
        metres += np.where(is_reached, np.linalg.norm(now["target"] - now["place"], axis=1), 0.0)
        total += np.where(is_done, 0.0, env.rewards)
        score += is_reached
        ended = (env.terminals | env.truncations) & ~is_done
        score += env.terminals & ended  # the last target
        is_done |= ended
        state = now
    assert is_done.all()
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] > 0.8
    finished = score == 10
    assert finished.mean() > 0.5
    # Each way ends within half a metre of its target, one step of flight before that at most.
    paid = 10.0 + 0.1 * metres
    assert np.all((paid - total)[finished] > 0.0) and np.all((paid - total)[finished] < 10 * 0.1 * 0.5)


def test_leaving_the_flight_space_is_terminal_and_costs_one():
    env = made(8)
    actions = np.tile(np.float32(FALL), (8, 1))
    step = 0
    while not env.terminals.any():
        height = numbers(env)["place"][:, 2]
        env.step(actions)
        step += 1
    assert env.terminals.all() and not env.truncations.any()
    assert np.all(env.rewards < -0.9) and np.all(height < 0.2)
    assert 40 <= step <= 50  # 4 m take 0.91 s
    (statistics,) = env.episode_statistics()
    assert (statistics["n"], statistics["score"], statistics["episode_length"]) == (8.0, 0.0, float(step))


def test_hovering_on_is_cut_after_a_thousand_steps():
    env = made(8)
    actions = np.zeros((8, 4), np.float32)
    for step in range(1, 1001):
        env.step(actions)
        assert not env.terminals.any()
        assert env.truncations.all() == env.truncations.any() == (step == 1000)
    assert env.episode_statistics()[0]["episode_return"] == pytest.approx(0.0, abs=1e-4)


def test_targets_lie_in_their_box_and_apart():
    state = numbers(made(4000))
    for name, before in (("target", "place"), ("next_target", "target")):
        places = state[name]
        assert np.all(np.abs(places[:, :2]) <= 5.0) and np.all((places[:, 2] >= 1.5) & (places[:, 2] <= 6.5))
        assert np.linalg.norm(places - state[before], axis=1).min() >= 3.0
    yaw = np.arctan2(state["rotation"][:, 3], state["rotation"][:, 0])
    assert np.all(np.abs(np.histogram(yaw, bins=8)[0] - 500) < 5 * 500**0.5)


def test_the_golden_episodes_have_the_same_ends():
    env = made(64, seed=42)
    ends = []
    for step in range(400):
        turns = np.sin(np.arange(64)[:, None] * [1.0, 2.0, 3.0, 5.0] + step // 20)
        env.step((turns > 0.2).astype(np.float32) - np.float32(0.5))
        ends.append(env.terminals.copy())
    assert checksum(ends) == 1712074571  # printed by the lines above; changes when rules or random streams do


@pytest.mark.parametrize("targets", [0, 101])
def test_an_impossible_number_of_targets_is_refused(targets):
    with pytest.raises(ValueError, match=f"drone: targets must be an integer from 1 to 100, got {targets}"):
        Drone(1, targets=targets)
