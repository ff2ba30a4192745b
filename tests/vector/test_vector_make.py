"""Arguments of make: what fits together runs everything, what does not says what would."""

from __future__ import annotations

import random
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from environments import CountingEnv, DoubledRewards, OwnArraysEnv
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple

from pufferlib import machine, vector
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, MemoryLackError, WorkerError
from pufferlib.ocean.squared.squared import Squared
from pufferlib.vector import recipe
from pufferlib.wrappers import ClipReward


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs must be an integer of at least 1, got 0"),
        ({"num_envs": 2.0}, "num_envs must be an integer of at least 1, got 2.0"),
        ({"num_envs": True}, "num_envs must be an integer of at least 1, got True"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        (
            {"backend": "serial"},
            "'auto', 'Serial', 'Native', 'Device', 'Multiprocessing'.* got 'serial'; did you mean 'Serial'",
        ),
        ({"backend": "Threads"}, "backend must be one of 'auto', 'Serial', .*'Ray' .* got 'Threads'"),
        ({"backend": int}, "a class of pufferlib.vector, got <class 'int'>"),
        ({"backend": "Serial", "num_workers": 2}, "Serial has one worker, got num_workers 2"),
        ({"num_envs": 6, "batch_size": 4}, "batch_size must be a divisor of num_envs 6, got 4; the nearest is 3 or 6"),
        ({"num_envs": 6, "batch_size": 9}, "got 9; the nearest is 6"),
        ({"batch_size": 0}, "batch_size must be 'auto' or an integer of at least 1, got 0"),
        (
            {"num_envs": 6, "num_workers": 4},
            "num_workers must be a divisor of num_envs 6 .* got 4; the nearest is 3 or 6",
        ),
        ({"num_envs": 6, "num_workers": 2, "batch_size": 2}, "whole workers in a batch of 2, got 2; the nearest is 3"),
        ({"num_workers": "two"}, "num_workers must be 'auto' or an integer of at least 1, got 'two'"),
        ({"backend": "Native"}, "Native steps Ocean environments in C, .* got CountingEnv"),
        ({"num_envs": 2, "num_workers": 2, "context": "thread"}, "context must be one of None, .* got 'thread'"),
        ({"env_kwargs": [{}, {}]}, "a list of env_kwargs must have num_envs 1 entries, got 2"),
        ({"num_envs": 3, "env_args": [(1,), (2,)]}, "a list of env_args must have num_envs 3 entries, got 2"),
        ({"env_kwargs": "agents"}, "env_kwargs must hold dicts, got str"),
        ({"env_kwargs": {"colour": "red"}}, "CountingEnv.* does not accept the arguments .*'colour'"),
    ],
)
@pytest.mark.filterwarnings("ignore:num_workers")
def test_wrong_arguments_are_refused_in_one_sentence(options, message):
    options = {"backend": "Multiprocessing" if {"num_workers", "batch_size"} & set(options) else "Serial", **options}
    with pytest.raises(APIUsageError, match=message):
        vector.make(CountingEnv, **options)


def test_lists_of_creators_are_counted_and_checked():
    with pytest.raises(APIUsageError, match="a list of creators must have num_envs 3 entries, got 2"):
        vector.make([CountingEnv, CountingEnv], num_envs=3)
    with pytest.raises(APIUsageError, match="an environment creator must be callable, got str"):
        vector.make("CountingEnv")


def test_every_environment_gets_its_own_creator_and_arguments():
    kwargs = [{"length": 2}, {"length": 3}]
    with vector.make([CountingEnv, DoubledRewards], [(2,), [2]], kwargs, "Serial", num_envs=2) as vecenv:
        vecenv.reset()
        _, rewards, terminals, _, _ = vecenv.step(np.ones((4, 2), int))
        assert rewards.tolist() == [1, 1, 2, 2]
        _, _, terminals, _, _ = vecenv.step(np.ones((4, 2), int))
        assert terminals.tolist() == [True, True, False, False]


def test_rewards_that_an_environment_returns_in_place_of_its_own_are_seen():
    class ShapedSquared(Squared):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return (observations, rewards - 0.5, *rest)

    with vector.make(ShapedSquared, num_envs=2, num_workers=1) as vecenv:
        assert isinstance(vecenv, vector.Serial)
        vecenv.reset()
        assert set(vecenv.step(np.zeros(2048, int))[1].tolist()) == {-0.5}
    with pytest.raises(APIUsageError, match="Native steps Ocean environments in C, past their Python step"):
        vector.make(ShapedSquared, backend="Native")


