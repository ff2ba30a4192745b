"""EnvPool's environments: their rows in batches, and the step of its own with which it begins each episode."""

from __future__ import annotations

import signal
import sys
from functools import partial

import numpy as np
import pytest
import torch
from collecting import make_collector
from fake_envpool import TASK, allowed, install, is_cut, length, reward
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from scripted_policies import CountingPolicy, LinearPolicy

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.ppo.advantages import Advantages
from pufferlib.spaces import unpack
from pufferlib.vector.envpool_vector import EnvPoolEnv

ENVS = 8


def make(num_envs=ENVS, backend="EnvPool", **options):
    return vector.make(partial(EnvPoolEnv, TASK), num_envs=num_envs, backend=backend, num_workers=1, **options)


def script(env, steps):
    """Rows of an environment from a reset on: episode, time in it, whether it ended there."""
    rows, episode, time = [], 0, 0
    while len(rows) < steps:
        rows.append((episode, time, time == length(env, episode)))
        episode, time = (episode + 1, 0) if rows[-1][2] else (episode, time + 1)
    return rows


def received(vecenv, steps):
    """What every environment gave in `steps` steps: by name `(steps, envs, ...)`, and final observations by place."""
    names = ("observations", "rewards", "terminals", "truncations", "masks")
    found = {name: [[None] * vecenv.num_agents for _ in range(steps)] for name in names}
    columns, finals, reports = np.zeros(vecenv.num_agents, int), {}, []
    vecenv.async_reset()
    for _ in range(steps * (vecenv.num_agents // vecenv.agents_per_batch)):
        *arrays, infos, ids, masks = vecenv.recv()
        column = columns[ids[0]]
        for name, array in zip(names, [*arrays, masks], strict=True):
            for agent, row in zip(ids, array, strict=True):
                found[name][column][agent] = np.copy(row)
        for info in infos:
            if "final_observation" in info:
                finals[column, info["agent_id"]] = info["final_observation"]
            else:
                reports.append((column, info))
        columns[ids] += 1
        if column + 1 < steps:
            vecenv.send(np.full(len(ids), column % 5), ids)
    return {name: np.array(rows) for name, rows in found.items()}, finals, reports


# ----------------------------------------------------------------------------------------------------- rows and batches


@pytest.mark.parametrize("kind", ["box", "double"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 1}], ids=str)
def test_rows_stay_with_their_environments_in_batches_of_any_size(kind, options, monkeypatch):
    install(monkeypatch, kind)
    with make(**options) as vecenv:
        rows, finals, reports = received(vecenv, steps=25)
    assert rows["observations"].dtype == np.float32
    for env in range(ENVS):
        for column, (episode, time, has_ended) in enumerate(script(env, 25)):
            action = 0 if time == 0 else (column - 1) % 5
            assert rows["observations"][column, env].tolist() == [env, time, episode, action]
            assert rows["rewards"][column, env] == (reward(time) if time else 0.0)
            was_cut = has_ended and is_cut(env, episode)
            assert rows["truncations"][column, env] == was_cut
            assert rows["terminals"][column, env] == (has_ended and not was_cut)
            assert rows["masks"][column, env] == (not has_ended)
            assert ((column, env) in finals) == was_cut
            if was_cut:
                assert finals[column, env].tolist() == [env, time, episode, action]
    ends = (rows["terminals"] | rows["truncations"]).sum(1)
    assert [sum(column == at for at, _ in reports) for column in range(25)] == ends.tolist()
    assert all(set(info) == {"place"} for _, info in reports)


def test_batches_are_received_in_the_order_in_which_they_were_sent(monkeypatch):
    fake = install(monkeypatch)
    with make(batch_size=4) as vecenv:
        vecenv.async_reset()
        first, second = [vecenv.recv()[5] for _ in range(2)]
        assert (first.tolist(), second.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])
        vecenv.send(np.zeros(4, int), second)
        vecenv.send(np.zeros(4, int), first)
        assert vecenv.recv()[5].tolist() == [4, 5, 6, 7]
        assert [len(pool.running) for pool in fake.pools] == [4, 0]  # nobody waits for the first batch


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}], ids=str)
def test_observations_are_those_of_envpool_and_no_copy(options, monkeypatch):
    fake = install(monkeypatch)
    given = []
    with make(**options) as vecenv:
        vecenv.async_reset()
        (pool, *_) = fake.pools
        recv = pool.recv
        pool.recv = lambda: given.append(recv()) or given[-1]
        assert vecenv.recv()[0] is given[0][0]


