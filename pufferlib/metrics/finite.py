"""Finds the first number of a training that is infinite or NaN: a reward, an observation, a loss or a weight."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._pytree import keystr, tree_leaves, tree_leaves_with_path

from pufferlib.errors import DivergedError, PufferError

VITAL = ("policy_loss", "value_loss", "entropy", "explained_variance")
"""Metrics that nothing recovers from once they are infinite; a ratio may be for one step, where the loss clips it."""


def is_finite(numbers: Tensor) -> bool:
    """Whether all numbers of a tensor are finite; on a GPU it waits for the answer."""
    if not numbers.is_floating_point() or math.isfinite(numbers.sum()):
        return True
    return bool(numbers.isfinite().all())  # the sum of large ones may overflow


def _find_in_rollout(columns: Tensor, num_agents: int, first_step: int) -> tuple[int, int, float] | None:
    # The step, the agent and the value of the earliest number that is not finite of `(T, segments, ...)`, where the
    # segments of all agents follow those of all agents at earlier steps.
    if is_finite(columns):
        return None
    rows = columns.flatten(2) if columns.dim() > 2 else columns.unsqueeze(2)
    by_time = rows.unflatten(1, (-1, num_agents)).transpose(0, 1)  # (groups, T, agents, numbers)
    group, column, agent = by_time.isfinite().all(3).logical_not_().nonzero()[0].tolist()
    row = by_time[group, column, agent]
    return group * len(columns) + column + first_step, agent, row[~row.isfinite()][0].item()


def require_finite(values: Tensor, logprobs: Tensor) -> None:
    """Raises a DivergedError where outputs of a policy on the CPU are not finite; a GPU would have to be waited for."""
    if values.device.type == "cpu" and not (is_finite(values) and is_finite(logprobs)):
        raise DivergedError("the policy's values or log-probabilities are not finite")


def find_first(
    rewards: Tensor, observations: Tensor, newest: Tensor, agent_steps: int, agents_per_env: int = 1
) -> str | None:
    """Names the first reward or observation of a rollout that is not finite, the earlier of the two; None if all are.

    Rewards are `(T + 1, segments)`, whose column 0 is of the rollout before; observations `(T, segments, ...)`, and the
    newest, after the last action, `(agents, ...)`. The run had `agent_steps` before this rollout.
    """
    agents, horizon = len(newest), len(observations)
    given = [
        ("reward", _find_in_rollout(rewards[1:], agents, 1)),
        ("observation", _find_in_rollout(observations, agents, 0)),
        ("observation", _find_in_rollout(newest.unsqueeze(0), agents, horizon * (observations.shape[1] // agents))),
    ]
    found = [(what, *finding) for what, finding in given if finding is not None]
    if not found:
        return None
    what, step, agent, value = min(found, key=lambda finding: finding[1])
    return (
        f"the {what} of agent {agent} (environment {agent // agents_per_env}) at step {step} of the rollout is "
        f"{value}, which began after {agent_steps:,} agent steps of the run; look at what the environment's step() "
        "returns, or leave such steps out by [train] skip_nonfinite"
    )


@contextmanager
def explaining(find: Callable[[], str | None], policy: nn.Module, act_again: Callable[[], object]) -> Iterator[None]:
    """Replaces an error of a policy by a DivergedError of what led to it, where that is a number which is not finite.

    `find` names the first such number that the policy was given, or returns None; its weights are looked at after that.
    Then the policy acts again, to find the layer whose output is the first that is not finite.
    """
    try:
        yield
    except Exception as error:  # NaN has policies of users raise anything
        if isinstance(error, PufferError) and not isinstance(error, DivergedError):
            raise
        finding = find() or find_weight(policy)
        if finding is not None:
            raise DivergedError(finding) from error
        if isinstance(error, DivergedError):
            layer = find_layer(policy, act_again)
            place = "" if layer is None else f", first in its layer {layer}"
            largest = max((float(p.detach().abs().max()) for p in policy.parameters() if p.numel()), default=0.0)
            raise DivergedError(
                f"{str(error).partition(';')[0]}{place}, from finite observations and weights, the largest of them "
                f"{largest:g}; lower [train] learning_rate, or look at the policy's forward()"
            ) from error
        raise


def find_layer(policy: nn.Module, run: Callable[[], object]) -> str | None:
    """Names the first layer whose output is not finite while a policy runs: `'head' (Linear)`; None if none is."""
    names = {module: name for name, module in policy.named_modules() if name}
    found: list[str] = []

    def look(module: nn.Module, inputs: object, output: object) -> None:
        tensors = (part for part in tree_leaves(output) if isinstance(part, Tensor))
        if not found and module in names and not all(map(is_finite, tensors)):
            found.append(f"{names[module]!r} ({type(module).__name__})")

    with register_module_forward_hook(look), torch.no_grad(), suppress(Exception):  # it was called for an error already
        run()
    return found[0] if found else None


def find_weight(policy: nn.Module) -> str | None:
    """Names the first parameter of a policy that is not finite, or the first buffer that is NaN: masks may be -inf."""
    for name, parameter in policy.named_parameters():
        if not is_finite(parameter.detach()):
            broken = parameter.detach()[~parameter.detach().isfinite()]
            return f"the weight {name!r} is {broken[0].item()}"
    for name, buffer in policy.named_buffers():
        if buffer.is_floating_point() and buffer.isnan().any():
            return f"the buffer {name!r} is nan"
    return None


def require_finite_weights(policy: nn.Module) -> None:
    """Raises a DivergedError that names the first weight which is infinite or NaN."""
    broken = find_weight(policy)
    if broken is not None:
        raise DivergedError(f"the policy must have finite weights to act, but {broken}; take an earlier model")


def find_in_state(state: Mapping | Tensor | float, place: str) -> str | None:
    """Names the first number of nested dicts of numbers and tensors that is not finite: `adam['weight'] is nan`."""
    for path, leaf in tree_leaves_with_path(state):
        numbers = torch.as_tensor(leaf)
        if not is_finite(numbers):
            return f"{place}{keystr(path)} is {numbers[~numbers.isfinite()][0].item()}"
    return None


def describe_update(
    losses: Mapping[str, float], weight_norm: float, policy: nn.Module, learning_rate: float
) -> str | None:
    """Names what is not finite after an update, by its metrics and the norm of all trained weights; None where all is.

    The weights are looked at only where one of these numbers is not finite.
    """
    broken = [name for name, value in losses.items() if math.isnan(value) or (name in VITAL and math.isinf(value))]
    if not broken and math.isfinite(weight_norm):
        return None
    weight = find_weight(policy)
    found = [f"{name} is {losses[name]}" for name in broken[:1]] + ([weight] if weight else [])
    if not found:
        return None  # the norm of large weights may overflow
    return (
        f"{' and '.join(found)} after an update from finite rewards and observations; lower [train] learning_rate, "
        f"which was {learning_rate:g}"
    )
