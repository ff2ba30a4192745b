"""What every backend promises."""

from __future__ import annotations

import random

import numpy as np
import pytest
from environments import CountingEnv
from rollouts import Driver, random_actions

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.ocean.squared.squared import Squared
from pufferlib.seeding import mix_seed
from pufferlib.vector import State
from pufferlib.vector.batch import FixedBatches
from pufferlib.vector.serial import LocalVector

BACKENDS = ["Serial", "Native", "Device", "Multiprocessing"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def make_squared(backend, **options):
    """Two environments of 70 agents in one batch, unless told otherwise; one process where that is enough."""
    options = {"num_envs": 2, "batch_size": 2, "seed": 7, **options}
    if backend == "Multiprocessing":
        options.setdefault("num_workers", options["num_envs"] // options["batch_size"])
    return vector.make(Squared, env_kwargs={"num_envs": 70, "report_interval": 8}, backend=backend, **options)


def test_a_vector_describes_itself_and_fills_rows_of_the_declared_kind(backend):
    with make_squared(backend) as vecenv:
        observations, infos = vecenv.reset()
        assert (vecenv.num_envs, vecenv.num_agents, vecenv.agents_per_batch) == (2, 140, 140)
        assert vecenv.num_workers >= 1
        assert vecenv.single_observation_space == vecenv.driver_env.single_observation_space
        assert vecenv.observation_space.shape == observations.shape == (140, 121)
        assert vecenv.action_space.shape == (140,)
        assert vecenv.emulated is None
        assert observations.dtype == np.uint8
        assert isinstance(infos, list)
        observations, rewards, terminals, truncations, infos = vecenv.step(np.zeros(140, np.int64))
        assert vecenv.observation_space.contains(observations)
        assert (rewards.shape, rewards.dtype) == ((140,), np.float32)
        assert (terminals.dtype, truncations.dtype) == (bool, bool)
        assert isinstance(infos, list)


def test_recv_numbers_its_rows_and_masks_them(backend):
    with make_squared(backend, batch_size=1) as vecenv:
        vecenv.async_reset()
        rows = [vecenv.recv()[5:] for _ in range(2)]
        agent_ids = np.concatenate([ids for ids, _ in rows])
        assert agent_ids.dtype == np.int64
        assert sorted(agent_ids.tolist()) == list(range(140))
        assert all(masks.all() and masks.shape == (70,) for _, masks in rows)


def test_recv_hands_out_the_same_memory_every_time(backend):
    with make_squared(backend) as vecenv:
        vecenv.async_reset()
        first = vecenv.recv()
        vecenv.send(np.ones(140, int))
        second = vecenv.recv()
        for index in (0, 1, 2, 3, 6):
            assert first[index].ctypes.data == second[index].ctypes.data
            assert first[index].ctypes.data % 64 == 0


def test_episodes_end_and_their_statistics_arrive_in_infos(backend):
    with make_squared(backend) as vecenv:
        vecenv.reset()
        ended, counted = 0, 0
        for _ in range(16):
            _, _, terminals, truncations, infos = vecenv.step(np.full(140, 3))
            ended += int(terminals.sum()) + int(truncations.sum())
            counted += sum(info["n"] for info in infos)
        assert ended == counted > 0


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(139, int), r"shape \(140,\), got \(139,\)"),
        (np.zeros((140, 1), int), r"shape \(140,\), got \(140, 1\)"),
        (np.zeros(140), "integers that fit int32, got float64"),
        (["up"] * 140, "integers that fit int32, got <U2"),
        (np.full(140, 2**32 + 1), "integers that fit int32, got 4294967297 to 4294967297"),
    ],
)
def test_actions_that_do_not_fit_are_refused_and_cost_nothing(actions, message):
    for backend in ("Serial", "Native"):
        with make_squared(backend) as vecenv:
            vecenv.reset()
            with pytest.raises(APIUsageError, match=message):
                vecenv.step(actions)
            vecenv.step(np.zeros(140, int))


def test_actions_are_copied_before_send_returns(backend):
    def rewards_after(vecenv, spoil):
        vecenv.reset(seed=7)
        for _ in range(6):
            actions = np.full(140, 1, np.int32)
            vecenv.send(actions)
            actions[:] = spoil
            rewards = vecenv.recv()[1].tolist()
        return rewards

    with make_squared(backend) as vecenv:
        assert rewards_after(vecenv, spoil=1) == rewards_after(vecenv, spoil=4)


