"""A table that all environments read, and environments made one by one: what few need."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compiled_binding


@pytest.fixture(scope="module")
def binding(tmp_path_factory):
    return compiled_binding("shared_quiz", tmp_path_factory.mktemp("shared_quiz"))


def arrays(rows):
    observations, actions = np.zeros((rows, 1), np.uint8), np.zeros(rows, np.int32)
    return [observations, actions, np.zeros(rows, np.float32), np.zeros(rows, bool), np.zeros(rows, bool)]


def made_one_by_one(binding, rows, shared):
    """A vec over environments of their own, each on its rows."""
    singles = [binding.env_init(*(each[i : i + 1] for each in rows), 5, shared=shared, rounds=3) for i in range(50)]
    return binding.vectorize(*singles)


def test_environments_made_one_by_one_give_the_same_rollout(binding):
    together, apart = arrays(50), arrays(50)
    vecs = binding.vec_init(*together, 50, 0, rounds=3), made_one_by_one(binding, apart, binding.shared())
    for seed in (0, 11):
        for vec in vecs:
            binding.vec_reset(vec, seed)
        assert len(np.unique(apart[0])) > 1
        for step in range(100):
            for each, vec in zip((together, apart), vecs, strict=True):
                each[1][:] = np.arange(50) * 7 // 3 + step & 1
                binding.vec_step(vec)
            for expected, found in zip(together, apart, strict=True):
                np.testing.assert_array_equal(found, expected)
    assert binding.vec_log(vecs[0]) == binding.vec_log(vecs[1])


def test_the_shared_table_outlives_the_name_it_had(binding):
    rows = arrays(1)
    env = binding.env_init(*rows, 0, shared=binding.shared(), rounds=2)
    binding.env_reset(env)
    rows[1][0] = rows[0][0, 0] >= 2
    binding.env_step(env)
    assert rows[2][0] == 1.0


def test_a_snapshot_brings_no_pointer_of_its_own(binding):
    rows = arrays(2)
    vec, other = binding.vec_init(*rows, 2, 0, rounds=3), binding.vec_init(*arrays(2), 2, 9, rounds=3)
    binding.vec_reset(vec)
    binding.vec_reset(other)
    binding.vec_restore(vec, binding.vec_snapshot(other))
    del other
    rows[1][:] = rows[0][:, 0] >= 2
    binding.vec_step(vec)
    assert rows[2].tolist() == [1.0, 1.0]


def test_a_single_environment_needs_the_shared_table(binding):
    with pytest.raises(TypeError, match="needs the keyword argument 'shared'"):
        binding.env_init(*arrays(1), 0, rounds=2)
    with pytest.raises(TypeError, match="shared must be the result of shared_quiz.shared"):
        binding.env_init(*arrays(1), 0, shared=None, rounds=2)


def test_an_environment_reports_the_numbers_that_it_names(binding):
    rows = arrays(2)
    vec = binding.vec_init(*rows, 2, 0, rounds=4)
    binding.vec_reset(vec)
    for _ in range(4):
        rows[1][0], rows[1][1] = rows[0][0, 0] >= 2, rows[0][1, 0] < 2  # right, wrong
        binding.vec_step(vec)
    expected = {"perf": 1.0, "score": 4.0, "mistakes": 4.0, "n": 5.0}
    assert list(binding.vec_log(vec).items()) == list(expected.items())
