"""Notices what changes of a policy: its parts, hooks and methods, and the code and numbers that it computes by."""

from __future__ import annotations

import builtins
import contextlib
import copy
import dis
import functools
import random
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor, nn
from torch.nn.modules import module as modules_of_torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from pufferlib.spaces import Layout

_METHODS = (  # that a call of a module runs
    *("forward", "forward_eval", "encode_observations", "decode_actions", "initial_state", "normalize"),
    *("_with_deviations", "_conv_forward", "_slow_forward", "_call_impl", "_wrapped_call_impl"),
    *("__call__", "__getattr__", "__getattribute__"),
)
_HOOKS = (  # the attributes in which a module or a parameter keeps them
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    "_post_accumulate_grad_hooks",
)
_ALIASES = {"__call__": "Module._wrapped_call_impl", "forward": "_forward_unimplemented"}
_HOOKS_OF_ALL = tuple(
    getattr(modules_of_torch, f"_global_{name}_hooks")
    for name in ("forward", "forward_pre", "backward", "backward_pre")
)
_OF_MODULES = frozenset(vars(nn.Module()))
_PLAIN = bool, int, float, str, type(None)
_STEADY = (
    *(*_PLAIN, FunctionType, BuiltinFunctionType, type, ModuleType, tuple, list, dict, torch.dtype, torch.device),
    *(Namespace, SimpleNamespace),
)
"""Types of global names of which every change is seen."""
_STEADY_KEPT = (
    *(*_STEADY, Tensor, nn.Module, Layout, Space, set, frozenset, range, slice, bytes, complex, MethodType),
    *(functools.partial, functools.partialmethod, functools.cached_property, property, staticmethod, classmethod),
    *(np.ndarray, np.generic, np.dtype, torch.Size, Enum),
)
"""Types of what a module keeps of which every change is seen, or none expected."""

TRACING = threading.RLock()
"""Is held while a policy is traced: torch.fx then has other methods in nn.Module, for all threads."""


def is_altered(policy: nn.Module) -> bool:
    """Whether a module has hooks or methods of its own, a parameter has hooks or is of another class, or torch has any.

    The methods of a user's own classes are no change.
    """
    kinds = {kind for part in policy.modules() for kind in type(part).__mro__ if not _is_own(kind)}
    with TRACING:
        are_as_written = all(_is_as_written(kind, name) for kind in kinds for name in _METHODS)
    parts = (*policy.modules(), *policy.parameters())
    return not are_as_written or any(map(_is_altered, parts)) or bool(_surroundings())


def _is_altered(part: nn.Module | nn.Parameter) -> bool:
    if any(getattr(part, name, None) for name in _HOOKS) or not vars(part).keys().isdisjoint(_METHODS):
        return True
    return isinstance(part, torch.Tensor) and type(part) is not nn.Parameter


def _is_as_written(kind: type, name: str) -> bool:
    owner = next((base for base in kind.__mro__ if name in vars(base)), object)
    if owner is object:
        return True
    method = vars(owner)[name]
    function = method.fget if isinstance(method, property) else method
    return (
        isinstance(function, FunctionType)
        and function.__globals__ is vars(sys.modules[owner.__module__])  # even functools.wraps leaves these
        and function.__qualname__ in (f"{owner.__qualname__}.{name}", _ALIASES.get(name))
    )


def _surroundings() -> list[Hashable]:
    # Torch's hooks for all modules, and the modes that see its operations, but for that of a default device, which
    # changes nothing that is computed.
    found: list[Hashable] = [key for hooks in _HOOKS_OF_ALL for key in hooks]
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
        found += [mode for mode in modes if not isinstance(mode, DeviceContext)]
    return found


def watch_changes(policy: nn.Module, runs_no_code: bool = False) -> Callable[[], bool]:
    """Returns a call that tells whether a module, its class, a method, a setting, a hook or a parameter changed since.

    A hook or a mode of torch for all modules counts too, but no values of parameters or buffers. Where a kernel or CUDA
    graphs compute the policy, it `runs_no_code`: then what modules of a user's own keep is watched, also in buffers,
    and the code and the global names that they compute by, all of which may otherwise change at every call. A call
    costs some microseconds for each module.
    """

    def look() -> list[object]:
        with TRACING:
            return _look(policy, runs_no_code)

    before = look()
    return lambda: look() != before


