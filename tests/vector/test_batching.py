"""How many workers a batch still lacks, which says how long `recv` may sleep."""

import gymnasium
import numpy as np
import pytest

from pufferlib.environment import Buffers
from pufferlib.vector.batch import FixedBatches, MixedBatches


@pytest.fixture
def buffers():
    return Buffers.empty(gymnasium.spaces.Box(0, 1, (1,), np.float32), gymnasium.spaces.Discrete(2), 8)


def test_a_fixed_batch_lacks_what_the_fullest_one_lacks(buffers):
    batches = FixedBatches(buffers, num_envs=8, batch_size=4, envs_per_worker=1)
    found = [batches.num_missing]
    for worker in (0, 4, 5, 6):
        batches.add(worker)
        found.append(batches.num_missing)
    assert found == [4, 3, 3, 2, 1]
    batches.add(7)
    batch = batches.take()
    assert batch.envs == (4, 5, 6, 7)
    assert batches.num_missing == 3  # the one that was taken is in nobody's way
    batches.release(batch)
    batches.add(1)
    assert batches.num_missing == 2


def test_a_mixed_batch_lacks_whoever_is_first(buffers):
    batches = MixedBatches(buffers, num_envs=8, batch_size=4, envs_per_worker=2)
    assert batches.num_missing == 2
    batches.add(3)
    assert batches.num_missing == 1
    batches.add(0)
    assert batches.take().envs == (6, 7, 0, 1)
    assert batches.num_missing == 2
