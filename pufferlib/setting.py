"""One setting of a configuration: its name, type, default and bounds, and the values that it takes from text."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

from pufferlib.errors import ConfigError, nearest

_WORDS = {"none": None, "true": True, "false": False}
_NAMES = {int: "an integer", float: "a number", bool: "True or False", str: "text", type: "a class", type(None): "None"}
_UNIONS = (Union, types.UnionType)
_PLAIN = (int, float, bool, str, type(None), Any)
_NOT_SETTINGS = {"self", "buf", "seed", "env", "policy"}  # arguments that the vectorization and the trainer fill in


def parse_value(text: str) -> Any:
    """Returns the Python value of a text whose type is not known.

    `None`, `True` and `False` are taken in any case, as are integers such as `1_000_000` and `1e6`, floats, lists and
    tuples in brackets, and text in quotes. Everything else is the text itself.
    """
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        if text[:1] in ("[", "(", "'", '"'):
            return ast.literal_eval(text)
        return int(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # the last two where it is nested deeply
        pass
    try:
        value = float(text)
    except ValueError:
        return text
    is_count = "." not in text and value.is_integer() and abs(value) < 2**63  # 1e6 counts things, 1.0 measures them
    return int(value) if is_count else value


def format_value(value: object) -> str:
    """Returns a value as an ini holds it; `parse_value` reads it back."""
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def fits(value: object, kind: object) -> bool:
    """Whether `convert` accepts the value."""
    try:
        convert(value, kind)
    except ValueError:
        return False
    return True


def convert(value: object, kind: object) -> Any:
    """Returns the value as the type that an annotation names; ValueError if it does not fit.

    The annotation is a class, `Any`, a union, a `Literal`, or a `list[...]` or `tuple[..., ...]` of them. An integer is
    a number, 1e6 is an integer, a path is text; a bool is only a bool. A name that is one of several may be written in
    small or large letters.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in _UNIONS:
        for option in sorted(arguments, key=lambda option: option is not type(value)):  # an integer is a number, too
            with contextlib.suppress(ValueError):
                return convert(value, option)
    elif origin is Literal:
        alike = [each for each in arguments if type(value) is type(each) and value == each]
        if isinstance(value, str):
            alike += [each for each in arguments if isinstance(each, str) and value.casefold() == each.casefold()]
        if alike:
            return alike[0]
    elif origin in (list, tuple):
        if isinstance(value, (list, tuple)):
            kinds = itertools.repeat(arguments[0], len(value)) if _is_alike(kind) else arguments
            return origin(convert(item, each) for item, each in zip(value, kinds, strict=True))
    elif kind in (int, float):
        if isinstance(value, numbers.Real) and not isinstance(value, bool):
            try:
                number = kind(value)
            except OverflowError as error:  # infinity as an integer, or an integer of more than 308 digits as a float
                raise ValueError from error
            if kind is float or number == value:
                return number
    elif kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    elif isinstance(value, kind):
        return value
    raise ValueError


def _is_alike(kind: object) -> bool:  # whether all items of a list or tuple have one type
    return len({*get_args(kind)} - {Ellipsis}) == 1


def describe(kind: object, bounds: str = "") -> str:
    """Names the values of a type in an error message, such as `an integer in [1, inf) or 'auto'`.

    The bounds are written after each kind of number.
    """
    *names, last = _alternatives(kind, bounds)
    return " or ".join(filter(None, [", ".join(names), last]))


def _alternatives(kind: object, bounds: str) -> list[str]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        return [name for option in arguments for name in _alternatives(option, bounds)]
    if origin is Literal:
        return [repr(choice) for choice in arguments]
    if origin in (list, tuple):
        if not _is_alike(kind):
            return [f"a tuple of {len(arguments)} items, {', '.join(map(describe, arguments))}"]
        return [f"a {origin.__name__} of which each item is {describe(arguments[0])}"]
    return [_NAMES.get(kind, "any value") + (bounds if kind in (int, float) else "")]


def choices(kind: object) -> tuple[str, ...]:
    """Returns the texts that a type allows by name, empty when it allows none."""
    if get_origin(kind) in _UNIONS:
        return tuple(choice for option in get_args(kind) for choice in choices(option))
    return tuple(each for each in get_args(kind) if isinstance(each, str)) if get_origin(kind) is Literal else ()


