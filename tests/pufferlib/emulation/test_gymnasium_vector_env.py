"""Gymnasium's vector environments as PufferEnvs."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium_vectors import SAME_STEP, Counter, counters

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv, unpack
from pufferlib.errors import APIUsageError
from pufferlib.seeding import mix_seed
from pufferlib.vector import GymnasiumVector, GymnasiumVectorPufferEnv

# --- what it shows


def test_environments_are_agents_of_one_puffer_env():
    with vector.adopt(counters(4), seed=5) as vecenv:
        assert isinstance(vecenv, GymnasiumVector)
        assert (vecenv.num_envs, vecenv.num_agents, vecenv.agents_per_batch) == (1, 4, 4)
        assert vecenv.single_observation_space == Box(-np.inf, np.inf, (2,), np.float32)
        assert vecenv.single_action_space == Discrete(3)
        observations, infos = vecenv.reset()
        seed = mix_seed(5, 0)
        assert observations[:, 0].tolist() == [(mix_seed(seed, i) & 0x7FFFFFFF) % 1000 for i in range(4)]
        assert infos == []
        observations, rewards, terminals, truncations, infos = vecenv.step(np.array([0, 1, 2, 0]))
        assert observations[:, 1].tolist() == [1, 1, 0, 1]
        assert (rewards.tolist(), rewards.dtype) == ([1, 1, 1, 1], np.float32)
        assert (terminals.tolist(), truncations.tolist()) == ([False, False, True, False], [False] * 4)
        assert infos == [{"success": 1.0, "score": 2.5}]


def test_a_truncated_environment_reports_its_last_observation_and_a_terminated_one_does_not():
    with vector.adopt(counters(2), seed=5) as vecenv:
        first = vecenv.reset()[0].copy()
        vecenv.step(np.zeros(2, int))
        vecenv.step(np.zeros(2, int))
        observations, rewards, terminals, truncations, infos = vecenv.step(np.array([0, 2]))
        np.testing.assert_array_equal(observations, first)
        assert rewards.tolist() == [3, 3]
        assert terminals.tolist() == [False, True]
        assert truncations.tolist() == [True, True]
        final, *numbers = infos
        assert final["agent_id"] == 0
        assert final["final_observation"].tolist() == [first[0, 0], 3]
        assert final["final_observation"].dtype == np.float32
        assert numbers == [{"success": 0.0, "score": 7.5}, {"success": 1.0, "score": 7.5}]
        vecenv.step(np.zeros(2, int))
        assert final["final_observation"].tolist() == [first[0, 0], 3]


class Forgetful(SyncVectorEnv):
    def step(self, actions):
        *results, infos = super().step(actions)
        return *results, {name: value for name, value in infos.items() if name != "final_obs"}


def test_a_truncated_environment_must_have_a_last_observation():
    with vector.adopt(counters(2, Forgetful), seed=5) as vecenv:
        vecenv.reset()
        with pytest.raises(APIUsageError, match="infos of a step that truncates must have final_obs, .* from Forget"):
            for _ in range(3):
                vecenv.step(np.zeros(2, int))


def test_every_action_reaches_its_environment():
    env = counters(2)
    with vector.adopt(env) as vecenv:
        vecenv.reset()
        actions = np.random.default_rng(0).integers(0, 3, (40, 2))
        for row in actions:
            vecenv.step(row)
        assert np.array([each.unwrapped.taken for each in env.envs]).T.tolist() == actions.tolist()


@pytest.mark.parametrize(
    ("space", "canonical", "row", "expected"),
    [
        (Discrete(3, start=-1), Discrete(3), 2, 1),
        (MultiDiscrete([[2, 3]]), MultiDiscrete([2, 3]), [1, 2], [[1, 2]]),
        (MultiDiscrete([2, 3], start=[5, 1]), MultiDiscrete([2, 3]), [1, 2], [6, 3]),
        (MultiBinary((2, 2)), MultiDiscrete([2, 2, 2, 2]), [0, 1, 1, 0], [[0, 1], [1, 0]]),
        (Box(-1, 1, (2, 1), np.float64), Box(-1, 1, (2,), np.float32), [0.5, 3.0], [[0.5], [1.0]]),
    ],
)
def test_actions_are_rows_of_numbers_that_the_environment_gets_in_its_own_form(space, canonical, row, expected):
    env = counters(2, action_space=space)
    with vector.adopt(env) as vecenv:
        assert vecenv.single_action_space == canonical
        vecenv.reset()
        vecenv.step(np.array([row, row]))
        assert [np.asarray(each.unwrapped.taken[0]).tolist() for each in env.envs] == [expected, expected]


@pytest.mark.parametrize("actions", [np.zeros(3, int), np.zeros((2, 1), int), np.array([0.5, 1.0])])
def test_actions_that_do_not_fit_are_refused(actions):
    env = GymnasiumVectorPufferEnv(counters(2))
    env.reset()
    with pytest.raises(APIUsageError, match="actions must"):
        env.step(actions)
    assert env.step([0, 1])[1].tolist() == [1, 1]
    env.close()


class Nested(gymnasium.Env):
    """Observes what it was last told, in a structure of its own; truncated at every second step."""

    observation_space = Dict({"choice": Discrete(3, start=1), "rest": Tuple([Box(-1, 1, (2,)), MultiBinary(3)])})
    action_space = Dict({"choice": Discrete(3, start=1), "rest": Tuple([Box(-1, 1, (2,)), MultiBinary(3)])})

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return {"choice": 1, "rest": (np.zeros(2, np.float32), np.zeros(3, np.int8))}, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return action, 0.0, False, self.steps == 2, {}


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_structures_are_packed_as_those_of_a_single_environment(kind):
    with vector.adopt(kind([Nested] * 2, **SAME_STEP)) as vecenv:
        single = GymnasiumPufferEnv(Nested())
        assert vecenv.single_observation_space == single.single_observation_space
        assert vecenv.single_action_space == single.single_action_space
        assert vecenv.emulated == single.emulated
        vecenv.reset()
        rows = np.array([[2, 0.5, 9, 0, 1, 1], [0, -0.5, 0, 1, 0, 0]], np.float32)
        observations = unpack(vecenv.step(rows)[0], vecenv.emulated)
        assert observations["choice"].tolist() == [3, 1]
        assert observations["rest"][0].tolist() == [[0.5, 1.0], [-0.5, 0.0]]
        assert observations["rest"][1].tolist() == [[0, 1, 1], [1, 0, 0]]
        infos = vecenv.step(rows)[4]
        assert [info["agent_id"] for info in infos] == [0, 1]
        final = unpack(infos[0]["final_observation"], vecenv.emulated)
        assert final["choice"] == 3
        assert final["rest"][1].tolist() == [0, 1, 1]


# --- refusals


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_another_autoreset_mode_is_refused_with_the_remedy(mode):
    env = SyncVectorEnv([Counter], autoreset_mode=mode)
    with pytest.raises(APIUsageError, match=rf"same step, got autoreset_mode {mode.name}; .*AutoresetMode\.SAME_STEP"):
        vector.adopt(env)


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1"])  # one with a vector environment of its own, one without
def test_the_remedy_for_another_autoreset_mode_works(name):
    env = gymnasium.make_vec(name, num_envs=2)
    with pytest.raises(APIUsageError, match="NEXT_STEP; make it with gymnasium.make_vec") as caught:
        vector.adopt(env)
    made = eval(str(caught.value).partition("make it with ")[2], {"gymnasium": gymnasium})
    with vector.adopt(made) as vecenv:
        assert vecenv.reset()[0].shape == (1, *made.single_observation_space.shape)
    env.close()


def test_what_cannot_be_stepped_is_refused_in_one_sentence():
    with pytest.raises(APIUsageError, match="exactly one of env and env_creator, got neither"):
        GymnasiumVectorPufferEnv()
    with pytest.raises(APIUsageError, match=r"a gymnasium\.vector\.VectorEnv, got Counter; .*GymnasiumPufferEnv"):
        GymnasiumVectorPufferEnv(env_creator=Counter)
    with pytest.raises(APIUsageError, match="must be Discrete, .* got Text"):
        vector.adopt(counters(action_space=Dict({"a": Text(2)})))


def test_an_environment_that_raises_keeps_its_traceback():
    class Broken(Counter):
        def step(self, action):
            raise RuntimeError("the pole fell off")

    env = SyncVectorEnv([Broken], **SAME_STEP)
    with vector.adopt(env) as vecenv:
        vecenv.reset()
        with pytest.raises(RuntimeError, match="the pole fell off"):
            vecenv.step(np.zeros(1, int))
