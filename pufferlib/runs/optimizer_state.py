"""What an optimizer keeps of every parameter: by the parameter's name, or handed to another optimizer.

Torch's own `state_dict` goes by position, and so gives one parameter the state of another as soon as a policy declares
them in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from pufferlib.extensions.optimizers import Muon, Sgd
from pufferlib.runs.checkpoint_pattern import Pattern, check, demand, maybe


def state_by_name(optimizer: Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, dict[str, Tensor]]:
    """What an optimizer keeps of every parameter: empty where it has not stepped it.

    Args:
        optimizer: from `make_optimizer`.
        parameters: of the policy, those too that it does not step.
    """
    states = {name: optimizer.state.get(each, {}) for name, each in parameters.items()}
    return {name: {key: kept for key, kept in state.items() if kept is not None} for name, state in states.items()}


def state_pattern(optimizer: Optimizer, parameters: Mapping[str, nn.Parameter]) -> Pattern:
    """What `state_by_name` may return for these parameters; see `checkpoint_pattern`."""
    return {name: maybe(_pattern_of(optimizer, each), {}) for name, each in parameters.items()}


@torch.no_grad()
def load_state_by_name(
    optimizer: Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Mapping[str, Tensor]]
) -> None:
    """Puts back what `state_by_name` returned and `state_pattern` describes; the settings stay the optimizer's."""
    stepped = {each for group in optimizer.param_groups for each in group["params"]}
    for name, parameter in parameters.items():
        optimizer.state.pop(parameter, None)
        if parameter in stepped and state[name]:
            optimizer.state[parameter] = {
                key: found.clone() if key == "step" else torch.zeros_like(parameter).copy_(found)
                for key, found in state[name].items()
            }


def _pattern_of(optimizer: Optimizer, parameter: nn.Parameter) -> Pattern:
    if isinstance(optimizer, Sgd) or (isinstance(optimizer, Muon) and parameter.dim() == 2):
        return {"momentum_buffer": parameter.detach()}
    return {"step": _check_step, "exp_avg": parameter.detach(), "exp_avg_sq": parameter.detach()}


def _check_step(found: Any, place: str) -> None:
    check(found, torch.zeros(()), place)
    if not found.is_meta:
        demand(bool(found >= 0.0), place, "a count", float(found))
