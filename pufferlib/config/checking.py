"""The check of a whole configuration: `check_config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pufferlib.config.dimensions import check_dimensions
from pufferlib.config.environments import check_env
from pufferlib.config.policies import policy_arguments, policy_classes
from pufferlib.config.schema import BaseConfig, LogConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.config.sections import require_sections
from pufferlib.families.catalog import find


def check_config(args: Mapping[str, Any]) -> None:
    """Checks every setting, those of the environment's and the policy's classes included.

    It imports torch, for the policy's class.

    Raises:
        ConfigError: naming the first setting that is unknown, of the wrong type or out of bounds.
        UnknownEnvironmentError: if there is no such environment.
    """
    base = {name: value for name, value in args.items() if not isinstance(value, Mapping)}
    require_sections(args)
    BaseConfig.from_dict(base)
    VecConfig.from_dict(args["vec"])
    TrainConfig.from_dict(args["train"])
    LogConfig.from_dict(args.get("log", {}))
    sweep = args.get("sweep", {})
    SweepConfig.from_dict(sweep)
    entry = find(args["env_name"])
    check_dimensions(sweep, entry)
    check_env(entry, args["env"])
    policy_class, rnn_class = policy_classes(args)
    policy_arguments(args, "policy", policy_class)
    if rnn_class is not None:
        policy_arguments(args, "rnn", rnn_class)
