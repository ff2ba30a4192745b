"""Finds out whether threads may compute the rows of a minibatch apart, by one policy at the same time.

They may where a call stores nothing, draws nothing, and computes each row by itself. The modules listed here do so, of
exactly these classes. So does a user's method that only assigns to local variables, calls such modules and methods, and
uses the functions and operators listed here. Everything else is computed in one call; so is what mixes rows in a tensor
of few dimensions, though tracing, which knows the dimensions, may find its layers (traced_layers.py).
"""

from __future__ import annotations

import ast
import functools
import linecache
import math
import operator
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

import pufferlib.pytorch
from pufferlib.emulation import tensors
from pufferlib.fast.policy_layers import are_as_written, is_altered, surroundings
from pufferlib.models import ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper, recur
from pufferlib.policy import NormalizedObservations, OneHot, OneHotPlanes
from pufferlib.spaces import Layout

_POLICIES = ActionHead, Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper, NormalizedObservations
_LAYERS = (
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, OneHot, OneHotPlanes),
    *(nn.LSTMCell, nn.GRUCell, nn.RNNCell, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Identity),
    *(nn.CELU, nn.ELU, nn.GELU, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.LeakyReLU, nn.LogSigmoid, nn.Mish),
    *(nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Softsign, nn.Tanh, nn.Tanhshrink),
    *(nn.AvgPool2d, nn.MaxPool2d, nn.ZeroPad2d, nn.Flatten, nn.Embedding, nn.Softmax, nn.MultiheadAttention),
    nn.modules.linear.NonDynamicallyQuantizableLinear,  # of MultiheadAttention
)
_KNOWN = frozenset((*_POLICIES, *_LAYERS))

_FORWARDS = ("forward", "encode_observations", "decode_actions")  # what training calls of a policy
_NEVER_CALLED = ("__init__", "__new__", "__repr__", "extra_repr", "forward_eval", "initial_state")  # by training