def shown(value: object) -> str:
    """Returns a value as an error message shows it, not longer than a line or two."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or a list of as many levels
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= 200 else f"{text[:100]}...{text[-20:]}"


FINITE = "(-inf, inf)"


def is_within(value: float, interval: str) -> bool:
    """Whether an interval holds a number: `[0, 1)` holds 0 but not 1, `(0, inf]` holds infinity."""
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    is_above = value >= low if interval[0] == "[" else value > low
    return is_above and (value <= high if interval[-1] == "]" else value < high)


@dataclass(frozen=True)
class Setting:
    """One key of one section."""

    section: str
    name: str
    kind: Any = Any  # a type annotation
    default: Any = None
    meaning: str = ""  # one or two sentences
    within: str = FINITE  # the interval of a number

    @property
    def label(self) -> str:
        """Its name in error messages: `[train] gamma`."""
        return f"[{self.section}] {self.name}" if self.section else self.name

    @property
    def flag(self) -> str:
        """Its flag on the command line: `--train.learning-rate`, or `--rnn-name` for a key of `[base]`."""
        prefix = f"{self.section}." if self.section not in ("", "base") else ""
        return f"--{prefix}{self.name}".replace("_", "-")

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        return describe(self.kind, f" in {self.within}" if self.within != FINITE else "")

    def parse(self, text: str) -> Any:
        """Returns the checked value of a text from a file or the command line; see `check`.

        A setting that wants text gets it even where the text looks like a number, and one without a type whose default
        is a bool no text. A path from `~/` on is one of the home folder: a shell leaves it as it is in `--output=~/x`.
        """
        value = parse_value(os.path.expanduser(text) if text.startswith("~/") else text)
        if self.kind is Any and isinstance(self.default, bool) and isinstance(value, str):  # which is true, even "no"
            raise ConfigError(f"{self.label} must be True or False, got {shown(value)}")
        return self.check(text if not fits(value, self.kind) and fits(text, self.kind) else value)

    def check(self, value: object) -> Any:
        """Returns the value, converted to the setting's type; ConfigError if it does not fit or is out of bounds."""
        try:
            converted = convert(value, self.kind)
        except ValueError as error:
            text = value if isinstance(value, str) else shown(value)
            remedy = nearest(value, choices(self.kind)) if isinstance(value, str) else ""
            if fits(parse_value(f"[{text}]"), self.kind):
                remedy = f"; write {f'[{text}]'!r}"
            raise ConfigError(f"{self.label} must be {self.allowed}, got {shown(value)}{remedy}") from error
        is_number = isinstance(converted, numbers.Real) and not isinstance(converted, bool)
        if is_number and not is_within(converted, self.within):
            expected = "finite" if self.within == FINITE else self.allowed
            raise ConfigError(f"{self.label} must be {expected}, got {shown(value)}")
        if isinstance(converted, int) and converted.bit_length() > 63:  # what C and torch take
            raise ConfigError(f"{self.label} must be {self.allowed}, and of at most 63 bits, got {shown(value)}")
        return converted


def setting(default: object, meaning: str, within: str = FINITE) -> Any:
    """Declares a dataclass field that is a setting; its annotation is the setting's type.

    The meaning is one or two sentences, unit included, which the command line's help prints. `within` is the interval
    of a number, such as `[0, 1)`.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "within": within})


@dataclass(frozen=True)
class Section:
    """The base of the dataclasses whose fields are settings: checked when made, never edited after."""

    section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str | None = None):
        if section is not None:
            cls.section = section

    def __post_init__(self):
        for name, declared in self.settings().items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @classmethod
    @functools.cache
    def settings(cls) -> Mapping[str, Setting]:
        """Returns the fields by name, in the order in which they are declared."""
        kinds = typing.get_type_hints(cls)
        return {
            field.name: Setting(cls.section, field.name, kinds[field.name], field.default, **field.metadata)
            for field in dataclasses.fields(cls)
        }


def class_settings(section: str, cls: type) -> dict[str, Setting]:
    """Returns the keyword arguments of a class, an environment or a policy, that a section sets."""
    return keyword_settings(cls, section=section)[0]


def keyword_settings(
    creator: Callable, presets: Mapping[str, Any] | None = None, section: str = "env"
) -> tuple[dict[str, Setting], bool]:
    """Returns the keyword arguments of a class or function as settings of a section, and whether it may take others.

    Where a class hands `**kwargs` on, the arguments of its base class count too. It may take others where it has
    `**kwargs` and does not tell which.
    """
    functions = [(creator, creator)]
    if isinstance(creator, type):
        owners = [owner for owner in creator.__mro__ if owner is not object and "__init__" in vars(owner)]
        functions = [(owner, owner.__init__) for owner in owners]
    found: dict[str, Setting] = {}
    is_open = False
    for owner, function in functions:
        own = signature_settings(section, function, presets, documented=owner)
        passes_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in _parameters(function))
        if is_open and not own and not passes_on:
            break  # the keywords cannot go there, so it is not known where they go
        found |= {name: one for name, one in own.items() if name not in found}
        is_open = passes_on
        if not is_open:
            break
    return found, is_open


def signature_settings(
    section: str, function: Callable, presets: Mapping[str, Any] | None = None, documented: object = None
) -> dict[str, Setting]:
    """Returns the keyword arguments of one function that a section of the configuration sets.

    `buf`, `seed`, `env` and `policy` are not settings, nor is an argument without a default or a `presets` value in its
    place. An annotation that is made of numbers, text, lists and tuples is checked; every other one is for the function
    to check. `documented` is what else has an `Args:` in its docstring, such as the function's class.
    """
    try:
        kinds = typing.get_type_hints(function)
    except (NameError, AttributeError, TypeError):  # a name that only type checkers import, or no type at all
        kinds = {}  # no type checks, but the names are known
    meanings = {**_argument_meanings(documented), **_argument_meanings(function)}
    found = {}
    for parameter in _parameters(function):
        name, default = parameter.name, (presets or {}).get(parameter.name, parameter.default)
        if name not in _NOT_SETTINGS and default is not parameter.empty:
            kind = kinds.get(name, Any)
            within = "[-inf, inf]" if isinstance(default, float) and math.isinf(default) else FINITE
            plain = kind if _is_plain(kind) else Any
            found[name] = Setting(section, name, plain, default, meanings.get(name, ""), within)
    return found


def _parameters(function: Callable) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell, so it may take any
        return [inspect.Parameter("keywords", inspect.Parameter.VAR_KEYWORD)]


def _is_plain(kind: object) -> bool:
    if get_origin(kind) in (*_UNIONS, list, tuple):
        return bool(get_args(kind)) and all(_is_plain(part) for part in get_args(kind) if part is not Ellipsis)
    return kind in _PLAIN or get_origin(kind) is Literal


def _argument_meanings(documented: object) -> dict[str, str]:
    _, _, after = (inspect.getdoc(documented) or "").partition("\nArgs:\n")
    arguments = re.match(r"(?: {4}.*\n?)*", after)[0]
    texts = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return {name: text[:1].upper() + re.sub(r"\s*\n\s*", " ", text[1:]) for name, text in texts}
