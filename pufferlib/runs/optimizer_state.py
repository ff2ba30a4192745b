"""The state of an optimizer by the names of parameters.

Torch's own `state_dict` goes by position, so it gives a parameter the state of another once a policy declares them in
another order.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def state_by_name(optimizer: Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, dict[str, Tensor]]:
    """Returns the state of every parameter, empty for one that the optimizer has not stepped."""
    states = {name: optimizer.state.get(parameter, {}) for name, parameter in parameters.items()}
    return {name: {key: kept for key, kept in state.items() if kept is not None} for name, state in states.items()}


@torch.no_grad()
def load_state_by_name(
    optimizer: Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Mapping[str, Tensor]]
) -> None:
    """Restores what `state_by_name` returned; the settings stay the optimizer's."""
    stepped = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in parameters.items():
        optimizer.state.pop(parameter, None)
        if parameter in stepped and state[name]:
            optimizer.state[parameter] = {
                key: found.clone() if key == "step" else torch.zeros_like(parameter).copy_(found)
                for key, found in state[name].items()
            }
