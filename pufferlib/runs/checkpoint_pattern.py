"""Compares what a checkpoint holds with what a trainer would have saved, before anything of it is used.

A file may be damaged, edited, or of a trainer with other settings, and kernels and environments trust what they are
given. `compare` takes an expected value of the same structure, whose leaves are:

- a tensor, for one of its dtype and shape in memory;
- `int` for a count, `float` for a finite number, another type for itself;
- a function of what was found and its place that raises Mismatch;
- any other plain value, for an equal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any, str], None]

MAX_COUNT = 2**53  # a float64, as JSON and loggers have it, still tells it from the next one


class Mismatch(Exception):
    """A value differs from the expected one; the message has the place, the expected and the found value."""


def compare(found: Any, expected: Any, place: str) -> None:
    """Compares what was loaded with what is expected, see the top of this file; `place` is for messages.

    Raises:
        Mismatch: at the first difference.
    """
    if isinstance(expected, Tensor):
        require(_is_like(found, expected), place, describe(expected), found)
    elif isinstance(expected, dict):
        require(type(found) is dict, place, f"a dict of {_join(expected)}", found)
        for name in (*expected, *found):
            require(name in found, place, f"a dict with {name!r}", found)
            require(name in expected, place, f"a dict without {name!r}, only of {_join(expected) or 'nothing'}", found)
        for name, part in expected.items():
            compare(found[name], part, f"{place}[{name!r}]")
    elif isinstance(expected, list):
        require(type(found) is list and len(found) == len(expected), place, f"a list of {len(expected)}", found)
        for index, part in enumerate(expected):
            compare(found[index], part, f"{place}[{index}]")
    elif expected is int:
        require(type(found) is int and 0 <= found <= MAX_COUNT, place, "an integer of at least 0", found)
    elif expected is float:
        finite()(found, place)
    elif isinstance(expected, type):
        require(type(found) is expected, place, f"a {expected.__name__}", found)
    elif callable(expected):
        expected(found, place)
    else:
        require(type(found) is type(expected) and found == expected, place, repr(expected), found)


def require(is_met: bool, place: str, expected: str, found: Any) -> None:
    """Raises Mismatch unless the condition is met."""
    if not is_met:
        raise Mismatch(f"{place} must be {expected}, got {describe(found)}")


def finite(low: float = -math.inf, high: float = math.inf) -> Check:
    """Expects a finite number in a range."""

    def check(found: Any, place: str) -> None:
        is_number = type(found) in (int, float) and abs(found) <= 1e300  # false for NaN
        words = "" if low == -math.inf else f" from {low:g} to {high:g}"
        require(is_number and low <= found <= high, place, f"a finite number{words}", found)

    return check


def any_number(found: Any, place: str) -> None:
    """Expects a number; an environment or a formula may have made it infinite or NaN."""
    require(type(found) is float or (type(found) is int and abs(found) <= MAX_COUNT), place, "a number", found)


def dict_of(expected: Any) -> Check:
    """Expects a dict from text to values like the expected one."""

    def check(found: Any, place: str) -> None:
        require(type(found) is dict and all(type(name) is str for name in found), place, "a dict of names", found)
        compare(found, dict.fromkeys(found, expected), place)

    return check


def optional(expected: Any, absent: Any = None) -> Check:
    """Expects a value like the expected one, or `absent`."""

    def check(found: Any, place: str) -> None:
        if type(found) is not type(absent) or found != absent:
            compare(found, expected, place)

    return check


def describe(found: Any) -> str:
    """Describes a value in a few words."""
    if isinstance(found, Tensor):
        layout = "" if found.layout is torch.strided else f" {str(found.layout).removeprefix('torch.')}"
        return f"{str(found.dtype).removeprefix('torch.')} of shape {tuple(found.shape)}{layout}"
    if isinstance(found, dict):
        return f"a dict of {_join(found)}" if found else "an empty dict"
    if isinstance(found, (list, tuple)):
        return f"a {type(found).__name__} of {len(found)}"
    if found is None or isinstance(found, (bool, int, float, str)):
        words = repr(found)
        return words if len(words) <= 60 else f"{words[:57]}..."
    return type(found).__name__


def _is_like(found: Any, expected: Tensor) -> bool:
    return (
        isinstance(found, Tensor)
        and found.layout is torch.strided
        and found.device.type == "cpu"
        and not found.requires_grad
        and (found.dtype, found.shape) == (expected.dtype, expected.shape)
        and not found.is_conj()
        and not found.is_neg()
    )


def _join(names: Iterable[object]) -> str:
    words = [str(name)[:60] for name in names]
    return ", ".join(words[:4] + ["..."] * (len(words) > 4))
