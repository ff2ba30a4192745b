"""Several processes that train as one. Each test starts them anew, so each shows several things."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import command
import numpy as np
import pytest
import ranks
import torch
from command import metrics, only_run
from gymnasium.spaces import Box, Discrete
from torch import nn
from tracking_env import RECIPE, TrackingEnv

import pufferlib
from pufferlib import distributed, vector
from pufferlib.distributed import Ranks
from pufferlib.environment import PufferEnv
from pufferlib.errors import ConfigError, RankError
from pufferlib.loggers.logger import NoLogger
from pufferlib.models import Continuous, Default, LSTMWrapper
from pufferlib.pufferl import PuffeRL
from pufferlib.runs import checkpoint

SQUARED = [
    *("train", "puffer_squared", "--env.num-envs", "8", "--train.bptt-horizon", "16", "--train.log-interval", "2"),
    *("--train.device", "cpu", "--train.minibatch-size", "64", "--policy.hidden-size", "16"),
]


def wait_for(condition, processes, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end and all(process.is_alive() for process in processes), "they ended too early"
        time.sleep(0.002)


def has_saved(folder):
    return lambda: any((folder / "experiments").glob(f"*/{checkpoint.TRAINER_STATE}"))


# --- one process


def test_a_process_by_itself_waits_for_nobody():
    alone = distributed.connect()
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    numbers = alone.average_gradients([parameter], torch.arange(2.0))
    assert (alone.rank, alone.world_size, alone.is_first, alone.seed(7)) == (0, 1, True, 7)
    assert (alone.total(3), numbers.tolist(), alone.gather("x")) == (3, [[0.0, 1.0]], ["x"])
    assert alone.gather_numbers(torch.arange(2.0)).tolist() == [[0.0, 1.0]]
    assert alone.from_first(lambda: 5) == 5
    assert parameter.grad.tolist() == [1.0, 1.0]


def test_a_launcher_of_one_process_changes_nothing(monkeypatch):
    for name, value in ranks.variables(1)[0].items():
        monkeypatch.setenv(name, value)
    assert distributed.connect().world_size == 1
    assert not torch.distributed.is_initialized()


def test_seeds_of_ranks_differ():
    assert len({Ranks(rank, 64).seed(seed) for rank in range(64) for seed in range(64)}) == 64 * 64


def test_connecting_touches_no_gpu(monkeypatch):
    for name, value in {**ranks.variables(2)[1], "OMP_NUM_THREADS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(distributed, "rendezvous", lambda *_, **__: iter([(torch.distributed.HashStore(), 1, 2)]))
    monkeypatch.setattr(distributed, "_wait_for_all", lambda *_: None)
    backends, touched = [], []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **_: backends.append(backend))
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("set_device", "current_device", "init", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: touched.append(name))
    own = distributed._connected.__wrapped__()
    assert (own.rank, own.world_size, backends, touched) == (1, 2, ["cpu:gloo,cuda:nccl"], [])


def connect_one_after_the_other(folder):
    process_group = torch.distributed.init_process_group

    def connect(*arguments, **keywords):
        process_group(*arguments, **keywords)
        if keywords["rank"] == 0:
            time.sleep(1.0)
            Path(folder, "connected").touch()

    torch.distributed.init_process_group = connect
    distributed.connect()
    return Path(folder, "connected").exists()


@pytest.mark.slow
def test_nobody_goes_on_before_all_are_connected(tmp_path):
    assert ranks.call(connect_one_after_the_other, str(tmp_path), count=2) == [True, True]


# --- what they tell each other


def say_everything():
    own = distributed.connect()
    distributed.TURN = timedelta(seconds=0.05)
    gradients = [torch.full((2, 3), float(own.rank + 1)), torch.full((4,), 10.0) if own.rank else None, None]
    parameters = [nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    numbers = own.average_gradients(parameters, torch.tensor([own.rank, 10.0 * own.rank]))
    totals = own.start_total(own.rank + 1), own.start_total(own.rank == 1)  # two on their way at once
    tensors = [torch.full((3,), float(own.rank)), torch.tensor(own.rank, dtype=torch.int64)]
    own.broadcast(tensors)

    def fail():
        raise ConfigError(f"decided by {own.rank}")

    errors = []
    for action in (
        lambda: own.from_first(fail),
        lambda: own.check_same([torch.arange(3), torch.tensor(own.rank)], "numbers"),
    ):
        try:
            action()
        except (ConfigError, RankError) as error:
            errors.append(str(error))
    own.check_same([torch.ones(2, dtype=torch.bfloat16)], "numbers")
    return {
        "rank": own.rank,
        "gradients": [None if p.grad is None else p.grad.flatten().tolist() for p in parameters],
        "broadcast": [tensor.tolist() for tensor in tensors],
        "from_first": own.from_first(lambda: time.sleep(0.5) or os.getpid()) == os.getpid(),  # after several turns
        "sums": ([finish() for finish in totals], numbers.tolist(), own.gather(own.rank)),
        "numbers": own.gather_numbers(torch.tensor([own.rank, 7.0])).tolist(),
        "errors": errors,
        "threads": torch.get_num_threads(),
        "again": distributed.connect() is own,
    }


@pytest.mark.slow
def test_ranks_agree_on_what_they_tell_each_other():
    told = ranks.call(say_everything, count=3)
    assert [one["rank"] for one in told] == [0, 1, 2]
    for one in told:
        first, second, third = one["gradients"]
        assert first == [2.0] * 6 and second == pytest.approx([20 / 3] * 4) and third is None
        assert one["broadcast"] == [[0.0, 0.0, 0.0], 0]
        assert one["sums"] == ([6, 1], [[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]], [0, 1, 2])
        assert one["numbers"] == [[0, 7], [1, 7], [2, 7]]
        assert one["errors"][0] == "decided by 0"
        assert "numbers of all ranks must be the same, those of rank 1, 2 differ from rank 0's" in one["errors"][1]
        assert one["threads"] == max(1, len(os.sched_getaffinity(0)) // 3)
        assert one["again"]
    assert [one["from_first"] for one in told] == [True, False, False]


# --- one batch from all


class CountingEnv(PufferEnv):
    """Shows a number from its own random stream; every fourth step ends an episode."""

    def __init__(self, agents=4, buf=None, seed=0):
        self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.single_action_space = Discrete(2)
        self.num_agents = agents
        super().__init__(buf)
        self.random = np.random.default_rng(seed)
        self.time = 0

    def reset(self, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.observations[:] = self.random.normal(size=self.observations.shape)
        return self.observations, []

    def step(self, actions):
        self.time += 1
        self.observations[:] = self.random.normal(size=self.observations.shape)
        self.rewards[:] = actions
        self.terminals[:] = self.time % 4 == 0
        infos = [{"score": float(self.time), "n": 1}] if self.time % 4 == 0 else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos


class KeepingLogger(NoLogger):
    def __init__(self):
        super().__init__()
        self.logs = []

    def log(self, metrics, step):
        self.logs.append((step, dict(metrics)))


def train_a_little(policy_name, settings):
    config = {"device": "cpu", "bptt_horizon": 8, "log_interval": 1, "weights_check_interval": 1, **settings}
    vecenv = vector.make(CountingEnv, num_envs=2, backend="Serial")
    own = distributed.connect()
    torch.manual_seed(own.rank)  # policies begin apart: the trainer makes them one
    policy = Default(vecenv.driver_env, 16)
    if policy_name == "lstm":
        policy = LSTMWrapper(vecenv.driver_env, policy, 16, 16)
    logger = KeepingLogger()
    trainer = PuffeRL(config, vecenv, policy, logger)
    sent = []
    average = own.average_gradients

    def count(parameters, numbers):
        sent.append(len(parameters))
        return average(parameters, numbers)

    own.average_gradients = count
    losses = []
    while trainer.epoch < trainer.total_epochs:
        trainer.evaluate()
        losses.append(trainer.train())
    first_observations = trainer.rollout.observations[:, 0].flatten().tolist()
    path = trainer.close()
    return {
        "weights": [tensor.flatten().tolist() for tensor in policy.state_dict().values()],
        "losses": losses,
        "observations": first_observations,
        "step": trainer.global_step,
        "epochs": trainer.epoch,
        "segments": (trainer.config.segments, trainer.config.minibatch_segments),
        "messages": len(sent),
        "logs": logger.logs,
        "path": path,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "settings", "messages"),
    [
        ("network", {"minibatch_size": 32}, 4 * 4),
        ("network", {"minibatch_size": 64, "optimizer": "adam"}, 4 * 2),
        ("lstm", {"minibatch_size": 64}, 4 * 2),
        ("lstm", {"minibatch_size": 64, "max_minibatch_size": 16, "fused": False}, 4 * 2),  # accumulated, then sent
    ],
    ids=["network", "adam", "lstm", "lstm, accumulated"],
)
def test_ranks_learn_the_same_from_different_environments(tmp_path, monkeypatch, policy, settings, messages):
    monkeypatch.chdir(tmp_path)
    settings = {**settings, "total_timesteps": 4 * 128}
    first, second = ranks.call(train_a_little, policy, settings)
    assert first["weights"] == second["weights"]
    assert first["losses"] == second["losses"]
    assert not set(first["observations"]) & set(second["observations"])
    for one in (first, second):
        assert (one["step"], one["epochs"], one["segments"]) == (512, 4, (8, settings["minibatch_size"] // 16))
        assert one["messages"] == messages
    assert first["path"] == second["path"]
    assert [path.name for path in Path("experiments").iterdir()] == [Path(first["path"]).parent.name]
    assert second["logs"] == []
    steps = [step for step, _ in first["logs"]]
    assert steps == [128, 256, 384, 512]
    # Each process reports two episodes of each of its two environments per rollout of 8 steps.
    assert [log["environment/n"] for _, log in first["logs"]] == [8, 8, 8, 8]
    assert [log["environment/score"] for _, log in first["logs"]] == [6, 14, 22, 30]


STEPS = 8
HALVES = {"unequal": (602, 32), "full": (640, 640), "one full": (640, 50), "one empty": (300, 0)}  # steps with an agent
WAYS = {
    "network": {},
    "torch": {"fused": False, "max_minibatch_size": 160},
    "steps": {"shuffle": "steps"},
    "not normalised": {"norm_adv": False},
}


class UnevenEnv(CountingEnv):
    """One half of a batch: pays more in the second half, and its agents are there for the first steps only."""

    def __init__(self, half=0, present=0, buf=None, seed=0):
        self.half, self.present = half, present
        super().__init__(80, buf, seed)

    def reset(self, seed=None):
        self.time = 0
        self._mask()
        return super().reset(seed=self.half)

    def step(self, actions):
        results = super().step(actions)
        self.rewards[:] = self.observations[:, 0] + 3 * self.half
        self._mask()
        return results

    def _mask(self):
        self.masks[:] = np.arange(80) + 80 * self.time < self.present


def updates_of(halves):
    """Two updates of a plain policy on some halves of each batch by SGD, whose steps show the gradients."""
    return {(way, case): update_of(WAYS[way], HALVES[case], halves) for way in WAYS for case in HALVES}


def update_of(way, presents, halves):
    own = distributed.connect()
    config = {
        **{"device": "cpu", "bptt_horizon": STEPS, "optimizer": "sgd", "adam_beta1": 0.0, "learning_rate": 1.0},
        **{"anneal_lr": False, "prio_alpha": 0.0, "max_grad_norm": float("inf"), "update_epochs": 2.0},
        **{"minibatch_size": 2 * 80 * STEPS, "total_timesteps": 1_000_000, "reward_clip": 0.0, **way},
    }
    mine = [own.rank] if len(halves) < own.world_size else halves
    kwargs = [{"half": half, "present": presents[half]} for half in mine]
    vecenv = vector.make(UnevenEnv, env_kwargs=kwargs, num_envs=len(mine), backend="Serial")
    torch.manual_seed(0)
    policy = Default(vecenv.driver_env, 8)
    before = torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
    trainer = PuffeRL(config, vecenv, policy)
    messages = []
    own.gather_numbers = lambda numbers: messages.append(len(numbers)) or Ranks.gather_numbers(own, numbers)
    trainer.evaluate()
    trainer.rollout.actions.zero_()  # whoever draws them
    trainer.rollout.logprobs.fill_(-0.6931472)
    losses = trainer.train()
    after = torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
    trainer.release()
    return (after - before).tolist(), losses, messages


@pytest.mark.slow
def test_two_halves_of_a_batch_give_the_update_of_the_whole_however_uneven(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = updates_of([0, 1])
    halves = ranks.call(updates_of, [0])
    for key, (update, losses, _) in whole.items():
        assert np.abs(update).max() > 1e-3
        for half in halves:
            np.testing.assert_allclose(half[key][0], update, rtol=1e-3, atol=2e-5, err_msg=str(key))
            assert half[key][1] == pytest.approx(losses, rel=1e-3, abs=1e-5), key
    # The moments of the second minibatch travel with the gradients of the first.
    assert {len(messages) for _, _, messages in halves[0].values()} == {1}
    assert halves[0]["network", "full"][2] == [3] and halves[0]["not normalised", "full"][2] == [0]


# --- what must be the same


def trainer_of(**settings):
    """A trainer of two environments of one process, the same in all but for what is given."""
    envs, policy = settings.pop("envs", 2), settings.pop("policy", Default)
    hidden = settings.pop("hidden", 16)
    config = {"device": "cpu", "bptt_horizon": 8, "minibatch_size": 64, "num_iterations": 3, "learning_rate": 0.01}
    vecenv = vector.make(CountingEnv, num_envs=envs, backend="Serial")
    return PuffeRL({**config, **settings}, vecenv, policy(vecenv.driver_env, hidden), KeepingLogger())


class OtherPolicy(Default):
    """The same numbers by another name."""


def change_weight(trainer):
    next(trainer.policy.parameters()).data[0] += 0.1


def freeze(trainer):
    next(trainer.policy.parameters()).requires_grad_(False)


def replace_layer(trainer):
    trainer.policy.value = nn.Linear(16, 1)


def go_on(trainer, iterations=3):
    for _ in range(iterations):
        trainer.evaluate()
        trainer.train()
    trainer.close()


def change_after_two(change):
    def play(trainer, is_changed):
        go_on_for_two(trainer)
        if is_changed:
            change(trainer)
        go_on(trainer, 1)

    return play


def go_on_for_two(trainer):
    for _ in range(2):
        trainer.evaluate()
        trainer.train()


def change_before_train(change):
    def play(trainer, is_changed):
        trainer.evaluate()
        if is_changed:
            change(trainer)
        trainer.train()

    return play


def change_at_first(trainer, is_changed):
    if is_changed:
        change_weight(trainer)
    trainer.evaluate()


def change_at_last(trainer, is_changed):
    for _ in range(3):
        trainer.evaluate()
        trainer.train()
    if is_changed:
        change_weight(trainer)
    trainer.close()


def call_another(trainer, is_changed):
    trainer.evaluate()
    if is_changed:
        trainer.close()
    trainer.train()


def log_alone(trainer, is_changed):
    go_on_for_two(trainer)
    if is_changed:
        trainer.mean_and_log()
    trainer.evaluate()


def set_(name, value):
    return lambda trainer: setattr(trainer, name, value)


DIFFERENT_SETTINGS = {  # in rank 1, and what the others say of it
    "learning rate": ({"learning_rate": 0.02}, "[train] learning_rate ", "0.02 in rank 1 and 0.01 in rank 0"),
    "optimizer": ({"optimizer": "adam"}, "[train] optimizer ", "'adam' in rank 1 and 'muon' in rank 0"),
    "gamma": ({"gamma": 0.9}, "[train] gamma ", "0.9 in rank 1 and 0.995 in rank 0"),
    "epochs": ({"num_iterations": 4}, "[train] num_iterations ", "4 in rank 1 and 3 in rank 0"),
    "environments": ({"envs": 3}, "the number of agents ", "12 in rank 1 and 8 in rank 0"),
    "layers": ({"hidden": 32}, "the policy's parameter ", "(32, 2) torch.float32 in rank 1 and (16, 2) torch.float32"),
    "policy": ({"policy": OtherPolicy}, "the policy's class ", "OtherPolicy in rank 1 and Default in rank 0"),
}
WEIGHTS = "the weights of all ranks must be the same, those of rank 1 differ", "change them in every process alike"
FROZEN = "the policy's parameter ", "torch.float32, frozen in rank 1 and (16, 2) torch.float32 in rank 0"
RATE = "learning_rate of the trainer ", "0.5 in rank 1 and 0.01 in rank 0"
DIFFERENT_CHANGES = {
    "learning rate": (change_after_two(set_("learning_rate", 0.5)), *RATE),
    "rate between": (change_before_train(set_("learning_rate", 0.5)), *RATE),
    "frozen": (change_after_two(freeze), *FROZEN),
    "frozen between": (change_before_train(freeze), *FROZEN),
    "layer": (change_after_two(replace_layer), "the number of changes to the policy ", "1 in rank 1 and 0 in rank 0"),
    "length": (change_after_two(set_("total_epochs", 9)), "[train] total_timesteps ", "1152 in rank 1 and 384 in rank"),
    "weight at first": (change_at_first, *WEIGHTS),
    "weight later": (change_after_two(change_weight), *WEIGHTS),
    "weight at last": (change_at_last, *WEIGHTS),
    "call": (call_another, "the call of the trainer ", "close in rank 1 and train in rank 0"),
    "log": (log_alone, "the call of the trainer ", "mean_and_log in rank 1 and evaluate in rank 0"),
}


def disagree():
    """What each process is told in every case, one after another, and then of changes that all make alike."""
    told, is_second = {}, distributed.connect().rank == 1
    for name, (settings, *_) in DIFFERENT_SETTINGS.items():
        with pytest.raises(RankError) as raised:
            trainer_of(**settings if is_second else {})
        told["setting", name] = str(raised.value)
    for name, (play, *_) in DIFFERENT_CHANGES.items():
        trainer = trainer_of()
        with pytest.raises(RankError) as raised:
            play(trainer, is_second)
        told["change", name] = str(raised.value)
        trainer.release()
    return told


def test_processes_that_differ_say_in_what_and_none_waits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = ranks.call(disagree)
    assert first == second
    for kind, cases in ("setting", DIFFERENT_SETTINGS), ("change", DIFFERENT_CHANGES):
        for name, (_, begin, found) in cases.items():
            assert first[kind, name].startswith(begin) and found in first[kind, name], (name, first[kind, name])
            assert "every process" in first[kind, name]


def change_alike():
    own = distributed.connect()
    where = {
        "data_dir": f"runs_{own.rank}",
        "seed": own.rank,
        "fused": own.rank == 0,
        "dashboard_interval_seconds": 1.0,
    }
    trainer = trainer_of(**where)
    go_on_for_two(trainer)
    for change in freeze, replace_layer, set_("learning_rate", 0.5), change_weight:
        change(trainer)
    for parameter in trainer.policy.parameters():  # as processors of another kind may have come to
        parameter.data *= 1.0 + 1e-6 * own.rank
    go_on(trainer, 1)
    asked = []
    trainer = trainer_of(**where)
    trainer.learn(callbacks=[lambda *_: asked.append(1)] if own.is_first else [], dashboard=False)
    weights = torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])
    trainer.close()
    return weights.tolist(), trainer.epoch, len(asked)


@pytest.mark.slow
def test_what_processes_change_alike_or_may_have_of_their_own_is_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = ranks.call(change_alike)
    assert first[1:] == (3, 3) and second[1:] == (3, 0)
    np.testing.assert_array_equal(first[0], second[0])


def test_commands_that_differ_end_before_anything_is_made(tmp_path):
    differing = [[], ["--policy.hidden-size", "32", "--load-model-path", "latest"]]
    environments = ranks.variables(2)
    processes = [
        command.start(tmp_path, *SQUARED, *more, variables=one, suffix=f".{rank}")
        for rank, (one, more) in enumerate(zip(environments, differing, strict=True))
    ]
    for rank, (code, words) in enumerate(ranks.finish(processes, tmp_path)):
        assert code == 2 and words.count("\n") == 1
        assert words.startswith(
            f"puffer (rank {rank}): load_model_path must be the same in all processes (and so must "
        )
        assert "'latest' in rank 1 and None in rank 0" in words


# --- evaluations


class SlowEnv(CountingEnv):
    """Takes its time where it is told to."""

    seconds_of_a_step = 0.0

    def step(self, actions):
        time.sleep(SlowEnv.seconds_of_a_step)
        return super().step(actions)


def evaluate_slowly():
    own = distributed.connect()
    vecenv = vector.make(SlowEnv, num_envs=2, backend="Serial")
    settings = {"device": "cpu", "bptt_horizon": 8, "num_iterations": 1, "evaluations": 1, "evaluation_envs": 1}
    logger = KeepingLogger()
    trainer = PuffeRL({**settings, "minibatch_size": 64}, vecenv, Default(vecenv.driver_env, 8), logger)
    trainer.evaluate()
    own._group = torch.distributed.new_group(backend="gloo", timeout=timedelta(seconds=5))
    SlowEnv.seconds_of_a_step = 2.5
    trainer.train()
    trainer.close()
    return [sorted(name for name in log if name.startswith("eval/return")) for _, log in logger.logs]


@pytest.mark.slow
def test_an_evaluation_may_take_longer_than_a_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = ranks.call(evaluate_slowly)  # 4 steps of 2.5 s, where a message has 5 s
    assert first == [["eval/return_max", "eval/return_mean", "eval/return_min", "eval/return_std"]]
    assert second == []


class OddError(Exception):
    def __init__(self, reason, place):
        super().__init__(f"{reason} at {place}")


def fail_to_evaluate():
    def break_off():
        raise OddError("fire", "sea")

    found = []
    for work in (lambda: 1 / 0, break_off):
        try:
            distributed.connect().from_first(work)
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def test_an_evaluation_that_fails_fails_in_all_processes():
    first, second = ranks.call(fail_to_evaluate)
    assert first == ["ZeroDivisionError: division by zero", "OddError: fire at sea"]
    assert second == ["ZeroDivisionError: division by zero", "RankError: rank 0 failed with OddError: fire at sea"]


def load_in_the_first_alone():
    own = distributed.connect()
    if not own.is_first:
        own._store.wait(["loaded"], timedelta(seconds=120))
        own._store.set("heard", "")
        return None
    agent = pufferlib.load_agent("puffer_squared")
    own._store.set("loaded", "")
    own._store.wait(["heard"], timedelta(seconds=120))  # the store ends with this process
    return type(agent).__name__


@pytest.mark.slow
def test_an_agent_is_loaded_by_one_process_alone():
    assert ranks.call(load_in_the_first_alone) == ["Agent", None]


def leave_before_the_decision():
    own = distributed.connect()
    own.gather(0)
    try:
        if own.is_first:
            raise ValueError("the ball is gone")
        own.from_first(lambda: 0)
    except ValueError as error:
        own.announce(error)
        torch.distributed.destroy_process_group()
        own._store.wait(["noticed/1"], timedelta(seconds=600))  # which is gone with this process
        return "first"
    except RankError as error:
        return str(error)


@pytest.mark.slow
def test_a_process_that_waits_for_a_decision_says_what_ended_the_first():
    first, second = ranks.call(leave_before_the_decision)
    assert first == "first" and second.startswith("rank 0 failed with ValueError: the ball is gone; ")


# --- runs


def go_on_twice(folder):
    """Two iterations after a checkpoint, and the same two again from it: observations and weights of both."""
    settings = {"bptt_horizon": 8, "batch_size": 128, "minibatch_size": 32, "total_timesteps": 4 * 128}
    env = pufferlib.make("puffer_squared", num_envs=8)
    trainer = PuffeRL(env, device="cpu", data_dir=folder, seed=3, logger=NoLogger(), **settings)

    def iterate():
        for _ in range(2):
            trainer.evaluate()
            trainer.train()
        weights = [tensor.tolist() for tensor in trainer.policy.state_dict().values()]
        return trainer.rollout.observations.tolist(), trainer.global_step, weights

    iterate()
    path = trainer.save_checkpoint()
    found = [iterate()]
    trainer.load_checkpoint(Path(path).parent)
    found.append(iterate())
    trainer.release()
    return found


def test_two_ranks_go_on_from_a_checkpoint_exactly(tmp_path):
    first, second = ranks.call(go_on_twice, str(tmp_path))
    assert first[0] == first[1] and second[0] == second[1]
    assert first[0][0] != second[0][0] and first[0][1:] == second[0][1:]


@pytest.mark.slow
def test_two_ranks_resume_exactly_and_a_lost_one_ends_the_other(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    length = ["--train.num-iterations", 12, "--train.evaluations", 3]  # by the first of them
    assert ranks.run(whole, *SQUARED, *length) == [(0, ""), (0, "")]

    processes = ranks.start(parts, *SQUARED, *length, "--train.checkpoint-interval", 1)
    wait_for(has_saved(parts), processes)
    victim = processes[1].pid
    processes[1].kill()
    (code, words), _ = ranks.finish(processes, parts)
    assert code == 2
    assert words.startswith("puffer (rank 0): rank 1 (process ") and f"{victim} on " in words
    assert "is gone" in words and "--resume" in words and words.count("\n") == 1

    resume = [*SQUARED[:2], "--resume", "latest", "--train.checkpoint-interval", 1000]
    assert ranks.run(parts, *resume) == [(0, ""), (0, "")]
    assert metrics(only_run(parts)) == metrics(only_run(whole))
    final = [checkpoint.load(next(only_run(folder).glob("model_*_000012.pt"))) for folder in (whole, parts)]
    for name, tensor in final[0].items():
        assert torch.equal(tensor, final[1][name])

    # By another number of processes the environments begin anew, and the rest goes on.
    assert ranks.run(parts, *resume, "--train.num-iterations", 14, count=1) == [(0, "")]
    assert metrics(only_run(parts))[-1]["epoch"] == 14
    stdout = [(parts / f"stdout.{rank}").read_text() for rank in (0, 1)]
    assert "saved " in stdout[0] and stdout[1] == ""


def test_a_signal_to_one_rank_stops_all_of_them_after_saving(tmp_path):
    processes = ranks.start(tmp_path, *SQUARED, "--train.num-iterations", 100_000)
    wait_for(lambda: any((tmp_path / "experiments").glob("*/metrics.jsonl")), processes)
    time.sleep(0.2)
    os.kill(processes[1].pid, signal.SIGTERM)  # one is asked to stop: all of them stop, and save first
    assert ranks.finish(processes, tmp_path) == [(130, ""), (130, "")]
    state = checkpoint.load(only_run(tmp_path) / checkpoint.TRAINER_STATE)
    assert state["epoch"] > 0 and len(state["ranks"]) == 2
    settings = ["--resume", "latest", "--env.num-envs", 4]
    for code, words in ranks.run(tmp_path, *SQUARED[:2], *settings):
        assert code == 2 and "was begun with --env.num-envs 8 and cannot go on with 4" in words


def test_sizes_that_ranks_cannot_share_name_possible_ones(tmp_path):
    for rank, (code, words) in enumerate(ranks.run(tmp_path, *SQUARED, "--train.batch-size", 128)):
        assert code == 2
        assert words == (
            f"puffer (rank {rank}): [train] batch_size must be a multiple of 256 "
            "(2 processes * 8 agents * bptt_horizon 16), got 128; the nearest: 256\n"
        )


def fail_in_one(folder):
    own = distributed.connect()
    try:
        if own.rank == 1:
            raise ValueError("the ball is gone")
        own.gather(0)
    except ValueError as error:
        own.announce(error)
        return str(error)
    except RankError as error:
        return str(error)


def test_an_exception_in_a_rank_is_told_by_the_others(tmp_path):
    first, second, third = ranks.call(fail_in_one, str(tmp_path), count=3)
    assert second == "the ball is gone"
    for words in (first, third):
        assert words.startswith("rank 1 failed with ValueError: the ball is gone; ")


def lose_one_that_nobody_hears_of(folder):
    own = distributed.connect()
    own.gather(0)
    if own.rank == 1:
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                os.set_inheritable(number, True)
        child = subprocess.Popen(["sleep", "600"], close_fds=False)  # holds the connections, so that they do not break
        Path(folder, "child").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        own.average_gradients([], torch.zeros(1000))  # which would wait for half an hour
    except RankError as error:
        Path(folder, "words").write_text(str(error))


@pytest.mark.slow
def test_a_loss_that_breaks_no_connection_is_noticed_and_the_process_ends(tmp_path):
    code = "import sys, test_distributed; test_distributed.lose_one_that_nobody_hears_of(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env={**environment, **variables})
        for variables in ranks.variables(2)
    ]
    try:
        assert [process.wait(600) for process in started] == [0, -signal.SIGKILL]
    finally:
        for process in started:
            process.kill()
        with contextlib.suppress(OSError):
            os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert (tmp_path / "words").read_text().startswith(f"rank 1 (process {started[1].pid} on ")


# --- torchrun


def torchrun(folder, *options, command, seconds=600):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment["PYTHONFAULTHANDLER"] = "1"  # a crash of native code says where
    with open(folder / "torchrun.out", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *map(str, options), "-m", "pufferlib.pufferl"]
            + [str(word) for word in command],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
        )


def worker_of(agent, rank):
    """The process that an agent started as a rank, None while there is none."""
    import psutil

    for child in psutil.Process(agent.pid).children():
        try:
            if child.environ().get("RANK") == str(rank):
                return child
        except psutil.Error:
            continue
    return None


@pytest.mark.slow
def test_torchrun_starts_a_lost_rank_again_and_the_run_goes_on(tmp_path):
    command = [*SQUARED, "--train.num-iterations", 150, "--train.checkpoint-interval", 5, "--train.log-interval", 5]
    agent = torchrun(tmp_path, "--standalone", "--nproc-per-node=2", "--max-restarts=3", command=command)
    try:
        end = time.monotonic() + 600
        while not has_saved(tmp_path)():
            assert agent.poll() is None and time.monotonic() < end, (tmp_path / "torchrun.out").read_text()
            time.sleep(0.005)
        worker_of(agent, 1).kill()
        assert agent.wait(600) == 0, (tmp_path / "torchrun.out").read_text()
    finally:
        agent.kill()
    output = (tmp_path / "torchrun.out").read_text()
    assert "puffer (rank 0): rank 1 (process " in output
    epochs = [line["epoch"] for line in metrics(only_run(tmp_path))]  # of one run, not of two
    assert epochs == list(range(5, 151, 5))


@pytest.mark.slow
def test_two_nodes_train_as_one(tmp_path):
    port = ranks.free_port()
    folders = [tmp_path / "node0", tmp_path / "node1"]  # nodes share no files
    command = [*SQUARED, "--train.num-iterations", 4, "--train.weights-check-interval", 1]
    nodes = []
    for rank, folder in enumerate(folders):
        folder.mkdir()
        options = ["--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=1", "--master-addr=127.0.0.1"]
        nodes.append(torchrun(folder, *options, f"--master-port={port}", command=command))
    try:
        for node, folder in zip(nodes, folders, strict=True):
            assert node.wait(600) == 0, (folder / "torchrun.out").read_text()
    finally:
        for node in nodes:
            node.kill()
    assert metrics(only_run(folders[0]))[-1]["agent_steps"] == 4 * 2 * 8 * 16
    assert not (folders[1] / "experiments").exists()


# --- continuous control


def train_continuously(target_kl):
    own = distributed.connect()
    vecenv = vector.make(TrackingEnv, num_envs=2, backend="Serial", seed=own.rank)
    torch.manual_seed(0)
    settings = {**RECIPE, "minibatch_size": 128, "target_kl": target_kl, "total_timesteps": 512 * 4}
    trainer = PuffeRL({**settings, "update_epochs": 3.0}, vecenv, Continuous(vecenv, [16], [16]))
    for _ in range(4):
        trainer.evaluate()
        losses = trainer.train()
    trainer.ranks.check_same(list(trainer.policy.state_dict().values()), "weights and statistics")
    trainer.release()
    scales = asdict(trainer._collector.reward_normalizer.moments)
    return int(trainer.policy.count), scales, {name: losses[name] for name in ("policy_loss", "approx_kl")}


@pytest.mark.slow
@pytest.mark.parametrize("target_kl", [None, 1e-9])
def test_normalisers_and_early_stops_are_those_of_all_ranks(target_kl):
    first, second = ranks.call(train_continuously, target_kl)
    assert first == second
    count, scales, losses = first
    assert count == scales["count"] == 4 * 512 and np.isfinite(list(losses.values())).all()
