"""Traces a policy that is written in plain torch into the layers that the kernel computes.

torch.fx records the operations of a call; each becomes a layer, a view of one, or the reason why torch computes the
policy. What the kernel then computes is compared with the policy on random rows, outputs and gradients, before it is
used. A policy that keeps something in a call, or draws something, is not traced.
"""

from __future__ import annotations

import math
import operator
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.distributions import Normal
from torch.nn import functional

from pufferlib import emulation, pytorch
from pufferlib.emulation import tensors
from pufferlib.extensions import Convolution, Layers, Linear, Normalizer
from pufferlib.extensions.cpu_library import CONSTANTS
from pufferlib.extensions.network_layers import (
    Activation,
    Add,
    Affine,
    Arrange,
    Compare,
    Concatenate,
    Fields,
    Layer,
    Multiply,
    Norm,
    Pool,
    Scale,
    Shape,
)
from pufferlib.fast.compared_layers import compare
from pufferlib.fast.policy_layers import recurrent_layer
from pufferlib.fast.policy_watch import OwnCode, copy_structure, find_kept, is_altered
from pufferlib.fast.traced_entities import BYTES, EntityLayers, Integers, Mask, Operand, Scores, Turned, Value, dtype_of
from pufferlib.fast.traced_states import KEPT, SharedCellError, StepStates, TracedState, UntracedError
from pufferlib.metrics.finished_episodes import EPSILON
from pufferlib.models import ActionHead, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import NormalizedObservations
from pufferlib.ppo.rollout import Rollout
from pufferlib.spaces import Layout

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
_CASTS = {torch.float32: "float", torch.int64: "long", torch.int32: "int", torch.bool: "bool"}
_COMPARISONS = {
    **{operator.gt: "GREATER", operator.ge: "GREATER_EQUAL", operator.lt: "LESS", operator.le: "LESS_EQUAL"},
    **{operator.eq: "EQUAL", operator.ne: "UNEQUAL"},
}
_ARITHMETIC = {operator.add, operator.sub, operator.mul, operator.neg, torch.add, torch.sub, torch.mul}
_OF_NUMBERS = {math.sqrt, operator.pow, operator.mul, operator.truediv, operator.floordiv, operator.sub, operator.add}
_REDUCTIONS = {torch.mean: "mean", torch.sum: "sum", torch.max: "max", torch.amax: "amax"}


@dataclass(frozen=True)
class _Parameter:
    # A parameter or a constant of the policy, or its exponential.
    tensor: Tensor
    is_exponential: bool = False


class _Rows:
    # The number of rows, wherever the policy asks for it.
    def __repr__(self) -> str:
        return "the number of rows"


ROWS = _Rows()


class _Tracer(fx.Tracer):
    # Normal distributions of proxies are made without a look at their numbers, and may be returned.

    proxy_buffer_attributes = True

    def __init__(self) -> None:
        super().__init__(autowrap_functions=(tensors.nativize, pytorch.nativize_tensor))
        self._autowrap_search += emulation, tensors, pytorch  # where they may be called as an attribute

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) is ActionHead or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *arguments: Any, **keywords: Any) -> fx.Node:
        node = super().create_node(*arguments, **keywords)
        node.meta["place"] = _place(traceback.walk_stack(None))
        return node

    def create_arg(self, a: object) -> object:
        if isinstance(a, Layout):
            return a
        if isinstance(a, Tensor) and a not in self.tensor_attrs and not isinstance(a, nn.Parameter):
            raise UntracedError(f"has a tensor that it makes in a call{_place(traceback.walk_stack(None))}")
        if isinstance(a, Normal):
            return self.create_node("call_function", Normal, (self.create_arg(a.loc), self.create_arg(a.scale)), {})
        return super().create_arg(a)


