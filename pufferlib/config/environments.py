"""What `[env]` holds: the keyword arguments of an environment, as the catalog of families tells them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pufferlib.config.sizes import AUTO_AGENTS, AUTO_AGENTS_CPU
from pufferlib.families import catalog
from pufferlib.settings.setting import Setting, require_known


def env_settings(env_name: str) -> Mapping[str, Setting]:
    """The keyword arguments of an environment, by name; `num_envs` may be 'auto' too.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if what it needs is not installed.
    """
    found = dict(catalog.find(env_name).settings)
    if "num_envs" in found:
        count = found["num_envs"]
        agents = f"auto is {AUTO_AGENTS_CPU} agents in all on a CPU and {AUTO_AGENTS['cuda']} on CUDA."
        found["num_envs"] = dataclasses.replace(count, kind=int | Literal["auto"], meaning=f"{count.meaning} {agents}")
    return MappingProxyType(found)


def check_env(env_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of an environment, converted to the types of its settings.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
        UnknownEnvironmentError: if there is no such environment.
    """
    known = env_settings(env_name)
    if not takes_any_setting(env_name):
        require_known("env", arguments, known)
    return {name: known[name].check(value) if name in known else value for name, value in arguments.items()}


def takes_any_setting(env_name: str) -> bool:
    """Whether an environment accepts keywords that `env_settings` does not list."""
    return catalog.find(env_name).takes_any_setting
