"""C declarations made into ctypes, so that what C and Python hand each other is written once, in a header.

Read is what stands between the lines BEGIN and END: enums, structs, and functions that return nothing, of numbers,
pointers, earlier structs and arrays of these. setup.py runs this file by itself, so it needs Python's library alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
from typing import NamedTuple

BEGIN, END = "// BEGIN DECLARATIONS", "// END DECLARATIONS"
NUMBERS = {
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "uint8_t": ctypes.c_uint8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
}

_ITEM = re.compile(
    r"enum \{ (?P<constants>[^{}]+) \} ; ?"
    r"|struct (?P<structure>\w+) \{ (?P<members>[^{}]+)\} ; ?"
    r"|void (?P<function>\w+) \( (?P<parameters>[^()\[\]]+) \) ; ?"
)
_CONSTANT = re.compile(r"(\w+)(?: = (\d+))?")
_DECLARATION = re.compile(r"(?:const )?(\w+) (.+)")
_DECLARATOR = re.compile(r"((?:\* |const )*)(\w+)(?: \[ (\w+) \])?")


class Structure(ctypes.Structure):
    """A struct of C, made from its members by name, each of them."""

    __slots__ = ()  # without them a wrong name would become an attribute of Python's

    def __init__(self, **members):
        if len(members) < len(self._fields_):
            missing = [name for name, _ in self._fields_ if name not in members]
            raise TypeError(f"{type(self).__name__} must be given all its members, missing are {', '.join(missing)}")
        super().__init__(**members)


class Declarations(NamedTuple):
    """What a header declares, by name."""

    constants: dict[str, int]  # the values of its enums
    structures: dict[str, type[Structure]]  # all pointers are void pointers
    functions: dict[str, list[type]]  # the types of their arguments, in order


def fingerprint(header: str) -> str:
    """A name for what a header declares: another one whenever more than comments and spaces is changed."""
    return hashlib.sha256(_normalized(header).encode()).hexdigest()[:16]


def read(header: str) -> Declarations:
    """Makes ctypes of the declarations in the text of a header.

    A ValueError if it has no such part, or something in it that is not understood, which the message cites.
    """
    text, position, found = _normalized(header), 0, Declarations({}, {}, {})
    while position < len(text):
        item = _ITEM.match(text, position)
        if item is None:
            raise ValueError(f"expected an enum, a struct or a void function, found {text[position : position + 80]!r}")
        if item["constants"]:
            found.constants.update(_constants(item["constants"]))
        elif item["structure"]:
            members = [each for line in item["members"].split("; ") if line for each in _declared(line.strip(), found)]
            body = {"__slots__": (), "_fields_": members}
            found.structures[item["structure"]] = type(item["structure"], (Structure,), body)
        else:
            parameters = [each for part in item["parameters"].split(" , ") for each in _declared(part, found)]
            found.functions[item["function"]] = [kind for _, kind in parameters]
        position = item.end()
    return found


def _normalized(header: str) -> str:
    # Without comments, one space between any two words or signs.
    lines = header.splitlines()
    if BEGIN not in lines or END not in lines:
        raise ValueError(f"expected declarations between the lines {BEGIN!r} and {END!r}, found none")
    part = " ".join(line.partition("//")[0] for line in lines[lines.index(BEGIN) + 1 : lines.index(END)])
    return " ".join(re.findall(r"\w+|\S", part))


def _constants(text: str) -> dict[str, int]:
    values: dict[str, int] = {}
    following = 0
    for part in text.split(" , "):
        name, value = _match(_CONSTANT, part, "a constant").groups()
        values[name] = int(value) if value else following
        following = values[name] + 1
    return values


def _declared(text: str, known: Declarations) -> list[tuple[str, type]]:
    # Of a declaration such as `const float * mean , * variance`.
    base, declarators = _match(_DECLARATION, text, "a declaration").groups()
    return [(name, kind) for each in declarators.split(" , ") for name, kind in [_declarator(base, each, known)]]


def _declarator(base: str, text: str, known: Declarations) -> tuple[str, type]:
    stars, name, count = _match(_DECLARATOR, text, "a declarator").groups()
    values = {**NUMBERS, **known.structures}
    if "*" not in stars and base not in values:
        raise ValueError(f"expected a type out of {', '.join(values)}, found {base!r}")
    kind = ctypes.c_void_p if "*" in stars else values[base]
    if count is None:
        return name, kind
    if count not in known.constants:
        raise ValueError(f"expected a constant as the size of {name}, found {count!r}")
    return name, kind * known.constants[count]


def _match(pattern: re.Pattern, text: str, what: str) -> re.Match:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"expected {what}, found {text!r}")
    return match