# Functions of torch, and methods of tensors, that compute each number by itself; none works in place.
_ELEMENTWISE = {
    *("abs", "clamp", "cos", "exp", "expm1", "log", "log1p", "maximum", "minimum", "neg", "ones_like", "reciprocal"),
    *("rsqrt", "sigmoid", "sin", "sqrt", "square", "tanh", "zeros_like"),
}
_METHODS = {
    *_ELEMENTWISE,
    *("relu", "float", "double", "bfloat16", "contiguous", "detach", "expand_as", "type_as"),
    *("long", "int", "bool", "to", "masked_fill", "logical_not"),
}
_ACTIVATIONS = {
    *("celu", "elu", "gelu", "hardswish", "leaky_relu", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus"),
    "tanh",
}
_OPERATORS = ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult
_ALONG = {"mean", "sum", "amax", "max", "softmax"}  # a dimension or several
_PRODUCTS = {"linear", "matmul", "bmm", "scaled_dot_product_attention"}
_NATIVIZE = tensors.nativize, pufferlib.pytorch.nativize_tensor


class RowWise:
    """The result for one policy.

    Attributes:
        unread: what it does that may store or draw something or mix rows; None where tracing may find its layers.
        reason: why all rows are computed in one call; None where threads may compute them apart.
    """

    def __init__(self, policy: nn.Module):
        reader = _Reader(policy)
        try:
            reader.read()
        except _UnclearError as error:
            self.unread: str | None = str(error)
        else:
            self.unread = None
        self.reason = self.unread or reader.mixes
        self._facts = [] if self.unread else reader.facts

    def has_changed(self) -> bool:
        """Whether a name in the policy's code now stands for something else."""
        return any(look() is not found for look, found in self._facts)


class _UnclearError(Exception):
    """Its text says what may store something, draw something or mix rows."""


class _Reader:
    def __init__(self, policy: nn.Module):
        self.policy = policy
        self.facts: list[tuple[Callable[[], Any], Any]] = []
        self.mixes: str | None = None  # what mixes rows in a tensor of too few dimensions
        self._read: set[tuple[int, str, type | None]] = set()

    def read(self) -> None:
        modules = list(self.policy.modules())
        if surroundings():
            raise _UnclearError("torch has hooks or modes for all modules")
        if any(map(is_altered, (*modules, *self.policy.parameters()))):
            raise _UnclearError("a part has hooks or methods of its own")
        for module in modules:
            kind = type(module)
            if not are_as_written([kind if kind in _KNOWN else nn.Module]):
                raise _UnclearError(f"a method of {kind.__name__} was replaced")
            if kind in _KNOWN:
                _check_known(module)
                if kind in (nn.MultiheadAttention, nn.Softmax):
                    self.mixes = self.mixes or f"{kind.__name__} may mix rows"
            else:
                self._read_own(module)

    def _read_own(self, module: nn.Module) -> None:
        kind = type(module)
        bases = kind.__mro__[: -len(nn.Module.__mro__)]
        if kind.__mro__[len(bases) :] != nn.Module.__mro__ or any(b.__module__.startswith("torch.") for b in bases):
            raise _UnclearError(f"{kind.__name__} is not known to compute each row alone")
        for base in bases:
            for name in vars(base).keys() - {*_NEVER_CALLED, *_FORWARDS}:
                if callable(vars(base)[name]) if name.startswith("__") else hasattr(nn.Module, name):
                    raise _UnclearError(f"{base.__name__} has its own {name}")
        for name in _FORWARDS:
            if hasattr(kind, name) and getattr(kind, name) is not nn.Module.forward:
                self.read_method(module, name)

    def read_method(self, module: nn.Module, name: str, above: type | None = None) -> None:
        # Reads a method once, and the methods that it calls; `super()` of a class above which it stands.
        if (id(module), name, above) in self._read:
            return
        self._read.add((id(module), name, above))
        kinds = type(module).__mro__

        def look() -> Any:
            return next((vars(kind)[name] for kind in kinds[first:] if name in vars(kind)), None)

        first = 0 if above is None else kinds.index(above) + 1
        function = look()
        self.rely(look)
        if name not in _FORWARDS and hasattr(nn.Module, name):
            raise _UnclearError(f"{type(module).__name__} calls its {name}()")
        if any(vars(kind).get(name) is function for kind in _POLICIES) and are_as_written(_POLICIES):
            return
        is_plain = isinstance(function, FunctionType) and name not in vars(module)
        is_plain = is_plain and function.__code__.co_freevars in ((), ("__class__",))
        node = _definition(function.__code__) if is_plain else None
        if node is None:
            raise _UnclearError(f"{type(module).__name__}.{name} cannot be read")
        self.rely(functools.partial(vars(module).get, name))
        _Method(self, module, function, node).read()

    def rely(self, look: Callable[[], Any]) -> None:
        # The result of `look` must stay the same object.
        self.facts.append((look, look()))


def _check_known(module: nn.Module) -> None:
    kind = type(module)
    if any(isinstance(value, Tensor) for value in vars(module).values()):
        raise _UnclearError(f"{kind.__name__} has a tensor that is no parameter")
    if kind is nn.Flatten and module.start_dim < 1:
        raise _UnclearError("Flatten joins rows")
    if getattr(module, "inplace", False) or getattr(module, "max_norm", None) is not None:
        raise _UnclearError(f"{kind.__name__} works in place")


class _Method:
    def __init__(self, reader: _Reader, module: nn.Module, function: FunctionType, node: ast.FunctionDef):
        self.reader, self.module, self.function, self.node = reader, module, function, node
        arguments = node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        self._is_simple = not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs) and bool(names)
        self._self, *self._locals = names or [""]
        self._modules: dict[str, nn.Module] = {}  # local names of loops over modules
        self._counts: set[str] = set()  # local names of the number of rows
        self._parts: dict[str, Any] = {}  # local names of observations that were taken apart

    def read(self) -> None:
        defaults = self.function.__defaults__ or ()
        self._require(self._is_simple and all(map(_is_number, defaults)), self.node)
        self._statements(self.node.body)

    def _statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                chosen = statement.body if self._truth(statement.test) else statement.orelse
                self._statements(chosen)
                if any(isinstance(each, ast.Return) for each in chosen):
                    return
            else:
                self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):  # a docstring
            return
        if isinstance(statement, ast.For):
            self._require(not statement.orelse and ast.Return not in map(type, ast.walk(statement)), statement)
            for _ in self._each_module(statement.target, statement.iter):
                self._statements(statement.body)
            return
        self._require(isinstance(statement, (ast.Assign, ast.Return)) and statement.value is not None, statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        names = [name for each in targets for name in (each.elts if isinstance(each, ast.Tuple) else [each])]
        for name in names:
            self._require(isinstance(name, ast.Name) and name.id != self._self, statement)
        text = ast.unparse(statement.value)
        if names and text in self._row_counts("{}.shape", "{}.shape[0]", "{}.size(0)", "len({})"):
            self._counts.add(names[0].id)
            self._locals += [name.id for name in names[1:]]
            self._require(len(names) > 1 or not text.endswith(".shape"), statement)
            return
        self._value(statement.value)
        if names and isinstance(statement.value, ast.Call) and self._object(statement.value.func) in _NATIVIZE:
            layout = getattr(self.module, statement.value.args[1].attr)
            self._parts[names[0].id] = layout.structure if isinstance(layout, Layout) and layout.is_packed else None
        self._locals += [name.id for name in names]
        self._counts -= {name.id for name in names}

    def _each_module(self, target: ast.expr, modules: ast.expr) -> Iterator[None]:
        # Once for each module of a list, which the name then stands for.
        found = self._object(modules)
        self._require(isinstance(found, (nn.ModuleList, nn.Sequential)) and isinstance(target, ast.Name), modules)
        for module in found:
            self._modules[target.id] = module
            yield
        self._modules.pop(target.id, None)

    def _row_counts(self, *forms: str) -> set[str]:
        return {form.format(name) for name in self._locals for form in forms}

    def _may_mix(self, node: ast.AST) -> None:
        text = f"{self.function.__qualname__} has `{ast.unparse(node).splitlines()[0]}`"
        self.reader.mixes = self.reader.mixes or text

    def _truth(self, test: ast.expr) -> bool:
        # Of a test that asks for what the module keeps, and not for what it computes.
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return not self._truth(test.operand)
        if isinstance(test, ast.BoolOp):
            are_any = isinstance(test.op, ast.Or)
            return any(map(self._truth, test.values)) if are_any else all(map(self._truth, test.values))
        is_compared = isinstance(test, ast.Compare) and isinstance(test.comparators[-1], ast.Constant)
        kept = test.left if is_compared else test
        is_own = isinstance(kept, ast.Attribute) and isinstance(kept.value, ast.Name) and kept.value.id == self._self
        self._require(is_own, test)
        own = vars(self.module)
        spaces = own, own["_parameters"], own["_buffers"], own["_modules"], *map(vars, type(self.module).__mro__)

        def look() -> Any:
            return next((space[kept.attr] for space in spaces if kept.attr in space), None)

        found = look()
        self.reader.rely(look)
        is_plain = _is_number(found) or isinstance(found, str)
        self._require(not hasattr(type(found), "__get__"), test)
        if not is_compared:
            has_own_truth = hasattr(type(found), "__bool__") or hasattr(type(found), "__len__")
            self._require(is_plain or not has_own_truth, test)
            return bool(found)
        operators = {ast.Is: operator.is_, ast.IsNot: operator.is_not}
        if is_plain:
            operators |= {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.Gt: operator.gt}
        self._require(len(test.ops) == 1 and type(test.ops[0]) in operators, test)
        return operators[type(test.ops[0])](found, test.comparators[0].value)

    def _require(self, is_plain: bool, node: ast.AST) -> None:
        if not is_plain:
            text = ast.unparse(node).splitlines()[0]
            raise _UnclearError(f"{self.function.__qualname__} has `{text}`")

    def _value(self, node: ast.expr) -> None:
        # An expression whose value is a tensor, a number, or a tuple, list or Normal of these.
        if isinstance(node, ast.Name):
            self._require(node.id in self._locals, node)
        elif isinstance(node, ast.Constant):
            self._require(_is_number(node.value), node)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._value(element)
        elif isinstance(node, ast.UnaryOp):
            self._require(isinstance(node.op, (ast.USub, ast.Invert)), node)
            self._value(node.operand)
        elif isinstance(node, ast.BinOp):
            self._require(isinstance(node.op, _OPERATORS), node)
            if isinstance(node.op, ast.MatMult):
                self._may_mix(node)
            self._value(node.left)
            self._value(node.right)
        elif isinstance(node, ast.Compare):
            for part in (node.left, *node.comparators):
                self._value(part)
        elif isinstance(node, ast.ListComp):
            (part, *others) = node.generators
            self._require(not others and not part.ifs, node)
            for _ in self._each_module(part.target, part.iter):
                self._value(node.elt)
        elif isinstance(node, ast.Attribute) and node.attr == "mT":
            self._may_mix(node)
            self._value(node.value)
        elif isinstance(node, ast.Attribute) and node.attr == "values":
            self._require(_is_maximum(node.value), node)
            self._value(node.value)
        elif isinstance(node, ast.IfExp):
            self._value(node.body if self._truth(node.test) else node.orelse)
        elif isinstance(node, ast.Attribute):
            self._require(self._is_kept_number(node), node)
        elif isinstance(node, ast.Subscript) and (self._part(node) is not None or self._is_size(node)):
            pass
        elif isinstance(node, ast.Subscript):
            self._require(_are_columns(node.slice) or _is_maximum(node.value) and _number(node.slice) == 0, node)
            if isinstance(node.slice, ast.Tuple) and ast.unparse(node.slice.elts[0]) == "...":
                self._may_mix(node)
            self._value(node.value)
        else:
            self._require(isinstance(node, ast.Call), node)
            self._call(node)

    def _part(self, node: ast.expr) -> Any:
        # The leaf or leaves of an observation that an expression names; None where it is something else.
        if isinstance(node, ast.Name):
            return self._parts.get(node.id)
        whole = self._part(node.value) if isinstance(node, ast.Subscript) else None
        is_whole = isinstance(whole, (dict, tuple)) and isinstance(node.slice, ast.Constant)
        return whole[node.slice.value] if is_whole else None

    def _is_kept_number(self, node: ast.Attribute) -> bool:
        # A parameter of the module, a buffer without a gradient, or a number that it keeps.
        owner, name = self._object(node.value), node.attr
        if owner is torch or owner is math:
            return isinstance(getattr(owner, name, None), (torch.dtype, float))
        if not isinstance(owner, nn.Module):
            return False
        own, kind = vars(owner), type(owner)
        if name in own or not hasattr(kind, name):
            spaces = (space for space in (own, own["_parameters"], own["_buffers"]) if name in space)
            look = functools.partial(next(spaces, {}).get, name, self)
        else:
            look = functools.partial(getattr, kind, name)
        found = look()
        self.reader.rely(look if _is_number(found) else lambda: type(look()))
        return isinstance(found, nn.Parameter) or _is_number(found) or type(found) is Tensor and not found.requires_grad

    def _object(self, node: ast.expr) -> Any:
        # The module, namespace or class that an expression names; None for values.
        if isinstance(node, ast.Name):
            if node.id == self._self or node.id in self._modules:
                return self._modules.get(node.id, self.module)
            space = self.function.__globals__
            if node.id in self._locals or node.id not in space:
                return None
            self.reader.rely(functools.partial(space.get, node.id))
            return space[node.id]
        if not isinstance(node, ast.Attribute):
            return None
        owner = self._object(node.value)
        if isinstance(owner, nn.Module):
            is_hidden = node.attr in vars(owner) or hasattr(type(owner), node.attr)
            return None if is_hidden else vars(owner)["_modules"].get(node.attr)
        spaces = torch, nn, torch.distributions, pufferlib, pufferlib.pytorch, pufferlib.emulation, tensors
        is_of_torch = any(owner is space for space in spaces)
        return getattr(owner, node.attr, None) if is_of_torch else None

    def _call(self, node: ast.Call) -> None:
        called, found, arguments = node.func, self._object(node.func), node.args
        if any(found is each for each in _NATIVIZE):
            self._require(len(arguments) == 2 and not node.keywords and isinstance(arguments[1], ast.Attribute), node)
            self._require(self._object(arguments[1].value) is self.module, node)
            self.reader.rely(functools.partial(getattr, self.module, arguments[1].attr, None))
            return self._value(arguments[0])
        if ast.unparse(node) in ("float('-inf')", "float('inf')"):
            return None
        is_module = isinstance(found, nn.Module) and found is not self.module
        if found is recur:
            self._require(bool(arguments) and isinstance(self._object(arguments[0]), nn.RNNCellBase), node)
            arguments = arguments[1:]
        elif not is_module and found is not Normal:
            self._require(isinstance(called, ast.Attribute), node)
            owner = self._object(called.value)
            if ast.unparse(called.value) == "super()":
                (above,) = self.function.__closure__ or ()
                self.reader.read_method(self.module, called.attr, above.cell_contents)
            elif owner is self.module:
                self.reader.read_method(self.module, called.attr)
            elif owner is torch or owner is functional:
                self._require(_is_function(called.attr, node) or self._works_along(called.attr, node, 1), node)
            elif owner is math:
                self._require(called.attr == "sqrt", node)
            else:
                self._value(called.value)
                if called.attr in ("view", "reshape"):
                    return self._require(self._keeps_rows(node.args) and not node.keywords, node)
                self._require(_is_method(called.attr, node) or self._works_along(called.attr, node, 0), node)
        self._require(all(keyword.arg is not None for keyword in node.keywords), node)
        for argument in (*arguments, *(keyword.value for keyword in node.keywords)):
            self._value(argument)

    def _works_along(self, name: str, node: ast.Call, tensors: int) -> bool:
        # Whether a function works along dimensions that are given, or is a product of matrices: both may mix rows.
        if name in _PRODUCTS:
            self._may_mix(node)
            return True
        found = [*node.args[tensors:], *(each.value for each in node.keywords if each.arg == "dim")]
        if name in ("transpose", "swapaxes") and len(found) == 2:
            dimensions = found
        elif name in _ALONG and found and {each.arg for each in node.keywords} <= {"dim", "keepdim"}:
            dimensions = found[0].elts if isinstance(found[0], ast.Tuple) else found[:1]
        else:
            return False
        numbers = [_number(each) for each in dimensions]
        if any(number is not None and number < 0 for number in numbers):
            self._may_mix(node)
        return None not in numbers and 0 not in numbers

    def _keeps_rows(self, sizes: list[ast.expr]) -> bool:
        # Whether a shape begins with the number of rows of a local variable, before numbers.
        rows = self._counts | self._row_counts("len({})", "{}.shape[0]", "{}.size(0)")
        return bool(sizes) and ast.unparse(sizes[0]) in rows and all(map(self._is_size, sizes[1:]))

    def _is_size(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self._is_size(node.left) and self._is_size(node.right)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in self._row_counts("{}.shape"):
            place = _number(node.slice)
            if place == -1:
                self._may_mix(node)
            return place is not None and (place > 0 or place == -1)
        is_local = isinstance(node, ast.Name) and node.id in self._locals
        is_kept = isinstance(node, ast.Attribute) and self._is_kept_number(node)
        return _number(node) is not None or is_local or is_kept


def _is_function(name: str, node: ast.Call) -> bool:
    arguments = _arguments(node)
    if name in _ELEMENTWISE:
        return {keyword.arg for keyword in node.keywords} <= {"min", "max"}
    if arguments is None:
        return False
    if name == "one_hot":  # without a number of classes it has as many as the rows say
        return len(arguments) == 2
    if name in ("cat", "stack", "flatten"):
        return len(arguments) == 2 and _is_later(arguments[1], least=1 if name == "flatten" else -1)
    return name in _ACTIVATIONS and len(arguments) == 1


def _is_method(name: str, node: ast.Call) -> bool:
    arguments = _arguments(node)
    if name in _METHODS:
        return {keyword.arg for keyword in node.keywords} <= {"min", "max"}
    if not arguments:
        return False
    if name in ("flatten", "unflatten"):
        return _is_later(arguments[0], least=1)
    if name in ("squeeze", "unsqueeze"):
        return len(arguments) == 1 and _is_later(arguments[0])
    if name in ("chunk", "split"):
        return len(arguments) == 2 and _is_later(arguments[1])
    if name == "permute":
        return _number(arguments[0]) == 0
    return name == "transpose" and len(arguments) == 2 and all(_is_later(each, least=1) for each in arguments)


def _is_maximum(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "max"


def _arguments(node: ast.Call) -> list[ast.expr] | None:
    # The dimension last; None where the call has other keywords.
    are_known = [keyword.arg for keyword in node.keywords] in ([], ["dim"], ["start_dim"], ["num_classes"])
    return [*node.args, *(keyword.value for keyword in node.keywords)] if are_known else None


def _is_later(node: ast.expr, least: int = -1) -> bool:
    # Whether a dimension is not the first. -1 may be: rows of one dimension would change their number.
    number = _number(node)
    return number is not None and number >= least and number not in (0, None)


def _number(node: ast.expr) -> int | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    return sign * node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _are_columns(index: ast.expr) -> bool:
    # Whether an index takes the entry of a state, or columns of all rows.
    if isinstance(index, ast.Constant):
        return isinstance(index.value, str)
    if not isinstance(index, ast.Tuple):
        return False
    first, *others = index.elts
    are_numbers = all(
        _number(part) is not None or isinstance(part, ast.Constant) and part.value is None
        for other in others
        for part in ((other.lower, other.upper, other.step) if isinstance(other, ast.Slice) else (other,))
        if part is not None
    )
    return ast.unparse(first) in (":", "...") and are_numbers


def _is_number(value: object) -> bool:
    return value is None or type(value) in (bool, int, float)


@functools.lru_cache
def _definition(code: CodeType) -> ast.FunctionDef | None:
    # None where it is not found, or the file was edited since.
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
        compiled = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    if code not in _codes(compiled):
        return None
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    found = [node for node in nodes if (node.name, node.lineno) == (code.co_name, code.co_firstlineno)]
    return found[0] if len(found) == 1 else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
