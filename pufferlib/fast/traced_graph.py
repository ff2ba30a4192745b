"""Records the operations of a policy's call as a graph of torch.fx, with the lines of the user's code."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor, fx, nn
from torch.distributions import Normal
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from typing_extensions import override

from pufferlib import emulation, models, pytorch
from pufferlib.emulation import tensors
from pufferlib.fast.traced_states import state_of
from pufferlib.fast.traced_values import UntracedError
from pufferlib.models import ActionHead
from pufferlib.policy import OneHot, OneHotPlanes
from pufferlib.spaces import Layout


class Tracer(fx.Tracer):
    """Records the operations of a call of a policy.

    Normal distributions of proxies are made without a look at their numbers, and may be returned. While it traces,
    torch.fx has the modules of all threads call it; it lets those of other threads pass.
    """

    proxy_buffer_attributes = True

    def __init__(self, is_floating_point: bool, entries: Iterable[str]):  # of what it sees, and of its state
        super().__init__(autowrap_functions=(tensors.nativize, pytorch.nativize_tensor, tensors.features))
        self._autowrap_search += emulation, tensors, pytorch, models  # where they may be called as an attribute
        self._is_floating_point, self._entries = is_floating_point, entries
        self.state: dict[str, Any] = {}  # after the trace what the policy leaves in its entries
        self._thread = threading.get_ident()

    @override
    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        function, arguments = super().create_args_for_root(root_fn, is_module, concrete_args)
        self.state = {name: self.create_proxy("call_function", state_of, (name,), {}) for name in self._entries}
        return function, [self.state if each is None and self.state else each for each in arguments]

    @override
    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        return super().call_module(m, forward, args, kwargs) if self._is_mine() else forward(*args, **kwargs)

    @override
    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return super().getattr(attr, attr_val, parameter_proxy_cache) if self._is_mine() else attr_val

    def _is_mine(self) -> bool:  # rather than a call of another thread
        return threading.get_ident() == self._thread

    @override
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        is_known = type(m) in (ActionHead, OneHot, OneHotPlanes)
        return is_known or super().is_leaf_module(m, module_qualified_name)

    @override
    def to_bool(self, obj: fx.Proxy) -> bool:
        if obj.node.target == "is_floating_point" and obj.node.args[0].op == "placeholder":
            return self._is_floating_point
        return super().to_bool(obj)

    @override
    def create_node(self, *arguments: Any, **keywords: Any) -> fx.Node:
        node = super().create_node(*arguments, **keywords)
        node.meta["place"] = place_of(traceback.walk_stack(None))
        return node

    @override
    def create_arg(self, a: object) -> object:
        if isinstance(a, Layout):
            return a
        if isinstance(a, Tensor) and a not in self.tensor_attrs and not isinstance(a, nn.Parameter):
            raise UntracedError(f"has a tensor that it makes in a call{place_of(traceback.walk_stack(None))}")
        if isinstance(a, Normal):
            return self.create_node("call_function", Normal, (self.create_arg(a.loc), self.create_arg(a.scale)), {})
        return super().create_arg(a)


_STATIC = {"shape", "dtype", "device", "ndim", "layout", "requires_grad", "size", "dim", "numel", "__len__"}


class Unseen(TorchFunctionMode):
    """Refuses what neither a graph nor a comparison would show.

    That is what a call does once with the policy's own tensors, and hooks on gradients.
    """

    def __init__(self, is_tracing: bool):
        super().__init__()
        self._is_tracing = is_tracing

    @override
    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        name = getattr(function.__self__, "__name__", name) if name == "__get__" else name
        leaves = tree_leaves((arguments, keywords)) if self._is_tracing and name not in _STATIC else ()
        is_of_rows = any(isinstance(each, fx.Proxy) for each in leaves)
        if name == "register_hook" or (not is_of_rows and any(isinstance(each, Tensor) for each in leaves)):
            place = place_of(traceback.walk_stack(sys._getframe()))
            raise UntracedError(f"has {name} in a form that no layer has{place}")
        return function(*arguments, **(keywords or {}))


def place_of(frames: Iterable[tuple[FrameType, int]]) -> str:
    """The first line of the user's code among some frames, the innermost first."""
    for frame, line in frames:
        path = Path(frame.f_code.co_filename)
        if frame.f_code.co_name == "follow":
            break
        if "torch" not in path.parts and path.parent != Path(__file__).parent:
            return f" ({path.name}, line {line})"
    return ""
