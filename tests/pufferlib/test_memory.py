"""What training holds in memory: the rollout that is documented, little beside it, and no more from epoch to epoch."""

from __future__ import annotations

import gc

import psutil
import pytest
import torch

from pufferlib import pufferl

NUM_ENVS, HORIZON = 64, 16
SEGMENT_BYTES = {  # of a segment of the rollout, by the shapes in its docstring
    "puffer_squared": HORIZON * (121 + 4 + 4) + (HORIZON + 1) * (3 * 4 + 3),
    "puffer_breakout": HORIZON * (4 * 118 + 4 + 4) + (HORIZON + 1) * (3 * 4 + 3) + 2 * 4 * 64,
}


def make_trainer(name, folder):
    args = pufferl.load_config(name)
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


@pytest.mark.parametrize("name", SEGMENT_BYTES)
def test_the_rollout_takes_the_bytes_of_its_documented_shapes_and_the_trainer_little_more(name, tmp_path):
    before = tensor_bytes()
    trainer = make_trainer(name, tmp_path)
    documented = NUM_ENVS * SEGMENT_BYTES[name]
    rollout = [value for value in vars(trainer.rollout).values() if isinstance(value, torch.Tensor)]
    rollout += trainer.rollout.states.values()
    assert documented <= sum(tensor.untyped_storage().nbytes() for tensor in rollout) <= 1.2 * documented
    # The kernel's workspace has the size of the policy, whatever the rollout's: 16 copies of the gradients.
    workspace = [value for value in vars(trainer._gradients.network).values() if isinstance(value, torch.Tensor)]
    others = tensor_bytes() - before - sum(tensor.untyped_storage().nbytes() for tensor in workspace)
    assert documented <= others <= 1.2 * documented
    trainer.release()


def grown_bytes(trainer, epochs, keep=lambda trainer: None):
    """Growth of the process's resident memory in some epochs, after 20 to warm up."""
    kept, process, before = [], psutil.Process(), 0
    for epoch in range(20 + epochs):
        if epoch == 20:
            before = process.memory_info().rss
        trainer.evaluate()
        trainer.train()
        kept.append(keep(trainer))
    return process.memory_info().rss - before


LIMIT_BYTES = 2 * 2**20  # 20 times the allocator's noise, a sixth of what keeping the observations would come to


@pytest.mark.parametrize("name", SEGMENT_BYTES)
def test_a_hundred_epochs_take_no_more_memory_than_the_first(name, tmp_path):
    trainer = make_trainer(name, tmp_path)
    assert grown_bytes(trainer, 100) < LIMIT_BYTES
    trainer.release()


def test_a_leak_of_the_observations_would_show(tmp_path):
    trainer = make_trainer("puffer_squared", tmp_path)
    assert grown_bytes(trainer, 40, keep=lambda trainer: trainer.rollout.observations.clone()) > LIMIT_BYTES
    trainer.release()
