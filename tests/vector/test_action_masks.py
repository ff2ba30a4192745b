"""Action masks and turns, from environments in C and in Python through every backend."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple
from nim_game import CHOICES, PythonNim, nim_class

from pufferlib import spaces, vector
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.ocean.squared.squared import Squared
from pufferlib.wrappers import PufferWrapper


@pytest.fixture(scope="module")
def nim(tmp_path_factory):
    return nim_class(tmp_path_factory.mktemp("nim"))


def legal_actions(random, action_masks):
    return (random.random(action_masks.shape) * action_masks).argmax(-1).astype(np.int32)


def assert_is_nim(observations, masks, action_masks, stones):
    left = np.rint(observations[:, 0] * stones)
    np.testing.assert_array_equal(action_masks, np.arange(CHOICES) < left[:, None])
    np.testing.assert_array_equal(masks, observations[:, 1] == 1)
    np.testing.assert_array_equal(masks.reshape(-1, 2).sum(1), 1)


def test_c_environments_write_their_masks_with_each_observation(nim):
    env, random = nim(num_envs=5), np.random.default_rng(0)
    assert env.action_masks.shape == (10, CHOICES) and env.action_masks.dtype == bool
    env.reset(1)
    ends = 0
    for _ in range(200):
        assert_is_nim(env.observations, env.masks, env.action_masks, 7)
        movers = env.masks.copy()
        _, rewards, terminals, _, _ = env.step(legal_actions(random, env.action_masks))
        pairs = terminals.reshape(-1, 2)
        np.testing.assert_array_equal(pairs[:, 0], pairs[:, 1])
        np.testing.assert_array_equal(rewards, terminals * np.where(movers, 1.0, -1.0))  # who takes the last one wins
        ends += int(pairs[:, 0].sum())
    assert ends > 100


def test_an_action_that_is_not_allowed_loses(nim):
    env = nim(stones=1)
    env.reset(0)
    mover = int(env.masks.argmax())
    _, rewards, terminals, _, _ = env.step(np.full(2, 2, np.int32))
    assert terminals.all() and rewards[mover] == -1 and rewards[1 - mover] == 1


def test_what_the_waiting_agent_does_is_ignored(nim):
    played = []
    for filler in (0, 2, -(2**31)):
        env = nim(num_envs=3)
        env.reset(4)
        rows = []
        for _ in range(50):
            env.step(np.where(env.masks, 0, filler).astype(np.int32))
            rows.append((env.observations.copy(), env.rewards.copy()))
        played.append(rows)
    for rows in played[1:]:
        np.testing.assert_equal(rows, played[0])


def test_snapshots_have_the_masks_and_refuse_bytes_that_are_none(nim):
    env, other, random = nim(num_envs=3), nim(num_envs=3, seed=5), np.random.default_rng(0)
    env.reset(0)
    for _ in range(4):
        env.step(legal_actions(random, env.action_masks))
    other.restore(env.snapshot())
    for name in ("observations", "action_masks", "masks"):
        np.testing.assert_array_equal(getattr(other, name), getattr(env, name))
    expected = [env.step(np.zeros(6, np.int32))[0].copy() for _ in range(30)]
    np.testing.assert_array_equal([other.step(np.zeros(6, np.int32))[0].copy() for _ in range(30)], expected)
    env.action_masks.view(np.uint8)[1, 2] = 2
    with pytest.raises(APIUsageError, match="environment 0 of the snapshot"):
        other.restore(env.snapshot())


@pytest.mark.parametrize("backend", ["Native", "Serial"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_vectors_in_this_process_hand_out_the_masks_of_c_environments(nim, backend, batch_size):
    creators, kwargs = [nim] * 4, {"num_envs": 3}
    random = np.random.default_rng(0)
    with vector.make(creators, env_kwargs=kwargs, backend=backend, num_envs=4, batch_size=batch_size) as vecenv:
        assert vecenv.has_action_masks
        vecenv.async_reset()
        for _ in range(40):
            observations, *_, masks = vecenv.recv()
            assert_is_nim(observations, masks, vecenv.action_masks, 7)
            vecenv.send(legal_actions(random, vecenv.action_masks))


BACKENDS = ["Serial", "Multiprocessing", pytest.param("Ray", marks=pytest.mark.slow)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("zero_copy", [True, False])
def test_every_backend_hands_out_the_masks_of_python_environments(backend, zero_copy):
    workers = {} if backend == "Serial" else {"num_workers": 2, "zero_copy": zero_copy}
    batch_size = 4 if backend == "Serial" else 2
    random = np.random.default_rng(0)
    with vector.make(PythonNim, backend=backend, num_envs=4, batch_size=batch_size, **workers) as vecenv:
        vecenv.async_reset()
        for _ in range(40):
            observations, *_, masks = vecenv.recv()
            assert_is_nim(observations, masks, vecenv.action_masks, 7)
            vecenv.send(legal_actions(random, vecenv.action_masks))


@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_a_vectors_snapshot_has_the_masks(backend):
    random, arrays = np.random.default_rng(0), []
    with vector.make(PythonNim, backend=backend, num_envs=2, batch_size=2) as vecenv:
        vecenv.reset()
        for _ in range(5):
            vecenv.step(legal_actions(random, vecenv.action_masks))
        snapshot, expected = vecenv.snapshot(), vecenv.action_masks.copy()
        vecenv.reset()
        vecenv.restore(snapshot)
        arrays += [expected, vecenv.action_masks.copy()]
        without = {**snapshot, "arrays": {k: v for k, v in snapshot["arrays"].items() if k != "action_masks"}}
        with pytest.raises(APIUsageError, match="pass what snapshot"):
            vecenv.restore(without)
    np.testing.assert_array_equal(*arrays)


def test_an_environment_without_masks_has_no_array_for_them():
    env = Squared(num_envs=2)
    assert env.action_masks is None and not env.has_action_masks
    with vector.make(Squared, num_envs=2, batch_size=2) as vecenv:
        vecenv.reset()
        assert vecenv.action_masks is None and not vecenv.has_action_masks and "action_masks" not in vecenv.result_names


def test_wrappers_pass_the_masks_on():
    env = PufferWrapper(PythonNim())
    env.reset()
    assert env.has_action_masks and env.action_masks is env.env.action_masks
    with vector.make(lambda buf, seed: PufferWrapper(PythonNim(buf=buf)), backend="Serial", num_envs=2) as vecenv:
        vecenv.reset()
        assert vecenv.action_masks.all() and vecenv.action_masks.shape == (4, CHOICES)


def test_one_environment_with_masks_and_one_without_are_no_vector():
    creators = [lambda buf, seed: PufferWrapper(PythonNim(buf=buf)), lambda buf, seed: Unmasked()]
    with pytest.raises(APIUsageError, match="same has_action_masks"):
        vector.make(creators, backend="Serial", num_envs=2)


class Unmasked(PythonNim):
    has_action_masks = False

    def _write(self):
        pass


@pytest.mark.parametrize(
    ("space", "choices"),
    [(Discrete(7), 7), (MultiDiscrete([3, 5]), 8), (Tuple((Discrete(4), Box(-1, 1, (2,)), Discrete(2))), 6)],
)
def test_masks_have_a_column_for_each_choice_of_each_part(space, choices):
    assert spaces.num_choices(space) == choices
    buffers = Buffers.empty(Box(0, 1, (1,)), space, 5, has_action_masks=True)
    assert buffers.action_masks.shape == (5, choices)
    bytes_of_all = sum(getattr(buffers, name).nbytes for name in buffers.names)
    assert Buffers.row_bytes(Box(0, 1, (1,)), space, has_action_masks=True) == bytes_of_all / 5


def test_actions_without_choices_have_no_masks():
    class Numbers(PufferEnv):
        has_action_masks = True
        single_observation_space = Box(0, 1, (1,))
        single_action_space = Box(-1, 1, (2,))
        num_agents = 1

    with pytest.raises(APIUsageError, match="action masks need actions with choices, got Box"):
        Numbers()


def test_buffers_without_masks_do_not_fit_an_environment_that_has_them():
    buf = Buffers.empty(Box(0, 1, (2,)), Discrete(CHOICES), 2)
    with pytest.raises(APIUsageError, match=r"buf.action_masks must be bool of shape \(2, 3\), got None"):
        PythonNim(buf=buf)


def test_the_binding_counts_its_arrays(nim):
    env = nim()
    with pytest.raises(TypeError, match=r"vec_init\(\) takes exactly 9 arguments \(7 given\)"):
        env.binding.vec_init(*env.arrays_for_c()[:5], 1, 0, stones=3, limit=0, bonus=False)
    arrays = env.arrays_for_c()
    arrays[5] = np.ones((2, 4), bool)
    with pytest.raises(ValueError, match=r"action_masks must be a writable C-contiguous bool array of 2 row\(s\) of 3"):
        env.binding.vec_init(*arrays, 1, 0, stones=3, limit=0, bonus=False)
