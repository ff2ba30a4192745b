"""Snapshots of vectors that somebody else wrote."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from environments import CountingEnv

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.ocean.squared.squared import Squared

BAD_PARTS = {
    "not a dict": lambda snapshot: list(snapshot),
    "no order": lambda snapshot: {name: snapshot[name] for name in ("envs", "arrays")},
    "no masks": lambda snapshot: {**snapshot, "arrays": {**snapshot["arrays"], "masks": None}},
    "text for bytes": lambda snapshot: {**snapshot, "envs": ["text"] * 4},
    "numbers for batches": lambda snapshot: {**snapshot, "order": [0, 1]},
    "fractions": lambda snapshot: {**snapshot, "order": [[0.0, 1.0], [2.0, 3.0]]},
    "no such environment": lambda snapshot: {**snapshot, "order": [[0, 1], [2, 10**30]]},
    "a negative one": lambda snapshot: {**snapshot, "order": [[0, 1], [2, -1]]},
    "one twice": lambda snapshot: {**snapshot, "order": [[0, 1], [0, 1]]},
    "a short array": lambda snapshot: {**snapshot, "arrays": {**snapshot["arrays"], "rewards": b"123"}},
    "flags of 2": lambda snapshot: {**snapshot, "arrays": {**snapshot["arrays"], "terminals": bytes([2] * 12)}},
    "masks of 255": lambda snapshot: {**snapshot, "arrays": {**snapshot["arrays"], "masks": bytes([255] * 12)}},
}


@pytest.mark.parametrize("bad", BAD_PARTS)
def test_a_snapshot_that_is_none_is_refused_and_changes_nothing(bad):
    with vector.make(CountingEnv, num_envs=4, batch_size=2, backend="Serial") as vecenv:
        vecenv.async_reset()
        for _ in range(2):
            vecenv.recv()
        before = copy.deepcopy(vecenv.snapshot())
        with pytest.raises(APIUsageError, match="snapshot.*; "):
            vecenv.restore(BAD_PARTS[bad](copy.deepcopy(before)))
        assert vecenv.snapshot() == before
        vecenv.send(np.zeros((6, 2), int))


def test_a_vector_whose_environment_refuses_its_part_is_to_be_reset():
    with vector.make(Squared, env_kwargs={"num_envs": 3}, num_envs=2, backend="Native", batch_size=2) as vecenv:
        vecenv.reset()
        snapshot = vecenv.snapshot()
        with pytest.raises(APIUsageError, match="squared: the snapshot is damaged"):
            vecenv.restore({**snapshot, "envs": [snapshot["envs"][0], snapshot["envs"][1][:-1] + b"\7"]})
        assert vecenv.state is vector.State.NEW
        vecenv.reset()
        vecenv.restore(snapshot)
        vecenv.step(np.zeros(6, int))
