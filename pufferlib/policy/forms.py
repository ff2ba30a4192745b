"""What all policies have in common: their results, their calls, and the settings they were made with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import gymnasium
from torch import Tensor, nn
from torch.distributions import Normal
from typing_extensions import Self

Logits = Tensor | Normal | tuple[Tensor | Normal, ...]
"""What a policy returns: a tensor `(..., n)` for Discrete, a Normal `(..., k)` for Box, and a tuple of tensors for
MultiDiscrete or of both for a Tuple."""


class EnvSpaces(Protocol):
    """An environment, a vector, or anything else with spaces; `emulated` is read as well where it exists."""

    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space


Forward = Callable[[Tensor, dict[str, Tensor]], tuple[Logits, Tensor]]
"""Observations and recurrent state -> logits and values."""

_GIVEN = ("self", "env", "policy")  # arguments of a policy's class that are no settings


def acting_forward(policy: nn.Module) -> Forward:
    """Returns the call of a policy for one step: its `forward_eval`, or else its `forward`."""
    if hasattr(policy, "forward_eval"):
        return _with_state(policy.forward_eval, policy.forward_eval)
    return training_forward(policy, policy)


def training_forward(policy: nn.Module, called: Callable) -> Forward:
    """Returns the call of a policy for training.

    Args:
        policy: its `forward` decides whether a state is passed.
        called: the policy, or the result of torch.compile.
    """
    return _with_state(called, getattr(policy, "_orig_mod", policy).forward)  # torch.compile hides the signature


def _with_state(called: Callable, declared: Callable) -> Forward:
    return called if _takes_state(declared) else lambda observations, state: called(observations)


def _takes_state(function: Callable) -> bool:
    # Whether the second argument is a state, and not an option of the user's own.
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return True
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].name == "state" or places[1].default is inspect.Parameter.empty)


class RecordsInitArgs(nn.Module):
    """The base of the policies of pufferlib.models: it records the settings that its class is called with."""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """Records the arguments, with defaults for those that were left out."""
        module = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind_partial(None, *arguments, **keywords)
        except TypeError:  # a wrong call, as __init__ is about to say
            return module
        bound.apply_defaults()
        _note(module, {name: value for name, value in bound.arguments.items() if name not in _GIVEN})
        return module


def make_module(kind: type[nn.Module], *given: Any, **settings: Any) -> nn.Module:
    """Makes a policy or a recurrent layer of any class, and records the settings."""
    module = kind(*given, **settings)
    if not isinstance(module, RecordsInitArgs):
        _note(module, settings)
    return module


def init_args(module: nn.Module) -> dict[str, Any] | None:
    """The settings that a policy or a recurrent layer was made with; None where they were not recorded."""
    return getattr(module, "_made_with", None)


def _note(module: nn.Module, settings: Mapping[str, Any]) -> None:
    object.__setattr__(module, "_made_with", dict(settings))  # nn.Module's own is not ready inside __new__
