"""A step of Muon beside torch's own: `python -m pytest -n0 bench/optimizer.py --benchmark-enable`.

The parameters are those of breakout's policy, and of chess's, whose first and last matrix take all but a hundredth.
torch.optim.Muon takes the matrices and AdamW the biases, as here.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pufferlib.extensions.optimizers import Muon
from pufferlib.fast.learners import KernelAdam

SHAPES = {
    "breakout": [(64, 118), (64,), (192, 64), (192, 64), (4, 64), (4,)],
    "chess": [(64, 2_080), (64,), (64, 64), (64,), (1_859, 64), (1_859,)],
}


class TorchMuon:
    """torch's own two optimizers."""

    def __init__(self, parameters):
        matrices = [parameter for parameter in parameters if parameter.dim() == 2]
        vectors = [parameter for parameter in parameters if parameter.dim() != 2]
        self._optimizers = torch.optim.Muon(matrices, lr=0.1), torch.optim.AdamW(vectors, lr=0.01)

    def step(self):
        for optimizer in self._optimizers:
            optimizer.step()


MAKERS = {"ours": lambda parameters: Muon(parameters, lr=0.1, momentum=0.95, adamw=KernelAdam), "torch": TorchMuon}


@pytest.mark.parametrize("game", SHAPES)
@pytest.mark.parametrize("maker", MAKERS)
def test_step(benchmark, threads, maker, game):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in SHAPES[game]]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = MAKERS[maker](parameters)
    benchmark.pedantic(optimizer.step, rounds=100, warmup_rounds=10)
