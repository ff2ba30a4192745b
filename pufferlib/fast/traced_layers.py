"""Traces a policy that is written in plain torch into the layers that the kernel computes.

torch.fx records the operations of a call; each becomes a layer, a view of one, or the reason why torch computes the
policy. What the kernel then computes is compared with the policy on random rows, outputs and gradients, before it is
used. Policies that keep something, draw something, or mix rows are never traced: RowWise finds them.
"""

from __future__ import annotations

import dis
import functools
import math
import operator
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.distributions import Normal
from torch.nn import functional

from pufferlib.extensions import Convolution, Layers, Linear, Network, NetworkBatch, Normalizer
from pufferlib.extensions.cpu_library import CONSTANTS
from pufferlib.extensions.network_layers import (
    Activation,
    Add,
    Affine,
    Concatenate,
    Layer,
    Multiply,
    Norm,
    Pool,
    Shape,
)
from pufferlib.fast.policy_layers import are_as_written, is_altered, recurrent_layer, surroundings
from pufferlib.fast.traced_states import SharedCellError, StepStates, TracedState, UntracedError
from pufferlib.metrics.finished_episodes import EPSILON
from pufferlib.models import ActionHead, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import Logits, NormalizedObservations, training_forward
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

TOLERANCE = 1e-4
"""Of the largest number of a result: how far the kernel's may be from the policy's."""

_MODULES = {
    **{nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid", nn.SiLU: "silu"},
    **{nn.ELU: "elu", nn.LeakyReLU: "leaky_relu", nn.Softplus: "softplus", nn.GELU: "gelu"},
}
_DEFAULTS = {
    "elu": {"alpha": 1.0},
    "leaky_relu": {"negative_slope": 0.01},
    "softplus": {"beta": 1.0, "threshold": 20.0},
}
_FUNCTIONS = {
    **{torch.relu: "relu", functional.relu: "relu", torch.tanh: "tanh", functional.tanh: "tanh"},
    **{torch.sigmoid: "sigmoid", functional.sigmoid: "sigmoid", functional.silu: "silu", functional.elu: "elu"},
    **{functional.leaky_relu: "leaky_relu", functional.softplus: "softplus", functional.gelu: "gelu"},
}
_METHODS = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid"}
_KEPT = {"float", "contiguous"}  # methods of a tensor that leave its numbers


@dataclass(frozen=True)
class _Value:
    # Numbers of every row: a value of the layers, and the shape that torch gives it without rows.
    index: int
    shape: Shape
    divided: bool = False  # of bytes of the observation, whether they are brought to 0..1


@dataclass(frozen=True)
class _Deviation:
    # A parameter on its way to be the deviations of a normal distribution.
    log_std: nn.Parameter
    is_exponential: bool = False


class _Rows:
    # The number of rows, wherever the policy asks for it.
    def __repr__(self) -> str:
        return "the number of rows"


ROWS = _Rows()


class _Tracer(fx.Tracer):
    # Normal distributions of proxies are made without a look at their numbers, and may be returned.

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) is ActionHead or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *arguments: Any, **keywords: Any) -> fx.Node:
        node = super().create_node(*arguments, **keywords)
        node.meta["place"] = _place()
        return node

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Normal):
            return self.create_node("call_function", Normal, (self.create_arg(a.loc), self.create_arg(a.scale)), {})
        return super().create_arg(a)


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
    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _mark(value: Any) -> Any:
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


def _is_own(each: Any) -> bool:
    name = getattr(each, "__name__" if isinstance(each, ModuleType) else "__module__", None)
    root = (name or "torch").partition(".")[0]
    return root not in ("torch", "pufferlib") and root not in sys.stdlib_module_names


