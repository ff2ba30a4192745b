"""C environments of several agents as PettingZoo's parallel ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from compiled import compiled_binding

import pufferlib
from pufferlib.errors import APIUsageError
from pufferlib.interop.pettingzoo_interop import OceanParallelEnv
from pufferlib.ocean.environment import OceanEnv

parallel_test = pytest.importorskip("pettingzoo.test", reason="pip install 'pufferlib[pettingzoo]'")


@pytest.fixture(scope="module")
def duel(tmp_path_factory):
    module = compiled_binding("duel", tmp_path_factory.mktemp("duel"))

    class Duel(OceanEnv):
        binding = module
        agents_per_env = 2

        def __init__(self, num_envs=1, goal=3, leaves=False, **kwargs):
            self.single_observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
            self.single_action_space = gymnasium.spaces.Discrete(2)
            super().__init__(num_envs, {"goal": goal, "leaves": leaves}, **kwargs)

    return Duel


def both(one, other):
    return {"agent_0": one, "agent_1": other}


def test_pettingzoos_own_checks_pass(duel):
    parallel_test.parallel_api_test(pufferlib.make_pettingzoo(duel), num_cycles=200)
    parallel_test.parallel_seed_test(lambda: pufferlib.make_pettingzoo(duel))
    parallel_test.parallel_api_test(pufferlib.make_pettingzoo("puffer_cartpole"), num_cycles=200)
    parallel_test.parallel_seed_test(lambda: pufferlib.make_pettingzoo("puffer_cartpole"))


def test_agents_see_their_rows_and_end_with_what_their_episode_came_to(duel):
    env = pufferlib.make_pettingzoo(duel, goal=2)
    assert isinstance(env, OceanParallelEnv) and env.possible_agents == ["agent_0", "agent_1"] and env.agents == []
    observations, infos = env.reset(seed=0)
    assert infos == both({}, {}) and all(not row.any() for row in observations.values())
    observations, rewards, terminations, truncations, infos = env.step(both(0, 1))
    np.testing.assert_array_equal(observations["agent_0"], [0, 0.5])
    np.testing.assert_array_equal(observations["agent_1"], [0.5, 0])
    assert rewards == both(0.0, 1.0) and terminations == truncations == both(False, False) and infos == both({}, {})
    kept = observations["agent_1"].copy()
    last, rewards, terminations, truncations, _ = env.step(both(0, 1))
    np.testing.assert_array_equal(observations["agent_1"], kept)
    np.testing.assert_array_equal(last["agent_1"], [1, 0])
    assert rewards == both(0.0, 1.0) and terminations == both(True, True) and truncations == both(False, False)
    assert env.agents == []
    with pytest.raises(APIUsageError, match=r"call reset\(\) first"):
        env.step(both(0, 1))
    assert not env.reset()[0]["agent_1"].any() and env.agents == env.possible_agents


def test_a_time_limit_truncates_all(duel):
    env = pufferlib.make_pettingzoo(duel, goal=2)
    env.reset(seed=0)
    flags = [env.step(both(1, 1))[2:4] for _ in range(8)]
    assert flags[:7] == [(both(False, False), both(False, False))] * 7
    assert flags[7] == (both(False, False), both(True, True))


def test_an_agent_that_ends_before_the_others_is_gone_until_reset(duel):
    env = pufferlib.make_pettingzoo(duel, goal=4, leaves=True)
    env.reset(seed=0)
    env.step(both(1, 0))
    observations, _, terminations, *_ = env.step(both(1, 0))
    assert terminations == both(True, False) and env.agents == ["agent_1"]
    np.testing.assert_array_equal(observations["agent_0"], [0.5, 0])
    np.testing.assert_array_equal(observations["agent_1"], [0, 0])  # the newcomer has no points
    results = env.step({"agent_1": 1, "agent_0": 1})  # the newcomer stands by, whatever is sent for it
    assert all(set(part) == {"agent_1"} for part in results)
    assert results[1] == {"agent_1": 1.0}
    assert env.step({"agent_1": 1})[2] == {"agent_1": True} and env.agents == []
    observations, _ = env.reset()
    assert not any(row.any() for row in observations.values()) and len(env.agents) == 2


def test_mistakes_are_named(duel):
    for make in (pufferlib.make_gymnasium, pufferlib.make_gymnasium_vec):
        with pytest.raises(APIUsageError, match="Duel with 2; pufferlib.make_pettingzoo makes"):
            make(duel)
    with pytest.raises(APIUsageError, match="an environment in C, .* got CartPole-v1"):
        pufferlib.make_pettingzoo("CartPole-v1")
    env = pufferlib.make_pettingzoo(duel)
    env.reset()
    with pytest.raises(APIUsageError, match=r"got none for \['agent_1'\]"):
        env.step({"agent_0": 1})
    with pytest.raises(APIUsageError, match="actions must"):
        env.step(both(0, 0.5))


def test_without_pettingzoo_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr("pufferlib.errors.is_installed", lambda package: False)
    with pytest.raises(pufferlib.PufferError, match=r"pettingzoo is not installed; run `pip install 'pufferlib\[pett"):
        pufferlib.make_pettingzoo("puffer_squared")