def test_calls_out_of_order_say_what_to_call_instead(backend):
    vecenv = make_squared(backend)
    actions = np.zeros(140, int)
    assert vecenv.state is State.NEW
    for call in (lambda: vecenv.send(actions), vecenv.recv, lambda: vecenv.step(actions), vecenv.snapshot):
        with pytest.raises(APIUsageError, match=r"call reset\(\) or async_reset\(\) first"):
            call()
    vecenv.async_reset()
    assert vecenv.state is State.RUNNING
    with pytest.raises(APIUsageError, match=r"send\(\) is not possible now; call recv\(\)"):
        vecenv.send(actions)
    vecenv.recv()
    assert vecenv.state is State.READY
    with pytest.raises(APIUsageError, match=r"recv\(\) is not possible now; call send\(\)"):
        vecenv.recv()
    vecenv.send(actions)
    with pytest.raises(APIUsageError, match=r"snapshot\(\) is not possible now; call recv\(\)"):
        vecenv.snapshot()
    vecenv.close()
    vecenv.close()
    assert vecenv.state is State.CLOSED
    for call in (vecenv.reset, vecenv.recv, lambda: vecenv.send(actions), vecenv.snapshot, lambda: vecenv.restore({})):
        with pytest.raises(APIUsageError, match="closed, make a new vector"):
            call()


def test_reset_and_step_need_one_batch_to_be_everything(backend):
    with make_squared(backend, batch_size=1) as vecenv:
        with pytest.raises(APIUsageError, match=r"got 1; use async_reset\(\) and recv\(\)"):
            vecenv.reset()
        vecenv.async_reset()
        vecenv.recv()
        with pytest.raises(APIUsageError, match=r"got 1; use send\(\) and recv\(\)"):
            vecenv.step(np.zeros(70, int))


def test_send_takes_the_batch_that_is_named(backend):
    with make_squared(backend, batch_size=1) as vecenv:
        vecenv.async_reset()
        first, second = vecenv.recv()[5].copy(), vecenv.recv()[5].copy()
        vecenv.send(np.zeros(70, int), second)
        assert vecenv.recv()[5].tolist() == second.tolist()
        vecenv.send(np.zeros(70, int), first)
        with pytest.raises(APIUsageError, match=r"is not received; call recv\(\)"):
            vecenv.send(np.zeros(70, int), first)


def test_send_takes_the_batch_that_was_received_first(backend):
    with make_squared(backend, batch_size=1) as vecenv:
        vecenv.async_reset()
        first, second = vecenv.recv()[5], vecenv.recv()[5]
        vecenv.send(np.zeros(70, int))
        assert vecenv.state is State.MIXED
        assert vecenv.recv()[5].tolist() == first.tolist()
        vecenv.send(np.zeros(70, int))
        assert vecenv.recv()[5].tolist() == second.tolist()


def test_a_reset_drops_the_steps_that_run(backend):
    with make_squared(backend) as vecenv:
        expected = vecenv.reset()[0].copy()
        vecenv.send(np.ones(140, int))
        observations, _ = vecenv.reset(seed=7)
        np.testing.assert_array_equal(observations, expected)
        assert not vecenv.step(np.zeros(140, int))[2].any()


def test_after_a_reset_that_failed_another_one_is_asked_for():
    with vector.make(CountingEnv, num_envs=2, batch_size=1, backend="Serial") as vecenv:
        vecenv.async_reset()
        vecenv.recv()
        vecenv.envs[1].reset = None
        with pytest.raises(TypeError):
            vecenv.async_reset()
        with pytest.raises(APIUsageError, match=r"call reset\(\) or async_reset\(\) first"):
            vecenv.recv()
        del vecenv.envs[1].reset
        vecenv.async_reset()
        assert [vecenv.recv()[5][0] for _ in range(2)] == [0, 3]


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_a_step_of_some_environments_only_a_reset_is_possible(error):
    def fail(actions):
        raise error

    with vector.make(CountingEnv, num_envs=2, backend="Serial") as vecenv:
        first, actions = vecenv.reset()[0].copy(), np.zeros((6, 2), int)
        vecenv.envs[1].step = fail
        with pytest.raises(error):
            vecenv.step(actions)
        del vecenv.envs[1].step
        for call in (vecenv.recv, lambda: vecenv.send(actions), vecenv.snapshot):
            with pytest.raises(APIUsageError, match=r"cut the last call short, call reset\(\)"):
                call()
        assert not np.array_equal(vecenv.reset()[0], first)  # the random streams go on
        assert vecenv.step(actions)[0][:, 1].tolist() == [1] * 6


@pytest.mark.parametrize(
    ("backend", "owner", "method"),
    [("Native", LocalVector, "_start"), ("Multiprocessing", FixedBatches, "add")],
)
def test_ctrl_c_inside_a_call_leaves_none_that_waits_forever(backend, owner, method, monkeypatch):
    with make_squared(backend) as vecenv:
        expected, actions = vecenv.reset(seed=7)[0].copy(), np.zeros(140, int)
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, interrupt)
            with pytest.raises(KeyboardInterrupt):
                vecenv.step(actions)
        assert vecenv.state is State.CUT_SHORT
        np.testing.assert_array_equal(vecenv.reset(seed=7)[0], expected)
        vecenv.step(actions)


