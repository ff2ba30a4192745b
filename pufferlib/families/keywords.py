"""The settings of environments that others wrote: what their signatures tell."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from pufferlib.settings.setting import Setting, signature_settings

_PLAIN = (int, float, bool, str, type(None), Any)


def keyword_settings(creator: Callable, presets: Mapping[str, Any] | None = None) -> tuple[dict[str, Setting], bool]:
    """The keyword arguments of a class or function as settings of `[env]`.

    Where a class hands `**kwargs` on, the arguments of its base class count too. An annotation that is made of numbers,
    text, lists and tuples is checked; every other one is for the environment to check.

    Args:
        creator: a class or a function.
        presets: values that replace defaults.

    Returns:
        The settings by name, and whether it may take other keywords too: it has `**kwargs` and does not tell which.
    """
    presets = presets or {}
    functions = _initializers(creator) if isinstance(creator, type) else [creator]
    found: dict[str, Setting] = {}
    is_open = False
    for function in functions:
        own = signature_settings("env", function, presets)
        if is_open and not own and not _passes_on(function):
            break  # the keywords cannot go there, so it is not known where they go
        for name, one in own.items():
            found.setdefault(name, dataclasses.replace(one, kind=one.kind if _is_plain(one.kind) else Any))
        is_open = _passes_on(function)
        if not is_open:
            break
    return found, is_open


def _initializers(cls: type) -> list[Callable]:
    return [vars(owner)["__init__"] for owner in cls.__mro__ if owner is not object and "__init__" in vars(owner)]


def _passes_on(function: Callable) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _is_plain(kind: object) -> bool:
    if get_origin(kind) in (Union, types.UnionType, list, tuple):
        return bool(get_args(kind)) and all(_is_plain(part) for part in get_args(kind) if part is not Ellipsis)
    return kind in _PLAIN or get_origin(kind) is Literal