def trace(policy: nn.Module, rollout: Rollout) -> Layers:
    """Traces a policy that computes each row by itself; see RowWise and StepCode.

    Args:
        policy: as the trainer calls it.
        rollout: whose observations it sees.

    Raises:
        UntracedError: if it has an operation that the kernel does not know, or the kernel's results differ.
    """
    normalizer, inner = None, policy
    if type(inner) is NormalizedObservations:
        normalizer = Normalizer(inner.mean, inner.variance, EPSILON, inner.clip)
        inner = inner.policy
    own = inner.policy if type(inner) in (MinGRUWrapper, LSTMWrapper) else inner
    if type(own).__module__.startswith("pufferlib."):  # else its layers would have been found
        raise UntracedError("has parts, hooks or methods that the kernel does not know, or is frozen")
    own_states = rollout.states if hasattr(inner, "forward_eval") and inner is own else {}
    given = tuple(rollout.observations.shape[2:]), rollout.observations.dtype, normalizer is not None, own_states
    try:
        layers = _follow(inner, _Calls(*given, are_cells_layers=True), normalizer)
        is_shared = not layers.fit()
    except SharedCellError:
        is_shared = True
    if is_shared and own_states:
        layers = _follow(inner, _Calls(*given, are_cells_layers=False), normalizer)
    _check_parameters(policy, layers)
    if len(layers.layers) > CONSTANTS["NETWORK_MAX_LAYERS"]:
        raise UntracedError(f"has {len(layers.layers)} layers, more than {CONSTANTS['NETWORK_MAX_LAYERS']}")
    if not layers.fit():
        raise UntracedError("has layers that are not of the sizes and types that the kernel takes")
    _compare(policy, layers, rollout)
    return layers


def _follow(inner: nn.Module, calls: _Calls, normalizer: Normalizer | None) -> Layers:
    if type(inner) in (MinGRUWrapper, LSTMWrapper):
        recurrent = inner.layers if type(inner) is MinGRUWrapper else inner.cells
        hidden = calls.follow(inner.policy, "encode_observations", calls.observation)
        outputs = calls.follow(inner.policy, "decode_actions", calls.recur(hidden, recurrent))
    else:
        name = "forward_eval" if hasattr(inner, "forward_eval") else "forward"
        outputs = calls.follow(inner, name, calls.observation)
    return calls.finish(outputs, normalizer)


def _check_parameters(policy: nn.Module, layers: Layers) -> None:
    parameters, found = dict(policy.named_parameters()), [id(tensor) for tensor in layers.parameters()]
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            raise UntracedError(f"has a frozen parameter, {name}")
        if found.count(id(parameter)) != 1:
            raise UntracedError(f"{'shares' if id(parameter) in found else 'does not use'} its parameter {name}")


