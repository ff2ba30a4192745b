"""Snapshots that somebody else wrote: refused in one sentence, or played without leaving an array."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from contract import (
    COMPILED,
    Case,
    another_value,
    assert_in_space,
    each_name,
    keywords,
    outrageous_actions,
    random_actions,
)

from pufferlib.errors import APIUsageError

HEADER = struct.Struct("<8s32sQ7q")  # SnapshotHeader in puffer_snapshot.h
STEPS_BYTES = 8  # OceanEnv.snapshot begins with the steps it counted
REFUSED = "of the snapshot was made with other arguments or holds numbers that no game reaches"
WORDS = (0, 1, 2, 5, 127, 255, 1 << 15, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
FLOATS = (np.nan, np.inf, -np.inf, 1e9, -1e9, 0.5, -0.5, 300.0)


def checksum(content: bytes) -> int:
    """Of `snapshot_checksum`, for a content of whole words."""
    total, whole = 0xCBF29CE484222325, len(content) // 8 * 8
    for word in (*np.frombuffer(content[:whole], "<u8").tolist(), *content[whole:]):
        total = (total ^ word) * 0x100000001B3 & (1 << 64) - 1
    return total


def sealed(snapshot: bytes, content: bytes) -> bytes:
    """A snapshot with another content, which its checksum belongs to."""
    fields = list(HEADER.unpack_from(snapshot, STEPS_BYTES))
    fields[2] = checksum(content)
    return snapshot[:STEPS_BYTES] + HEADER.pack(*fields) + content


def content_of(snapshot: bytes) -> bytes:
    return snapshot[STEPS_BYTES + HEADER.size :]


def struct_size(snapshot: bytes) -> int:
    return HEADER.unpack_from(snapshot, STEPS_BYTES)[3]


def tampered(snapshot: bytes, generator: np.random.Generator) -> bytes:
    """With some numbers of the struct overwritten, by what was found to be bad elsewhere and by chance."""
    content = bytearray(content_of(snapshot))
    for _ in range(generator.integers(1, 4)):
        word = struct.pack("<I", int(generator.choice(WORDS)))
        drawn = (word, word[:1], struct.pack("<f", generator.choice(FLOATS)), generator.bytes(4), generator.bytes(1))
        new = drawn[generator.integers(len(drawn))]
        at = int(generator.integers(struct_size(snapshot) // len(new))) * len(new)
        content[at : at + len(new)] = new
    return sealed(snapshot, bytes(content))


def played(case: Case, num_envs: int = 1, steps: int = 100):
    env = case.make(num_envs)
    env.reset(1)
    for actions in random_actions(env, steps):
        env.step(actions)
    return env


@pytest.mark.quick("puffer_drone")
@each_name
def test_a_tampered_snapshot_is_refused_or_played(name):
    generator = np.random.default_rng(0)
    env, accepted, refused = played(Case(name)), 0, 0
    for _ in range(200):
        snapshot = env.snapshot()
        try:
            env.restore(tampered(snapshot, generator))
        except APIUsageError as error:
            assert "\n" not in str(error)
            assert env.snapshot() == snapshot
            refused += 1
        else:
            accepted += 1
        for actions in random_actions(env, 20, seed=accepted):
            env.step(actions)
        assert_in_space(env)
    assert min(accepted, refused) >= 4  # both were tried; the fewer numbers are free, the fewer are accepted
    for actions in random_actions(env, 1000):
        env.step(actions)
        assert_in_space(env)


@pytest.mark.quick("puffer_drone")
@each_name
def test_what_play_leads_to_is_accepted(name):
    env = Case(name).make(4)
    env.reset(3)
    for actions in (*random_actions(env, 300), *outrageous_actions(env, 100)):
        env.step(actions)
        env.restore(env.snapshot())


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in COMPILED for key in keywords(name)])
def test_the_arguments_stay_those_of_the_running_environment(name, key):
    other = played(Case(name, {key: another_value(name, key)})).snapshot()
    env = played(Case(name))
    before = env.snapshot()
    with pytest.raises(APIUsageError, match=f"{REFUSED}|expected a snapshot of .* made with the arguments"):
        env.restore(other)
    assert env.snapshot() == before


@each_name
def test_one_bad_environment_leaves_all_others_as_they_were(name):
    env = played(Case(name), num_envs=3)
    snapshot = env.snapshot()
    for actions in random_actions(env, 5):
        env.step(actions)
    before, content = env.snapshot(), bytearray(content_of(snapshot))
    content[-1] = 2  # the last environment's last flag
    with pytest.raises(APIUsageError, match=f"environment 2 {REFUSED}"):
        env.restore(sealed(snapshot, bytes(content)))
    assert env.snapshot() == before
    env.restore(sealed(snapshot, content_of(snapshot)))
    assert env.snapshot() == snapshot
