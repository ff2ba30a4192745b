"""What one setting is: its name, type, default, bounds and meaning, and the check that follows from them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import numbers
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from typing_extensions import Self

from pufferlib.errors import ConfigError, nearest
from pufferlib.settings import values

_NOT_SETTINGS = {"self", "buf", "seed", "env", "policy"}  # arguments that the vectorization and the trainer fill in


@dataclass(frozen=True)
class Interval:
    """A range of numbers as mathematics writes it: `[0, 1)` holds 0 but not 1, `(0, inf]` holds infinity."""

    text: str

    def __contains__(self, value: float) -> bool:
        low, high = (float(bound) for bound in self.text[1:-1].split(","))
        is_above = value >= low if self.text[0] == "[" else value > low
        is_below = value <= high if self.text[-1] == "]" else value < high
        return is_above and is_below


@dataclass(frozen=True)
class Setting:
    """One key of one section."""

    section: str
    name: str
    kind: Any  # a type annotation
    default: Any
    meaning: str = ""  # one or two sentences
    within: Interval = Interval("(-inf, inf)")  # finite, unless a setting says otherwise
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)  # earlier values, and those to take now

    @property
    def label(self) -> str:
        """How error messages call it: `[train] gamma`."""
        return f"[{self.section}] {self.name}" if self.section else self.name

    @property
    def flag(self) -> str:
        """How the command line calls it: `--train.learning-rate`, or `--rnn-name` for a key of `[base]`."""
        prefix = f"{self.section}." if self.section not in ("", "base") else ""
        return f"--{prefix}{self.name}".replace("_", "-")

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        return values.describe(self.kind, f" in {self.within.text}" if self._has_bounds else "")

    @property
    def _has_bounds(self) -> bool:
        return self.within.text != "(-inf, inf)"

    def parse(self, text: str) -> Any:
        """The checked value of a text from a file or the command line.

        Raises:
            ConfigError: if the text is not a value of this setting.
        """
        return self.check(values.parse_as(text, self.kind))

    def check(self, value: object) -> Any:
        """The value, converted to the setting's type.

        Raises:
            ConfigError: if the type is wrong or the number out of bounds.
        """
        try:
            converted = values.convert(value, self.kind)
        except ValueError as error:
            found = f"got {values.shown(value)}{self._remedy(value)}"
            raise ConfigError(f"{self.label} must be {self.allowed}, {found}") from error
        is_number = isinstance(converted, numbers.Real) and not isinstance(converted, bool)
        if is_number and converted not in self.within:
            expected = self.allowed if self._has_bounds else "finite"  # the only numbers that lie in no bounds are not
            raise ConfigError(f"{self.label} must be {expected}, got {values.shown(value)}")
        if isinstance(converted, int) and converted.bit_length() > 63:  # what C and torch take
            raise ConfigError(f"{self.label} must be {self.allowed}, and of at most 63 bits, got {values.shown(value)}")
        return converted

    def _remedy(self, value: object) -> str:
        text = value if isinstance(value, str) else values.shown(value)
        if values.fits(values.parse_value(f"[{text}]"), self.kind):
            return f"; write {f'[{text}]'!r}"
        return self.nearest(value, values.choices(self.kind)) if isinstance(value, str) else ""

    def nearest(self, value: str, known: Iterable[str]) -> str:
        """Ends an error message about a text that is no value: with what it is called now, the nearest, or nothing."""
        successor = self.renamed.get(value)
        return f"; did you mean {successor!r}?" if successor else nearest(value, known)


def setting(
    default: object, meaning: str, within: str = "(-inf, inf)", renamed: Mapping[str, str] = MappingProxyType({})
) -> Any:
    """A dataclass field that is a setting; its annotation is the setting's type.

    Args:
        default: the default value.
        meaning: one or two sentences, which the command line's help prints; unit included.
        within: the interval of a number, such as `[0, 1)`.
        renamed: values that earlier versions took, and what each is called now.
    """
    metadata = {"meaning": meaning, "within": Interval(within), "renamed": renamed}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Section:
    """The base of the dataclasses whose fields are settings: checked when made, never edited after."""

    section: ClassVar[str] = ""

    def __post_init__(self):
        """Checks every field.

        Raises:
            ConfigError: if a value has the wrong type or is out of bounds.
        """
        for name, declared in self.settings().items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @classmethod
    @functools.cache
    def settings(cls) -> Mapping[str, Setting]:
        """The fields by name, in the order in which they are declared."""
        kinds = typing.get_type_hints(cls)
        found = {
            field.name: Setting(cls.section, field.name, kinds[field.name], field.default, **field.metadata)
            for field in dataclasses.fields(cls)
        }
        return MappingProxyType(found)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Makes the section from a dict; keys that are absent take their defaults.

        Raises:
            ConfigError: if a key is unknown or a value does not fit.
        """
        cls.require_known(given)
        return cls(**given)

    @classmethod
    def require_known(cls, names: Iterable[str]) -> None:
        """Checks that settings exist.

        Raises:
            ConfigError: naming the first that does not, and what is probably meant.
        """
        require_known(cls.section, names, cls.settings(), cls.hint)

    @classmethod
    def hint(cls, name: str) -> str:
        """What a name that is none of the settings probably means, for an error message; empty where nobody knows."""
        return ""


