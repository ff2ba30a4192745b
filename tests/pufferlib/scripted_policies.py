"""Policies for the scripted environment; apart from it, so that its worker processes do not import torch."""

from __future__ import annotations

import torch
from scripted import NUM_ACTIONS, STEP
from torch import nn


class LinearPolicy(nn.Module):
    """Acts by a fixed linear function of the observation; values the step."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(11)
        self.weight = nn.Parameter(torch.randn(4, NUM_ACTIONS, generator=generator) / 5)

    def forward(self, observations, state):
        return observations @ self.weight, observations[..., STEP] + 0.5


class CountingPolicy(LinearPolicy):
    """Counts the observations that it has seen in its state, and gives the count as the value."""

    def initial_state(self, batch, device):
        return {"count": torch.zeros(batch, 1, device=device)}

    def forward_eval(self, observations, state):
        values = state["count"][:, 0]
        state["count"] = state["count"] + 1
        return observations @ self.weight, values


class InPlacePolicy(CountingPolicy):
    """Counts in the memory it was given."""

    def forward_eval(self, observations, state):
        values = state["count"][:, 0].clone()
        state["count"] += 1
        return observations @ self.weight, values


class ConstantPolicy(nn.Module):
    """All actions alike, whatever it sees."""

    def forward(self, observations, state):
        device = observations.device
        return torch.zeros(len(observations), 5, device=device), torch.zeros(len(observations), device=device)
