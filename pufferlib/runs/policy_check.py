"""Checks what a trainer is given: that a policy fits an environment, and that all processes agree about both."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib import spaces
from pufferlib.config import TrainConfig
from pufferlib.errors import APIUsageError, kind_of
from pufferlib.policy import Forward, acting_forward, training_forward
from pufferlib.runs.loaders import borrowed_generator
from pufferlib.vector import Vector

_ROWS, _HORIZON = 5, 3  # of the observations that a policy is checked with: sizes that few spaces have


def move_policy(policy: nn.Module, device: torch.device) -> nn.Module:
    """Moves the policy to a device, and returns it; APIUsageError if a parameter on `meta` has no numbers."""
    for name, parameter in policy.named_parameters():
        if parameter.is_meta:
            raise APIUsageError(
                f"the policy's parameter {name!r} must have numbers, got one on the meta device; give it some by "
                "to_empty() and initialise it"
            )
    return policy.to(device)


def check_policy(
    policy: nn.Module, observation_space: gymnasium.Space, action_space: gymnasium.Space, device: torch.device
) -> None:
    """Calls a policy on observations of zeros, to act and to train, and raises APIUsageError if it does not fit.

    Neither its buffers nor torch's random numbers are changed.
    """
    if not any(parameter.requires_grad for parameter in policy.parameters()):
        raise APIUsageError(f"{type(policy).__name__} must have parameters to train, got none that require gradients")
    check_acting(policy, observation_space, action_space, device)
    policy = getattr(policy, "_orig_mod", policy)
    if hasattr(policy, "initial_state"):
        with _unchanged(policy, device):
            observations = _zeros(observation_space, device).unsqueeze(1).repeat_interleave(_HORIZON, 1)
            resets = torch.zeros(_ROWS, _HORIZON, dtype=torch.bool, device=device)
            state = {**policy.initial_state(_ROWS, device), "resets": resets}
            _check_call(policy, "forward", training_forward(policy, policy), observations, state, action_space)


def check_acting(
    policy: nn.Module, observation_space: gymnasium.Space, action_space: gymnasium.Space, device: torch.device
) -> None:
    """Checks what a policy that acts returns of observations of zeros; a part of `check_policy`, which raises alike."""
    policy = getattr(policy, "_orig_mod", policy)  # checked as it is, without compiling it for these sizes
    with _unchanged(policy, device):
        state = dict(policy.initial_state(_ROWS, device)) if hasattr(policy, "initial_state") else {}
        name = "forward_eval" if hasattr(policy, "forward_eval") else "forward"
        _check_call(policy, name, acting_forward(policy), _zeros(observation_space, device), state, action_space)


@contextlib.contextmanager
def _unchanged(policy: nn.Module, device: torch.device) -> Iterator[None]:
    buffers = {name: buffer.clone() for name, buffer in policy.named_buffers()}
    with torch.no_grad(), borrowed_generator(devices=[device] if device.type == "cuda" else []):
        yield
        for name, buffer in policy.named_buffers():
            buffer.copy_(buffers.get(name, buffer))


def _zeros(space: gymnasium.Space, device: torch.device) -> Tensor:
    return torch.zeros(_ROWS, *space.shape, dtype=getattr(torch, space.dtype.name), device=device)


def check_state(policy: nn.Module, expected: dict[str, Tensor], device: torch.device) -> None:
    """Checks that a policy's recurrent state is of a given form; if it is not, it raises APIUsageError."""
    found = dict(policy.initial_state(_ROWS, device)) if hasattr(policy, "initial_state") else {}
    shapes = [{name: tuple(tensor.shape[1:]) for name, tensor in state.items()} for state in (expected, found)]
    if shapes[0] != shapes[1]:
        raise APIUsageError(
            f"the policy's state must stay of the shapes that the trainer was made for, {shapes[0]}, got {shapes[1]}; "
            "make a new PuffeRL for it"
        )


def _check_call(
    policy: nn.Module,
    name: str,
    forward: Forward,
    observations: Tensor,
    state: dict[str, Tensor],
    action_space: gymnasium.Space,
) -> None:
    label = f"{type(policy).__name__}.{name}"
    leading = (_ROWS, _HORIZON) if "resets" in state else (_ROWS,)
    rows = "segments, horizon" if "resets" in state else "rows"
    try:
        output = forward(observations, state)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise APIUsageError(
            f"{label} must take observations ({rows}, ...) as the environment gives them, "
            f"fails for {tuple(observations.shape)} of {observations.dtype} ({type(error).__name__}: {reason})"
        ) from error
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        found = f"{len(output)} of them" if isinstance(output, (tuple, list)) else type(output).__name__
        raise APIUsageError(f"{label} must return two things, (logits, values), got {found}")
    logits, values = output
    _check_logits(label, logits, action_space, leading, rows)
    if not isinstance(values, Tensor) or tuple(values.shape) not in (leading, (*leading, 1)):
        raise APIUsageError(
            f"{label} must return values of shape ({rows}) or ({rows}, 1), got {_found(values)} for {leading}"
        )


