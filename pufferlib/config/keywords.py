"""The settings that a function takes, by the names of its keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pufferlib.errors import APIUsageError


def settings_taken(function: Callable, settings: Mapping[str, Any], default: Callable) -> dict[str, Any]:
    """The settings that a function names as its keywords, but for those that a functools.partial has bound.

    Args:
        function: of which only what comes after a `*` is looked at.
        settings: by name.
        default: whose settings a function with `**kwargs` gets.

    Raises:
        APIUsageError: if it takes a keyword that is no setting and has no default.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        taken = settings_taken(default, settings, default)
    else:
        keywords = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        _require_known(keywords, settings)
        taken = {each.name: settings[each.name] for each in keywords if each.name in settings}
    return {name: value for name, value in taken.items() if name not in getattr(function, "keywords", {})}


def _require_known(keywords: list[inspect.Parameter], settings: Mapping[str, Any]) -> None:
    for parameter in keywords:
        if parameter.name not in settings and parameter.default is parameter.empty:
            raise APIUsageError(
                f"the keywords of a loss must be [train] settings or have defaults, got {parameter.name!r}; "
                "add it to config/schema.py, or bind it by functools.partial"
            )
