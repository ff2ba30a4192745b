"""The configuration: defaults, then the environment's ini, then what the user changes.

`load_config` returns a nested dict to edit freely; `check_config` and the dataclasses of `schema` check it.
"""

from pufferlib.config.configuration import check_config, load_config, policy_arguments, policy_classes, settings_taken
from pufferlib.config.schema import (
    BaseConfig,
    LogConfig,
    SelfplayConfig,
    SolveConfig,
    SweepConfig,
    TrainConfig,
    VecConfig,
)
from pufferlib.config.sections import check_env, env_settings, require_sections
from pufferlib.config.sizes import ResolvedTrainConfig, resolve_env_count, resolve_sizes

__all__ = [
    "BaseConfig",
    "LogConfig",
    "ResolvedTrainConfig",
    "SelfplayConfig",
    "SolveConfig",
    "SweepConfig",
    "TrainConfig",
    "VecConfig",
    "check_config",
    "check_env",
    "env_settings",
    "load_config",
    "policy_arguments",
    "policy_classes",
    "require_sections",
    "resolve_env_count",
    "resolve_sizes",
    "settings_taken",
]
