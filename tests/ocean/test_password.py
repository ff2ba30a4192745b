"""Password: what opens a door, what does not, and how often chance does."""

from __future__ import annotations

import numpy as np
import pytest
from known_policies import play

from pufferlib.ocean.password.password import Password

PASSWORDS = np.array(
    [[2, 0, 3, 1, 1, 3, 0, 2, 3, 3, 0, 1, 2, 0, 1, 2], [1, 3, 0, 3, 2, 0, 1, 1, 0, 2, 3, 2, 1, 2, 3, 0]]
)


@pytest.mark.parametrize("length", [1, 6, 16])
def test_the_password_opens_its_door_and_no_other(length):
    env = Password(64, length=length)

    def typed(doors):
        def policy(seen):
            position = seen[:, 2:].argmax(1)
            return PASSWORDS[doors(seen[:, :2].argmax(1)), position]

        return policy

    right = play(env, typed(lambda door: door), 20 * length)
    assert right == {"perf": 1.0, "score": 1.0, "episode_return": 1.0, "episode_length": length, "n": 64 * 20}
    assert play(env, typed(lambda door: 1 - door), 20 * length)["perf"] == 0.0


def test_one_wrong_key_is_as_bad_as_six_and_shows_at_the_end_alone():
    env = Password(6)
    env.reset(0)
    doors = env.observations[:, :2].argmax(1)
    for position in range(6):
        assert not env.rewards.any() and not env.terminals.any()
        np.testing.assert_array_equal(env.observations[:, 2:], np.eye(6, dtype=np.uint8)[[position] * 6])
        keys = PASSWORDS[doors, position]
        env.step(np.where(np.arange(6) == position, (keys + 1) % 4, keys))  # the key that its number says is wrong
    assert env.terminals.all() and not env.rewards.any() and not env.truncations.any()


def test_chance_opens_a_door_as_often_as_there_are_passwords():
    generator = np.random.default_rng(0)
    env = Password(1024, length=3)
    opened = play(env, lambda seen: generator.integers(0, 4, len(seen)), 300)["perf"]
    assert opened == pytest.approx(1 / 64, abs=0.002)
