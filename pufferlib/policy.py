"""Parts that all policies share: results, calls, recorded arguments, one-hot inputs, normalized observations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Box
from torch import Tensor, nn
from torch.distributions import Distribution, Normal
from typing_extensions import Self

from pufferlib.distributed import Ranks
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.metrics.finite import is_finite
from pufferlib.metrics.measures import EPSILON, Moments

Logits = Tensor | Normal | tuple[Tensor | Normal, ...]
"""A policy's output for actions: a tensor `(..., n)` for Discrete, a Normal `(..., k)` for Box, and a tuple of tensors
for MultiDiscrete or of both for a Tuple."""


class EnvSpaces(Protocol):
    """An environment, a vector, or anything else with spaces; `emulated` is read as well where it exists."""

    single_observation_space: gymnasium.Space
    single_action_space: gymnasium.Space


Forward = Callable[[Tensor, dict[str, Tensor]], tuple[Logits, Tensor]]
"""Observations and recurrent state -> logits and values."""

_COMPILED = "_orig_mod."  # in the names of what is inside a module of torch.compile
_GIVEN = ("self", "env", "policy")  # arguments of a policy's class that are no settings


def device_of(policy: nn.Module) -> torch.device:
    """Returns the device of a policy's first tensor; the CPU where it has none."""
    return next((tensor.device for tensor in policy.state_dict().values()), torch.device("cpu"))


def uncompiled(policy: nn.Module) -> nn.Module:
    """Returns the module that torch.compile was given, or the policy itself."""
    return getattr(policy, "_orig_mod", policy)


def weights_of(policy: nn.Module) -> dict[str, Tensor]:
    """Returns the `state_dict` of a policy, by the names that it has where torch.compile was not called on it."""
    weights, names = policy.state_dict(), _uncompiled_names(policy)
    return {names[name]: tensor for name, tensor in weights.items()} if names else weights


