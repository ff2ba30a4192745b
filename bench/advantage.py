"""Time of one advantage call: `python -m pytest -n0 bench/advantage.py --benchmark-enable`.

A round is one call on float32 buffers as the trainer has them, 64 steps and the bootstrap column. `kernel` is the
operator, `loop` the same in plain torch, `bandwidth` a copy and a sum that together move as many bytes: what memory
alone takes. `steps` are elements.
"""

from __future__ import annotations

import pytest
import torch

from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage

COLUMNS = 65
CONSTANTS = (0.99, 0.95, 1.0, 1.0)


def segments(num_segments):
    shape = (num_segments, COLUMNS)
    torch.manual_seed(0)
    values, rewards, ratio = torch.randn(shape), torch.randn(shape), torch.rand(shape) + 0.5
    return values, rewards, (torch.rand(shape) < 0.02).float(), ratio, torch.empty(shape)


def time_call(benchmark, run, num_segments):
    benchmark.extra_info["steps"] = num_segments * COLUMNS
    benchmark.pedantic(run, rounds=41, warmup_rounds=3)


@pytest.mark.parametrize("num_segments", [1024, 4096, 16384])
def test_kernel(benchmark, threads, num_segments):
    tensors = segments(num_segments)
    time_call(benchmark, lambda: compute_puff_advantage(*tensors, *CONSTANTS), num_segments)


@pytest.mark.parametrize("num_segments", [1024, 4096, 16384])
def test_loop(benchmark, threads, num_segments):
    *inputs, advantages = segments(num_segments)
    time_call(benchmark, lambda: advantages.copy_(reference_advantage(*inputs, *CONSTANTS)), num_segments)


@pytest.mark.parametrize("num_segments", [1024, 4096, 16384])
def test_bandwidth(benchmark, threads, num_segments):
    values, rewards, terminals, ratio, advantages = segments(num_segments)

    def run():
        torch.add(values, rewards, out=advantages)
        advantages.copy_(terminals)

    time_call(benchmark, run, num_segments)
