import numpy as np
import pytest
from environments import CountingEnv

from pufferlib import ocean, vector
from pufferlib.errors import APIUsageError

SQUARED = ocean.env_class("puffer_squared")


def noise(vecenv):
    """What the seeds decide of the first observations."""
    vecenv.async_reset()
    batches = [vecenv.recv()[0] for _ in range(vecenv.num_agents // vecenv.agents_per_batch)]
    return np.concatenate(batches)[:, 3]


@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_others_like_it_have_its_arguments_and_seeds_of_their_own(backend):
    lengths = [{"length": 5}, {"length": 7}]
    with vector.make(CountingEnv, env_kwargs=lengths, num_envs=2, num_workers=1, backend=backend, seed=3) as vecenv:
        found = noise(vecenv)
        with vecenv.again(4, seed=4) as others:
            assert type(others) is type(vecenv) and (others.num_envs, others.seed) == (4, 4)
            assert not set(noise(others)) & set(found)
            if backend == "Serial":
                assert [group.length for group in others._groups[0].envs] == [5, 7, 5, 7]
        with vecenv.again(2, seed=3) as same:
            assert np.array_equal(noise(same), found)
        vecenv.send(np.zeros((6, 2), int))  # and itself goes on


def test_environments_behind_one_are_counted_one_by_one():
    with vector.make(SQUARED, env_kwargs={"num_envs": 8, "size": 5}, num_envs=2, backend="Native") as vecenv:
        with vecenv.again(3, seed=1) as others:
            assert (type(others), others.num_envs, others.num_agents) == (vector.Native, 1, 3)
            assert others.single_observation_space == vecenv.single_observation_space
        with others.again(5, seed=2) as more:
            assert more.num_agents == 5


class Level(SQUARED):
    def __init__(self, num_envs, level, buf=None, seed=0):
        super().__init__(num_envs=num_envs, buf=buf, seed=seed)
        self.level = level


def test_environments_behind_several_that_differ_are_shared_out():
    levels = [{"num_envs": 4, "level": level} for level in range(3)]
    with vector.make(Level, env_kwargs=levels, num_envs=3, backend="Serial") as vecenv:
        for count, sizes in ((9, [3, 3, 3]), (7, [3, 3, 3]), (2, [1, 1]), (1, [1])):
            with vecenv.again(count, seed=1) as others:
                found = [(env.level, env.num_agents) for env in others.envs]
                assert found == list(zip(range(3), sizes, strict=False))


class Four(SQUARED):
    def __init__(self, buf=None, seed=0):
        super().__init__(num_envs=4, buf=buf, seed=seed)


def test_where_their_number_is_fixed_there_are_at_least_as_many():
    with vector.make(Four, backend="Serial") as vecenv, vecenv.again(6, seed=1) as others:
        assert (others.num_envs, others.num_agents) == (2, 8)


def test_there_is_one_at_least():
    with vector.make(CountingEnv, backend="Serial") as vecenv:
        with pytest.raises(APIUsageError, match="num_envs must be an integer of at least 1, got 0"):
            vecenv.again(0, seed=1)
        with pytest.raises(APIUsageError, match="seed must be an integer of at least 0, got -1"):
            vecenv.again(2, seed=-1)


def test_of_an_environment_that_existed_before_there_are_no_others():
    with vector.adopt(CountingEnv()) as vecenv:
        assert not vecenv.is_repeatable
        with pytest.raises(APIUsageError, match="again.. needs a vector that make.. made, got one of the ready Count"):
            vecenv.again(2, seed=1)