def trace(policy: nn.Module, rollout: Rollout) -> Layers:
    """Traces a policy of any classes.

    Args:
        policy: as the trainer calls it.
        rollout: whose observations it sees.

    Raises:
        UntracedError: if it has an operation that the kernel does not know, or the kernel's results differ.
    """
    if is_altered(policy):
        raise UntracedError("has hooks or replaced methods")
    doubt = OwnCode(policy).doubt
    if doubt is not None:
        raise UntracedError(doubt)
    normalizer, inner = None, policy
    if type(inner) is NormalizedObservations:
        normalizer = Normalizer(inner.mean, inner.variance, EPSILON, inner.clip)
        inner = inner.policy
    own = inner.policy if type(inner) in (MinGRUWrapper, LSTMWrapper) else inner
    if type(own).__module__.startswith("pufferlib."):  # else its layers would have been found
        raise UntracedError("has parts, hooks or methods that the kernel does not know")
    own_states = rollout.states if hasattr(inner, "forward_eval") and inner is own else {}
    given = tuple(rollout.observations.shape[2:]), rollout.observations.dtype, normalizer is not None, own_states
    calls = _Calls(*given, are_cells_layers=True)
    try:
        layers = _follow(inner, calls, normalizer)
        is_shared = not layers.fit()
    except SharedCellError:
        is_shared = True
    if is_shared and own_states:
        calls = _Calls(*given, are_cells_layers=False)
        layers = _follow(inner, calls, normalizer)
    trained = {id(parameter) for parameter in policy.parameters() if parameter.requires_grad}
    layers = replace(layers, constants=[tensor for tensor in layers.tensors() if id(tensor) not in trained])
    if not layers.parameters():
        raise UntracedError("has no parameter that is trained")
    if len(layers.layers) > CONSTANTS["NETWORK_MAX_LAYERS"]:
        raise UntracedError(f"has {len(layers.layers)} layers, more than {CONSTANTS['NETWORK_MAX_LAYERS']}")
    if not layers.fit():
        raise UntracedError("has layers that are not of the sizes and types that the kernel takes")
    try:
        compare(policy, layers, rollout, calls.counts)
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UntracedError(f"cannot be compared with the kernel: {str(error).splitlines()[0]}") from error
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


