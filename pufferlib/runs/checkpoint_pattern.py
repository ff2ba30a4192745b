"""What a checkpoint must look like, leaf by leaf: it is compared before anything in it is used.

A file may be damaged, edited, or of a trainer with other settings, and kernels and environments take what they are
given. A pattern has the structure of what it describes, and these leaves:

- a tensor: one of its dtype and shape, with numbers in memory or, on torch's `meta` device, yet to be read;
- a function of what was found and its place, which raises Mismatch, such as `count` and those that `number`,
  `numbers_by_name`, `each`, `maybe` and `exactly` return.

A dict must have exactly the keys of the pattern's, a list its length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any, str], None]
Pattern = Tensor | dict | list | Check

MOST = 2**53
"""The largest count: a float64, as JSON and loggers have it, still tells it from the next one."""

LONGEST = 1e10
"""Seconds; three centuries."""


class Mismatch(Exception):
    """What was found differs from its pattern; the message has the place, what must be there, and what is."""


def check(found: Any, pattern: Pattern, place: str) -> None:
    """Compares what was loaded with a pattern.

    Args:
        found: what `checkpoint.load` returned, or a part of it.
        pattern: see the top of this file.
        place: what messages call it.

    Raises:
        Mismatch: at the first difference.
    """
    if isinstance(pattern, Tensor):
        _check_tensor(found, pattern, place)
    elif isinstance(pattern, dict):
        _check_keys(found, pattern, place)
        for key, part in pattern.items():
            check(found[key], part, f"{place}[{key!r}]")
    elif isinstance(pattern, list):
        demand(type(found) is list and len(found) == len(pattern), place, f"a list of {len(pattern)}", found)
        for index, part in enumerate(pattern):
            check(found[index], part, f"{place}[{index}]")
    else:
        pattern(found, place)


def demand(is_met: bool, place: str, expected: str, found: Any) -> None:
    """Raises Mismatch unless the condition is met."""
    if not is_met:
        raise Mismatch(f"{place} must be {expected}, got {describe(found)}")


def describe(found: Any) -> str:
    """A few words on something that was found."""
    if isinstance(found, Tensor):
        layout = "" if found.layout is torch.strided else f" {str(found.layout).removeprefix('torch.')}"
        return f"{_dtype_name(found)} of shape {tuple(found.shape)}{layout}"
    if isinstance(found, dict):
        return f"a dict of {_join(found)}" if found else "an empty dict"
    if isinstance(found, (list, tuple)):
        return f"a {type(found).__name__} of {len(found)}"
    if found is None or isinstance(found, (bool, int, float, str)):
        words = repr(found)
        return words if len(words) <= 60 else f"{words[:57]}..."
    return type(found).__name__


def _check_tensor(found: Any, expected: Tensor, place: str) -> None:
    fits = (
        isinstance(found, Tensor)
        and found.layout is torch.strided
        and found.device.type in ("cpu", "meta")
        and not found.requires_grad
        and found.dtype == expected.dtype
        and found.shape == expected.shape
        and not found.is_conj()
        and not found.is_neg()
    )
    demand(fits, place, describe(expected), found)


def _check_keys(found: Any, pattern: Mapping[str, Pattern], place: str) -> None:
    demand(type(found) is dict, place, f"a dict of {_join(pattern)}", found)
    missing = [name for name in pattern if name not in found]
    if missing:
        raise Mismatch(f"{place} must have {missing[0]!r}, got {describe(found)}")
    extra = [name for name in found if name not in pattern]
    if extra:
        raise Mismatch(f"{place} must have no {extra[0]!r}, only {_join(pattern) or 'nothing'}")


def like(state: Any) -> Pattern:
    """The pattern of a state whose tensors, keys and lengths are always the same."""
    if isinstance(state, dict):
        return {name: like(part) for name, part in state.items()}
    if isinstance(state, list):
        return [like(part) for part in state]
    if isinstance(state, Tensor):
        return state
    if type(state) is int:
        return count
    return number() if type(state) is float else exactly(state)


def text(found: Any, place: str) -> None:
    """A string."""
    demand(type(found) is str, place, "text", found)


def count(found: Any, place: str) -> None:
    """An integer of at least 0."""
    demand(type(found) is int and 0 <= found <= MOST, place, "an integer of at least 0", found)


def number(least: float = -math.inf, most: float = math.inf) -> Check:
    """A finite number of a range."""

    def check_number(found: Any, place: str) -> None:
        is_number = type(found) in (int, float) and abs(found) <= 1e300  # NaN is not, either
        demand(is_number and least <= found <= most, place, f"a finite number{_range(least, most)}", found)

    return check_number


seconds = number(0.0, LONGEST)


def any_number(found: Any, place: str) -> None:
    """A number, infinite or none at all where an environment or a formula had it so."""
    is_number = type(found) is float or (type(found) is int and abs(found) <= MOST)
    demand(is_number, place, "a number", found)


def numbers_by_name(found: Any, place: str) -> None:
    """A dict from names to any numbers."""
    demand(type(found) is dict, place, "a dict of numbers", found)
    for name, value in found.items():
        text(name, f"a name in {place}")
        any_number(value, f"{place}[{name!r}]")


def exactly(value: Any) -> Check:
    """A certain plain value."""

    def check_value(found: Any, place: str) -> None:
        demand(type(found) is type(value) and found == value, place, repr(value), found)

    return check_value


def each(pattern: Pattern, least: int = 0) -> Check:
    """A list of at least so many, of one pattern."""

    def check_each(found: Any, place: str) -> None:
        demand(type(found) is list and len(found) >= least, place, f"a list of at least {least}", found)
        for index, part in enumerate(found):
            check(part, pattern, f"{place}[{index}]")

    return check_each


def maybe(pattern: Pattern, absent: Any = None) -> Check:
    """What the pattern describes, or a plain value or empty dict that says there is none."""

    def check_maybe(found: Any, place: str) -> None:
        if type(found) is not type(absent) or found != absent:
            check(found, pattern, place)

    return check_maybe


def _range(least: float, most: float) -> str:
    if least == -math.inf:
        return ""
    return f" of at least {least:g}" if most == math.inf else f" from {least:g} to {most:g}"


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _join(names: Any) -> str:
    words = [str(name) for name in names]
    return ", ".join(words[:4] + ["..."] * (len(words) > 4))
