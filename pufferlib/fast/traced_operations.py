"""The operations of torch that a policy may have, each as layers or as another view of a value.

A function, a method or an operator of torch is the method of Operations that is named for it, `_torch_add` for `x + y`,
`torch.add(x, y)` and `x.add(y)`; its arguments are torch's. A call that it does not take, by its arguments or by what
they hold, is in a form that the kernel does not know.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partialmethod
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.extensions.network_layers import (
    Add,
    Arrange,
    Categories,
    Compare,
    Concatenate,
    Convolution,
    Multiply,
    Norm,
    Pool,
    Shape,
)
from pufferlib.fast.traced_values import LayerList, Operand, Parameter, Scores, Turned, Value, numbers
from pufferlib.models import ActionHead
from pufferlib.policy import OneHot, OneHotPlanes

ACTIVATIONS: dict[str, dict[str, object]] = {
    **{name: {} for name in ("relu", "tanh", "sigmoid", "silu")},
    "gelu": {"approximate": "none"},
    "elu": {"alpha": 1.0},
    "leaky_relu": {"negative_slope": 0.01},
    "softplus": {"beta": 1.0, "threshold": 20.0},
}
"""Activations with the settings that the kernel has; the other formula of GELU is `gelu_tanh` there."""

SAME = {
    **{"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "truediv": "div"},
    **{"concat": "cat", "bmm": "matmul", "reshape": "view", "swapaxes": "transpose", "int": "long"},
    **{"invert": "logical_not", "expand": "expand_as", "nativize_tensor": "nativize"},
}
"""Operations that are another one by name."""

_MODULES = {
    **{nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid", nn.SiLU: "silu"},
    **{nn.ELU: "elu", nn.LeakyReLU: "leaky_relu", nn.Softplus: "softplus", nn.GELU: "gelu"},
}
_DROPOUTS = nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout
_COMPARISONS = {
    **{"gt": "GREATER", "ge": "GREATER_EQUAL", "lt": "LESS", "le": "LESS_EQUAL"},
    **{"eq": "EQUAL", "ne": "UNEQUAL"},
}
_LARGE = 2**24  # from here on float32 does not have every integer
_NUMBERWISE = {*ACTIVATIONS, "add", "sub", "mul", "div", "float", "to"}  # whatever the order of dimensions
_PLAIN = int, float, torch.dtype
_CASTS = {torch.float32: "float", torch.int64: "long", torch.int32: "long", torch.bool: "bool"}


ROWS = 2**31 - 1
"""The number of rows, wherever the policy asks for it. No product of sizes has so large a prime factor."""


class Operations(LayerList):
    """A list of layers that grows by operations of torch."""

    def _call(self, what: str, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        name = SAME.get(name, name)
        first, *others = arguments or (None,)
        if name in _NUMBERWISE and isinstance(first, Turned) and all(type(each) in _PLAIN for each in others):
            row = replace(self._row(first.value), shape=first.value.shape)
            return replace(first, value=self._call(what, name, (row, *others), keywords))
        if name in ACTIVATIONS:
            return self._activation(name, *arguments, **keywords)
        if name in _COMPARISONS:
            return self._compare(name, *arguments, **keywords)
        if not hasattr(self, f"_torch_{name}"):
            self._refuse(f"the {what}, which the kernel does not know in this form,")
        return getattr(self, f"_torch_{name}")(*arguments, **keywords)

    def _call_function(self, target: Callable, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        if getattr(target, "__module__", None) in ("math", "_operator") and all(
            type(each) in (int, float) for each in arguments
        ):
            return target(*arguments)
        return self._call(f"function {target.__name__}", target.__name__, arguments, keywords)

    def _call_method(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        return self._call(f"method {target}", target, arguments, keywords)

    def _get_attr(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Parameter:
        return Parameter(operator.attrgetter(target)(module))

    # ------------------------------------------------------------------------------------------------------ modules

    def _call_module(self, target: str, arguments: tuple, keywords: dict, module: nn.Module) -> Any:
        found = module.get_submodule(target)
        kind = type(found)
        if kind is nn.MultiheadAttention:
            return self._attend_to_itself(found, *arguments, **keywords)
        (value,) = (*arguments, *keywords.values())
        if kind is nn.Identity or (kind in _DROPOUTS and (found.p == 0 or not found.training)):
            return value
        if kind is nn.Linear:
            return self._linear(numbers(value), found.weight, found.bias)
        if kind is nn.Embedding:
            if found.padding_idx is not None or found.scale_grad_by_freq or found.sparse or found.max_norm:
                self._refuse("Embedding with other settings than its defaults")
            return self._embed(value, found.weight)
        if kind is ActionHead:
            return self._decide(found, numbers(value))
        if kind in (OneHot, OneHotPlanes):
            return self._categorize(found, value)
        if kind in _MODULES:
            name = _MODULES[kind]
            return self._activation(name, value, **{key: getattr(found, key) for key in ACTIVATIONS[name]})
        if kind in (nn.LayerNorm, nn.RMSNorm) and tuple(found.normalized_shape) == numbers(value).shape[-1:]:
            return self._normalize(found, value)
        if kind is nn.Flatten:
            return self._torch_flatten(value, found.start_dim, found.end_dim)
        if kind is nn.Softmax:
            return self._torch_softmax(value, found.dim)
        if kind in (nn.Conv1d, nn.Conv2d):
            return self._convolve(value, found)
        if kind in (nn.MaxPool2d, nn.AvgPool2d):
            return self._pool(value, found)
        return self._refuse(f"{kind.__name__} as `{target}`, which the kernel does not know,")

    def _decide(self, head: ActionHead, value: Value) -> tuple[Any, Value]:
        output = self._linear(value, head.linear.weight, head.linear.bias)
        sizes = [sum(head.sizes)] if head.is_continuous else head.sizes  # choices too, where it has both
        *parts, last = self._torch_split(output, [*sizes, 1], -1)
        last = replace(last, shape=last.shape[:-1])
        if head.is_continuous:
            return (parts[0], Parameter(head.log_std, True)), last
        return tuple(parts) if head.is_joint else parts[0], last

    def _source(self, value: Value) -> tuple[int, int]:
        # The value that a layer took numbers from, and the first of them there; of other layers their own.
        layer = self.layers[value.index - 1]
        is_part = isinstance(layer, Concatenate) and len(layer.inputs) == 1 and len(self.shapes[layer.inputs[0]]) == 1
        return (layer.inputs[0], layer.parts[0][0]) if is_part and layer.inputs[0] else (value.index, 0)

    def _categorize(self, module: OneHot | OneHotPlanes, value: Operand) -> Value:
        value = self._image(value, may_be_observed=True) if type(module) is OneHotPlanes else self._row(numbers(value))
        if value.index != 0 or value.kind != "observed" or not self._is_unread():
            self._refuse("categories of something else than the observation")
        self.categories = Categories(module.lowest, module.highest - module.lowest + 1)
        self.shapes[0] = (int(self.categories.counts.sum()), *value.shape[1:])
        return replace(value, shape=self.shapes[0], kind="float")

    def _observation_shape(self) -> Shape:
        # Of categories their numbers or channels, not the columns or planes of these.
        _, *edges = self.shapes[0]
        return self.shapes[0] if self.categories is None else (len(self.categories.counts), *edges)

    def _normalize(self, module: nn.LayerNorm | nn.RMSNorm, value: Value) -> Value:
        epsilon = torch.finfo(torch.float32).eps if module.eps is None else module.eps
        settings = module.weight, getattr(module, "bias", None), epsilon, type(module) is nn.LayerNorm
        return self._add(Norm((self._read_each(self._plain(value)),), *settings, len(value.shape) > 1), value.shape)

    def _image(self, value: Operand, may_be_observed: bool = False) -> Value:
        if isinstance(value, Turned) and value.order == (2, 0, 1):  # whose channels are last
            *edges, channels = numbers(value.value).shape
            if may_be_observed and value.value.index == 0 and (self.has_channels_last or self._is_unread()):
                self.shapes[0], self.has_channels_last = (channels, *edges), True
                return replace(value.value, shape=self.shapes[0])
            row = self._read(self._row(value.value))
            return self._add(Arrange((row,), (channels, *edges), has_channels_last=True))
        value = numbers(value)
        shape = value.shape if len(value.shape) != 2 else (value.shape[0], 1, value.shape[1])
        if len(shape) != 3:
            self._refuse("a convolution or windows of something else than an image")
        return self._arrange(value, shape)

    def _convolve(self, value: Operand, module: nn.Conv1d | nn.Conv2d) -> Value:
        is_line = type(module) is nn.Conv1d
        given = module.stride, module.dilation, module.kernel_size
        stride, dilation, size = ((1,) * is_line + each for each in given)
        around = [step * (each - 1) for step, each in zip(dilation, size, strict=True)]
        padding = {"valid": (0, 0), "same": tuple(each // 2 for each in around)}.get(module.padding, module.padding)
        padding = (0,) * (2 - len(padding)) + padding
        is_centered = module.padding != "same" or all(each % 2 == 0 for each in around)
        if module.padding_mode != "zeros" or not is_centered or len(value.shape) != 3 - is_line:
            self._refuse("a convolution whose padding is not of as many zeros on both sides")
        value = self._image(value, may_be_observed=True)
        observed = self._observation_shape()[0] if value.index == 0 else 0
        flags = observed, bool(observed) and self.categories is not None, False
        settings = {"padding": padding, "dilation": dilation, "groups": module.groups}
        layer = Convolution((self._read(value),), module.weight, module.bias, stride, *flags, **settings)
        found = self._add(layer)
        return replace(found, shape=(found.shape[0], found.shape[2])) if is_line else found

    def _pool(self, value: Operand, module: nn.MaxPool2d | nn.AvgPool2d) -> Value:
        is_largest = type(module) is nn.MaxPool2d
        if is_largest:
            is_plain = module.dilation == 1 and not module.return_indices
        else:
            is_plain = module.count_include_pad and module.divisor_override is None
        if not is_plain or module.ceil_mode or len(value.shape) != 3:
            self._refuse(f"{type(module).__name__} that is not of plain windows of an image")
        sizes = module.kernel_size, module.stride or module.kernel_size, module.padding
        return self._add(Pool((self._read_each(self._image(value)),), *sizes, is_largest))

    # --------------------------------------------------------------------------------------------- number by number

    def _activation(self, name: str, value: Operand, *, inplace: bool = False, **settings: object) -> Value:
        if name == "gelu" and settings == {"approximate": "tanh"}:
            return self._activate(numbers(value), "gelu_tanh")
        if {**ACTIVATIONS[name], **settings} != ACTIVATIONS[name]:
            self._refuse(f"{name} with other settings than its defaults")
        return self._activate(numbers(value), name)

    def _compare(self, name: str, value: Value, number: float) -> Value:
        if value.kind == "bool" and number == 0 and name in ("eq", "ne"):
            return self._torch_logical_not(value) if name == "eq" else value
        if value.divided and number != 0:
            self._refuse("a comparison of numbers that were divided by 255, of which the last digit may differ")
        if value.kind in ("observed", "integer") and abs(number) >= _LARGE:
            self._refuse(f"a comparison with {number}, of integers that the kernel has as float32")
        layer = Compare((self._read_each(numbers(value)),), _COMPARISONS[name], float(number))
        return replace(self._add(layer, value.shape), kind="bool")

    def _torch_logical_not(self, value: Value) -> Value:
        if value.kind != "bool":
            raise TypeError("no bools")
        return replace(value, is_negated=not value.is_negated)

    _torch_add = partialmethod(LayerList._combine, Add)
    _torch_mul = partialmethod(LayerList._combine, Multiply)
    _torch_sub = LayerList._subtract

    def _torch_neg(self, value: Operand) -> Operand:
        return self._combine(Multiply, value, -1)

    def _torch_div(self, value: Operand, number: Operand) -> Operand:
        if isinstance(value, Value) and isinstance(number, Parameter):
            return self._scale(numbers(value), number.tensor, None, power=-1.0)
        if type(number) not in (int, float) or number == 0:
            self._refuse("a division by something that is no number")
        if number == 1:
            return replace(numbers(value), kind="float")
        is_seen = isinstance(value, Value) and value.index == 0 and not value.divided
        if is_seen and number == 255 and not self.dtype.is_floating_point and not self.is_normalized:
            return replace(numbers(value), kind="float", divided=True)
        return self._combine(Multiply, value, 1.0 / number)

    def _torch_exp(self, parameter: Parameter) -> Parameter:
        return replace(parameter, is_exponential=True)

    def _torch_to(self, value: Value, dtype: torch.dtype) -> Value:
        return self._call("method to", _CASTS[dtype], (value,), {})

    def _torch_long(self, value: Value) -> Value:
        if value.kind in ("integer", "cut"):
            return value
        return replace(numbers(value), kind="integer" if value.kind == "observed" else "cut")

    def _torch_bool(self, value: Value) -> Value:
        return self._compare("ne", value, 0)

    def _torch_contiguous(self, value: Operand) -> Operand:
        return value

    # ---------------------------------------------------------------------------------------- over several numbers

    def _torch_linear(self, value: Value, weight: Parameter, bias: Parameter | None = None) -> Value:
        return self._linear(numbers(value), weight.tensor, None if bias is None else bias.tensor)

    def _torch_one_hot(self, value: Value, num_classes: int) -> Value:
        return replace(self._embed(value, torch.eye(num_classes)), kind="integer")

    def _torch_matmul(self, left: Operand, right: Operand) -> Operand:
        return self._attend(left, right) if isinstance(left, Scores) else self._score(left, right)

    def _torch_softmax(self, scores: Scores, dim: int, _stacklevel: int = 3, dtype: None = None) -> Scores:
        if dim not in (-1, len(scores.shape)):
            raise ValueError("not over keys")
        return replace(scores, is_softmax=True)

    _torch_masked_fill = LayerList._hide

    def _reduce(self, name: str, value: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
        # Over entities, or over the pixels of an image.
        shape = numbers(value).shape
        dimensions = {each % (len(shape) + 1) for each in ([dim] if isinstance(dim, int) else dim)}
        if len(shape) == 3 and dimensions == {2, 3}:
            value, kept, left, window = self._image(value), (shape[0], 1, 1), shape[:1], shape[1:]
        elif len(shape) == 2 and dimensions == {1}:
            value, kept, left, window = self._entities(value), (1, shape[1]), shape[1:], (shape[0], 1)
        else:
            self._refuse(f"{name} over something else than entities or pixels")
        return self._add(Pool((self._read_each(value),), window, 1, 0, name == "max"), kept if keepdim else left)

    _torch_mean, _torch_amax = partialmethod(_reduce, "mean"), partialmethod(_reduce, "max")

    def _torch_max(self, value: Value, dim: int, keepdim: bool = False) -> tuple[Value, None]:
        return self._torch_amax(value, dim, keepdim), None

    def _torch_sum(self, value: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
        found = self._reduce("sum", value, dim, keepdim)
        return self._combine(Multiply, found, float(math.prod(value.shape) // math.prod(found.shape)))

    def _torch_cat(self, tensors: Sequence[Operand], dim: int = 0) -> Value:
        return self._joined(list(map(numbers, tensors)), dim)

    # ------------------------------------------------------------------------------------------------ other views

    def _torch_getattr(self, value: Any, name: str) -> Any:
        if name == "mT":
            return self._torch_transpose(value, -2, -1)
        return {"shape": self._torch_size, "values": lambda value: value[0]}[name](value)

    def _torch_size(self, value: Value, dim: int | None = None) -> Any:
        sizes = ROWS, *value.shape
        return sizes if dim is None else sizes[dim]

    def _torch_dim(self, value: Value) -> int:
        return len(value.shape) + 1

    def _torch_is_floating_point(self, value: Value) -> bool:
        return value.kind in ("float", "double")

    def _view(self, name: str, value: Value, *arguments: Any, **keywords: Any) -> Value | list[Value]:
        # What torch's view, or each of its views, shows of the numbers.
        like = torch.empty(self._torch_size(value), device="meta")
        found = getattr(like, name)(*arguments, **keywords)
        if isinstance(found, Tensor):
            return self._shown(value, like, found)
        return [self._shown(value, like, each) for each in found]

    def _shown(self, value: Value, like: Tensor, view: Tensor) -> Value:
        rows, *sizes = view.shape
        if rows != ROWS or (view is not like and view._base is not like):
            raise ValueError("no view of all rows")
        if view.numel() < like.numel():
            counts = {stride: size for size, stride in zip(view.shape, view.stride(), strict=True) if size > 1}
            for dimension, (size, stride) in enumerate(zip(value.shape, like.stride()[1:], strict=True)):
                if counts.get(stride, 1) < size:
                    first = view.storage_offset() // stride % size
                    value = self._select(value, dimension, (first, counts.get(stride, 1)))
        if math.prod(value.shape) != math.prod(sizes):
            self._refuse("an index that is not of columns")
        if value.index == 0 and len(sizes) == 3 and self._is_unread():
            self.shapes[0] = tuple(sizes)
        return replace(value, shape=tuple(sizes))

    _torch_view, _torch_flatten = partialmethod(_view, "view"), partialmethod(_view, "flatten")
    _torch_unflatten = partialmethod(_view, "unflatten")
    _torch_squeeze, _torch_unsqueeze = partialmethod(_view, "squeeze"), partialmethod(_view, "unsqueeze")
    _torch_split, _torch_chunk = partialmethod(_view, "split"), partialmethod(_view, "chunk")

    def _torch_getitem(self, value: Any, key: Any) -> Any:
        return self._view("__getitem__", value, key) if isinstance(value, Value) else value[key]

    def _permute(self, name: str, value: Operand, *arguments: Any, **keywords: Any) -> Operand:
        like = torch.empty([*range(len(value.shape) + 1)], device="meta")  # its sizes tell the dimensions
        rows, *order = getattr(like, name)(*arguments, **keywords).shape
        if rows != 0:
            raise ValueError("rows in another place")
        return self._turn(value, [each - 1 for each in order])

    _torch_transpose, _torch_permute = partialmethod(_permute, "transpose"), partialmethod(_permute, "permute")

    # ------------------------------------------------------------------------------------------------ distributions

    def _torch_Normal(self, mean: Value, deviation: Parameter) -> tuple[Value, Parameter]:
        if len(numbers(mean).shape) != 1 or not isinstance(deviation, Parameter):
            raise TypeError("no row of means with deviations of all rows")
        return mean, deviation

    def _torch_expand_as(self, parameter: Parameter, *others: Any) -> Parameter:
        if not isinstance(parameter, Parameter):
            raise TypeError("no deviations of all rows")
        return parameter

    def _torch_broadcast_tensors(self, *tensors: Operand) -> tuple[Operand, ...]:
        return tensors

    def _torch__assert_is_none(self, *others: Any) -> None:
        return None  # of an argument that is left out
