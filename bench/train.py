"""Training throughput: `python -m pytest -n0 bench/train.py --benchmark-enable`.

One round is one iteration, `evaluate()` and `train()`, environment, policy and update together, with the default config
or with another policy or device. Beside the steps per second stands what part of the machine's float32 matrix product
rate they come to: the matrix products of the policy, by the formula in `operations_per_step`, over what a product of
4096 x 128 x 384 reaches on the same device with the same threads, measured in the same process right before and after.
"""

from __future__ import annotations

import math
import statistics
import time

import pytest
import torch

from pufferlib import ocean, pufferl

POLICIES = {  # for breakout, beside the default: rnn_name, [policy], [rnn]
    "lstm": ("LSTM", {"hidden_size": 128}, {"num_layers": 1}),
    "feedforward": (None, {"hidden_size": 128, "activation": "gelu"}, {}),
}
BY = {  # breakout on a CPU with one pass over each batch, by the same settings but for these
    "torch": {"fused": False, "precision": "float32"},
    "kernel": {"precision": "float32"},
    "bfloat16": {"precision": "bfloat16"},
}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


def operations_per_step(policy, observation_size, update_epochs):
    """Floating point operations of matrix products per agent step, a multiplication and an addition counted as two.

    A layer of m x n weights takes 2mn forward, and twice that backward: one product for the weights, one for the input,
    which the layer that takes the observation does without. Forward once in the rollout; both in each update epoch.
    """
    layers = [parameter for parameter in policy.parameters() if parameter.dim() == 2]
    forward = 2 * sum(layer.numel() for layer in layers)
    first = 2 * sum(layer.numel() for layer in layers if layer.shape[1] == observation_size)
    return forward + update_epochs * (3 * forward - first)


def matmul_rate(device, repeats=50):
    """Floating point operations per second of a float32 product of 4096 x 128 x 384, from the median time."""
    left, right = torch.randn(4096, 128, device=device), torch.randn(128, 384, device=device)
    seconds = []
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        torch.mm(left, right)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * 4096 * 128 * 384 / statistics.median(seconds)


def make_trainer(name, device, folder, policy=None, **settings):
    args = pufferl.load_config(name)
    if policy is not None:
        args["rnn_name"], args["policy"], args["rnn"] = POLICIES[policy]
    args["train"].update(device=device, data_dir=str(folder), checkpoint_interval=10**9, log_interval=10**9)
    args["train"].update(settings)
    vecenv = pufferl.load_env(name, args)
    return pufferl.PuffeRL({**args["train"], "env": name}, vecenv, pufferl.load_policy(args, vecenv, name))


def time_training(benchmark, trainer):
    device = trainer.device.type

    def iterate():
        trainer.evaluate()
        trainer.train()
        if device == "cuda":
            torch.cuda.synchronize()

    matmul_rate(device)  # warms up
    before = matmul_rate(device)
    benchmark.extra_info["steps"] = trainer.config.batch_size
    benchmark.pedantic(iterate, rounds=10, warmup_rounds=2)
    size = math.prod(trainer.vecenv.single_observation_space.shape)
    benchmark.extra_info["operations"] = operations_per_step(trainer.policy, size, trainer.config.update_epochs)
    benchmark.extra_info["operations_per_second"] = (before + matmul_rate(device)) / 2
    trainer.release()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name in ocean.names() if name != "puffer_template"])
def test_train(benchmark, name, device, tmp_path):
    time_training(benchmark, make_trainer(name, device, tmp_path))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("policy", POLICIES)
def test_policy(benchmark, policy, device, tmp_path):
    time_training(benchmark, make_trainer("puffer_breakout", device, tmp_path, policy))


@pytest.mark.parametrize("policy", [None, *POLICIES])
@pytest.mark.parametrize("by", BY)
def test_by(benchmark, by, policy, tmp_path):
    time_training(benchmark, make_trainer("puffer_breakout", "cpu", tmp_path, policy, update_epochs=1.0, **BY[by]))
