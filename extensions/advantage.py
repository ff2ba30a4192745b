"""Advantages: the operator, its CPU and CUDA kernels, and the plain loop they are measured against."""

from __future__ import annotations

import torch
from torch.autograd.graph import increment_version

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library, cuda_library
from pufferlib.extensions.cpu_library import check_tensor

ROWS_PER_BLOCK = 4  # warps of one CUDA block
ABSENT_ROWS_PER_BLOCK = 128  # threads of one, where agents are absent


def compute_puff_advantage(
    values: torch.Tensor,
    rewards: torch.Tensor,
    terminals: torch.Tensor,
    ratio: torch.Tensor,
    advantages: torch.Tensor,
    gamma: float,
    gae_lambda: float,
    vtrace_rho_clip: float,
    vtrace_c_clip: float,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """Generalised advantages with V-trace's clipped importance weights, written into `advantages`.

    Rewards and terminals belong to the step before their column: `rewards[:, t + 1]` is what the action at `t` earned.
    The last column is the bootstrap and gets advantage 0. No gradient flows through.

    Where an agent is absent, as one that waits for its turn, its value there is not read: the value is what follows,
    and what follows counts for its last own move, in which lambda counts own moves alone. Where it is absent at the
    last column, its last own move has advantage 0 and stands for the bootstrap, unless an episode ended since.

    Args:
        values: value estimates. This and the next four are float32, contiguous, of one shape `(segments, columns)` with
            at least one column, on one device.
        rewards: rewards, arriving with the next observation.
        terminals: 1.0 where the observation begins a new episode, else 0.0.
        ratio: probability of the action under the current policy over that under the policy that took it.
        advantages: overwritten; shares no memory with the others.
        gamma: discount per step.
        gae_lambda: weight of longer returns, 0 to 1.
        vtrace_rho_clip: upper limit of the ratio that weighs a step's own error.
        vtrace_c_clip: upper limit of the ratio that weighs what comes after it.
        present: like the values: 1.0 where the agent acts on the observation, 0.0 where it is absent; None where every
            agent is always there.

    Returns:
        `advantages`.

    Raises:
        APIUsageError: if a tensor differs from the above.
    """
    torch.ops.pufferlib.advantage(
        values, rewards, terminals, ratio, present, advantages, gamma, gae_lambda, vtrace_rho_clip, vtrace_c_clip
    )
    return advantages


def reference_advantage(
    values: torch.Tensor,
    rewards: torch.Tensor,
    terminals: torch.Tensor,
    ratio: torch.Tensor,
    gamma: float,
    gae_lambda: float,
    vtrace_rho_clip: float,
    vtrace_c_clip: float,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """Computes the same column by column, in the inputs' own precision; tests compare with it in float64."""
    # LaTeX: \rho_t = \min(\bar\rho, w_t), \quad c_t = \min(\bar c, w_t)
    # LaTeX:   ; w = ratio, \bar\rho = vtrace_rho_clip, \bar c = vtrace_c_clip
    rho, c = ratio.clamp(max=vtrace_rho_clip), ratio.clamp(max=vtrace_c_clip)
    # LaTeX: n_t = 1 - d_t ; n = goes_on, d = terminals
    goes_on = 1 - terminals
    is_there = torch.ones_like(values, dtype=torch.bool) if present is None else present != 0
    result, following, is_open = torch.zeros_like(values), values[:, -1], ~is_there[:, -1]
    for t in reversed(range(values.shape[1] - 1)):
        # LaTeX: y_t = r_{t+1} + \gamma U_{t+1}\, n_{t+1} ; y = target, r = rewards, U = following
        target = rewards[:, t + 1] + gamma * following * goes_on[:, t + 1]
        # LaTeX: \delta_t = \rho_t\, (y_t - V_t) ; V = values
        delta = rho[:, t] * (target - values[:, t])
        # LaTeX: A_t = \delta_t + \gamma \lambda\, c_t\, n_{t+1}\, A_{t+1} ; A = result, \lambda = gae_lambda
        own = delta + gamma * gae_lambda * c[:, t] * goes_on[:, t + 1] * result[:, t + 1]
        is_open = is_open & (goes_on[:, t + 1] != 0)
        advantage = torch.where(is_there[:, t], own, gamma * goes_on[:, t + 1] * result[:, t + 1])
        result[:, t] = advantage.masked_fill(is_open, 0.0)
        following = torch.where(is_there[:, t], values[:, t], target)
        is_open = is_open & ~is_there[:, t]
    return result


def _check(values, rewards, terminals, ratio, present, advantages, *settings) -> None:
    if values.ndim != 2 or values.shape[1] < 1:
        raise APIUsageError(
            f"values must have shape (segments, columns) with at least 1 column, got {tuple(values.shape)}"
        )
    tensors = {"values": values, "rewards": rewards, "terminals": terminals, "ratio": ratio, "present": present}
    for name, tensor in {**tensors, "advantages": advantages}.items():
        if tensor is not None:
            check_tensor(name, tensor, values.shape, values.device)


def _advantage(values, rewards, terminals, ratio, present, advantages, *settings) -> None:
    _check(values, rewards, terminals, ratio, present, advantages)
    advantages.copy_(reference_advantage(values, rewards, terminals, ratio, *settings, present))


def _advantage_cpu(values, rewards, terminals, ratio, present, advantages, *settings) -> None:
    tensors = values, rewards, terminals, ratio, present, advantages
    _check(*tensors)
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    cpu_library.library().puffer_advantage(*addresses, *values.shape, *settings, cpu_library.parallel_for())
    increment_version(advantages)


def _advantage_cuda(values, rewards, terminals, ratio, present, advantages, *settings) -> None:
    tensors = values, rewards, terminals, ratio, present, advantages
    _check(*tensors)
    if not cuda_library.can_run("advantage", values.device):
        return _advantage(*tensors, *settings)
    if present is None:
        kernel, rows, block = "puffer_advantage", ROWS_PER_BLOCK, (32, ROWS_PER_BLOCK)
    else:
        kernel, rows, block = "puffer_advantage_of_absent", ABSENT_ROWS_PER_BLOCK, (ABSENT_ROWS_PER_BLOCK, 1)
    given = (*(tensor for tensor in tensors if tensor is not None), *values.shape, settings)
    cuda_library.launch("advantage", kernel, -(-len(values) // rows), block, given)
    increment_version(advantages)


# Defined this way and not by torch.library.custom_op, whose wrappers cost three times the rest of a call.
_library = torch.library.Library("pufferlib", "FRAGMENT")
_library.define(
    "advantage(Tensor values, Tensor rewards, Tensor terminals, Tensor ratio, Tensor? present, Tensor(a!) advantages, "
    "float gamma, float gae_lambda, float rho_clip, float c_clip) -> ()",
    tags=torch.Tag.pt2_compliant_tag,
)
_library.impl("advantage", _advantage, "CompositeExplicitAutograd")
_library.impl("advantage", _advantage_cpu, "CPU")
if torch.version.cuda is not None:  # a build for another kind of accelerator keeps the plain loop
    _library.impl("advantage", _advantage_cuda, "CUDA")
torch.library.register_fake("pufferlib::advantage", _check, lib=_library)