@pytest.mark.parametrize(
    ("creators", "message"),
    [
        ([CountingEnv, lambda buf, seed: CountingEnv(2, buf=None, seed=seed)], "same num_agents, environment 0 has 3"),
        ([CountingEnv, lambda buf, seed: Squared(3, seed=seed)], "same single_observation_space"),
        ([OwnArraysEnv] * 2, "OwnArraysEnv.observations must be the array it was given; pass buf on"),
        ([lambda buf, seed: object()] * 2, "must return a PufferEnv, got object without single_observation_space"),
        ([lambda: None] * 2, "must return a PufferEnv, got NoneType"),
        ([lambda: CountingEnv()] * 2, r"called with buf and seed, but <lambda>\(\) does not accept that .*pass buf on"),
    ],
)
def test_environments_that_do_not_fit_are_refused(creators, message):
    with pytest.raises(APIUsageError, match=message):
        vector.make(creators, num_envs=2, backend="Serial")


def test_environments_that_return_wrong_things_are_refused():
    class WrongShape(CountingEnv):
        def step(self, actions):
            observations, *rest = super().step(actions)
            return (observations[0], *rest)

    class DictInfos(CountingEnv):
        def reset(self, seed=None):
            return super().reset(seed)[0], {}

    class Fractions(CountingEnv):
        def __init__(self, buf=None, seed=0):
            super().__init__()
            self.single_observation_space = Box(0, 255, (4,), np.uint8)
            PufferEnv.__init__(self, buf)

        def step(self, actions):
            _, *rest = super().step(actions)
            return self.observations / 255, *rest

    class FourResults(CountingEnv):
        def step(self, actions):
            return super().step(actions)[:4]

    class NoAgent(CountingEnv):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return (*rest, [{"final_observation": self.observations[0]}])

    class BareReset(CountingEnv):
        def reset(self, seed=None):
            return super().reset(seed)[0]

    for creator, message in (
        (WrongShape, r"WrongShape must return observations of shape \(3, 4\), got \(4,\)"),
        (Fractions, "Fractions must return observations of uint8, as its space says, got float64"),
        (FourResults, r"FourResults.step\(\) must return observations, rewards, .*, got 4"),
        (NoAgent, "agent_id"),
    ):
        with vector.make(creator, backend="Serial") as vecenv:
            vecenv.reset()
            with pytest.raises(APIUsageError, match=message):
                vecenv.step(np.zeros((3, 2), int))
    for creator, message in (
        (DictInfos, "DictInfos must return infos as a list of dicts, got dict"),
        (BareReset, r"BareReset.reset\(\) must return observations, infos, got ndarray"),
    ):
        with vector.make(creator, backend="Serial") as vecenv, pytest.raises(APIUsageError, match=message):
            vecenv.reset()


@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_more_memory_than_the_machine_has_is_refused(backend, monkeypatch):
    monkeypatch.setattr(machine, "usable_memory_bytes", lambda: 50 * 3 * 33)  # of 50 environments, a little too few
    with pytest.raises(MemoryLackError, match=r"a step of 300 agents needs at least .* have fewer environments"):
        vector.make(CountingEnv, num_envs=100, num_workers=1, backend=backend)


class Declared(PufferEnv):
    def __init__(self, observation_space, num_agents):
        self.single_observation_space, self.single_action_space = observation_space, Discrete(2)
        self.num_agents = num_agents
        super().__init__()


@pytest.mark.parametrize("space", [Dict({"x": Box(0, 1)}), Tuple([Box(0, 1)]), Text(3), None])
def test_an_environment_whose_observations_are_no_rows_is_refused_by_name(space):
    with pytest.raises(APIUsageError, match="observation space must be Box, .*, got .*pufferlib.emulation"):
        Declared(space, 1)


@pytest.mark.parametrize("num_agents", [0, 2.0, None, "2"])
def test_agents_are_counted_by_an_integer(num_agents):
    assert Declared(Box(0, 1), np.int64(2)).observations.shape == (2, 1)
    with pytest.raises(APIUsageError, match="Declared.num_agents must be an integer from 1, got"):
        Declared(Box(0, 1), num_agents)