class _Calls(StepStates):
    # The layers of all calls of a policy, one after the other.

    def __init__(
        self,
        shape: Shape,
        dtype: torch.dtype,
        is_normalized: bool,
        states: Mapping[str, Tensor],
        are_cells_layers: bool,
    ):
        super().__init__(states, are_cells_layers)
        self.dtype, self.is_normalized = dtype, is_normalized
        self.layers: list[Layer] = []
        self.shapes: list[Shape] = [shape if len(shape) == 3 else (math.prod(shape),)]  # as the layers have them
        self.observation = _Value(0, shape)
        self._seen: set[bool] = set()  # whether readers of the observation want it divided
        self.place = ""
        self._is_only_user = True  # whether what the operation reads is read by nothing else

    def follow(self, module: nn.Module, name: str, given: _Value) -> Any:
        """The results of a method for a value, which may read and replace entries of a recurrent state."""
        tracer = _Tracer()
        tracer.traced_func_name = name
        function = getattr(type(module), name)
        others = {each: None for each in function.__code__.co_varnames[2 : function.__code__.co_argcount]}
        state = TracedState(tracer, self._entries)
        if self._entries:
            others = dict.fromkeys(others, state)
        validates = torch.distributions.Distribution._validate_args
        torch.distributions.Distribution.set_default_validate_args(False)
        kept = [dict(vars(part)) for part in module.modules()]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Was not able to add assertion")  # of a state that is no tensor
                graph = tracer.trace(module, others)
        except Exception as error:  # noqa: BLE001 - whatever a user's code raises on what is no tensor
            sentence = str(error).strip().splitlines()[0].split(". ")[0] if str(error).strip() else type(error).__name__
            raise UntracedError(f"cannot be traced: {sentence}") from error
        finally:
            torch.distributions.Distribution.set_default_validate_args(validates)
        if [dict(vars(part)) for part in module.modules()] != kept:
            raise UntracedError("keeps something in a call")
        results: dict[fx.Node, Any] = {}
        left = {name: getattr(value, "node", None) for name, value in state.items()}
        for node in graph.nodes:
            self.place = node.meta["place"]
            self._is_only_user = all(
                len(each.users) == 1 and each not in left.values() for each in node.all_input_nodes
            )
            if node.op == "placeholder":
                results[node] = given if not any(each.op == "placeholder" for each in results) else None
                continue
            arguments = fx.map_arg(node.args, results.__getitem__)
            keywords = fx.map_arg(node.kwargs, results.__getitem__)
            if node.op == "output":
                self.leave({name: results.get(each) for name, each in left.items()})
                return arguments[0]
            results[node] = self.operate(node.op, node.target, arguments, keywords, module)
        raise UntracedError("returns nothing")

    def finish(self, outputs: Any, normalizer: Normalizer | None) -> Layers:
        """The layers, of which `outputs` are the logits and the values."""
        if not isinstance(outputs, (tuple, list)) or len(outputs) != 2:
            raise UntracedError("returns something else than logits and values")
        logits, value = outputs
        if not isinstance(value, _Value) or value.shape not in ((), (1,)):
            raise UntracedError("returns values that are not one number of each row")
        log_std = None
        if isinstance(logits, tuple) and len(logits) == 2 and isinstance(logits[1], _Deviation):
            logits, deviation = logits
            log_std, parts = deviation.log_std, [1] * math.prod(logits.shape)
            if not deviation.is_exponential:
                raise UntracedError("has deviations that are not the exponential of a parameter")
            decisions = [logits]
        else:
            decisions = list(logits) if isinstance(logits, (tuple, list)) else [logits]
            if not all(isinstance(part, _Value) and len(part.shape) == 1 for part in decisions):
                raise UntracedError("returns logits that are not one row of numbers for each part")
            parts = [part.shape[0] for part in decisions]
        decision = decisions[0] if len(decisions) == 1 else self._concatenate(decisions)
        if decision.index == 0 or value.index == 0:
            raise UntracedError("returns its observation")
        return Layers(
            self.layers,
            self.shapes[0],
            parts,
            decision=decision.index,
            value=value.index,
            value_place=0,
            log_std=log_std,
            normalizer=normalizer,
            divides_bytes=self._seen == {True},
            state_places=self.state_places(),
        ).in_loops()

    def recur(self, value: Any, modules: Sequence[nn.Module]) -> _Value:
        """Recurrent layers of the library's wrappers."""
        if not isinstance(value, _Value) or len(value.shape) != 1:
            raise UntracedError("encodes observations as something else than one row of numbers")
        for module in modules:
            layer = recurrent_layer(module, self._read(value))
            if layer is None:
                raise UntracedError(f"has {type(module).__name__} for a recurrent layer")
            value = self._add(layer)
        return value

    # ------------------------------------------------------------------------------------------------------ layers

    def _add(self, layer: Layer, shape: Shape | None = None) -> _Value:
        found = layer.result([self.shapes[value] for value in layer.inputs])
        if found is None:
            self._refuse(f"{type(layer).__name__} of these sizes")
        self.layers.append(layer)
        self.shapes.append(found)
        return _Value(len(self.layers), found if shape is None else shape)

    def _read(self, value: _Value) -> int:
        if value.index == 0:
            self._seen.add(value.divided)
            if len(self._seen) > 1:
                self._refuse("observations that are divided by 255 in one place and not in another")
        return value.index

    def _refuse(self, what: str) -> None:
        raise UntracedError(f"has {what}{self.place}")

    def _layout(self, value: _Value) -> Shape:
        return self.shapes[value.index]

    def _linear(self, value: _Value, weight: Tensor, bias: Tensor | None) -> _Value:
        if len(value.shape) != 1:
            self._refuse("a linear layer on rows of more than one dimension")
        if value.index == 0 and len(self.shapes[0]) == 3:  # as it lies, channel after channel
            if any(0 in layer.inputs for layer in self.layers):
                self._refuse("a linear layer on an observation that convolutions read as well")
            self.shapes[0] = value.shape
        return self._add(Linear((self._read(value),), weight, bias))

    def _activate(self, value: _Value, activation: str) -> _Value:
        last = self.layers[-1] if self.layers else None
        is_last = value.index == len(self.layers) and self._is_only_user
        if is_last and type(last) is Linear and last.activation == "linear":
            self.layers[-1] = replace(last, activation=activation)
            return value
        if is_last and type(last) is Convolution and activation == "relu" and not last.is_rectified:
            self.layers[-1] = replace(last, is_rectified=True)
            return value
        return self._add(Activation((self._elementwise(value),), activation), value.shape)

    def _elementwise(self, value: _Value) -> int:
        # An image of the observation lies otherwise than images of layers do.
        if value.index == 0 and len(self.shapes[0]) == 3:
            self._refuse("an operation on an image that is no convolution")
        return self._read(value)

    def _concatenate(self, values: Sequence[_Value], parts: Sequence[tuple[int, int]] | None = None) -> _Value:
        parts = parts or [(0, value.shape[0]) for value in values]
        if any(len(value.shape) != 1 or self._layout(value) != value.shape for value in values) or len(values) > 8:
            self._refuse("parts of something else than rows of numbers, or more than 8 side by side")
        return self._add(Concatenate(tuple(map(self._elementwise, values)), tuple(parts)))

    def _arithmetic(self, kind: type[Layer], left: Any, right: Any) -> _Value:
        is_add = kind is Add
        if isinstance(left, _Value) and isinstance(right, _Value):
            if left.shape != right.shape or self._layout(left) != self._layout(right):
                self._refuse("a sum or product of different shapes")
            return self._add(kind((self._elementwise(left), self._elementwise(right))), left.shape)
        value, number = (left, right) if isinstance(left, _Value) else (right, left)
        if not isinstance(value, _Value) or type(number) not in (int, float):
            self._refuse("a sum or product with something that is neither a number nor a row")
        numbers = (1.0, float(number)) if is_add else (float(number), 0.0)
        return self._add(Affine((self._elementwise(value),), numbers), value.shape)

    # -------------------------------------------------------------------------------------------------- operations

    def _get_attr(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        found = operator.attrgetter(target)(module)
        if not isinstance(found, nn.Parameter):
            self._refuse(f"the tensor {target}, which is no parameter")
        return _Deviation(found)

    def _call_module(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        found, (value, *others) = module.get_submodule(target), arguments
        if others or keywords or not isinstance(value, _Value):
            self._refuse(f"{type(found).__name__} of more than one tensor")
        kind = type(found)
        if kind in (nn.Identity,) or (kind is nn.Dropout and found.p == 0):
            return value
        if kind is nn.Linear:
            return self._linear(value, found.weight, found.bias)
        if kind is ActionHead:
            return self._decide(found, value)
        if kind in _MODULES:
            name = _MODULES[kind]
            if any(getattr(found, key) != expected for key, expected in _DEFAULTS.get(name, {}).items()):
                self._refuse(f"{kind.__name__} with other settings than its defaults")
            return self._activate(value, "gelu_tanh" if getattr(found, "approximate", "none") == "tanh" else name)
        if kind in (nn.LayerNorm, nn.RMSNorm) and tuple(found.normalized_shape) == value.shape:
            epsilon = torch.finfo(torch.float32).eps if found.eps is None else found.eps
            bias = getattr(found, "bias", None)
            return self._add(Norm((self._elementwise(value),), found.weight, bias, epsilon, kind is nn.LayerNorm))
        if kind is nn.Flatten and (found.start_dim, found.end_dim) == (1, -1):
            return replace(value, shape=(math.prod(value.shape),))
        if kind is nn.Conv2d:
            return self._convolve(value, found)
        if kind in (nn.MaxPool2d, nn.AvgPool2d):
            return self._pool(value, found)
        return self._refuse(f"{kind.__name__} as `{target}`, which the kernel does not know,")

    def _decide(self, head: ActionHead, value: _Value) -> tuple[Any, _Value]:
        *parts, last = self._split(
            "split", self._linear(value, head.linear.weight, head.linear.bias), [[*head.sizes, 1]]
        )
        if head.is_continuous and (head.is_joint or not all(head._are_numbers)):
            self._refuse("ActionHead of numbers and choices")
        if head.is_continuous:
            return (parts[0], _Deviation(head.log_std, True)), last
        return tuple(parts) if head.is_joint else parts[0], last

    def _convolve(self, value: _Value, module: nn.Conv2d) -> _Value:
        size, stride = module.kernel_size, module.stride
        padding = {"same": size[0] // 2, "valid": 0}.get(module.padding, module.padding)
        padding = padding[0] if isinstance(padding, tuple) and len(set(padding)) == 1 else padding
        is_plain = (module.dilation, module.groups, module.padding_mode) == ((1, 1), 1, "zeros")
        is_centered = module.padding != "same" or size[0] % 2 == 1
        are_square = size[0] == size[1] and stride[0] == stride[1] and isinstance(padding, int) and is_centered
        if not is_plain or not are_square or len(value.shape) != 3:
            self._refuse("a convolution that is not of square filters without dilation and groups")
        if value.shape != self._layout(value):
            self._refuse("a convolution on a row that was no image")
        observed = value.shape[0] if value.index == 0 else 0
        settings = {"observed": observed, "is_rectified": False, "padding": padding}
        return self._add(Convolution((self._read(value),), module.weight, module.bias, stride[0], **settings))

    def _pool(self, value: _Value, module: nn.MaxPool2d | nn.AvgPool2d) -> _Value:
        is_largest = type(module) is nn.MaxPool2d
        given = module.kernel_size, module.stride or module.kernel_size, module.padding
        sizes = [each[0] if isinstance(each, tuple) and len(set(each)) == 1 else each for each in given]
        is_plain = not module.ceil_mode and (
            (module.dilation == 1 and not module.return_indices)
            if is_largest
            else (module.count_include_pad and module.divisor_override is None)
        )
        if not is_plain or not all(isinstance(size, int) for size in sizes) or self._layout(value) != value.shape:
            self._refuse(f"{type(module).__name__} that is not of plain square windows of an image")
        return self._add(Pool((self._elementwise(value),), *sizes, is_largest))

    def _call_function(self, target: Callable, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        if target in (operator.getitem, getattr):
            return self._index(target, *arguments)
        if target is Normal:
            mean, deviation = arguments
            if isinstance(mean, _Value) and isinstance(deviation, _Deviation) and len(mean.shape) == 1:
                return mean, deviation
        if target is torch.broadcast_tensors:
            return arguments
        if target is torch.exp and isinstance(arguments[0], _Deviation):
            return replace(arguments[0], is_exponential=True)
        if target in _FUNCTIONS and isinstance(arguments[0], _Value) and len(arguments) == 1:
            name, settings = _FUNCTIONS[target], dict(keywords)
            is_approximate = name == "gelu" and settings.pop("approximate", "none") == "tanh"
            if not any(settings.pop(key, expected) != expected for key, expected in _DEFAULTS.get(name, {}).items()):
                settings.pop("inplace", None)
                if not settings:
                    return self._activate(arguments[0], "gelu_tanh" if is_approximate else name)
        if target in (operator.add, operator.iadd, torch.add) and not keywords:
            return self._arithmetic(Add, *arguments)
        if target in (operator.mul, operator.imul, torch.mul) and not keywords:
            return self._arithmetic(Multiply, *arguments)
        if target in (operator.sub, torch.sub) and not keywords:
            return self._subtract(*arguments)
        if target in (operator.truediv, torch.div) and not keywords:
            return self._divide(*arguments)
        if target is operator.neg:
            return self._arithmetic(Multiply, arguments[0], -1.0)
        if target in (torch.cat, torch.concat):
            values, dimension = arguments[0], keywords.get("dim", arguments[1] if len(arguments) > 1 else 0)
            if dimension in (1, -1) and all(isinstance(value, _Value) for value in values):
                return self._concatenate(values)
        name = getattr(target, "__name__", str(target))
        if name == "_assert_is_none":  # of an argument that is left out
            return None
        if target is torch.flatten:
            return self._call_method("flatten", arguments, keywords, module)
        return self._refuse(f"the function {name}, which the kernel does not know in this form,")

    def _subtract(self, left: Any, right: Any) -> _Value:
        if isinstance(right, _Value):
            right = self._arithmetic(Multiply, right, -1.0)
            return self._arithmetic(Add, left, right)
        return self._arithmetic(Add, left, -right if type(right) in (int, float) else right)

    def _divide(self, value: Any, number: Any) -> _Value:
        if not isinstance(value, _Value) or type(number) not in (int, float) or number == 0:
            self._refuse("a division by something that is no number")
        is_of_bytes = value.index == 0 and self.dtype == torch.uint8 and not self.is_normalized
        if is_of_bytes and number == 255 and not value.divided:
            return replace(value, divided=True)
        return self._arithmetic(Multiply, value, 1.0 / number)

    def _index(self, target: Callable, value: Any, key: Any) -> Any:
        if isinstance(value, (tuple, list)) and isinstance(key, int):
            return value[key]
        if target is getattr and isinstance(value, _Value) and key == "shape":
            return (ROWS, *value.shape)
        columns = key[1:] if isinstance(key, tuple) and key[0] in (slice(None), Ellipsis) else ()
        if isinstance(value, _Value) and len(value.shape) == 1 and len(columns) == 1:
            (column,) = columns
            if isinstance(column, int):
                first = column % value.shape[0]
                return replace(self._concatenate([value], [(first, 1)]), shape=())
            if isinstance(column, slice) and column.step in (None, 1):
                first, end, _ = column.indices(value.shape[0])
                if first < end:
                    return self._concatenate([value], [(first, end - first)])
        return self._refuse("an index that is not of columns")

    def _call_method(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        value, *others = arguments
        if isinstance(value, _Deviation):
            if target == "exp":
                return replace(value, is_exponential=True)
            if target in ("expand_as", "expand"):
                return value
        if isinstance(value, _Value):
            if target in _METHODS and not others:
                return self._activate(value, _METHODS[target])
            if target in _KEPT or (target == "to" and others in ([torch.float32], [torch.float])):
                return value
            if target in ("flatten", "view", "reshape", "squeeze", "size"):
                return self._shape_of(target, value, others, keywords)
            if target in ("split", "chunk", "unbind") and keywords.get("dim", others[-1] if others else 0) in (1, -1):
                return self._split(target, value, others)
        return self._refuse(f"the method {target}, which the kernel does not know in this form,")

    def _shape_of(self, target: str, value: _Value, others: Sequence[Any], keywords: dict) -> Any:
        if target == "size":
            sizes = (ROWS, *value.shape)
            return sizes if not others else sizes[others[0]]
        if target == "flatten":
            first = keywords.get("start_dim", others[0] if others else 0) % (len(value.shape) + 1)
            if first == 1 and len(others) < 2:
                return replace(value, shape=(math.prod(value.shape),))
        elif target == "squeeze" and (others or [keywords.get("dim")])[0] in (1, -1) and value.shape in ((1,), ()):
            return replace(value, shape=())
        elif target in ("view", "reshape"):
            sizes = list(others[0] if len(others) == 1 and isinstance(others[0], (tuple, list)) else others)
            if sizes[:1] == [ROWS] or (sizes[:1] == [-1] and -1 not in sizes[1:]):
                known = math.prod(size for size in sizes[1:] if size != -1)
                shape = tuple(math.prod(value.shape) // max(known, 1) if size == -1 else size for size in sizes[1:])
                is_flat = len(shape) <= 1 or value.index == 0
                if is_flat and math.prod(shape) == math.prod(value.shape):
                    if value.index == 0 and len(shape) == 3 and not any(0 in layer.inputs for layer in self.layers):
                        self.shapes[0] = shape
                    return replace(value, shape=shape)
            if sizes == [-1] and value.shape in ((), (1,)):
                return replace(value, shape=())
        return self._refuse(f"the method {target} with a shape that the kernel does not know")

    def _split(self, target: str, value: _Value, others: Sequence[Any]) -> list[_Value]:
        count = value.shape[0]
        if len(value.shape) != 1 or not others:
            self._refuse(f"the method {target} of something else than rows of numbers")
        sizes = others[0]
        if target == "chunk":
            sizes = -(-count // sizes)
        if isinstance(sizes, int):
            sizes = [min(sizes, count - first) for first in range(0, count, sizes)]
        firsts = [sum(sizes[:index]) for index in range(len(sizes))]
        return [self._concatenate([value], [part]) for part in zip(firsts, sizes, strict=True)]


def _place() -> str:
    # The line of the user's code that is being traced.
    frame = sys._getframe(1)
    while frame.f_code.co_name != "follow":
        path = Path(frame.f_code.co_filename)
        if "torch" not in path.parts and path.parent != Path(__file__).parent:
            return f" ({path.name}, line {frame.f_lineno})"
        frame = frame.f_back
    return ""


# ---------------------------------------------------------------------------------------------------------- comparing


def _compare(policy: nn.Module, layers: Layers, rollout: Rollout) -> None:
    generator = torch.Generator().manual_seed(0)
    count, steps = 12, 1 if layers.num_states == 0 else 3
    observations = rollout.observations
    shape = (count, steps, *observations.shape[2:])
    if observations.dtype.is_floating_point:
        seen = torch.randn(shape, generator=generator).to(observations.dtype)
    else:
        seen = torch.randint(0, 128, shape, generator=generator).to(observations.dtype)
    resets = torch.rand(count, steps, generator=generator) < 0.3
    entries = {name: torch.randn(count, *each.shape[1:], generator=generator) for name, each in rollout.states.items()}
    states = [each.contiguous() for each in layers.states_of(entries.values())]
    with torch.enable_grad():
        logits, values = _call(policy, layers, seen, entries, resets)
        actions = _draw(layers, (count, steps), generator)
        _, logprobs, entropy = sample_logits(logits, action=actions.view(*_action_shape(actions, layers)))
        logprobs, values, entropy = (tensor.float().view(count, steps) for tensor in (logprobs, values, entropy))
        noise = [0.3 * torch.randn(count, steps, generator=generator) for _ in range(4)]
        old = [logprobs.detach() + 0.1 * noise[0], values.detach() + noise[1], noise[2], noise[3]]
        coefficients = {"clip_coef": 0.2, "vf_clip_coef": 10.0, "vf_coef": 0.5, "ent_coef": 0.01}
        loss = ppo_loss(logprobs, values, entropy, *old, None, **coefficients)
        parameters = layers.parameters()
        expected = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    batch = NetworkBatch(torch.arange(count), actions, resets, states, *old, None)
    learned = Network(layers).learn(seen, batch, **coefficients)
    _check_close("values", learned.values, values.detach())
    _check_close("log-probabilities", learned.ratios.log(), (logprobs.detach() - old[0]))
    for parameter, found, gradient in zip(parameters, learned.gradients, expected, strict=True):
        name = next(name for name, each in policy.named_parameters() if each is parameter)
        if gradient is None:
            raise UntracedError(f"does not use its parameter {name}")
        _check_close(f"gradient of {name}", found, gradient)


def _call(
    policy: nn.Module, layers: Layers, seen: Tensor, states: dict[str, Tensor], resets: Tensor
) -> tuple[Logits, Tensor]:
    if not layers.num_states:
        return training_forward(policy, policy)(seen.flatten(0, 1), {})
    return policy(seen, {**{name: state.clone() for name, state in states.items()}, "resets": resets})


def _draw(layers: Layers, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    if layers.log_std is not None:
        return torch.randn(*shape, len(layers.parts), generator=generator)
    drawn = [torch.randint(0, size, shape, generator=generator) for size in layers.parts]
    return torch.stack(drawn, -1).int()


def _action_shape(actions: Tensor, layers: Layers) -> tuple[int, ...]:
    # Of the actions as sample_logits takes them.
    count, steps, parts = actions.shape
    rows = (count, steps) if layers.num_states else (count * steps,)
    return rows if layers.log_std is None and parts == 1 else (*rows, parts)


def _check_close(name: str, found: Tensor, expected: Tensor) -> None:
    limit = TOLERANCE * max(expected.abs().max().item(), 1e-3)
    difference = (found - expected).abs().max().item()
    if not difference <= limit:
        raise UntracedError(
            f"differs from what the kernel makes of it: {name} by {difference:.2g}, of {limit:.2g} allowed"
        )