def _check_logits(label: str, logits: object, space: gymnasium.Space, leading: tuple[int, ...], rows: str) -> None:
    is_alone = isinstance(space, (Discrete, Box))
    expected = [
        (Normal if part.choices is None else Tensor, space.shape if isinstance(space, Box) else (part.outputs,))
        for part in spaces.action_parts(space)
    ]
    found = [logits] if is_alone else list(logits) if isinstance(logits, (tuple, list)) else []
    if len(found) == len(expected) and all(
        isinstance(part, kind) and tuple(_shape(part)) == (*leading, *width)
        for part, (kind, width) in zip(found, expected, strict=True)
    ):
        return
    names = {Tensor: "a tensor", Normal: "a torch.distributions.Normal"}
    wanted = " and ".join(f"{names[kind]} of shape ({', '.join([rows, *map(str, width)])})" for kind, width in expected)
    raise APIUsageError(
        f"{label} must return logits as {'' if is_alone else 'a tuple of '}{wanted} for {space}, "
        f"got {_found(logits)} for {leading}"
    )


def _shape(part: Tensor | Normal) -> torch.Size:
    return part.mean.shape if isinstance(part, Normal) else part.shape


def _found(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, Normal):
        return f"a Normal of shape {tuple(_shape(value))}"
    if isinstance(value, (tuple, list)):
        return f"{len(value)} parts: {', '.join(_found(part) for part in value)}"
    return type(value).__name__


def whole_number(name: str, value: float) -> int:
    """Returns a number of steps or episodes, or raises APIUsageError if it is no whole number above 0."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not 1 <= value < math.inf or int(value) != value:
        raise APIUsageError(f"{name} must be a whole number, 1 or more, got {value!r}")
    return int(value)


def list_callbacks(callbacks: object) -> list[object]:
    """Returns the callbacks that were given, of which there may be one alone, or None; APIUsageError if one is none."""
    if callbacks is None:
        return []
    is_single = not isinstance(callbacks, Iterable) or callable(callbacks) or hasattr(callbacks, "on_iteration")
    listed = [callbacks] if is_single else list(callbacks)
    for callback in listed:
        if isinstance(callback, type) or not (hasattr(callback, "on_iteration") or callable(callback)):
            raise APIUsageError(
                "callbacks must be objects with on_iteration(trainer, logs), or functions of these two, "
                f"got {kind_of(callback)}; see pufferlib.callbacks"
            )
    return listed


# Settings of [train] that may differ: where and how fast the same is computed, and what is drawn.
OWN_SETTINGS = frozenset(
    {
        *("seed", "data_dir", "dashboard_interval_seconds", "device", "torch_deterministic", "cpu_offload"),
        *("compile", "compile_mode", "compile_fullgraph", "cuda_graphs", "fused", "max_minibatch_size"),
    }
)


def facts_of_settings(config: TrainConfig) -> dict[str, str]:
    """Returns every setting that must be the same in all processes."""
    return {f"[train] {name}": repr(getattr(config, name)) for name in config.settings() if name not in OWN_SETTINGS}


def facts_of_arguments(env_name: str, args: Mapping[str, Any]) -> dict[str, str]:
    """Returns what `pufferl.train` was called with beside the settings of [train]."""
    own = {name: args.get(name) for name in ("policy_name", "rnn_name", "resume", "load_model_path")}
    of_policy = {f"[{section}] {name}": value for section in ("policy", "rnn") for name, value in args[section].items()}
    return {name: repr(value) for name, value in {"the environment": env_name, **own, **of_policy}.items()}


def facts_of_environments(vecenv: Vector) -> dict[str, str]:
    """Returns the number of agents and their spaces."""
    return {
        "the number of agents": f"{vecenv.num_agents:,}",
        "single_observation_space": repr(vecenv.single_observation_space),
        "single_action_space": repr(vecenv.single_action_space),
    }


def facts_of_policy(policy: nn.Module) -> dict[str, str]:
    """Returns the class, and of every parameter and buffer the shape, the type and whether it is frozen."""
    facts = {"the policy's class": type(policy).__name__}
    for name, parameter in policy.named_parameters():
        frozen = "" if parameter.requires_grad else ", frozen"
        facts[f"the policy's parameter {name}"] = f"{tuple(parameter.shape)} {parameter.dtype}{frozen}"
    for name, buffer in policy.named_buffers():
        facts[f"the policy's buffer {name}"] = f"{tuple(buffer.shape)} {buffer.dtype}"
    return facts