def test_the_first_reset_takes_the_seed_of_make_and_later_ones_go_on(backend):
    with make_squared(backend) as vecenv:
        first = vecenv.reset()[0].copy()
        assert not np.array_equal(vecenv.reset()[0], first)
        np.testing.assert_array_equal(vecenv.reset(seed=7)[0], first)
        assert not np.array_equal(vecenv.reset(seed=8)[0], first)
        with pytest.raises(APIUsageError, match="seed must be None or an integer of at least 0, got -1"):
            vecenv.reset(seed=-1)


def test_rewards_and_flags_of_a_reset_are_zero(backend):
    with make_squared(backend) as vecenv:
        vecenv.reset()
        for _ in range(40):
            vecenv.step(np.full(140, 1))
        vecenv.async_reset()
        _, rewards, terminals, truncations, *_ = vecenv.recv()
        assert not (rewards.any() or terminals.any() or truncations.any())


def test_closing_while_a_step_runs_is_harmless(backend):
    vecenv = make_squared(backend)
    vecenv.reset()
    vecenv.send(np.zeros(140, int))
    vecenv.close()


@pytest.mark.parametrize(
    ("backend", "other"),
    [*((backend, "Serial") for backend in BACKENDS), ("Serial", "Native"), ("Native", "Multiprocessing")],
)
def test_a_snapshot_continues_the_rollout_on_any_backend(backend, other):
    random_source = np.random.default_rng(0)
    actions = [random_actions(random_source, Squared(1).single_action_space, 140) for _ in range(32)]

    def play(driver, steps):
        history = []
        for step in steps:
            driver.send_all(step)
            history.append([array.copy() for array in driver.receive_all()])
        return history

    with make_squared(backend, batch_size=1) as original, make_squared(other, batch_size=1, seed=99) as copy:
        driver, twin = Driver(original), Driver(copy)
        original.async_reset()
        driver.receive_all()
        play(driver, actions[:16])
        snapshot = original.snapshot()
        copy.restore(snapshot)
        assert copy.state is State.READY
        twin.received = driver.received.copy()
        for expected, found in zip(play(driver, actions[16:]), play(twin, actions[16:]), strict=True):
            for before, after in zip(expected, found, strict=True):
                np.testing.assert_array_equal(before, after)


def test_a_restored_vector_shows_the_arrays_of_the_snapshot():
    with vector.make(CountingEnv, num_envs=4, batch_size=2, backend="Serial") as vecenv:
        driver = Driver(vecenv)
        vecenv.async_reset()
        driver.receive_all()
        driver.send_all(np.ones((12, 2), int))
        expected = [array.copy() for array in driver.receive_all()]
        snapshot = vecenv.snapshot()
        assert snapshot["order"] == [[0, 1], [2, 3]]
        driver.send_all(np.full((12, 2), 3))
        driver.receive_all()
        vecenv.restore(snapshot)
        shown = [vecenv._buffers.observations, vecenv._buffers.rewards, vecenv._buffers.terminals]
        for before, after in zip(expected, shown, strict=False):
            np.testing.assert_array_equal(before, after)


def test_a_snapshot_of_other_sizes_is_refused_and_none_is_given_where_an_environment_has_none():
    class Stateless(CountingEnv):
        def snapshot(self):
            return None

    with vector.make(Stateless, num_envs=2, backend="Serial") as vecenv:
        vecenv.reset()
        assert vecenv.snapshot() is None
    with make_squared("Serial") as vecenv, make_squared("Serial", num_envs=4) as larger:
        vecenv.reset()
        with pytest.raises(APIUsageError, match=r"4 environments in batches of 2, got 2 in batches of \[2\]"):
            larger.restore(vecenv.snapshot())


def test_every_environment_gets_its_own_seed_and_no_global_generator_is_touched():
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist()
    seeds = []

    def creator(buf, seed):
        seeds.append(seed)
        return CountingEnv(buf=buf, seed=seed)

    with vector.make(creator, num_envs=3, backend="Serial", seed=11) as vecenv:
        assert seeds == [mix_seed(11, 0), *(mix_seed(11, index) for index in range(3))]
        vecenv.reset(seed=12)
        envs = [env for group in vecenv._groups for env in group.envs]
        assert [env.seed for env in envs] == [mix_seed(12, index) for index in range(3)]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


@pytest.mark.parametrize("seed_type", [np.int64, np.uint8, np.int32])
def test_a_seed_may_be_an_integer_of_numpys(seed_type):
    with make_squared("Serial") as vecenv:
        expected = vecenv.reset(2)[0].copy()
        vecenv.reset(3)
        np.testing.assert_array_equal(vecenv.reset(seed_type(2))[0], expected)