def _look(policy: nn.Module, runs_no_code: bool) -> list[object]:
    # Equal to a later one while nothing changed. It reads the dictionaries behind torch's properties, which are several
    # times slower.
    modules: list[nn.Module] = [policy]
    facts: list[object] = _surroundings()
    kinds: dict[type, None] = {}
    seen: set[int] = set()
    for module in modules:  # which grows meanwhile
        facts.append(_Same(module))
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        own = vars(module)
        if "_modules" not in own:  # as of a traced module of torch.jit
            own = {name: getattr(module, name) for name in _OF_MODULES if hasattr(module, name)}
        kinds[type(module)] = None
        modules += own["_modules"].values()
        facts += [_Same(own[name]) for name in _METHODS if name in own]
        facts += module.training, *[tuple(own[name]) for name in _HOOKS if own.get(name)]
        if runs_no_code or not _own_bases(type(module)):
            facts += _kept(module, with_tensors=runs_no_code), *map(_Same, own["_buffers"].values())
        for parameter in own["_parameters"].values():
            facts.append(_Same(parameter))
            if parameter is None:
                continue
            hooks = tuple(parameter._backward_hooks or ()), tuple(parameter._post_accumulate_grad_hooks or ())
            facts += parameter.requires_grad, parameter.dtype, hooks
            if type(parameter) is nn.Parameter and parameter.layout is torch.strided:  # else it may lie in no one place
                facts += parameter.shape, parameter.stride(), parameter.data_ptr()
    facts += [getattr(kind, name, None) for kind in kinds for name in _METHODS]
    facts += OwnCode(policy).facts if runs_no_code else []
    return [*facts, *kinds]


def _kept(module: nn.Module, with_tensors: bool = True) -> dict[str, object]:
    # What a module keeps beside what every module has.
    return {
        name: _mark(value)
        for name, value in vars(module).items()
        if name not in _OF_MODULES and (with_tensors or not isinstance(value, Tensor))
    }


def find_kept(policy: nn.Module, with_numbers: bool = True) -> dict[str, object]:
    """What the modules, their code and the generators of random numbers keep, by name.

    It is equal to a later result while nothing changed, and nothing was drawn. Numbers that are written into parameters
    and buffers are a change `with_numbers`.
    """
    found = {f"{path}.{name}": mark for path, part in policy.named_modules() for name, mark in _kept(part).items()}
    tensors = (*policy.named_parameters(), *policy.named_buffers())
    found |= {name: (_Same(tensor), with_numbers and tensor._version) for name, tensor in tensors}
    of_numpy = repr(np.random.get_state(legacy=False))  # of its numbers the first and last, of which every draw tells
    drawn = torch.get_rng_state().numpy().tobytes(), random.getstate(), of_numpy
    return found | {"random numbers": drawn, "a class or a global name": OwnCode(policy).facts}


def find_change(before: dict[str, object], after: dict[str, object]) -> str | None:
    """The first name of what differs between two results of `find_kept`; None if they are equal."""
    changed = (name.removeprefix(".") for name in {**after, **before} if after.get(name) != before.get(name))
    return next(changed, None)


def copy_structure(policy: nn.Module) -> nn.Module:
    """Copies the modules, lists, dicts and tensors of a policy; all else that these hold is the policy's.

    What a call of the copy keeps, the policy does not.
    """
    held = [value for part in policy.modules() for value in vars(part).values()]
    others = [value for value in held if not isinstance(value, (dict, list, set, nn.Module))]
    shared = [value for value in others if not isinstance(value, Tensor) or not value.is_leaf]
    return copy.deepcopy(policy, {id(value): value for value in shared})