def load_weights(policy: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Loads what `weights_of` returned for a policy like this one, compiled or not."""
    names = _uncompiled_names(policy)
    policy.load_state_dict({name: weights[known] for name, known in names.items()} if names else weights)


def _uncompiled_names(policy: nn.Module) -> dict[str, str]:
    # By the names of its `state_dict`; empty where they are the same. What a class compiles itself keeps its own names.
    is_normalized = isinstance(policy, NormalizedObservations)
    inside, prefix = (policy.policy, "policy.") if is_normalized else (policy, "")
    if uncompiled(inside) is inside:
        return {}
    compiled = f"{prefix}{_COMPILED}"
    return {
        name: f"{prefix}{name.removeprefix(compiled)}" if name.startswith(compiled) else name
        for name in policy.state_dict()
    }


def initial_state(policy: nn.Module, rows: int, device: torch.device) -> dict[str, Tensor]:
    """Returns the state of a policy before the first step, which the caller may change; empty if it has none."""
    return dict(policy.initial_state(rows, device)) if hasattr(policy, "initial_state") else {}


def acting_forward(policy: nn.Module) -> Forward:
    """Returns the call of a policy for one step: its `forward_eval`, or else its `forward`."""
    if hasattr(policy, "forward_eval"):
        return _with_state(policy.forward_eval, policy.forward_eval)
    return training_forward(policy, policy)


def training_forward(policy: nn.Module, called: Callable) -> Forward:
    """Returns the call of a policy for training; `called` is the policy, or the result of torch.compile."""
    return _with_state(called, uncompiled(policy).forward)  # torch.compile hides the signature


def _with_state(called: Callable, declared: Callable) -> Forward:
    return called if _takes_state(declared) else lambda observations, state: called(observations)


def _takes_state(function: Callable) -> bool:
    # Whether the second argument is a state, and not an option of the user's own.
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return True
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters[:2]):
        return True
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].name == "state" or places[1].default is inspect.Parameter.empty)


@contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Turns off the checks of torch's distributions, which depend on values and so fit in no graph or trace."""
    is_checked = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(is_checked)


class RecordsInitArgs(nn.Module):
    """The base of the policies of pufferlib.models: it records the settings that its class is called with."""

    def __new__(cls, *arguments: object, **keywords: object) -> Self:
        """Records the arguments, with defaults for those that were left out."""
        module = super().__new__(cls)
        try:
            bound = inspect.signature(cls.__init__).bind_partial(None, *arguments, **keywords)
        except TypeError:  # a wrong call, as __init__ is about to say
            return module
        bound.apply_defaults()
        _note(module, {name: value for name, value in bound.arguments.items() if name not in _GIVEN})
        return module


def make_module(kind: type[nn.Module], *given: object, **settings: object) -> nn.Module:
    """Makes a policy or a recurrent layer of any class, and records the settings."""
    module = kind(*given, **settings)
    if not isinstance(module, RecordsInitArgs):
        _note(module, settings)
    return module


def make_recurrent(kind: type[nn.Module], env: object, policy: Any, **settings: object) -> nn.Module:
    """Makes a recurrent layer around a policy, as wide as the policy where the settings give no size."""
    sizes = {"input_size": policy.hidden_size, "hidden_size": policy.hidden_size}
    return make_module(kind, env, policy, **{**sizes, **settings})


def init_args(module: nn.Module) -> dict[str, Any] | None:
    """The settings that a policy or a recurrent layer was made with; None where they were not recorded."""
    return getattr(module, "_made_with", None)


def _note(module: nn.Module, settings: Mapping[str, Any]) -> None:
    object.__setattr__(module, "_made_with", dict(settings))  # nn.Module's own is not ready inside __new__


MAX_CATEGORIES = 256
"""Of one number: all that a byte can say."""


class _CategoryColumns(nn.Module):
    # Integers of rows or channels that have a column or a plane for each of their values: each has the bounds of the
    # numbers along one axis of `shape`.
    def __init__(self, space: Space, shape: tuple[int, int], axis: int):
        super().__init__()
        if not isinstance(space, Box) or space.dtype.kind not in "iu":
            raise APIUsageError(f"one_hot needs observations that are one Box of integers, got {space}; switch it off")
        low = space.low.astype(np.float64).reshape(shape).min(axis)  # float64, so that no differences wrap
        high = space.high.astype(np.float64).reshape(shape).max(axis)
        most, limit = int((high - low).max()) + 1, 2**31
        if most > MAX_CATEGORIES or low.min() < -limit or high.max() >= limit:
            raise APIUsageError(
                f"one_hot needs integers of at most {MAX_CATEGORIES} values each, got {most} in {space}; give the "
                "space the bounds that its numbers have, or switch it off"
            )
        lowest, highest = torch.from_numpy(low).int(), torch.from_numpy(high).int()
        counts = highest - lowest + 1
        sources = torch.arange(len(counts)).repeat_interleave(counts)  # of each column
        firsts = (counts.cumsum(0) - counts)[sources]
        categories = (lowest[sources] + torch.arange(len(sources)) - firsts).int()
        buffers = {"lowest": lowest, "highest": highest, "_sources": sources, "_categories": categories}
        for name, values in buffers.items():
            self.register_buffer(name, values, persistent=False)

    def _ones(self, integers: Tensor, lowest: Tensor, highest: Tensor, categories: Tensor, dim: int) -> Tensor:
        inside = integers.to(torch.int32).clamp(lowest, highest)
        return (inside.index_select(dim, self._sources) == categories).to(torch.float32)


class OneHot(_CategoryColumns):
    """Turns integers `(..., cells)` into zeros, and a one for each of them, `(..., num_columns)` float32.

    An integer has a column for each value between its bounds, `lowest` and `highest`, `(cells,)` int32; the columns of
    the first come first. One outside its bounds counts as the nearest inside. An APIUsageError if the space is no Box
    of integers, or one of them has more than MAX_CATEGORIES values.
    """

    def __init__(self, space: Space):
        super().__init__(space, (-1, 1), 1)
        self.num_columns = len(self._sources)

    def forward(self, observations: Tensor) -> Tensor:
        """Integers `(..., cells)` of any dtype -> `(..., num_columns)` float32."""
        return self._ones(observations, self.lowest, self.highest, self._categories, -1)


class OneHotPlanes(_CategoryColumns):
    """Turns images of integers `(rows, channels, height, width)` into planes `(rows, num_planes, height, width)`.

    A channel has a plane of zeros and ones for each value from the lowest bound of its pixels to the highest; the
    planes of the first channel come first. Otherwise as OneHot, with bounds of channels, which are the last dimension
    of the space where `channels_last`.
    """

    def __init__(self, space: Space, image_shape: tuple[int, int, int], channels_last: bool = False):
        channels = image_shape[0]
        super().__init__(space, *(((-1, channels), 0) if channels_last else ((channels, -1), 1)))
        self.num_planes = len(self._sources)

    def forward(self, images: Tensor) -> Tensor:
        """Integers `(rows, channels, height, width)` of any dtype -> float32 `(rows, num_planes, height, width)`."""
        lowest, highest, categories = (b[:, None, None] for b in (self.lowest, self.highest, self._categories))
        return self._ones(images, lowest, highest, categories, 1)


class NormalizedObservations(nn.Module):
    """A policy, with a state or without, whose observations are normalised by a running mean and variance, and clipped.

    The statistics are buffers, so they are saved and loaded with the weights: `count`, `mean` and `variance`, the last
    two of the observations' shape, float64. They change only by `update`, which the trainer calls after each update of
    the policy: so a rollout is learned from with the statistics it was collected by.

    Args:
        env: for the space, which must be one Box of numbers or Boxes of one floating dtype, else APIUsageError.
        policy: gets the normalised observations; one that takes them for categories is an APIUsageError.
        clip: the largest absolute value of normalised observations.
    """

    def __init__(self, env: EnvSpaces, policy: nn.Module, clip: float = 10.0):
        super().__init__()
        space, layout = env.single_observation_space, getattr(env, "emulated", None)
        if not isinstance(space, Box) or not (layout is None or layout.is_amounts):
            found = space if layout is None else layout.parts_text()
            raise APIUsageError(
                "normalize_observations needs observations that are one Box of numbers, or Boxes of one floating "
                f"dtype, got {found}; switch it off"
            )
        if any(isinstance(module, (OneHot, OneHotPlanes)) for module in policy.modules()):
            raise APIUsageError(
                "normalize_observations needs a policy that sees numbers, got one with one_hot, which sees categories; "
                "switch one of the two off"
            )
        self.policy, self.clip = policy, clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(space.shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(space.shape, dtype=torch.float64))
        self.find_forms()

    def find_forms(self) -> None:
        """Finds out how to call `policy`; call it again after `policy` was replaced."""
        # A tuple, because a module that is an attribute would be saved a second time.
        self._forms = training_forward(self.policy, self.policy), acting_forward(self.policy)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continues as a copy, which calls its own policy."""
        super().__setstate__(state)
        self.find_forms()

    @property
    def initial_state(self) -> Callable[..., dict[str, Tensor]]:
        """The policy's, where it has one."""
        return self.policy.initial_state

    def forward(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and calls the policy as in training."""
        return self._forms[0](self.normalize(observations), {} if state is None else state)

    def forward_eval(self, observations: Tensor, state: dict[str, Tensor] | None = None) -> tuple[Logits, Tensor]:
        """Normalises, and calls the policy for one step."""
        return self._forms[1](self.normalize(observations), {} if state is None else state)

    def normalize(self, observations: Tensor) -> Tensor:
        """Observations `(..., *observation_shape)` of any dtype -> normalised float32."""
        # LaTeX: s = \frac{1}{\sqrt{\sigma^2 + \epsilon}} ; s = scale, \sigma^2 = self.variance, \epsilon = EPSILON
        scale = (self.variance + EPSILON).rsqrt().float()
        # LaTeX: \max(-c, \min(c,\ s\,(o - \mu))) ; o = observations, \mu = self.mean, c = self.clip
        return ((observations - self.mean.float()).float() * scale).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, observations: Tensor, ranks: Ranks) -> None:
        """Adds observations `(count, *observation_shape)`, and those of all other processes.

        Raises a DivergedError if they are not finite, or too large to have a variance; then nothing was added.
        """
        seen = Moments.of_rows(observations)
        if seen.count and not is_finite(seen.variance):  # nor is it where the mean is not
            raise DivergedError("observations must have a finite mean and variance to be normalized")
        whole = Moments(float(self.count), self.mean.cpu(), self.variance.cpu()).with_all(ranks.gather(seen))
        self.count.fill_(whole.count)
        self.mean.copy_(whole.mean)
        self.variance.copy_(whole.variance)


def normalized(env: EnvSpaces, policy: nn.Module, clip: float) -> NormalizedObservations:
    """Wraps a policy in NormalizedObservations, unless it is one."""
    return policy if isinstance(policy, NormalizedObservations) else NormalizedObservations(env, policy, clip)