def test_structures_are_packed_as_by_the_emulation(monkeypatch):
    install(monkeypatch, "dict")
    for options in ({}, {"batch_size": 4}):
        with make(**options) as vecenv:
            assert vecenv.emulated is not None
            rows, *_ = received(vecenv, steps=6)
            parts = unpack(rows["observations"][3], vecenv.emulated)
            assert parts["row"][:, 0].tolist() == list(range(ENVS))
            assert parts["cell"].ravel().tolist() == parts["row"][:, 1].tolist()


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"backend": "Serial"}], ids=str)
def test_masks_in_the_observations_are_those_of_the_actions(options, monkeypatch):
    install(monkeypatch, "masked")
    with make(**options) as vecenv:
        assert vecenv.single_observation_space.shape == (4,)
        vecenv.async_reset()
        for _ in range(12):
            observations, *_, ids, _ = vecenv.recv()
            assert vecenv.action_masks.tolist() == [allowed(int(env), int(time)) for env, time, *_ in observations]
            vecenv.send(np.zeros(len(ids), int))


@pytest.mark.parametrize(
    ("action_space", "mask", "expected"),
    [
        (Discrete(4), (4,), Discrete(4)),
        (Discrete(4), (2, 2), None),
        (Box(1, 4, (3,), np.int32), (3, 4), MultiDiscrete([4, 4, 4])),
        (Box(0, np.array([3, 9]), (2,), np.int32), (4, 10), None),  # for both parts together
        (Box(-1.0, 1.0, (4,), np.float32), (4,), None),
        (Box(0, 2**31 - 1, (4,), np.int32), (4,), None),
    ],
)
def test_integers_of_an_action_are_choices_and_a_mask_has_a_number_for_each(action_space, mask, expected, monkeypatch):
    fake = install(monkeypatch)
    spec = fake.make_spec(TASK)
    spec.gymnasium_observation_space = Dict(row=Box(-9, 9, (4,), np.float32), action_mask=MultiBinary(mask))
    spec.gymnasium_action_space = action_space
    monkeypatch.setattr(fake, "make_spec", lambda task: spec)
    env = EnvPoolEnv(TASK)
    assert env.has_action_masks == (expected is not None)
    if expected is not None:
        assert env.single_action_space == expected
        last = env.action_layout.split(np.full((2, *expected.shape), 3, np.int32))
        assert np.asarray(last).tolist() == ([[4] * 3] * 2 if expected.shape else [3, 3])


def test_a_reset_with_a_seed_makes_the_environments_anew_and_one_without_does_not(monkeypatch):
    fake = install(monkeypatch)
    with make(batch_size=4, seed=3) as vecenv:
        vecenv.async_reset()
        vecenv.recv()
        vecenv.async_reset()  # what ran is dropped
        assert [len(pool.running) for pool in fake.pools] == [4, 4]
        vecenv.async_reset(seed=4)
        assert [pool.is_closed for pool in fake.pools] == [True, True, False, False]
        seeds = [seed for pool in fake.pools for seed in pool.env_seed]
        assert len(set(seeds)) == 2 * ENVS
    assert all(pool.is_closed for pool in fake.pools)
    with make(seed=3) as vecenv, make(backend="Serial", seed=3) as serial:
        vecenv.reset()
        serial.reset()
        assert list(fake.pools[4].env_seed) == seeds[:ENVS]  # in batches of any size
        assert [pool.env_seed[0] for pool in fake.pools[5:]] == seeds[:ENVS]


@pytest.mark.skipif(sys.platform == "win32", reason="the threads of a process share their signals")
def test_threads_and_processes_of_envpool_hear_no_ctrl_c(monkeypatch):
    fake = install(monkeypatch)
    with make() as vecenv:
        vecenv.reset(seed=3)
        assert signal.SIGINT in fake.pools[0].held_signals
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])  # of the thread that made them


def test_many_environments_in_each_puffer_env_are_batches_too(monkeypatch):
    fake = install(monkeypatch)
    creator = partial(EnvPoolEnv, TASK, num_envs=4)
    with vector.make(creator, num_envs=2, backend="EnvPool", batch_size=1, num_workers=1) as vecenv:
        assert (vecenv.num_agents, vecenv.agents_per_batch) == (8, 4)
        rows, *_ = received(vecenv, steps=9)
        assert rows["observations"][4, :, 0].tolist() == list(range(8)) and len(fake.pools) == 2


