"""Time of the MinGRU kernels: `python -m pytest -n0 bench/mingru.py --benchmark-enable`.

A round of `scan` is forward and backward over segments of 64 steps, of `step` one step of a rollout, each with the
kernel and in plain torch. `bandwidth` is copies that move as many bytes as forward and backward together: what memory
alone takes. `steps` are lane steps: batch * steps * hidden.
"""

from __future__ import annotations

import pytest
import torch

from pufferlib.extensions.mingru import mingru_scan, mingru_step, reference_mingru

HIDDEN = 64
STEPS = 64


def inputs(batch, steps=STEPS):
    torch.manual_seed(0)
    gates, x = torch.randn(batch, steps, 3 * HIDDEN), torch.randn(batch, steps, HIDDEN)
    return gates, x, torch.zeros(batch, HIDDEN), torch.rand(batch, steps) < 0.02


def time_call(benchmark, run, num_steps):
    benchmark.extra_info["steps"] = num_steps
    benchmark.pedantic(run, rounds=15, warmup_rounds=2)


@pytest.mark.parametrize("batch", [256, 1024])
@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "plain"])
def test_scan(benchmark, threads, batch, kernel):
    gates, x, state, reset = inputs(batch)
    gates.requires_grad_()
    x.requires_grad_()
    grad_output = torch.randn_like(x)

    def run():
        output, _ = mingru_scan(gates, x, state, reset, kernel=kernel)
        torch.autograd.grad(output, (gates, x), grad_output)

    time_call(benchmark, run, x.numel())


@pytest.mark.parametrize("batch", [256, 1024])
def test_bandwidth(benchmark, threads, batch):
    gates, x, _, _ = inputs(batch)
    gates_copy, x_copies = torch.empty_like(gates), [torch.empty_like(x) for _ in range(3)]

    def run():  # in arrays of the size of x, the kernels read 4 + 6 and write 2 + 4; nine are copied
        gates_copy.copy_(gates)
        gates_copy.copy_(gates)
        for x_copy in x_copies:
            x_copy.copy_(x)

    time_call(benchmark, run, x.numel())


@pytest.mark.parametrize("batch", [256, 1024, 4096])
@pytest.mark.parametrize("kernel", [True, False], ids=["kernel", "plain"])
def test_step(benchmark, threads, batch, kernel):
    gates, x, state, reset = (tensor.squeeze(1) for tensor in inputs(batch, steps=1))
    gates_scan, x_scan, reset_scan = gates[:, None], x[:, None], reset[:, None]

    def run():
        if kernel:
            mingru_step(gates, x, state, reset)
        else:
            state.copy_(reference_mingru(gates_scan, x_scan, state, reset_scan)[1])

    time_call(benchmark, run, x.numel())
