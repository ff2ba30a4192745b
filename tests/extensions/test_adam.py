import math

import pytest
import torch
from torch import nn

from pufferlib.extensions.adam import clip_gradients

SHAPES = [(5, 17), (1,), (33, 2, 3), (64, 64)]


def random_gradients():
    generator = torch.Generator().manual_seed(0)
    return [3.0 * torch.randn(shape, generator=generator) for shape in SHAPES]


@pytest.mark.parametrize("limit", [0.5, 1e9])
def test_clipping_is_torchs(limit):
    gradients, peers = random_gradients(), [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    for parameter, gradient in zip(peers, gradients, strict=True):
        parameter.grad = gradient.clone()
    clip_gradients(gradients, limit)
    nn.utils.clip_grad_norm_(peers, limit)
    for gradient, parameter in zip(gradients, peers, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-5, atol=1e-7)


def test_a_gradient_that_is_nan_spoils_all_of_them_as_by_torch():
    gradients = [torch.ones(3), torch.tensor([math.nan, 1.0])]
    clip_gradients(gradients, 0.5)
    assert all(gradient.isnan().all() for gradient in gradients)
