"""The section `[env]`: the keyword arguments of an environment, as its entry in the catalog has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pufferlib.config.sizes import AUTO_AGENTS, AUTO_AGENTS_CPU
from pufferlib.families.catalog import Entry, find
from pufferlib.settings.setting import Setting, require_known


def env_settings(env: str | Entry) -> Mapping[str, Setting]:
    """The keyword arguments of an environment, by name; `num_envs` may be 'auto' too.

    Raises:
        UnknownEnvironmentError: if there is no such environment.
        MissingExtraError: if a package that it needs is not installed.
    """
    found = dict(find(env).settings)
    if "num_envs" in found:
        count = found["num_envs"]
        agents = f"auto is {AUTO_AGENTS_CPU} agents in all on a CPU and {AUTO_AGENTS['cuda']} on CUDA."
        found["num_envs"] = dataclasses.replace(count, kind=int | Literal["auto"], meaning=f"{count.meaning} {agents}")
    return MappingProxyType(found)


def check_env(env: str | Entry, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of an environment, converted to the types of its settings.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
        UnknownEnvironmentError: if there is no such environment.
    """
    entry = find(env)
    known = env_settings(entry)
    if not entry.takes_any_setting:
        require_known("env", arguments, known)
    return {name: known[name].check(value) if name in known else value for name, value in arguments.items()}