class _Calls(StepStates, EntityLayers):
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
        self.observation = Value(0, shape, is_whole=not (dtype.is_floating_point or is_normalized))
        self._seen: set[bool] = set()  # whether readers of the observation want it divided
        self.place = ""
        self._is_only_user = True  # whether what the operation reads is a layer's result that nothing else reads
        self._packed: Layout | None = None  # of observations that are packed in bytes
        self._arranged: dict[tuple[int, Shape], Value] = {}  # values with their numbers in another order in memory
        self.counts: dict[int, int] = {}  # numbers of the observation that are categories, and how many there are

    def follow(self, module: nn.Module, name: str, given: Value) -> Any:
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
        copied = copy_structure(module, copies_constants=False)
        kept = find_kept(copied)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Was not able to add assertion")  # of a state that is no tensor
                graph = tracer.trace(copied, others)
        except UntracedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code raises on what is no tensor
            sentence = str(error).strip().splitlines()[0].split(". ")[0] if str(error).strip() else type(error).__name__
            place = _place(reversed([*traceback.walk_tb(error.__traceback__)]))
            raise UntracedError(f"cannot be traced: {sentence}{place}") from error
        finally:
            torch.distributions.Distribution.set_default_validate_args(validates)
        after = find_kept(copied)
        changed = [name for name in {**after, **kept} if after.get(name) != kept.get(name)]
        if changed:
            raise UntracedError(f"keeps something in a call: {changed[0].removeprefix('.')}")
        results: dict[fx.Node, Any] = {}
        left = {name: getattr(value, "node", None) for name, value in state.items()}
        makers: list[fx.Node] = []  # of the last layer
        for node in graph.nodes:
            self.place = node.meta["place"]
            are_makers = bool(makers) and node.all_input_nodes == makers
            self._is_only_user = are_makers and len(makers[0].users) == 1 and makers[0] not in left.values()
            if node.op == "placeholder":
                results[node] = given if not any(each.op == "placeholder" for each in results) else None
                continue
            arguments = fx.map_arg(node.args, results.__getitem__)
            keywords = fx.map_arg(node.kwargs, results.__getitem__)
            before = len(self.layers)
            try:
                if node.op == "output":
                    self.leave({name: results.get(each) for name, each in left.items()})
                    return arguments[0]
                results[node] = self.operate(node.op, node.target, arguments, keywords, module)
            except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
                name = getattr(node.target, "__name__", node.target)
                raise UntracedError(f"has {name} in a form that the kernel does not know{self.place}") from error
            makers = [node] if len(self.layers) > before else makers
        raise UntracedError("returns nothing")

    def finish(self, outputs: object, normalizer: Normalizer | None) -> Layers:
        """The layers, of which `outputs` are the logits and the values."""
        if not isinstance(outputs, (tuple, list)) or len(outputs) != 2:
            raise UntracedError("returns something else than logits and values")
        logits, value = outputs
        if not isinstance(value, Value) or value.shape not in ((), (1,)):
            raise UntracedError("returns values that are not one number of each row")
        log_std = None
        if isinstance(logits, tuple) and len(logits) == 2 and isinstance(logits[1], _Parameter):
            logits, deviation = logits
            log_std, parts = deviation.tensor, [1] * math.prod(logits.shape)
            if not deviation.is_exponential:
                raise UntracedError("has deviations that are not the exponential of a parameter")
            decisions = [logits]
        else:
            decisions = list(logits) if isinstance(logits, (tuple, list)) else [logits]
            if not all(isinstance(part, Value) and len(part.shape) == 1 for part in decisions):
                raise UntracedError("returns logits that are not one row of numbers for each part")
            parts = [part.shape[0] for part in decisions]
        decision = self._row(decisions[0]) if len(decisions) == 1 else self._concatenate(decisions)
        if decision.index == 0 or value.index == 0:
            raise UntracedError("returns its observation")
        value, fields = self._row(value), None
        if self._packed is not None:
            places = [(dtype_of(leaf), leaf.offset, math.prod(leaf.shape)) for leaf in self._packed.leaves]
            fields = Fields(places, math.prod(self._packed.row_space.shape))
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
            fields=fields,
            state_places=self.state_places(),
        ).in_loops()

    def recur(self, value: Operand, modules: Sequence[nn.Module]) -> Value:
        """Recurrent layers of the library's wrappers."""
        if not isinstance(value, Value) or len(value.shape) != 1:
            raise UntracedError("encodes observations as something else than one row of numbers")
        for module in modules:
            layer = recurrent_layer(module, self._read(self._row(value)))
            if layer is None:
                raise UntracedError(f"has {type(module).__name__} for a recurrent layer")
            value = self._add(layer)
        return value

    # ------------------------------------------------------------------------------------------------------ layers

    def _add(self, layer: Layer, shape: Shape | None = None) -> Value:
        found = layer.result([self.shapes[value] for value in layer.inputs])
        if found is None:
            self._refuse(f"{type(layer).__name__} of these sizes")
        self.layers.append(layer)
        self.shapes.append(found)
        return Value(len(self.layers), found if shape is None else shape)

    def _read(self, value: Value) -> int:
        if value.index == 0:
            if self._packed is not None:
                self._refuse(BYTES)
            self._seen.add(value.divided)
            if len(self._seen) > 1:
                self._refuse("observations that are divided by 255 in one place and not in another")
        return value.index

    def _refuse(self, what: str) -> None:
        raise UntracedError(f"has {what}{self.place}")

    # In memory the numbers of a value lie in torch's order, `(numbers,)`; as entities, `(features, entities)`, each of
    # which is padded; or as an image, `(channels, height, width)`, with its channels last.

    def _row(self, value: Value) -> Value:
        return self._arrange(value, (math.prod(value.shape),))

    def _plain(self, value: Value) -> Value:
        return self._row(value) if len(value.shape) < 2 else self._entities(value)

    def _entities(self, value: Value) -> Value:
        if len(value.shape) != 2:
            self._refuse("a layer on something else than rows and entities of numbers")
        return self._arrange(value, value.shape[::-1])

    def _arrange(self, value: Value, target: Shape) -> Value:
        found = self.shapes[value.index]
        if found == target:
            return value
        if value.index == 0 and len(found) == 3:  # as it lies, channel after channel
            if any(0 in layer.inputs for layer in self.layers):
                self._refuse("a linear layer on an observation that convolutions read as well")
            self.shapes[0] = (math.prod(found),)
            return self._arrange(value, target)
        if 1 not in (len(found), len(target)):
            value = self._row(value)
        key = value.index, target
        if key not in self._arranged:
            self._arranged[key] = self._add(Arrange((self._read(value),), target))
        return replace(self._arranged[key], shape=value.shape, is_whole=value.is_whole)

    def _linear(self, value: Value, weight: Tensor, bias: Tensor | None) -> Value:
        if len(value.shape) == 2:
            layer = Linear((self._read(self._entities(value)),), weight, bias, of_each=True)
            return self._add(layer, (value.shape[0], len(weight)))
        if len(value.shape) != 1:
            self._refuse("a linear layer on rows of more than two dimensions")
        is_image = value.index > 0 and len(self.shapes[value.index]) == 3  # whose channels torch has first
        return self._add(Linear((self._read(value if is_image else self._row(value)),), weight, bias))

    def _activate(self, value: Value, activation: str) -> Value:
        last = self.layers[-1] if self.layers else None
        is_last = value.index == len(self.layers) and self._is_only_user
        if is_last and type(last) is Linear and last.activation == "linear":
            self.layers[-1] = replace(last, activation=activation)
            return value
        if is_last and type(last) is Convolution and activation == "relu" and not last.is_rectified:
            self.layers[-1] = replace(last, is_rectified=True)
            return value
        return self._add(Activation((self._elementwise(value),), activation), value.shape)

    def _elementwise(self, value: Value) -> int:
        # An image of the observation lies otherwise than images of layers do.
        if value.index == 0 and len(self.shapes[0]) == 3:
            self._refuse("an operation on an image that is no convolution")
        return self._read(value)

    def _concatenate(self, values: Sequence[Value], parts: Sequence[tuple[int, int]] | None = None) -> Value:
        parts = parts or [(0, math.prod(value.shape)) for value in values]
        if len(values) > 8:
            self._refuse("more than 8 parts side by side")
        return self._add(Concatenate(tuple(self._elementwise(self._row(value)) for value in values), tuple(parts)))

    def _join(self, values: Sequence[Value], dimension: int) -> Value:
        # torch.cat, of rows or of entities.
        sizes, others = len(values[0].shape), {value.shape[1:] for value in values}
        if sizes in (1, 2) and dimension in (1, -sizes) and len(others) == 1:
            found = self._concatenate(values)
            count = math.prod(found.shape) // math.prod(values[0].shape[1:])
            is_whole = all(value.is_whole for value in values)
            return replace(found, shape=(count, *values[0].shape[1:]), is_whole=is_whole)
        if sizes != 2 or dimension not in (2, -1) or len({value.shape[0] for value in values}) != 1 or len(values) > 8:
            self._refuse("parts of different shapes, or more than 8 side by side")
        parts = tuple((0, value.shape[1]) for value in values)
        found = self._add(Concatenate(tuple(self._elementwise(self._entities(value)) for value in values), parts))
        return replace(found, shape=found.shape[::-1])

    def _arithmetic(self, kind: type[Layer], left: Operand, right: Operand) -> Value:
        is_add = kind is Add
        if isinstance(left, Value) and isinstance(right, Value):
            if left.shape != right.shape:
                self._refuse("a sum or product of different shapes")
            if self.shapes[left.index] != self.shapes[right.index]:
                left, right = map(self._plain, (left, right))
            return self._add(kind((self._elementwise(left), self._elementwise(right))), left.shape)
        value, number = (left, right) if isinstance(left, (Value, Scores)) else (right, left)
        if isinstance(number, _Parameter) and isinstance(value, Value):
            return self._scale(value, number.tensor if not is_add else None, number.tensor if is_add else None)
        if isinstance(value, Scores) and not is_add and type(number) in (int, float) and len(value.inputs) == 2:
            return replace(value, scale=value.scale * number)
        if not isinstance(value, Value) or type(number) not in (int, float):
            self._refuse("a sum or product with something that is neither a number nor a row")
        numbers = (1.0, float(number)) if is_add else (float(number), 0.0)
        return self._add(Affine((self._elementwise(value),), numbers), value.shape)

    def _scale(self, value: Value, weight: Tensor | None, bias: Tensor | None, **signs: float) -> Value:
        tensor = bias if weight is None else weight
        if tensor.dtype != torch.float32 or not tensor.dim() <= len(value.shape) <= 2:
            self._refuse(f"arithmetic with a tensor of {tuple(tensor.shape)}")
        if tensor.numel() > 1 and tensor.numel() != tensor.shape[-1] or tensor.numel() not in (1, value.shape[-1]):
            self._refuse(f"arithmetic with a tensor of {tuple(tensor.shape)}")
        value = self._plain(value)
        return self._add(Scale((self._elementwise(value),), weight, bias, **signs), value.shape)

    # -------------------------------------------------------------------------------------------------- operations

    def _get_attr(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        return _Parameter(operator.attrgetter(target)(module))

    def _call_module(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        found, (value, *others) = module.get_submodule(target), arguments
        if type(found) is nn.Embedding:
            if found.padding_idx is not None or found.scale_grad_by_freq or found.sparse:
                self._refuse("Embedding with other settings than its defaults")
            return self._embed(value, found.weight)
        if type(found) is nn.MultiheadAttention:
            return self._attend_to_itself(found, arguments, keywords)
        if type(found) is nn.Softmax and isinstance(value, Scores) and not others:
            return self._call_function(torch.softmax, (value, found.dim), {}, module)
        if others or keywords or not isinstance(value, Value):
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
        if kind in (nn.LayerNorm, nn.RMSNorm) and tuple(found.normalized_shape) == value.shape[-1:]:
            epsilon = torch.finfo(torch.float32).eps if found.eps is None else found.eps
            settings, of_each = (epsilon, kind is nn.LayerNorm), len(value.shape) > 1
            index = self._elementwise(self._plain(value))
            layer = Norm((index,), found.weight, getattr(found, "bias", None), *settings, of_each=of_each)
            return self._add(layer, value.shape)
        if kind is nn.Flatten and (found.start_dim, found.end_dim) == (1, -1):
            return replace(value, shape=(math.prod(value.shape),))
        if kind in (nn.Conv1d, nn.Conv2d):
            return self._convolve(value, found)
        if kind in (nn.MaxPool2d, nn.AvgPool2d):
            return self._pool(value, found)
        return self._refuse(f"{kind.__name__} as `{target}`, which the kernel does not know,")

    def _decide(self, head: ActionHead, value: Value) -> tuple[Any, Value]:
        if head.is_continuous and (head.is_joint or not all(head._are_numbers)):
            self._refuse("ActionHead of numbers and choices")
        output = self._linear(value, head.linear.weight, head.linear.bias)
        *parts, last = self._split("split", output, [[*head.sizes, 1], -1], {})
        last = replace(last, shape=last.shape[:-1])
        if head.is_continuous:
            return (parts[0], _Parameter(head.log_std, True)), last
        return tuple(parts) if head.is_joint else parts[0], last

    def _image(self, value: Value) -> Value:
        shape = value.shape if len(value.shape) != 2 else (value.shape[0], 1, value.shape[1])
        if len(shape) != 3:
            self._refuse("a convolution or windows of something else than an image")
        return self._arrange(value, shape)

    def _convolve(self, value: Value, module: nn.Conv1d | nn.Conv2d) -> Value:
        is_line = type(module) is nn.Conv1d
        given = module.stride, module.dilation, module.kernel_size
        stride, dilation, size = ((1,) * is_line + each for each in given)
        around = [step * (each - 1) for step, each in zip(dilation, size, strict=True)]
        padding = {"valid": (0, 0), "same": tuple(each // 2 for each in around)}.get(module.padding, module.padding)
        padding = (0,) * (2 - len(padding)) + padding
        is_centered = module.padding != "same" or all(each % 2 == 0 for each in around)
        if module.padding_mode != "zeros" or not is_centered or len(value.shape) != 3 - is_line:
            self._refuse("a convolution whose padding is not of as many zeros on both sides")
        value = self._image(value)
        observed = value.shape[0] if value.index == 0 else 0
        settings = {"padding": padding, "dilation": dilation, "groups": module.groups, "is_rectified": False}
        layer = Convolution((self._read(value),), module.weight, module.bias, stride, observed, **settings)
        found = self._add(layer)
        return replace(found, shape=(found.shape[0], found.shape[2])) if is_line else found

    def _pool(self, value: Value, module: nn.MaxPool2d | nn.AvgPool2d) -> Value:
        is_largest = type(module) is nn.MaxPool2d
        sizes = module.kernel_size, module.stride or module.kernel_size, module.padding
        is_plain = not module.ceil_mode and (
            (module.dilation == 1 and not module.return_indices)
            if is_largest
            else (module.count_include_pad and module.divisor_override is None)
        )
        if not is_plain or len(value.shape) != 3:
            self._refuse(f"{type(module).__name__} that is not of plain windows of an image")
        return self._add(Pool((self._elementwise(self._image(value)),), *sizes, is_largest))

    def _reduce(self, target: str, value: Value, others: Sequence[Any], keywords: dict) -> Any:
        # A mean, sum or maximum over entities, or over the pixels of an image.
        dimension = [*others, keywords.get("dim")][0]
        keeps = keywords.get("keepdim", False) or others[1:] == (True,)
        count = len(value.shape) + 1
        dimensions = {each % count for each in (dimension if isinstance(dimension, (tuple, list)) else [dimension])}
        shape, window = value.shape[-1:], (value.shape[0], 1)
        if count == 4 and dimensions == {2, 3}:
            value, shape, window = self._image(value), value.shape[:1], value.shape[1:]
        elif count == 3 and dimensions == {1}:
            value = self._entities(value)
        else:
            self._refuse(f"{target} over something else than entities or pixels")
        shape = ((1, *shape) if count == 3 else (*shape, 1, 1)) if keeps else shape
        found = self._add(Pool((self._elementwise(value),), window, 1, 0, target in ("max", "amax")), shape)
        if target == "sum":
            return self._arithmetic(Multiply, found, float(math.prod(window)))
        return (found, None) if target == "max" else found

    def _call_function(self, target: Callable, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        if target in _ARITHMETIC and all(type(each) is int or getattr(each, "is_whole", False) for each in arguments):
            self._refuse("arithmetic of integers, which may wrap,")
        if arguments and target in _OF_NUMBERS and all(type(each) in (int, float) for each in arguments):
            return target(*arguments)
        if arguments and isinstance(arguments[0], Mask):
            return self._change_mask(target, *arguments[:1], arguments[1:]) or self._refuse("arithmetic of comparisons")
        if target in (operator.getitem, getattr):
            return self._index(target, *arguments)
        if target in (tensors.nativize, pytorch.nativize_tensor):
            return self._nativize(*arguments)
        if target in _COMPARISONS and isinstance(arguments[0], Value) and type(arguments[1]) in (int, float):
            layer = Compare((self._elementwise(arguments[0]),), _COMPARISONS[target], float(arguments[1]))
            return Mask(self._add(layer, arguments[0].shape))
        if target is functional.linear and isinstance(arguments[0], Value):
            tensors_given = [*arguments[1:], *keywords.values()]
            if all(isinstance(each, (_Parameter, type(None))) for each in tensors_given):
                return self._linear(arguments[0], *(each and each.tensor for each in [*tensors_given, None][:2]))
        if target is functional.one_hot and type(keywords.get("num_classes", arguments[-1])) is int:
            table = torch.eye(keywords.get("num_classes", arguments[-1]))
            return Integers(self._embed(arguments[0], table))
        if target in (operator.matmul, torch.matmul, torch.bmm):
            given = self._attend if isinstance(arguments[0], Scores) else self._score
            return given(*arguments)
        is_softmax = target in (torch.softmax, functional.softmax) and isinstance(arguments[0], Scores)
        if is_softmax and [*arguments[1:2], keywords.get("dim")][0] in (-1, len(arguments[0].shape)):
            return replace(arguments[0], is_softmax=True)
        is_plain = len(arguments) <= 4 and not {*keywords} - {"attn_mask", "scale"}
        if target is functional.scaled_dot_product_attention and is_plain:
            return self._scaled_attention(*arguments, **keywords)
        if target in _REDUCTIONS and isinstance(arguments[0], Value):
            return self._reduce(_REDUCTIONS[target], arguments[0], arguments[1:], keywords)
        if target is Normal:
            mean, deviation = arguments
            if isinstance(mean, Value) and isinstance(deviation, _Parameter) and len(mean.shape) == 1:
                return mean, deviation
        if target is torch.broadcast_tensors:
            return arguments
        if target is torch.exp and isinstance(arguments[0], _Parameter):
            return replace(arguments[0], is_exponential=True)
        if target in _FUNCTIONS and isinstance(arguments[0], Value) and len(arguments) == 1:
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
            if type(dimension) is int and all(isinstance(value, Value) for value in values):
                return self._join(values, dimension)
        name = getattr(target, "__name__", str(target))
        if name == "_assert_is_none":  # of an argument that is left out
            return None
        if target is torch.flatten:
            return self._call_method("flatten", arguments, keywords, module)
        return self._refuse(f"the function {name}, which the kernel does not know in this form,")

    def _subtract(self, left: Operand, right: Operand) -> Value:
        if isinstance(right, Value):
            right = self._arithmetic(Multiply, right, -1.0)
            return self._arithmetic(Add, left, right)
        if isinstance(left, Value) and isinstance(right, _Parameter):
            return self._scale(left, None, right.tensor, sign=-1.0)
        return self._arithmetic(Add, left, -right if type(right) in (int, float) else right)

    def _divide(self, value: Operand, number: Operand) -> Value:
        if isinstance(value, Value) and isinstance(number, _Parameter):
            return self._scale(value, number.tensor, None, power=-1.0)
        if not isinstance(value, (Value, Scores)) or type(number) not in (int, float) or number == 0:
            self._refuse("a division by something that is no number")
        is_seen = isinstance(value, Value) and value.index == 0 and not value.divided
        if is_seen and number == 255 and self.dtype == torch.uint8 and not self.is_normalized:
            return replace(value, divided=True)
        return self._arithmetic(Multiply, value, 1.0 / number)

    def _index(self, target: Callable, value: Operand, key: object) -> Operand:
        if isinstance(value, (tuple, list)) and isinstance(key, int):
            return value[key]
        if target is getattr and isinstance(value, Value) and key == "shape":
            return (ROWS, *value.shape)
        if target is getattr and isinstance(value, tuple) and key == "values":
            return value[0]
        if target is getattr and isinstance(value, (Value, Turned)) and key == "mT":
            return self._call_method("transpose", (value, -2, -1), {}, nn.Module())
        if isinstance(value, dict) or (isinstance(value, (tuple, list)) and isinstance(key, slice)):
            return value[key]
        if isinstance(value, Integers):
            return Integers(self._index(target, value.value, key))
        return self._pick(value, key) if isinstance(value, Value) else self._refuse("an index that is not of columns")

    def _pick(self, value: Value, key: object) -> Value:
        # Of all rows: new dimensions of 1, and a part of one dimension.
        keys, count = list(key) if isinstance(key, tuple) else [key], len(value.shape) + 1
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            keys[place : place + 1] = [slice(None)] * (count - sum(each is not None for each in keys) + 1)
        if keys[:1] != [slice(None)] or len(keys) - keys.count(None) > count:
            self._refuse("an index that is not of columns")
        dimension = 0
        for each in keys[1:]:
            if each is None:
                value = replace(value, shape=(*value.shape[:dimension], 1, *value.shape[dimension:]))
            elif each != slice(None):
                size = value.shape[dimension]
                part = each if isinstance(each, slice) else slice(each % size, each % size + 1)
                first, end, step = part.indices(size)
                if step != 1 or first >= end:
                    self._refuse("an index that is not of columns")
                value = self._select(value, dimension, (first, end - first))
                if part is not each:
                    value = replace(value, shape=(*value.shape[:dimension], *value.shape[dimension + 1 :]))
                    dimension -= 1
            dimension += 1
        return value

    def _select(self, value: Value, dimension: int, part: tuple[int, int]) -> Value:
        shape = (*value.shape[:dimension], part[1], *value.shape[dimension + 1 :])
        size = math.prod(value.shape[dimension + 1 :])
        if math.prod(value.shape[:dimension]) == 1:
            found = self._concatenate([value], [(part[0] * size, part[1] * size)])
        else:
            if size != 1:
                self._refuse("an index that is not of columns")
            entities = replace(value, shape=(math.prod(value.shape[:dimension]), value.shape[dimension]))
            found = self._add(Concatenate((self._elementwise(self._entities(entities)),), (part,)))
        return replace(found, shape=shape, is_whole=value.is_whole)

    def _call_method(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        value, *others = arguments
        if target == "to" and len(others) == 1 and isinstance(others[0], torch.dtype):
            target, others = _CASTS.get(others[0], target), []
        if isinstance(value, _Parameter):
            if target == "exp":
                return replace(value, is_exponential=True)
            if target in ("expand_as", "expand"):
                return value
        if isinstance(value, Mask):
            if target == "float":
                return self._subtract(1.0, value.value) if value.is_negated else value.value
            found = self._change_mask(target, value, others)
            return self._refuse(f"the method {target} of a comparison") if found is None else found
        if isinstance(value, Scores) and target == "masked_fill":
            return self._hide(value, *others)
        if isinstance(value, Scores) and target == "softmax":
            return self._call_function(torch.softmax, arguments, keywords, module)
        if isinstance(value, (Value, Turned)) and target in ("transpose", "swapaxes", "permute"):
            count = len(value.shape if isinstance(value, Value) else value.order) + 1
            order = list(others[0] if isinstance(others[0], (tuple, list)) else others)
            if target != "permute":
                left, right = (each % count for each in order)
                order = list(range(count))
                order[left], order[right] = right, left
            if order and order[0] == 0:
                return self._turn(value, [each % count - 1 for each in order[1:]])
        if isinstance(value, Turned) and target == "contiguous":
            return value
        if isinstance(value, Integers):
            is_kept = not self.dtype.is_floating_point or self._packed is not None
            if target == "float":
                return value.value if is_kept else self._refuse("numbers without what stands behind the point")
            if target in ("long", "int", "contiguous"):
                return value
            return Integers(self._shape_of(target, value.value, others, keywords))
        if isinstance(value, Value):
            if target in ("long", "int"):
                return Integers(value)
            if target == "bool" and not others:
                return self._call_function(operator.ne, (value, 0), {}, module)
            if target in ("mean", "sum", "max", "amax"):
                return self._reduce(target, value, tuple(others), keywords)
            if target in _METHODS and not others:
                return self._activate(value, _METHODS[target])
            if target in KEPT:
                return replace(value, is_whole=value.is_whole and target == "contiguous")
            if target in ("flatten", "unflatten", "view", "reshape", "squeeze", "unsqueeze", "size"):
                return self._shape_of(target, value, others, keywords)
            if target in ("split", "chunk") and [*others, *keywords]:
                return self._split(target, value, others, keywords)
        return self._refuse(f"the method {target}, which the kernel does not know in this form,")

    def _shape_of(self, target: str, value: Value, others: Sequence[Any], keywords: dict) -> Any:
        sizes, given = (ROWS, *value.shape), [*others, *keywords.values()]
        if target == "size":
            return sizes if not given else sizes[given[0]]
        shape: Any = None
        if target in ("flatten", "unflatten") and given and type(given[0]) is int and given[0] % len(sizes):
            first = given[0] % len(sizes)
            last = (given[1] if len(given) > 1 else -1) % len(sizes) if target == "flatten" else first
            middle = [math.prod(sizes[first : last + 1])] if target == "flatten" else list(given[1])
            shape = [*sizes[:first], *middle, *sizes[last + 1 :]]
        elif target in ("squeeze", "unsqueeze") and len(given) == 1:
            place = given[0] % (len(sizes) + (target == "unsqueeze"))
            if target == "unsqueeze" and place > 0:
                shape = [*sizes[:place], 1, *sizes[place:]]
            elif place > 0 and target == "squeeze":
                shape = [*sizes[:place], *([] if sizes[place] == 1 else [sizes[place]]), *sizes[place + 1 :]]
        elif target in ("view", "reshape"):
            shape = list(given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given)
            if shape == [-1] and value.shape in ((), (1,)):
                return replace(value, shape=())
        if not shape or not (shape[0] is ROWS or (shape[0] == -1 and -1 not in shape[1:])):
            return self._refuse(f"the method {target} with a shape that the kernel does not know")
        known = math.prod(size for size in shape[1:] if size != -1)
        shape = tuple(math.prod(value.shape) // max(known, 1) if size == -1 else size for size in shape[1:])
        if not all(type(size) is int for size in shape) or math.prod(shape) != math.prod(value.shape):
            self._refuse(f"the method {target} with a shape that the kernel does not know")
        is_first = value.index == 0 and not any(0 in layer.inputs for layer in self.layers)
        if is_first and len(shape) == 3 and self._packed is None:
            self.shapes[0] = shape
        return replace(value, shape=shape)

    def _split(self, target: str, value: Value, others: Sequence[Any], keywords: dict) -> list[Value]:
        sizes, *dimensions = [*others, *keywords.values()]
        place = (dimensions or [0])[0] % (len(value.shape) + 1) - 1
        if place < 0:
            self._refuse(f"the method {target} along rows")
        count = value.shape[place]
        if target == "chunk":
            sizes = -(-count // sizes)
        if isinstance(sizes, int):
            sizes = [min(sizes, count - first) for first in range(0, count, sizes)]
        firsts = [sum(sizes[:index]) for index in range(len(sizes))]
        return [self._select(value, place, part) for part in zip(firsts, sizes, strict=True)]


def _place(frames: Iterable[tuple[FrameType, int]]) -> str:
    # The first line of the user's code among some frames, the innermost first.
    for frame, line in frames:
        path = Path(frame.f_code.co_filename)
        if frame.f_code.co_name == "follow":
            break
        if "torch" not in path.parts and path.parent != Path(__file__).parent:
            return f" ({path.name}, line {line})"
    return ""
