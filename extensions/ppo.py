"""PPO's update on a GPU: what draws a minibatch, and the loss with its gradient, by the kernels of ppo.cu."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pufferlib.extensions.cpu_library import CONSTANTS, STRUCTURES
from pufferlib.extensions.cuda_library import can_run, declared, is_nvidia, launch

WARP = 32
SEGMENTS_PER_BLOCK = 4  # a warp for each
DRAWING_THREADS = 1024  # BLOCK of warp.h
THREADS_PER_BLOCK = 128

_launch = functools.partial(launch, "ppo")


def has_kernels(device: torch.device) -> bool:
    """Whether the kernels run on a device; where a GPU of NVIDIA's cannot, the first call says why in a warning."""
    return is_nvidia(device) and can_run("ppo", device)


@dataclass(frozen=True)
class Draw:
    """How the segments of a minibatch are drawn."""

    count: int
    alpha: float  # how much large advantages are drawn more often
    beta: Tensor | None  # (), how much of that the importance weights correct; None for not at all
    is_normalized: bool  # whether advantages get mean 0 and deviation 1
    generator: torch.Generator | None


def draw_minibatch(advantages: Tensor, values: Tensor, resets: Tensor, drawing: Draw) -> dict[str, Tensor | None]:
    """Draws distinct segments, in the order of their rows, and gathers what a Minibatch has of them.

    Args:
        advantages: `(segments, horizon)`, of which a row has one more column in memory.
        values: `(segments, horizon + 1)` float32.
        resets: `(segments, horizon)` bool.
        drawing: as its class says.

    Returns:
        `rows, resets, old_values, returns, advantages` and `importance`, which is in the advantages.
    """
    (segments, steps), count = advantages.shape, drawing.count
    priorities, means, squares, clocks = advantages.new_empty(4, segments)
    given = advantages, priorities, means, squares, segments, steps + 1, (drawing.alpha,)
    _launch("puffer_segments", -(-segments // SEGMENTS_PER_BLOCK), (WARP, SEGMENTS_PER_BLOCK), given)
    clocks.exponential_(generator=drawing.generator)
    rows, moments = clocks.new_empty(count, dtype=torch.int64), clocks.new_empty(2)
    importance = None if drawing.beta is None else clocks.new_empty(count, 1)
    drawn = rows, importance, moments, segments, count, steps
    _launch("puffer_draw", 1, (DRAWING_THREADS, 1), (priorities, means, squares, clocks, drawing.beta, *drawn))
    old_values, returns, ready = clocks.new_empty(3, count, steps)
    chosen = clocks.new_empty(count, steps, dtype=torch.bool)
    given = rows, importance, moments if drawing.is_normalized else None, advantages, values, resets
    results = chosen, old_values, returns, ready, count, steps
    _launch("puffer_gather", -(-count * steps // THREADS_PER_BLOCK), (THREADS_PER_BLOCK, 1), (*given, *results))
    found = {"rows": rows, "resets": chosen, "old_values": old_values, "returns": returns}
    return {**found, "advantages": ready, "importance": importance}


@dataclass(frozen=True)
class Choices:
    """Decisions that are choices."""

    actions: Tensor  # (segments, horizon, ...) int32 of the rollout
    part_sizes: Tensor  # (parts,) int64


@dataclass(frozen=True)
class Numbers:
    """Decisions that are numbers of normal distributions."""

    actions: Tensor  # (segments, horizon, parts) float32 of the rollout
    deviations: Tensor  # (2, parts), their logarithms first
    gradients: Tensor  # (steps, parts), results: of the logarithms, to be summed over the steps


def differentiate_loss(
    decision: Choices | Numbers,
    tensors: Mapping[str, Tensor | None],
    horizon: int,
    coefficients: Mapping[str, Any],
    share: float,
) -> Tensor:
    """Computes the gradients of the loss by a policy's outputs, and writes new ratios and values into the rollout.

    Args:
        decision: what the outputs before the value stand for.
        tensors: those of PpoBatch in ppo.cu by their names, but for `sums`.
        horizon: of the rollout.
        coefficients: of the loss, by the names of PpoCoefficients in cpu_kernels.h and perhaps others.
        share: of these steps in the minibatch.

    Returns:
        The metrics, `(PPO_METRICS,)`, times `share`.
    """
    width = tensors["outputs"].shape[-1]
    count = tensors["outputs"].numel() // width
    grid = -(-count // THREADS_PER_BLOCK)
    sums = decision.actions.new_empty(grid * (THREADS_PER_BLOCK // WARP), CONSTANTS["PPO_METRICS"], dtype=torch.float32)
    places = {name: None if each is None else each.data_ptr() for name, each in {**tensors, "sums": sums}.items()}
    batch = declared("ppo").structures["PpoBatch"](**places, width=width, count=count, horizon=horizon)
    names = [name for name, _ in STRUCTURES["PpoCoefficients"]._fields_]
    settings = batch, tuple(coefficients[name] for name in names), (share / count,)
    if isinstance(decision, Choices):
        given = decision.actions, decision.part_sizes, len(decision.part_sizes)
        _launch("puffer_ppo_choices", grid, (THREADS_PER_BLOCK, 1), (*given, *settings))
    else:
        given = decision.actions, decision.deviations, decision.gradients, decision.deviations.shape[1]
        _launch("puffer_ppo_numbers", grid, (THREADS_PER_BLOCK, 1), (*given, *settings))
    return sums.sum(0)