class OwnCode:
    """What the calls of a policy reach of classes and functions that are neither torch's nor the library's."""

    def __init__(self, policy: nn.Module):
        self.facts: list[object] = []  # equal to later ones while nothing changed
        self.doubt: str | None = None  # a global name that may change unseen, and its type
        parts = [part for part in policy.modules() if _own_bases(type(part))]
        # Classes, parts and files, of which a call may read members of these names.
        self._owners: dict[object, None] = dict.fromkeys(kind for part in parts for kind in _own_bases(type(part)))
        self._names, self._seen = dict.fromkeys(_METHODS), set[object]()
        self._held: dict[int, object] = {}  # what was looked into, by its address
        self.facts += map(_Same, self._owners)
        self._owners |= dict.fromkeys(parts)
        while found := list(self._members()):
            for owner, name in found:
                self._seen.add((owner, name))
                self._add_named(name, vars(owner)[name], _STEADY if isinstance(owner, ModuleType) else _STEADY_KEPT)

    def _members(self) -> Iterator[tuple[object, str]]:
        for owner in self._owners:
            for name in vars(owner):
                if name in self._names and name not in _OF_MODULES and (owner, name) not in self._seen:
                    yield owner, name

    def _add_named(self, name: str, value: object, steady: tuple[type, ...] = _STEADY) -> None:
        # With what it holds; of values that may change unseen, or hold one, it notes a doubt.
        self._add(value)
        if (isinstance(value, (dict, list)) or _is_record(value)) and _is_own(type(value)):
            self._add(type(value))  # which may have properties, and numbers of its own
        if not isinstance(value, steady) and not (steady is _STEADY_KEPT and _is_record(value)):
            self.doubt = self.doubt or f"uses {name}, a {type(value).__name__} that may change"
        parts = () if id(value) in self._held else _parts(value)
        self._held[id(value)] = value
        for each in parts:
            self._add_named(name, each, _STEADY_KEPT)

    def _add(self, value: object) -> None:
        value = getattr(value, "__func__", getattr(value, "fget", value))
        self.facts.append(_mark(value))
        if isinstance(value, (type, ModuleType)) and _is_own(value):
            self._owners[value] = None
        if not isinstance(value, FunctionType) or value in self._seen or not _is_own(value):
            return
        self._seen.add(value)
        code, space = value.__code__, value.__globals__
        self.facts.append(_mark(code))
        self._add_named(value.__name__, (value.__defaults__, value.__kwdefaults__, vars(value)))
        read = _names_read(code)
        self._names |= dict.fromkeys(read.all)
        modules = (sys.modules.get(name) for name in read.imported)
        self._owners |= {module: None for module in modules if module is not None and _is_own(module)}
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # of an empty cell
                self._add_named(name, cell.cell_contents)
        for name in dict.fromkeys(read.of_globals):
            if name in space:
                self._add_named(name, space[name])


def _contents(value: object) -> tuple[Mapping, Mapping] | None:
    # The attributes and the items of a container or a record, by name, key or place; None for all else.
    if isinstance(value, (tuple, list, set, frozenset)):
        items = dict(enumerate(value))
    elif isinstance(value, dict) or _is_record(value):
        items = value if isinstance(value, dict) else {}
    else:
        return None
    return getattr(value, "__dict__", {}), items


def _parts(value: object) -> Iterable[object]:
    contents = _contents(value)
    if contents is not None:
        return chain(*(mapping.values() for mapping in contents))
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        return value.__self__, getattr(value, "__func__", None)
    return ()


class _Names(NamedTuple):
    # That a function reads or writes, and those inside it.
    all: list[str]  # attributes too
    of_globals: list[str]
    imported: list[str]  # modules


@functools.lru_cache(1024)
def _names_read(code: CodeType) -> _Names:
    codes = list(_codes(code))
    operations = [each for part in codes for each in dis.get_instructions(part) if isinstance(each.argval, str)]
    return _Names(
        [name for part in codes for name in part.co_names],
        [each.argval for each in operations if "GLOBAL" in each.opname or each.opname.endswith("_NAME")],
        [each.argval for each in operations if each.opname == "IMPORT_NAME"],
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Same:
    # Equal to another of the same object, which it holds, so that no other gets its address.
    def __init__(self, value: object):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _mark(value: object, begun: dict[int, int] | None = None) -> object:
    # Equal to a later one while nothing changed: numbers, containers and records by what they hold, others by identity.
    # `begun` has the addresses of those that are being looked at, or were, as one may hold itself.
    if type(value) in _PLAIN:
        return type(value), value
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    contents = _contents(value)
    if contents is None:
        return _Same(value)
    begun = {} if begun is None else begun
    if id(value) in begun:
        return "again", begun[id(value)]
    begun[id(value)] = len(begun)
    return [type(value), *({key: _mark(each, begun) for key, each in mapping.items()} for mapping in contents)]


def _is_record(value: object) -> bool:
    # Whether all that an object has are its fields.
    is_dataclass_made = is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__")
    return isinstance(value, (Namespace, SimpleNamespace)) or is_dataclass_made


def has_own_code(policy: nn.Module) -> bool:
    """Whether a part of a policy is of a class that is neither torch's nor the library's."""
    return any(_own_bases(type(part)) for part in policy.modules())


@functools.lru_cache
def _own_bases(kind: type) -> tuple[type, ...]:
    return tuple(base for base in kind.__mro__ if _is_own(base))


def _is_own(each: object) -> bool:
    name = getattr(each, "__name__" if isinstance(each, ModuleType) else "__module__", None) or "torch"
    if name.startswith("pufferlib.ocean.") and name.count(".") > 2:
        return True  # of a game, which may bring policies of its own
    root = name.partition(".")[0]
    if root == "builtins":  # or code that was run without a name of its module
        return getattr(builtins, getattr(each, "__name__", ""), None) is not each
    return root not in ("torch", "pufferlib", "numpy") and root not in sys.stdlib_module_names
