"""Text to Python values, and Python values to the type a setting declares."""

from __future__ import annotations

import ast
import numbers
import os
import types
from typing import Any, Literal, Union, get_args, get_origin

_WORDS = {"none": None, "true": True, "false": False}
_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "text", type: "a class"}


def parse_value(text: str) -> Any:
    """The Python value that a piece of text stands for when nothing is known about its type.

    `None`, `True` and `False` in any case; integers such as `42`, `1_000_000` and `1e6`; floats; lists and tuples in
    brackets; text in quotes. Everything else is the text itself.
    """
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text[:1] in ("[", "(", "'", '"'):
        return _parse_literal(text)
    try:
        return int(text)
    except ValueError:
        return _parse_float(text)


def format_value(value: object) -> str:
    """A value as an ini holds it; `parse_value` reads it back."""
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def parse_as(text: str, kind: object) -> Any:
    """The value of a setting of one type; one that wants text gets it even where the text looks like a number.

    Args:
        text: what the file or the command line holds.
        kind: a type annotation.

    Returns:
        A value that may still not fit `kind`; `convert` decides.
    """
    value = parse_value(text)
    return text if not fits(value, kind) and fits(text, kind) else value


def fits(value: object, kind: object) -> bool:
    """Whether `convert` accepts the value."""
    try:
        convert(value, kind)
    except ValueError:
        return False
    return True


def convert(value: object, kind: object) -> Any:
    """The value as the type that an annotation names.

    An integer is a number, 1e6 is an integer, a path is text; a bool is only a bool. A name that is one of several may
    be written in small or large letters.

    Args:
        value: any Python value.
        kind: a class, `Any`, a union, a `Literal`, or a `list[...]` or `tuple[..., ...]` of them.

    Raises:
        ValueError: if the value does not fit.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_to_first(value, get_args(kind))
    if origin is Literal:
        return _choice(value, get_args(kind))
    if origin in (list, tuple):
        if not isinstance(value, (list, tuple)):
            raise ValueError
        return origin(convert(item, get_args(kind)[0]) for item in value)
    return _convert_to_class(value, kind)


def describe(kind: object, bounds: str = "") -> str:
    """Names the values of a type in an error message, such as `an integer in [1, inf) or 'auto'`.

    Args:
        kind: a type annotation.
        bounds: what to write after each kind of number.
    """
    names = _alternatives(kind)
    return join_or([name + bounds if name in (_NAMES[int], _NAMES[float]) else name for name in names])


def shown(value: object) -> str:
    """A value as an error message shows it, not longer than a line or two."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "a number of thousands of digits"
    except RecursionError:
        return f"a {type(value).__name__} of many levels"
    return text if len(text) <= 200 else f"{text[:100]}...{text[-20:]}"


def choices(kind: object) -> tuple[str, ...]:
    """The texts that a type allows by name, empty when it allows none."""
    if get_origin(kind) is Literal:
        return tuple(choice for choice in get_args(kind) if isinstance(choice, str))
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(choice for option in get_args(kind) for choice in choices(option))
    return ()


def join_or(words: list[str]) -> str:
    """Writes `a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _parse_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # the last two where it is nested deeply
        return text


def _parse_float(text: str) -> Any:
    try:
        value = float(text)
    except ValueError:
        return text
    is_whole = "." not in text and value.is_integer()  # 1e6 counts things, 1.0 measures them
    return int(value) if is_whole else value


def _choice(value: object, allowed: tuple) -> Any:
    for choice in allowed:
        if type(value) is type(choice) and value == choice:
            return choice
    for choice in allowed:
        if isinstance(value, str) and isinstance(choice, str) and value.casefold() == choice.casefold():
            return choice
    raise ValueError


def _convert_to_first(value: object, kinds: tuple) -> Any:
    for kind in kinds:
        if fits(value, kind):
            return convert(value, kind)
    raise ValueError


def _convert_to_class(value: object, kind: type) -> Any:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is int and is_number and (isinstance(value, numbers.Integral) or _to_float(value).is_integer()):
        return int(value)
    if kind is float and is_number:
        return _to_float(value)
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if kind not in (int, float) and isinstance(value, kind):
        return value
    raise ValueError


def _to_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError as error:  # an integer or fraction of more than 308 digits
        raise ValueError from error


def _alternatives(kind: object) -> list[str]:
    if get_origin(kind) in (Union, types.UnionType):
        return [name for option in get_args(kind) for name in _alternatives(option)]
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    if get_origin(kind) in (list, tuple):
        return [f"a {get_origin(kind).__name__} of which each item is {describe(get_args(kind)[0])}"]
    if kind is type(None):
        return ["None"]
    return [_NAMES.get(kind, getattr(kind, "__name__", str(kind)))]