def test_a_failing_environment_closes_the_ones_before_it():
    closed = []

    class Closing(CountingEnv):
        def close(self):
            closed.append(self.seed)

    def failing(buf, seed):
        raise OSError("no such map")

    with pytest.raises(OSError, match="no such map"):
        vector.make([Closing, Closing, failing], num_envs=3, backend="Serial")
    assert len(closed) >= 3  # the driver and both environments


@pytest.mark.parametrize("batch_size", [1, 2, 3, 6])
def test_every_environment_is_stepped_whatever_the_batch_size(batch_size):
    with vector.make(CountingEnv, num_envs=6, batch_size=batch_size, backend="Serial") as vecenv:
        vecenv.async_reset()
        stepped = []
        for _ in range(6 // batch_size):
            vecenv.recv()
            vecenv.send(np.zeros((3 * batch_size, 2), int))
        for _ in range(6 // batch_size):
            observations, *_, agent_ids, _ = vecenv.recv()
            assert (observations[:, 1] == 1).all()
            stepped += agent_ids.tolist()
        assert sorted(stepped) == list(range(18))


def test_auto_takes_native_for_c_environments_and_serial_for_one_worker():
    with vector.make(Squared, num_envs=2) as vecenv:
        assert isinstance(vecenv, vector.Native)
        assert vecenv.batch_size == 1
    with vector.make(CountingEnv, num_envs=3, num_workers=1) as vecenv:
        assert isinstance(vecenv, vector.Serial)
        assert vecenv.batch_size == 3


def test_auto_takes_processes_for_python_environments_on_several_cores(monkeypatch):
    monkeypatch.setattr(recipe, "usable_cores", lambda: 2)
    with vector.make(CountingEnv, num_envs=4) as vecenv:
        assert isinstance(vecenv, vector.Multiprocessing)
        assert vecenv.num_workers == 2


def test_more_workers_than_cores_are_warned_about():
    cores = recipe.usable_cores()
    with pytest.warns(RuntimeWarning, match=f"num_workers {cores + 1} is more than the {cores} cores") as caught:
        vector.make(Squared, backend="Native", num_workers=cores + 1).close()
    assert caught[0].filename == __file__


# --- one environment for several


def shared(kind):
    env = Counted() if kind == "Gymnasium" else Squared(num_envs=1)
    if kind == "Gymnasium":
        return lambda: env
    return lambda buf, seed: ClipReward(env)


class Counted(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("sizes", [{"num_envs": 2}, {"num_envs": 2, "batch_size": 1}, {"num_envs": 1}], ids=str)
@pytest.mark.parametrize("kind", ["Gymnasium", "PufferEnv"])
def test_a_creator_that_returns_one_environment_again_and_again_is_refused(kind, sizes):
    with pytest.raises(APIUsageError, match="must return a new environment whenever it is called, got one twice, a"):
        vector.make(shared(kind), backend="Serial", **sizes)


def test_workers_refuse_it_too():
    with pytest.raises(WorkerError, match="must return a new environment whenever it is called"):
        vector.make(shared("Gymnasium"), backend="Multiprocessing", num_envs=4, num_workers=2)


def test_arguments_that_every_environment_gets_of_its_own_are_refused():
    for kwargs in ({"seed": 3}, {"buf": None}):
        with pytest.raises(APIUsageError, match="(seed|buf) must not be among the arguments of an environment"):
            vector.make(Squared, env_kwargs=kwargs)


# --- keywords that are refused further inside


class OwnMistake(Squared):
    def __init__(self, num_envs=1, buf=None, seed=None):
        super().__init__(num_envs=num_envs, buf=buf, seed=seed)
        random.seed(seed=3)


def test_a_mistake_of_the_authors_is_not_taken_for_a_refusal():
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        vector.make(OwnMistake, backend="Serial")


# --- closing


class ClosesBadly(CountingEnv):
    closed: ClassVar[list] = []

    def close(self):
        self.closed.append(self.length)
        if self.length == 5:
            raise OSError("stuck")


@pytest.mark.parametrize("batch_size", [1, 3])
def test_all_are_closed_where_one_fails(batch_size):
    lengths = [{"length": length} for length in (4, 5, 6)]
    vecenv = vector.make(ClosesBadly, env_kwargs=lengths, num_envs=3, batch_size=batch_size, backend="Serial")
    ClosesBadly.closed.clear()
    with pytest.raises(OSError, match="stuck"):
        vecenv.close()
    assert ClosesBadly.closed == [4, 5, 6]
