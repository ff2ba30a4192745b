"""The settings from which a policy can be made again."""

from __future__ import annotations

import json
from typing import Any

from torch import nn

from pufferlib.config.policies import policy_class_name, recurrent_name
from pufferlib.policy import init_args
from pufferlib.policy.normalized import NormalizedObservations


def policy_settings(policy: nn.Module, env_name: str) -> dict[str, Any] | None:
    """Returns the settings by which `load_policy` makes a policy like this one.

    Returns:
        `policy_name`, `rnn_name`, and the sections `policy` and `rnn`; None for a policy of the user's own class.
    """
    policy, rnn_name, rnn = _without_statistics(policy), None, {}
    layer_name = recurrent_name(env_name, type(policy))
    if layer_name is not None:
        rnn_name, rnn, policy = layer_name, _made_with(policy), policy.policy
    policy_name, settings = policy_class_name(env_name, type(policy)), _made_with(policy)
    if policy_name is None or settings is None or rnn is None:
        return None
    return {"policy_name": policy_name, "rnn_name": rnn_name, "policy": settings, "rnn": rnn}


def class_text(policy: nn.Module) -> str:
    """Returns the class of a policy as text, such as `my_module.MyPolicy`."""
    kind = type(_without_statistics(policy))
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_statistics(policy: nn.Module) -> nn.Module:  # that the trainer puts around it
    return policy.policy if isinstance(policy, NormalizedObservations) else policy


def _made_with(module: nn.Module) -> dict[str, Any] | None:
    return json.loads(json.dumps(init_args(module), default=str))