def require_known(
    section: str, names: Iterable[str], known: Iterable[str], hint: Callable[[str], str] = lambda name: ""
) -> None:
    """Checks that settings exist.

    Args:
        section: they are in.
        names: to check.
        known: those that exist.
        hint: says what an unknown name probably means; empty where it does not know.

    Raises:
        ConfigError: naming the first that does not, and the nearest that do.
    """
    known = list(known)
    for name in names:
        if name not in known:
            found = hint(str(name))
            remedy = f"; {found}" if found else nearest(str(name), known)
            remedy = remedy or f"; it has {', '.join(known) or 'no settings'}"
            raise ConfigError(f"there is no setting {name!r} in [{section}]{remedy}")


def class_settings(section: str, cls: type) -> dict[str, Setting]:
    """The keyword arguments of a class that a section of the configuration sets.

    An `__init__` that takes `**kwargs` hands them on, so the arguments of its base class count too. `buf`, `seed`,
    `env` and `policy` are not settings, nor is an argument without a default.

    Args:
        section: the section's name, such as `env`.
        cls: an environment or a policy.
    """
    found: dict[str, Setting] = {}
    for owner in cls.__mro__:
        initialize = vars(owner).get("__init__")
        if initialize is None:
            continue
        for name, one in signature_settings(section, initialize, documented=owner).items():
            found.setdefault(name, one)
        parameters = inspect.signature(initialize).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def signature_settings(
    section: str, function: Callable, presets: Mapping[str, Any] | None = None, documented: object = None
) -> dict[str, Setting]:
    """The keyword arguments of one function that a section of the configuration sets; see `class_settings`.

    Args:
        section: the section's name.
        function: anything with a signature; one that does not tell its signature has no settings.
        presets: values that replace the defaults, or that are one.
        documented: what else has an `Args:` in its docstring, such as the function's class.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not tell
        return {}
    kinds, meanings = _kinds(function), {**_argument_meanings(documented), **_argument_meanings(function)}
    found = {}
    for parameter in parameters:
        default = (presets or {}).get(parameter.name, parameter.default)
        if parameter.name not in _NOT_SETTINGS and default is not parameter.empty:
            kind, meaning = kinds.get(parameter.name, Any), meanings.get(parameter.name, "")
            found[parameter.name] = Setting(section, parameter.name, kind, default, meaning)
    return found


def check_arguments(section: str, arguments: Mapping[str, Any], cls: type) -> dict[str, Any]:
    """The keyword arguments of a class, converted to the types its `__init__` declares.

    Raises:
        ConfigError: if a name is unknown or a value has the wrong type.
    """
    known = class_settings(section, cls)
    require_known(section, arguments, known)
    return {name: known[name].check(value) for name, value in arguments.items()}


def _kinds(function: Callable) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, AttributeError, TypeError):  # a name that only type checkers import, or no type at all
        return {}  # no type checks, but the names are known


def _argument_meanings(documented: object) -> dict[str, str]:
    lines = ("" if documented is None else inspect.getdoc(documented) or "").partition("\nArgs:\n")[2].splitlines()
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name, found[start[1]] = start[1], start[2][:1].upper() + start[2][1:]
        elif name and line.startswith("        "):
            found[name] += " " + line.strip()
        else:
            break
    return found
