"""Training for a while, and what came of it."""

from __future__ import annotations

import torch


def iterate(trainer, epochs=1):
    for _ in range(epochs):
        trainer.evaluate()
        trainer.train()


def weights(policy):
    """All parameters of a module in one dimension, a copy."""
    return torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
