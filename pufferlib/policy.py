"""What all policies have in common: what they return and how they are called. pufferlib.models says what they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import Tensor, nn
from torch.distributions import Normal

Logits = Tensor | Normal | tuple[Tensor | Normal, ...]
"""What a policy returns: a tensor `(..., n)` for Discrete, a Normal `(..., k)` for Box, and a tuple of tensors for
MultiDiscrete or of both for a Tuple."""

Forward = Callable[[Tensor, dict[str, Tensor]], tuple[Logits, Tensor]]
"""Observations and recurrent state -> logits and values."""


def acting_forward(policy: nn.Module) -> Forward:
    """How a policy is called for one step: its `forward_eval`, or else its `forward`."""
    if hasattr(policy, "forward_eval"):
        return _with_state(policy.forward_eval, policy.forward_eval)
    return training_forward(policy, policy)


def training_forward(policy: nn.Module, called: Callable) -> Forward:
    """How a policy is called for training.

    Args:
        policy: has the `forward` that decides whether a state is passed.
        called: what to call: the policy, or what torch.compile made of it.
    """
    return _with_state(called, getattr(policy, "_orig_mod", policy).forward)  # torch.compile hides the signature


def _with_state(called: Callable, declared: Callable) -> Forward:
    return called if _takes_state(declared) else lambda observations, state: called(observations)


def _takes_state(function: Callable) -> bool:
    """Whether the second argument of a function is a state, and not an option of the user's own."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return True
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].name == "state" or places[1].default is inspect.Parameter.empty)
