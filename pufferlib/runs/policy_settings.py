"""How a policy was made, so that the folder of a run can say how to make it again."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from torch import nn
from typing_extensions import Self

from pufferlib.config.classes import policy_class_name, recurrent_name

_GIVEN = ("self", "env", "policy")  # arguments that are no settings


class Remembering(nn.Module):
    """The base of the policies here: it notes the settings that its class is called with."""

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """Notes the arguments, the defaults of those that were left out among them."""
        module = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind_partial(None, *arguments, **keywords)
        except TypeError:  # a wrong call, as __init__ is about to say
            return module
        bound.apply_defaults()
        remember(module, {name: value for name, value in bound.arguments.items() if name not in _GIVEN})
        return module


def make_module(kind: type[nn.Module], *given: Any, **settings: Any) -> nn.Module:
    """Makes a policy or a recurrent layer of any class, and notes the settings."""
    module = kind(*given, **settings)
    if not isinstance(module, Remembering):
        remember(module, settings)
    return module


def remember(module: nn.Module, settings: Mapping[str, Any]) -> None:
    """Notes what a policy or a recurrent layer was made with."""
    object.__setattr__(module, "_made_with", dict(settings))  # nn.Module's own is not ready inside __new__


def policy_settings(policy: nn.Module, env_name: str) -> dict[str, Any] | None:
    """The settings by which `load_policy` makes a policy like this one.

    Args:
        policy: may see normalised observations.
        env_name: the environment, which may have policies of its own.

    Returns:
        `policy_name`, `rnn_name`, and the sections `policy` and `rnn`; None for a policy of the user's own class.
    """
    policy, rnn_name, rnn = unwrapped(policy), None, {}
    layer_name = recurrent_name(env_name, type(policy))
    if layer_name is not None:
        rnn_name, rnn, policy = layer_name, _made_with(policy), policy.policy
    policy_name, settings = policy_class_name(env_name, type(policy)), _made_with(policy)
    if policy_name is None or settings is None or rnn is None:
        return None
    return {"policy_name": policy_name, "rnn_name": rnn_name, "policy": settings, "rnn": rnn}


def class_text(policy: nn.Module) -> str:
    """The class of a policy, such as `my_module.MyPolicy`."""
    kind = type(unwrapped(policy))
    return f"{kind.__module__}.{kind.__qualname__}"


def unwrapped(policy: nn.Module) -> nn.Module:
    """A policy without what the trainer puts around it."""
    from pufferlib.ppo.normalization import NormalizedObservations

    return policy.policy if isinstance(policy, NormalizedObservations) else policy


def _made_with(module: nn.Module) -> dict[str, Any] | None:
    """The settings that were noted, as a file has them."""
    return json.loads(json.dumps(getattr(module, "_made_with", None), default=str))
