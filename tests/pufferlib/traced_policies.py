"""The layers that a kernel computes of a policy, for tests that have no trainer."""

from __future__ import annotations

import torch
from torch import nn

from pufferlib.extensions.network_layers import Layers
from pufferlib.fast.traced_layers import trace
from pufferlib.policy import EnvSpaces, initial_state
from pufferlib.ppo.rollout import Rollout


def layers_of(policy: nn.Module, env: EnvSpaces) -> Layers:
    """Returns the layers of a policy for an environment, or for a class that has its spaces."""
    spaces, cpu = (env.single_observation_space, env.single_action_space), torch.device("cpu")
    return trace(policy, Rollout.allocate(*spaces, 1, 1, initial_state(policy, 1, cpu), cpu, cpu))
