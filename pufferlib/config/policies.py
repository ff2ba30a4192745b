"""The classes behind a policy's and a recurrent layer's name, and what `[policy]` and `[rnn]` hold: their arguments.

torch is imported only when a class is looked up.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pufferlib.config.loading import load_config
from pufferlib.config.schema import BaseConfig
from pufferlib.errors import ConfigError
from pufferlib.families import catalog
from pufferlib.settings.setting import check_arguments, class_settings

_WRAPPER = "Wrapper"  # the recurrent layer LSTM is the class LSTMWrapper


def policy_classes(args: Mapping[str, Any]) -> tuple[type, type | None]:
    """The policy's class, and that of the recurrent layer around it or None.

    Both are looked for in an Ocean environment's own `torch.py`, where it has one, then in `pufferlib.models`.

    Args:
        args: the nested dict of `load_config`; `env_name`, `policy_name` and `rnn_name` count.

    Raises:
        ConfigError: if there is no class of that name.
    """
    modules = _policy_modules(args["env_name"])
    rnn_name = args["rnn_name"]
    rnn_class = None if rnn_name is None else _find(modules, "rnn_name", rnn_name, _WRAPPER)
    return _find(modules, "policy_name", args["policy_name"], ""), rnn_class


def policy_class_name(env_name: str, kind: type) -> str | None:
    """The `policy_name` by which `policy_classes` finds a class, None where it finds none or another one."""
    for module in _policy_modules(env_name):
        found = vars(module).get(kind.__name__)
        if isinstance(found, type):
            return kind.__name__ if found is kind else None
    return None


def recurrent_name(env_name: str, kind: type) -> str | None:
    """The `rnn_name` by which `policy_classes` finds a class, None where it finds none or another one."""
    is_found = kind.__name__.endswith(_WRAPPER) and policy_class_name(env_name, kind) is not None
    return kind.__name__.removesuffix(_WRAPPER) if is_found else None


def policy_arguments(args: Mapping[str, Any], section: str, cls: type) -> dict[str, Any]:
    """The keyword arguments of the policy's class, or of the recurrent layer's, converted to the types it declares.

    The environment's inis speak of the class that they name: where another one was chosen, what they say and it does
    not have is left out.

    Args:
        args: the nested dict of `load_config`.
        section: `policy` or `rnn`.
        cls: the class that `<section>_name` chose.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
    """
    given, known = dict(args[section]), class_settings(section, cls)
    if any(name not in known for name in given):
        preset = load_config(args["env_name"])
        if preset[f"{section}_name"] != args[f"{section}_name"]:
            strange = [name for name in given if name not in known and name in preset[section]]
            given = {name: given[name] for name in given if name not in strange or given[name] != preset[section][name]}
    return check_arguments(section, given, cls)


def _policy_modules(env_name: str) -> list[ModuleType]:
    entry = catalog.lookup(env_name) if isinstance(env_name, str) else None
    names = ("pufferlib.models",) if entry is None else entry.policy_modules
    return [importlib.import_module(name) for name in names]


def _find(modules: list[ModuleType], setting: str, name: str, suffix: str) -> type:
    names = [name for module in modules for name in _class_names(module, suffix)]
    alike = next((each for each in names if each.casefold() == name.casefold()), name)
    for module in modules:
        for candidate in (name, name + suffix, alike, alike + suffix):
            found = vars(module).get(candidate)
            if candidate.endswith(_WRAPPER) == bool(suffix) and isinstance(found, type):
                return found
    remedy = BaseConfig.settings()[setting].nearest(name, names) or f"; there are {', '.join(names)}"
    raise ConfigError(f"[base] {setting} must name a class, found no {name!r}{remedy}")


def _class_names(module: ModuleType, suffix: str) -> list[str]:
    # Those that the module defines itself; a suffix marks recurrent layers, which are no policies.
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    classes = [name for name in own if isinstance(vars(module)[name], type) and not name.startswith("_")]
    if suffix:
        return [name.removesuffix(suffix) for name in classes if name.endswith(suffix)]
    return [name for name in classes if not name.endswith(_WRAPPER)]
