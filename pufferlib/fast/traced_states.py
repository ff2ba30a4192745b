"""How a policy's own step reads and replaces its recurrent state, and its LSTM and GRU modules, as layers.

An entry of the state is read as a StateLayer, which gives what the step before left there: so any operations that have
layers may be a cell. Cells of torch that alone read and replace their entries are layers of their own.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from pufferlib.extensions.network_layers import GRU, LSTM, Add, MinGRU, Multiply, Shape, StateLayer
from pufferlib.fast.traced_operations import ACTIVATIONS, ROWS, SAME, Operations
from pufferlib.fast.traced_values import Operand, UntracedError, Value

_CELLS = {nn.LSTMCell: LSTM, nn.GRUCell: GRU, nn.LSTM: LSTM, nn.GRU: GRU}
_OF_EACH_NUMBER = ACTIVATIONS.keys() | {"add", "sub", "mul", "div", "neg"}
_KEPT = "float", "contiguous"  # methods of a tensor that leave its numbers
_VIEWS = {"view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "swapaxes", "permute", "getitem"}


class SharedCellError(UntracedError):
    """The state of a cell of torch is read or replaced by something else: the cell must be traced by its parts."""


@dataclass(frozen=True)
class StateEntry:
    """Numbers of an entry of the recurrent state: as they were before the step, or as a cell leaves them."""

    name: str
    first: int
    size: int
    left_by: int = 0  # the value of the cell's layer; 0 before the step


@dataclass(frozen=True)
class Stack:
    """Rows side by side along a dimension that torch has beside the one of rows: steps, or layers of a state."""

    parts: tuple[Any, ...]  # values or entries
    dim: int  # 0 where that dimension comes before the rows, 1 where it comes after them


def state_of(name: str) -> Tensor:
    """Stands for an entry of the recurrent state in a graph; it is never called."""
    raise NotImplementedError(name)


class StepStates(Operations):
    """A list of layers that grows by operations on values, and on entries of the recurrent state."""

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        is_normalized: bool,
        states: Mapping[str, Tensor],  # the policy's, by name
        are_cells_layers: bool,  # whether cells of torch are layers of their own, which none other may see into
    ):
        super().__init__(shape, dtype, is_normalized)
        self._entries, self._are_cells_layers = dict(states), are_cells_layers
        self._cells: dict[tuple[str, int], int] = {}  # values of the layers of cells, by the entries they have
        self._read_entries: dict[tuple[str, int], Any] = {}  # values of StateLayers
        self._places: dict[int, list[tuple[str, int]]] = {}  # of the states of layers, by their values

    def operate(self, kind: str, target: Any, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        """The result of an operation, whose arguments may be entries of the state, or stacks."""
        if target is state_of:
            entry = self._entry(*arguments)
            return self.value_of(entry) if self._entries[arguments[0]].dim() == 1 else entry
        if target is operator.getitem and isinstance(arguments[0], (tuple, list)):
            return arguments[0][arguments[1]]
        found = module.get_submodule(target) if kind == "call_module" else None
        if type(found) in _CELLS:
            return self._call_cell(found, *arguments, *keywords.values())
        if self._entries:
            name = found if kind == "call_module" else getattr(target, "__name__", target)
            result = self._of_stacks(kind, name, target, arguments, keywords, module)
            if result is not NotImplemented:
                return result
        if any(isinstance(each, (Stack, StateEntry)) for each in tree_leaves((arguments, keywords))):
            arguments, keywords = tree_map(self.value_of, (arguments, keywords))
        return getattr(self, f"_{kind}")(target, arguments, keywords, module)

    def value_of(self, given: object) -> object:
        """A value for an entry or a stack; everything else as it is."""
        if isinstance(given, Stack):
            if given.dim == 0:
                self._refuse("an operation on rows that are not the first dimension")
            parts = [self.value_of(part) for part in given.parts]
            size = parts[0].shape[0]
            joined = parts[0] if len(parts) == 1 else self._concatenate(parts)
            return replace(joined, shape=(len(parts), size))
        if not isinstance(given, StateEntry):
            return given
        key = given.name, given.first
        if given.left_by or key in self._cells:
            raise SharedCellError(f"has a cell whose state[{given.name!r}] is seen elsewhere{self.place}")
        if key not in self._read_entries:
            value = self._add(StateLayer((0,), given.size))
            shape = () if self._entries[given.name].dim() == 1 else value.shape
            self._read_entries[key], self._places[value.index] = replace(value, shape=shape), [key]
        return self._read_entries[key]

    def leave(self, results: Mapping[str, Any]) -> None:
        """Lets the layers leave values, entries or stacks in the entries of the state, whose old ones others keep."""
        places = {name: self._entry(name) for name in self._entries}
        pairs = [pair for name, place in places.items() for pair in self._pairs(name, place, results[name])]
        values = [None if self._is_of_cell(*pair) else self.value_of(pair[1]) for pair in pairs]
        for (entry, _), value in zip(pairs, values, strict=True):
            if value is None:
                continue
            before = self._read_entries.get((entry.name, entry.first))
            if before is None:
                raise UntracedError(f"never reads state[{entry.name!r}], which it replaces")
            if not isinstance(value, Value) or (value.kind, value.shape) != ("float", before.shape):
                raise UntracedError(f"leaves something else than rows of {entry.size} in state[{entry.name!r}]")
            self.layers[before.index - 1] = StateLayer((self._read_each(self._row(value)),), entry.size)

    def _pairs(self, name: str, place: StateEntry | Stack, found: Any) -> Iterable[tuple[StateEntry, Any]]:
        # The parts of an entry, and what is left in each.
        entries = place.parts if isinstance(place, Stack) else (place,)
        if isinstance(place, Stack) and getattr(found, "shape", None) == (len(entries), entries[0].size):
            flat = replace(found, shape=(len(entries) * entries[0].size,))
            found = Stack(tuple(self._concatenate([flat], [(each.first, each.size)]) for each in entries), 1)
        parts = found.parts if isinstance(found, Stack) and found.dim == isinstance(place, Stack) else (found,)
        if len(parts) != len(entries):
            raise UntracedError(f"leaves something of another shape in state[{name!r}]")
        return zip(entries, parts, strict=True)

    def _is_of_cell(self, entry: StateEntry, found: object) -> bool:
        # Whether the layer of a cell leaves what it is to leave there.
        key = entry.name, entry.first
        cell = self._cells.get(key)
        is_hidden = cell is not None and self._places[cell][0] == key and getattr(found, "index", None) == cell
        if cell is not None and not is_hidden and found != replace(entry, left_by=cell):
            raise SharedCellError(f"leaves something else than a cell's state in state[{entry.name!r}]")
        return cell is not None

    def state_places(self) -> list[tuple[int, int]] | None:
        """As Layers has them."""
        names = list(self._entries)
        places = [(names.index(name), first) for value in sorted(self._places) for name, first in self._places[value]]
        return places or None

    def _entry(self, name: str) -> StateEntry | Stack:
        shape, dtype = self._entries[name].shape[1:], self._entries[name].dtype
        if dtype != torch.float32 or len(shape) > 2 or 0 in shape:
            raise UntracedError(f"has state[{name!r}] of {tuple(shape)} {dtype}, not of one or two sizes in float32")
        size = shape[-1] if shape else 1
        if len(shape) < 2:
            return StateEntry(name, 0, size)
        return Stack(tuple(StateEntry(name, size * index, size) for index in range(shape[0])), 1)

    # --------------------------------------------------------------------------------------------------------- stacks

    def _of_stacks(self, kind: str, name: Any, target: Any, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        # NotImplemented where no stack is seen or made.
        if kind != "call_module":
            moved = _moved(name, arguments, keywords)
            if moved is not NotImplemented:
                return moved
        leaves = tree_leaves((arguments, keywords))
        alike = {(len(each.parts), each.dim) for each in leaves if isinstance(each, Stack)}
        if len(alike) != 1 or any(isinstance(each, StateEntry) or hasattr(each, "index") for each in leaves):
            return NotImplemented
        (count, dim), results = *alike, []
        if not _is_of_rows(kind, name, arguments, keywords) or (kind == "call_module" and count > 1):
            return NotImplemented
        self.is_only_user = False
        for index in range(count):
            given = tree_map(
                lambda each, index=index: self.value_of(each.parts[index]) if isinstance(each, Stack) else each,
                (arguments, keywords),
            )
            results.append(getattr(self, f"_{kind}")(target, *given, module))
        if isinstance(results[0], list):
            return [Stack(parts, dim) for parts in zip(*results, strict=True)]
        return Stack(tuple(results), dim)

    # ---------------------------------------------------------------------------------------------------------- cells

    def recur(self, value: Value, modules: Sequence[nn.Module]) -> Value:
        """Recurrent layers of the library's wrappers."""
        if not isinstance(value, Value) or value.kind != "float" or len(value.shape) != 1:
            raise UntracedError("encodes observations as something else than one row of numbers")
        for module in modules:
            read = (self._read(self._row(value)),)
            if type(module) is nn.LSTMCell:
                layer = LSTM(read, module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh)
            elif type(module) is nn.Linear and module.bias is None:
                layer = MinGRU(read, module.weight)
            else:
                raise UntracedError(f"has {type(module).__name__} for a recurrent layer")
            value = self._add(layer)
        return value

    def _call_cell(self, module: nn.Module, value: Operand, state: Operand | tuple | None = None) -> Any:
        kind, name = _CELLS[type(module)], type(module).__name__
        states = state if kind is LSTM and isinstance(state, (tuple, list)) else (state,)
        if len(states) != kind.num_states or None in states:
            self._refuse(f"{name} without a state of the policy")
        if isinstance(module, (nn.LSTMCell, nn.GRUCell)):
            weights = module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh
            if not _is_row(value) or not all(map(_is_row, states)):
                self._refuse(f"{name} on something else than a row and rows of the state")
            left = self._step(kind, value, states, weights)
            return tuple(left) if kind is LSTM else left[0]
        if module.bidirectional or module.proj_size or (module.dropout and module.num_layers > 1):
            self._refuse(f"{name} with dropout, proj_size or two directions")
        of_steps = int(module.batch_first)
        if not isinstance(value, Stack) or value.dim != of_steps or len(value.parts) != 1:
            expected = "(rows, 1, ...) with batch_first" if of_steps else "(1, rows, ...)"
            self._refuse(f"{name} on something else than one step, {expected},")
        expected = module.num_layers, 0
        if not all(isinstance(each, Stack) and (len(each.parts), each.dim) == expected for each in states):
            self._refuse(f"{name} with something else for its state than (layers, rows, hidden_size)")
        (output,), lefts = value.parts, []
        for layer in range(module.num_layers):
            names = (f"{each}_l{layer}" for each in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            weights = tuple(getattr(module, each, None) for each in names)
            lefts.append(self._step(kind, output, [each.parts[layer] for each in states], weights))
            output = lefts[-1][0]
        stacks = tuple(Stack(parts, 0) for parts in zip(*lefts, strict=True))
        return Stack((output,), of_steps), stacks if kind is LSTM else stacks[0]

    def _step(self, kind: type[LSTM], value: Operand, states: Iterable[Operand], weights: tuple) -> list[Operand]:
        # What a cell leaves: a layer of its own, or its parts.
        states, value = list(states), self.value_of(value)
        keys = [(each.name, each.first) for each in states if isinstance(each, StateEntry) and not each.left_by]
        are_free = len(set(keys)) == kind.num_states and not any(
            key in self._cells | self._read_entries for key in keys
        )
        if self._are_cells_layers and are_free:
            found = self._add(kind((self._read_each(self._row(value)),), *weights))
            self._cells.update(dict.fromkeys(keys, found.index))
            self._places[found.index] = keys
            return [found, *(replace(each, left_by=found.index) for each in states[1:])]
        hidden, *memory = (self.value_of(each) for each in states)
        size = weights[1].shape[1]
        given, kept = self._linear(value, weights[0], weights[2]), self._linear(hidden, weights[1], weights[3])

        def part(of: Value, index: int, count: int = 1) -> Value:
            return self._concatenate([of], [(index * size, count * size)])

        total, product = partial(self._combine, Add), partial(self._combine, Multiply)
        if kind is GRU:
            gates = self._activate(total(part(given, 0, 2), part(kept, 0, 2)), "sigmoid")
            candidate = self._activate(total(part(given, 2), product(part(gates, 0), part(kept, 2))), "tanh")
            return [total(candidate, product(part(gates, 1), self._subtract(hidden, candidate)))]
        gates = total(given, kept)
        entering, forgetting, leaving = (self._activate(part(gates, index), "sigmoid") for index in (0, 1, 3))
        left = total(product(forgetting, memory[0]), product(entering, self._activate(part(gates, 2), "tanh")))
        return [product(leaving, self._activate(left, "tanh")), left]


def _moved(name: str, arguments: tuple, keywords: dict) -> Any:
    # The result of an operation that makes or takes apart stacks and computes nothing; else NotImplemented.
    value, *others = arguments or (None,)
    dims = [*others, *keywords.values()]
    if name == "stack" and isinstance(value, (tuple, list)) and all(map(_is_row, value)) and dims in ([], [0], [1]):
        return Stack(tuple(value), *(dims or [0]))
    if isinstance(value, (StateEntry, Stack)) and name in _KEPT and not others:
        return value
    if isinstance(value, Stack) and name == "unbind" and (dims or [0]) == [value.dim]:
        return list(value.parts)
    if name not in _VIEWS or not (isinstance(value, Stack) or _is_row(value)):
        return NotImplemented
    parts = value.parts if isinstance(value, Stack) else (value,)
    memory = torch.empty((len(parts), ROWS, _size(parts[0])), device="meta")
    like = memory.transpose(0, value.dim) if isinstance(value, Stack) else memory[0]
    try:
        view = operator.getitem if name == "getitem" else getattr(torch.Tensor, name)
        return _shown(view(like, *others, **keywords), parts, memory)
    except (IndexError, RuntimeError, TypeError):  # as of a key that is a value
        return NotImplemented


def _shown(view: Tensor, parts: tuple[Any, ...], memory: Tensor) -> Any:
    # The part or the stack that a view of the memory of parts shows; NotImplemented where it shows something else.
    if view._base is not memory or view.dim() not in (2, 3):
        return NotImplemented
    if view.dim() == 3:
        dim = int(view.shape[0] == ROWS)
        shown = tuple(_shown(each, parts, memory) for each in view.unbind(dim)) if ROWS in view.shape[:2] else ()
        return Stack(shown, dim) if shown and NotImplemented not in shown else NotImplemented
    index, first = divmod(view.storage_offset(), memory[0].numel())
    is_part = first == 0 and (view.shape, view.stride()) == (memory[0].shape, memory[0].stride())
    return parts[index] if is_part else NotImplemented


def _is_of_rows(kind: str, name: object, arguments: tuple, keywords: dict) -> bool:
    # Whether an operation does the same to each row, whatever lies before it.
    if kind == "call_module":
        return type(name).__module__.startswith("torch.nn") and type(name) is not nn.Flatten
    if name == "getitem":
        return isinstance(arguments[1], tuple) and arguments[1][0] is Ellipsis
    if name in ("chunk", "split", "cat", "concat"):
        return [*arguments[1:], *keywords.values()][-1:] == [-1]
    return SAME.get(name, name) in _OF_EACH_NUMBER


def _is_row(value: object) -> bool:
    is_float = isinstance(value, Value) and value.kind in ("float", "observed")
    return isinstance(value, StateEntry) or (is_float and len(value.shape) == 1)


def _size(row: StateEntry | Value) -> int:
    return row.size if isinstance(row, StateEntry) else math.prod(row.shape)