def test_other_environments_are_refused():
    with pytest.raises(APIUsageError, match="EnvPool steps environments that it has itself, got GymnasiumPufferEnv"):
        vector.make(lambda: __import__("gymnasium").make("CartPole-v1"), backend="EnvPool", num_workers=1)


def test_a_snapshot_is_none_as_envpool_gives_no_state(monkeypatch):
    install(monkeypatch)
    with make() as vecenv:
        vecenv.reset()
        assert vecenv.snapshot() is None


# ------------------------------------------------------------------------------------------- the step of the first row


@pytest.mark.quick("1", "5")
@pytest.mark.parametrize("options", [{}, {"batch_size": 2}], ids=str)
@pytest.mark.parametrize("policy_class", [LinearPolicy, CountingPolicy])
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 7, 12])  # so that segments begin and end at every kind of row
def test_returns_values_and_advantages_are_those_of_the_script(horizon, policy_class, options, monkeypatch):
    """The value of an observation is its time in the episode, by the state of one policy and by 0.5 of the other."""
    install(monkeypatch)
    gamma, gae_lambda, late = 0.9, 0.8, 0.0 if policy_class is CountingPolicy else 0.5
    with make(**options) as vecenv:
        collector = make_collector(vecenv, policy_class(), horizon=horizon)
        rollout, config = collector.rollout, Settings(gamma, gae_lambda)
        rollouts = max(4, 30 // horizon)
        rows = [script(env, rollouts * horizon + 1) for env in range(ENVS)]
        ended, counted = [], 0
        for number in range(rollouts):
            count = collector.collect()
            advantages = Advantages(rollout, config)
            advantages.load()
            found, begin = advantages.compute(), number * horizon
            masks = rollout.masks[:, :-1]
            assert count == int(masks.sum())
            counted += count
            ended.append(vars(collector.statistics.episodes).copy())
            collector.statistics.take()
            for env in range(ENVS):
                after = 0.0  # gamma lambda times the advantage of the next step
                for column in reversed(range(horizon)):
                    episode, time, has_ended = rows[env][begin + column]
                    assert masks[env, column] == (not has_ended)
                    if has_ended:  # the step that EnvPool takes for itself
                        after = 0.0
                        continue
                    _, _, ends_next = rows[env][begin + column + 1]
                    value = time + late
                    assert rollout.values[env, column] == value
                    follows = time + 1 + late if not ends_next or is_cut(env, episode) else 0.0
                    delta = reward(time + 1) + gamma * follows - value
                    advantage = delta + (0.0 if ends_next else after)
                    after = gamma * gae_lambda * advantage
                    assert found[env, column].item() == pytest.approx(advantage, abs=1e-5)
        steps = rollouts * horizon
        assert counted == sum(not has_ended for row in rows for _, _, has_ended in row[:steps])
        episodes = [
            (length(env, episode), sum(reward(time) for time in range(1, length(env, episode) + 1)))
            for env in range(ENVS)
            for episode, _, has_ended in rows[env][: steps + 1]
            if has_ended
        ]
        totals = {name: sum(each[name] for each in ended) for name in ("count", "length_sum", "return_sum")}
        assert totals["count"] == len(episodes)
        assert totals["length_sum"] == sum(steps for steps, _ in episodes)
        assert totals["return_sum"] == pytest.approx(sum(returned for _, returned in episodes))


class Settings:
    truncation_bootstrap = True
    vtrace_rho_clip = vtrace_c_clip = 1.0

    def __init__(self, gamma, gae_lambda):
        self.gamma, self.gae_lambda = gamma, gae_lambda


def test_the_reset_row_is_not_learned_from(monkeypatch, tmp_path):
    """Numbers of the rows that EnvPool takes for itself change no weight of a policy that learns."""
    from pufferlib import PuffeRL

    def learned(noise):
        install(monkeypatch)
        vecenv = make()
        torch.manual_seed(0)
        trainer = PuffeRL(vecenv, device="cpu", batch_size=96, num_steps=12, data_dir=str(tmp_path), seed=1)
        trainer.evaluate()
        absent = ~trainer.rollout.masks[:, :-1]
        assert absent.any()
        trainer.rollout.actions[absent] = noise % 5
        trainer.rollout.logprobs[absent] = -0.1 * noise
        trainer.train()
        weights = torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])
        trainer.release()
        vecenv.close()
        return weights

    assert torch.equal(learned(1), learned(3))
