"""What training holds in memory: the rollout that is documented, little beside it, and no more from epoch to epoch."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import psutil
import pytest
import torch

from pufferlib import pufferl

NUM_ENVS, HORIZON = 64, 16
SEGMENT_BYTES = {  # of a segment of the rollout, by the shapes in its docstring
    "puffer_squared": HORIZON * (121 + 4 + 4) + (HORIZON + 1) * (3 * 4 + 3),
    "puffer_breakout": HORIZON * (4 * 118 + 4 + 4) + (HORIZON + 1) * (3 * 4 + 3) + 2 * 4 * 64,
    "puffer_breakout LSTM": HORIZON * (4 * 118 + 4 + 4) + (HORIZON + 1) * (3 * 4 + 3) + 4 * 4 * 64,
}


def make_trainer(case, folder):
    name, *recurrence = case.split()
    args = pufferl.load_config(name)
    args["rnn_name"] = recurrence[0] if recurrence else args["rnn_name"]
    args["env"]["num_envs"], args["vec"]["num_envs"], args["vec"]["num_workers"] = NUM_ENVS, 1, 1
    args["train"].update(device="cpu", bptt_horizon=HORIZON, minibatch_size=512, data_dir=str(folder))
    args["train"].update(update_epochs=1, batch_size=NUM_ENVS * HORIZON)
    vecenv = pufferl.load_env(name, args)
    return pufferl.PuffeRL({**args["train"], "env": name}, vecenv, pufferl.load_policy(args, vecenv, name))


def tensor_bytes():
    """Of all tensors that are alive, shared storage counted once."""
    gc.collect()
    storages = [thing.untyped_storage() for thing in gc.get_objects() if type(thing) is torch.Tensor]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def in_fresh_process(function, *arguments):
    """What a function returns where no other test has left memory behind, to be reused or let go of meanwhile."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measure_tensors(case, folder):
    """Bytes of the rollout, and of all other tensors of a trainer but the kernel's workspace.

    The workspace has the size of the policy, whatever the rollout's: 19 copies of its parameters.
    """
    before = tensor_bytes()
    trainer = make_trainer(case, folder)
    rollout = [value for value in vars(trainer.rollout).values() if isinstance(value, torch.Tensor)]
    rollout += trainer.rollout.states.values()
    network = trainer._learner.gradients.network
    workspace = [value for value in vars(network).values() if isinstance(value, torch.Tensor)]
    in_rollout, in_workspace = (sum(t.untyped_storage().nbytes() for t in some) for some in (rollout, workspace))
    return in_rollout, tensor_bytes() - before - in_workspace


@pytest.mark.slow
@pytest.mark.parametrize("case", SEGMENT_BYTES)
def test_the_rollout_takes_the_bytes_of_its_documented_shapes_and_the_trainer_little_more(case, tmp_path):
    documented = NUM_ENVS * SEGMENT_BYTES[case]
    in_rollout, in_all = in_fresh_process(measure_tensors, case, tmp_path)
    assert documented <= in_rollout <= in_all <= 1.25 * documented


def grown_bytes(case, folder, epochs, keeps_observations=False):
    """Growth of the process's resident memory in some epochs, after 20 to warm up."""
    trainer = make_trainer(case, folder)
    kept, process, before = [], psutil.Process(), 0
    for epoch in range(20 + epochs):
        if epoch == 20:
            before = process.memory_info().rss
        trainer.evaluate()
        trainer.train()
        if keeps_observations:
            kept.append(trainer.rollout.observations.clone())
    return process.memory_info().rss - before


LIMIT_BYTES = 2 * 2**20  # 20 times the allocator's noise, a sixth of what keeping the observations would come to


@pytest.mark.slow
@pytest.mark.parametrize("case", SEGMENT_BYTES)
def test_a_hundred_epochs_take_no_more_memory_than_the_first(case, tmp_path):
    assert in_fresh_process(grown_bytes, case, tmp_path, 100) < LIMIT_BYTES


@pytest.mark.slow
def test_a_leak_of_the_observations_would_show(tmp_path):
    assert in_fresh_process(grown_bytes, "puffer_squared", tmp_path, 40, True) > LIMIT_BYTES
