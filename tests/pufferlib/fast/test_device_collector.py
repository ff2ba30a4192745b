"""Rollouts that are played by kernels alone are those of threads: what is collected, told, saved and gone on from."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from collecting import collected, going_on, make_collector
from emulated_device import device_emulator, needs_emulator  # noqa: F401 - a fixture
from recorded_capture import FakeCapture
from torch import nn

from pufferlib import ocean, pufferl, vector
from pufferlib.environment import EpisodeTracker
from pufferlib.errors import PufferError, PufferWarning
from pufferlib.fast import cuda_graphs, device_collector
from pufferlib.fast.choose import choose_backend
from pufferlib.fast.device_collector import DeviceCollector, can_be_on_the_device
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.fast.learners import CapturedLearner
from pufferlib.models import Default, MinGRUWrapper
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector

pytestmark = needs_emulator
ENVS = ("puffer_breakout", "puffer_multiagent", "puffer_pacman", "puffer_drone")
QUICK = ((ENVS[0], False), (ENVS[1], True), (ENVS[3], False))


def make_vector(name, backend, num_envs=2, inside=6, **keywords):
    kwargs = {"num_envs": inside}
    options = {"num_envs": num_envs, "backend": backend, "batch_size": num_envs, "seed": 5, **keywords}
    return vector.make(ocean.env_class(name), env_kwargs=kwargs, num_workers=1, **options)


def make_policy(vecenv, is_recurrent=False):
    torch.manual_seed(0)
    policy = Default(vecenv.driver_env, hidden_size=16)
    return MinGRUWrapper(vecenv.driver_env, policy, 16, 16) if is_recurrent else policy


def make(name, backend, capture=None, is_recurrent=False, num_envs=2, **keywords):
    vecenv = make_vector(name, backend, num_envs)
    policy = make_policy(vecenv, is_recurrent)
    actor = functools.partial(GraphActor, capture=capture or FakeCapture())
    kind = DeviceCollector if backend == "Device" else Collector
    return make_collector(vecenv, policy, actor_class=actor, kind=kind, **keywords)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.quick("puffer_multiagent")
@pytest.mark.parametrize(
    ("name", "is_recurrent"),
    [
        pytest.param(name, is_recurrent, marks=() if (name, is_recurrent) in QUICK else pytest.mark.slow)
        for name in ENVS
        for is_recurrent in (False, True)
    ],
)
def test_kernels_collect_what_threads_do(name, is_recurrent, device_emulator):  # noqa: F811
    settings = {"is_recurrent": is_recurrent, "groups": 2, "horizon": 12, "reward_clip": 1.0}
    capture = FakeCapture()
    here, there = make(name, "Native", **settings), make(name, "Device", capture, **settings)
    assert_same(collected(there, 4), collected(here, 4))
    assert there.vecenv.is_lent and capture.replays == 2 * (2 * 4 - 3)  # with bootstraps; three warm-ups
    assert device_emulator["puffer_env_step"] == 4 * 2 * 12 * 2  # rollouts, groups, columns, PufferEnvs
    assert device_emulator["puffer_env_attach"] == 2


def test_episodes_are_followed_and_told_of(device_emulator):  # noqa: F811
    settings = {"horizon": 64, "groups": 2}  # a PufferEnv reports every 64 steps
    here, there = (make("puffer_squared", backend, **settings) for backend in ("Native", "Device"))
    for _ in range(2):
        assert here.collect() == there.collect()
        there.follow_episodes()
        found, expected = there.statistics.take(), here.statistics.take()
        assert found == expected and found["n"] > 10 and found["episode/return_mean"] == found["episode_return"]
    assert_same(there.tracker.state_dict(), here.tracker.state_dict())


@pytest.mark.parametrize("name", ["puffer_breakout", pytest.param("puffer_pacman", marks=pytest.mark.slow)])
def test_a_checkpoint_between_rollouts_goes_on_on_any_backend(name, device_emulator):  # noqa: F811
    there = make(name, "Device")
    collected(there, 3)
    others = make(name, "Native"), make(name, "Device")
    snapshot = there.vecenv.snapshot()
    assert not there.vecenv.is_lent
    for other in others:
        going_on(other, there)
        assert other.vecenv.snapshot() == snapshot
    expected = collected(there, 3)
    assert there.vecenv.is_lent
    for other in others:
        assert_same(collected(other, 3), expected)


def test_a_reset_in_between_is_that_of_threads(device_emulator):  # noqa: F811
    collectors = [make("puffer_breakout", backend) for backend in ("Native", "Device")]
    found = []
    for collector in collectors:
        parts = [collected(collector, 2)]
        collector.reset(None)  # goes on with the random numbers
        parts.append(collected(collector, 2))
        collector.reset(11)
        found.append([*parts, collected(collector, 2)])
    for here, there in zip(*found, strict=True):
        assert_same(there, here)


def test_who_steps_the_vector_meanwhile_finds_the_environments_as_they_are(device_emulator):  # noqa: F811
    here, there = make("puffer_breakout", "Native"), make("puffer_breakout", "Device")
    results = []
    for collector in (here, there):
        collector.collect()
        arrays = [collector.vecenv.step(np.ones(12, int))[i].copy() for i in range(4)]
        results.append([*arrays, collector.vecenv.driver_env.snapshot()])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_a_policy_that_is_replaced_gets_the_environments_anew(device_emulator):  # noqa: F811
    collectors = [make("puffer_breakout", backend) for backend in ("Native", "Device")]
    found = []
    for collector in collectors:
        collector.collect()
        earlier = collector.actor
        actor = GraphActor(
            make_policy(collector.vecenv), collector.rollout, 12, collector.generator, capture=FakeCapture()
        )
        actor.load_state_dict(earlier.state_dict())
        collector.actor = actor
        found.append(collected(collector, 2))
    assert_same(found[1], found[0])


def test_a_divergence_is_found(device_emulator):  # noqa: F811
    collector = make("puffer_squared", "Device")
    collector.collect()
    for parameter in collector.actor.policy.parameters():
        nn.init.constant_(parameter, float("nan"))
    with pytest.raises(PufferError, match="contain NaN"):
        collector.collect()


# --- who may


def test_a_vector_lends_once_and_only_between_steps(device_emulator):  # noqa: F811
    vecenv = make_vector("puffer_squared", "Device")
    with pytest.raises(PufferError, match=r"lend\(\) is not possible now; call reset"):
        vecenv.lend(lambda: None)
    vecenv.reset()
    called = []
    assert len(vecenv.lend(lambda: called.append(1))) == 2 and vecenv.is_lent
    with pytest.raises(PufferError, match="lent to another trainer; close it first"):
        vecenv.lend(lambda: None)
    vecenv.take_back()
    vecenv.take_back()
    assert called == [1] and not vecenv.is_lent
    with make_vector("puffer_squared", "Device", batch_size=1) as other, pytest.raises(PufferError, match="batch_size"):
        other.async_reset()
        other.lend(lambda: None)


def test_closing_what_is_lent_brings_nothing_back(device_emulator):  # noqa: F811
    collector = make("puffer_squared", "Device")
    collector.collect()
    collector.vecenv.close()
    collector.vecenv.close()
    assert not collector.vecenv.is_lent


def test_other_vectors_and_settings_stay_on_the_cpu(device_emulator):  # noqa: F811
    actor = make("puffer_squared", "Device").actor
    assert can_be_on_the_device(make_vector("puffer_squared", "Device"), actor, False)
    assert not can_be_on_the_device(make_vector("puffer_squared", "Device"), actor, True)
    assert not can_be_on_the_device(make_vector("puffer_squared", "Device", batch_size=1), actor, False)
    assert not can_be_on_the_device(make_vector("puffer_squared", "Native"), actor, False)
    actor.is_offloaded = True
    assert not can_be_on_the_device(make_vector("puffer_squared", "Device"), actor, False)


def test_what_does_not_compile_is_stepped_on_the_cpu_with_a_warning(device_emulator, monkeypatch):  # noqa: F811
    def fail(program, device):
        raise PufferError("squared.cu must compile")

    actor, vecenv = make("puffer_squared", "Device").actor, make_vector("puffer_squared", "Device")
    monkeypatch.setattr(device_collector, "prepare", fail)
    with pytest.warns(PufferWarning, match="stepped on the GPU, so the CPU does: squared.cu must compile; set"):
        assert not can_be_on_the_device(vecenv, actor, False)


def test_a_horizon_is_recorded_in_equal_parts(device_emulator):  # noqa: F811
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for horizon, columns in ((7, 7), (128, 64), (96, 48), (67, 1)):
            assert make("puffer_squared", "Device", horizon=horizon)._columns_at_once == columns


# --- beside the update


@pytest.mark.parametrize("is_recurrent", [False, True])
def test_a_rollout_takes_few_operations_besides_its_graphs(is_recurrent, device_emulator, monkeypatch):  # noqa: F811
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "bench"))
    from operations import Operations

    def capture_nothing(function, generator, stream):
        return lambda: None

    collector = make("puffer_squared", "Device", capture_nothing, is_recurrent, num_envs=1)
    for _ in range(4):  # past the capture
        collector.collect()
    with Operations() as counted:
        collector.collect()
    uploaded = len(BOUNDARY_COLUMNS)  # which a CPU has already
    assert counted.total + uploaded + 13 <= 40, counted.counts  # 13 of the update, see tests/bench/test_operations.py


@pytest.mark.usefixtures("device_emulator")
def test_minibatches_are_queued_before_episodes_are_followed(tmp_path, monkeypatch):
    log = []

    def chosen(*arguments):
        return dataclasses.replace(choose_backend(*arguments), network=None, is_captured=True, reason=None)

    monkeypatch.setattr(pufferl, "choose_backend", chosen)
    monkeypatch.setattr(cuda_graphs, "capture_graph", FakeCapture())
    monkeypatch.setattr(CapturedLearner, "train_minibatch", noted(CapturedLearner.train_minibatch, "minibatch", log))
    monkeypatch.setattr(EpisodeTracker, "step", noted(EpisodeTracker.step, "followed", log))
    settings = {"device": "cpu", "bptt_horizon": 16, "minibatch_size": 64, "fused": False, "anneal_lr": False}
    found = {False: [], True: []}
    for follows_later, iterations in found.items():
        monkeypatch.setattr(DeviceCollector, "follows_later", follows_later)
        args = pufferl.load_config("puffer_squared")
        args["train"].update(data_dir=str(tmp_path), num_iterations=4, **settings)
        vecenv = make_vector("puffer_squared", "Device", num_envs=1, inside=16)
        torch.manual_seed(0)
        trainer = pufferl.PuffeRL(args["train"], vecenv, make_policy(vecenv))
        log.clear()
        trainer.learn(callbacks=functools.partial(keep_and_clear, iterations, log))
    assert len(found[False]) == len(found[True]) == 4
    for (expected, _), (told, _) in zip(*found.values(), strict=True):
        of_episodes = {name: value for name, value in told.items() if name.startswith(("environment/", "episode/"))}
        assert of_episodes == {name: expected[name] for name in of_episodes} and told.keys() == expected.keys()
    for _, order in found[True][1:]:  # notes on the first rollout look at its episodes
        assert order == [*(["minibatch"] * order.count("minibatch")), *(["followed"] * 16)]
    for _, order in found[False]:
        assert order[0] == "followed" and order[-1] == "minibatch"


def keep_and_clear(iterations, log, trainer, logs):
    iterations.append((logs, list(log)))
    log.clear()


def noted(method, word, log):
    @functools.wraps(method)
    def call(*arguments):
        log.append(word)
        return method(*arguments)

    return call
