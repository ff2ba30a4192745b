"""Many C environments as Gymnasium's vector: against its own vector of single ones, wrappers, memory, mistakes."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics

import pufferlib
from pufferlib.errors import APIUsageError
from pufferlib.ocean.cartpole.cartpole import Cartpole

# Floats, bytes in two dimensions, numbers as actions, and action masks: the vector is the same for all others.
KINDS = ("puffer_breakout", "puffer_maze", "puffer_pendulum", "puffer_connect4")


def sync(name, num_envs, mode=AutoresetMode.SAME_STEP, **kwargs):
    makers = [lambda: pufferlib.make_gymnasium(name, **kwargs) for _ in range(num_envs)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def assert_same_infos(infos, expected):
    assert infos.keys() == expected.keys()
    for key, value in infos.items():
        assert type(value) is type(expected[key])
        if key == "final_obs":
            assert value.dtype == expected[key].dtype == object and value.shape == expected[key].shape
            for row, other in zip(value, expected[key], strict=True):
                assert (row is None) == (other is None)
                np.testing.assert_array_equal(row, other)
        else:
            np.testing.assert_array_equal(value, expected[key])


@pytest.mark.quick(
    "SameStep-seed1-9-puffer_breakout", "NextStep-7-None-puffer_connect4", "NextStep-seed1-9-puffer_pendulum"
)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("seed", "limit"), [(7, None), ([4, 4, 1, 0, 9], 9)])
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda mode: mode.value)
def test_it_agrees_with_gymnasiums_vector_of_single_ones_step_by_step(name, seed, limit, mode):
    envs = pufferlib.make_gymnasium_vec(name, 5, autoreset_mode=mode, max_episode_steps=limit)
    peer = sync(name, 5, mode, max_episode_steps=limit)
    assert envs.metadata["autoreset_mode"] is mode
    assert envs.single_observation_space == peer.single_observation_space
    assert envs.observation_space == peer.observation_space and envs.action_space == peer.action_space
    observations, infos = envs.reset(seed=seed)
    expected, expected_infos = peer.reset(seed=seed)
    np.testing.assert_array_equal(observations, expected)
    assert_same_infos(infos, expected_infos)
    assert infos.keys() <= {"action_mask", "_action_mask"} and observations in envs.observation_space
    envs.action_space.seed(0)
    ends, reported = 0, []
    for step in range(600):
        if step == 300:  # in the middle of episodes, going on with the streams
            np.testing.assert_array_equal(envs.reset()[0], peer.reset()[0])
        actions = envs.action_space.sample()
        *found, infos = envs.step(actions)
        *expected, expected_infos = peer.step(actions)
        for array, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(array, other, err_msg=f"step {step}")
            assert array.shape == other.shape and array.dtype in (other.dtype, np.float32)
        assert_same_infos(infos, expected_infos)
        reported.append(np.count_nonzero(infos.get("_final_obs", False)))
        ends += np.count_nonzero(found[2] | found[3])
    assert ends > 0 or limit is None  # some games are longer
    assert mode == AutoresetMode.NEXT_STEP or ends == sum(reported)


def test_nothing_is_copied_unless_asked():
    envs = pufferlib.make_gymnasium_vec("puffer_breakout", 8)
    observations, _ = envs.reset(seed=0)
    for _ in range(3):
        found, rewards, terminations, truncations, _ = envs.step(np.full(8, 2))
        assert found is observations and found is envs.ocean.observations
        assert rewards is envs.ocean.rewards and terminations is envs.ocean.terminals
        assert truncations is envs.ocean.truncations
    envs = pufferlib.make_gymnasium_vec("puffer_breakout", 8, copy=True)
    kept = [envs.reset(seed=0)[0], *(envs.step(np.full(8, 2))[0] for _ in range(5))]
    assert not any(np.shares_memory(one, envs.ocean.observations) for one in kept)
    assert len({one.tobytes() for one in kept}) == 6


def test_in_the_next_step_the_first_observations_are_copies_too():
    envs = pufferlib.make_gymnasium_vec("puffer_squared", 8, autoreset_mode=AutoresetMode.NEXT_STEP)
    first = envs.reset(seed=0)[0]
    kept = first.copy()
    envs.step(np.ones(8, int))
    np.testing.assert_array_equal(first, kept)


def test_infos_of_an_end_stay_as_they_were():
    envs = pufferlib.make_gymnasium_vec("puffer_squared", 16)
    envs.reset(seed=0)
    kept = []
    for _ in range(200):
        infos = envs.step(envs.action_space.sample())[4]
        if infos:
            rows = [None if row is None else row.copy() for row in infos["final_obs"]]
            kept.append((infos, rows, infos["_final_obs"].copy()))
    assert len(kept) > 10
    for infos, rows, mask in kept:
        np.testing.assert_array_equal(infos["_final_obs"], mask)
        for row, other in zip(infos["final_obs"], rows, strict=True):
            np.testing.assert_array_equal(row, other)


def test_gymnasium_makes_it_with_arguments_of_the_environment():
    envs = gymnasium.make_vec("pufferlib/breakout", num_envs=6, frameskip=2, continuous=True, copy=True)
    assert isinstance(envs, VectorEnv) and envs.num_envs == 6 and envs.copy
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.spec.id == "pufferlib/breakout" and envs.single_action_space.shape == (1,)
    assert envs.reset(seed=0)[0].shape == (6, 118)
    assert repr(envs) == "OceanVectorEnv(pufferlib/breakout, num_envs=6)"
    other = pufferlib.make_gymnasium_vec("puffer_breakout", 6, frameskip=2)
    assert other.spec.kwargs["frameskip"] == 2 and other.spec.kwargs["num_envs"] == 6
    for each in (envs, other):
        each.close()
        each.close()
        assert each.closed


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vectors_of_it_work_as_well(mode):
    envs = gymnasium.make_vec("pufferlib/cartpole", 2, vectorization_mode=mode)
    assert envs.reset(seed=0)[0].shape == (2, 4)
    assert envs.step(np.array([0, 1]))[1].tolist() == [1.0, 1.0]
    envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP], ids=lambda mode: mode.value)
def test_gymnasiums_wrappers_run_on_it(mode):
    made = gymnasium.make_vec("pufferlib/cartpole", num_envs=32, autoreset_mode=mode)
    envs = RecordEpisodeStatistics(made)
    if mode == AutoresetMode.NEXT_STEP:  # Gymnasium normalizes observations in no other
        envs = NormalizeObservation(envs)
    observations, _ = envs.reset(seed=0)
    lengths, steps = [], 0
    for _ in range(300):
        observations, _, terminations, truncations, infos = envs.step(envs.action_space.sample())
        if (terminations | truncations).any():
            ended = infos["_episode"]
            np.testing.assert_array_equal(ended, terminations | truncations)
            np.testing.assert_array_equal(infos["episode"]["l"][ended], infos["episode"]["r"][ended])
            lengths += infos["episode"]["l"][ended].tolist()
        steps += 32
    if mode == AutoresetMode.SAME_STEP and tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 4):
        pytest.skip("before 1.4 the wrapper leaves out the first step of episodes that begin in the same step")
    (statistics,) = made.ocean.episode_statistics()
    assert statistics["n"] == len(lengths) > 100
    assert statistics["episode_length"] == pytest.approx(np.mean(lengths), rel=1e-5)
    assert np.all(np.abs(observations.mean(axis=0)) < 1.0)
    envs.close()


def test_every_environment_is_drawn():
    envs = pufferlib.make_gymnasium_vec("puffer_cartpole", 3, render_mode="rgb_array")
    envs.reset(seed=0)
    frames = envs.render()
    assert len(frames) == 3 and all(frame.dtype == np.uint8 for frame in frames)
    envs.close()
    assert pufferlib.make_gymnasium_vec("puffer_cartpole", 3).render() is None


def test_mistakes_are_named():
    with pytest.raises(APIUsageError, match="num_envs"):
        pufferlib.make_gymnasium_vec("puffer_cartpole", 0)
    with pytest.raises(APIUsageError, match="an environment in C, .* got CartPole-v1"):
        pufferlib.make_gymnasium_vec("CartPole-v1", 3)
    with pytest.raises(APIUsageError, match="render_mode must be one of"):
        pufferlib.make_gymnasium_vec("puffer_cartpole", 3, render_mode="human")
    for mode, message in ((AutoresetMode.DISABLED, "must be SAME_STEP or NEXT_STEP"), ("Never", "not a valid Auto")):
        with pytest.raises(ValueError, match=message):
            pufferlib.make_gymnasium_vec("puffer_cartpole", 3, autoreset_mode=mode)
    for limit in (0, 1.5, "long"):
        with pytest.raises(APIUsageError, match="max_episode_steps must be an integer from 1"):
            pufferlib.make_gymnasium_vec("puffer_cartpole", 3, max_episode_steps=limit)
    envs = pufferlib.make_gymnasium_vec(Cartpole, 3)
    with pytest.raises(APIUsageError, match=r"call reset\(\) first"):
        envs.step([0, 0, 0])
    envs.reset()
    for wrong in ([0, 1], 0, np.zeros((3, 1), int), [0.5, 0.5, 0.5]):
        with pytest.raises(APIUsageError, match="actions must"):
            envs.step(wrong)
    with pytest.raises(APIUsageError, match="reset.. is for all environments, got a reset_mask"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    for seed in ([1, 2], 1.5):
        with pytest.raises(APIUsageError, match="one seed for each of 3"):
            envs.reset(seed=seed)
