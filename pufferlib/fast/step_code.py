"""What a recurrent policy's step was traced by, so that a change of it is noticed."""

from __future__ import annotations

import dis
import functools
import sys
from argparse import Namespace
from dataclasses import is_dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from pufferlib.fast.policy_layers import are_as_written, is_altered, surroundings


class StepCode:
    """What a recurrent policy's step was traced by: its classes, what its modules keep, and the functions it may call.

    RowWise cannot read such a policy, whose `forward` is a loop over steps. Tracing shows that the step keeps nothing;
    the comparison shows that it draws nothing, and that the loop computes the same.

    Attributes:
        reason: why it is not traced; None where it may be.
    """

    def __init__(self, policy: nn.Module):
        self._policy, self.reason = policy, None
        is_altered_anywhere = any(map(is_altered, (*policy.modules(), *policy.parameters())))
        is_as_written = are_as_written(kind for kind in map(type, policy.modules()) if not _is_own(kind))
        self._facts = self._look()
        if surroundings() or is_altered_anywhere or not is_as_written:
            self.reason = "torch or a part has hooks or replaced methods"

    def has_changed(self) -> bool:
        """Whether a class, a function, a global name of their code, or what a module keeps is another one."""
        return self._look() != self._facts

    def _look(self) -> list[Any]:
        facts: list[Any] = []
        found: list[Any] = []
        for part in self._policy.modules():
            facts.append({name: _mark(value) for name, value in vars(part).items() if name not in _OF_MODULES})
            found += [base for base in type(part).__mro__ if _is_own(base)]
        seen: set[int] = set()
        for each in found:  # which grows meanwhile
            each = getattr(each, "__func__", getattr(each, "fget", each))
            facts.append(_mark(each))
            if id(each) in seen or not _is_own(each):
                continue
            seen.add(id(each))
            if isinstance(each, type):
                found += [value for name, value in vars(each).items() if name not in ("__init__", "initial_state")]
            elif isinstance(each, FunctionType):
                facts.append(_mark((each.__code__, each.__defaults__, each.__kwdefaults__)))
                found += self._named_in(each)
        return facts

    def _named_in(self, function: FunctionType) -> list[Any]:
        code, space = function.__code__, function.__globals__
        names, attributes = _loaded(code)
        values = {name: space[name] for name in names if name in space}
        values |= {
            name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
        }
        for name, value in list(values.items()):
            if isinstance(value, ModuleType) and _is_own(value):
                values |= {f"{name}.{each}": getattr(value, each) for each in attributes if hasattr(value, each)}
            elif not isinstance(value, _WATCHED):
                self.reason = f"its step uses {name}, a {type(value).__name__} that may change"
        return list(values.values())


class _Same:
    # Equal to another of the same object.
    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _mark(value: object) -> object:
    # Equal to a later one while nothing changed: numbers and containers by what they hold, others by identity.
    if value is None or type(value) in (bool, int, float, str):
        return type(value), value
    if isinstance(value, (tuple, list)):
        return [type(value), *map(_mark, value)]
    if isinstance(value, (Namespace, SimpleNamespace)) or (is_dataclass(value) and not isinstance(value, type)):
        value = vars(value)
    return {key: _mark(each) for key, each in value.items()} if isinstance(value, dict) else _Same(value)


_OF_MODULES = frozenset(vars(nn.Module()))
_WATCHED = (
    *(FunctionType, BuiltinFunctionType, type, ModuleType, bool, int, float, str, type(None), tuple, list, dict),
    *(torch.dtype, torch.device, Namespace, SimpleNamespace),
)


@functools.lru_cache
def _loaded(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    # Global names and attributes that a function reads, and those inside it.
    names: set[str] = set()
    attributes: set[str] = set()
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            names.add(each.argval)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(each.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _loaded(constant)
            names, attributes = names | inner[0], attributes | inner[1]
    return frozenset(names), frozenset(attributes)


def _is_own(each: object) -> bool:
    name = getattr(each, "__name__" if isinstance(each, ModuleType) else "__module__", None)
    root = (name or "torch").partition(".")[0]
    return root not in ("torch", "pufferlib") and root not in sys.stdlib_module_names
