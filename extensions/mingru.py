"""The MinGRU layer after its linear product: gates, scan and highway in one pass, forward and backward.

With `gates` split into candidate, gate and highway (each of `hidden` columns, in this order), for every step t:

    z = sigmoid(gate)    s = sigmoid(highway)    f = candidate >= 0 ? candidate + 0.5 : sigmoid(candidate)
    state_t = (1 - z) * state_{t-1} + z * f      output_t = s * state_t + (1 - s) * x_t

where `state_{t-1}` counts as 0 if `reset[:, t]` is set. Resets are bool: a flag has two values, so no fraction and no
NaN can come in by it.
"""

from __future__ import annotations

import torch
from torch.autograd.graph import increment_version

from pufferlib.errors import APIUsageError
from pufferlib.extensions import cpu_library, cuda_library
from pufferlib.extensions.cpu_library import check_tensor

THREADS_PER_BLOCK = 128


def mingru_scan(
    gates: torch.Tensor,
    x: torch.Tensor,
    state: torch.Tensor,
    reset: torch.Tensor | None = None,
    *,
    kernel: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs the layer over whole segments; differentiable once in gates, x and state.

    Args:
        gates: `(batch, steps, 3 * hidden)` float32, contiguous, as are the others, all on one device.
        x: the layer's input, `(batch, steps, hidden)` float32, at least one step and one column.
        state: the state before the first step, `(batch, hidden)` float32.
        reset: `(batch, steps)` bool, set where a step begins an episode; None for nowhere.
        kernel: False computes with plain torch operations, in any precision. Devices without a kernel always do.

    Returns:
        The output, `(batch, steps, hidden)`, and the state after the last step, `(batch, hidden)`.

    Raises:
        APIUsageError: if a tensor differs from the above; from the backward pass, if that is to be differentiated.
        PufferError: if the kernel is asked for and was not built.
    """
    if not kernel or not _has_kernel(x.device):
        return reference_mingru(gates, x, state, reset)
    output, final, _ = torch.ops.pufferlib.mingru_forward(gates, x, state, reset)
    return output, final


def mingru_step(
    gates: torch.Tensor, x: torch.Tensor, state: torch.Tensor, reset: torch.Tensor | None = None
) -> torch.Tensor:
    """Runs the layer for one step of a rollout, with no gradient; while it is exported, with plain torch operations.

    Args:
        gates: `(batch, 3 * hidden)` float32, contiguous, as are the others, all on one device.
        x: the layer's input, `(batch, hidden)` float32.
        state: `(batch, hidden)` float32; the state before the step, overwritten with the one after it.
        reset: `(batch,)` bool, set where the step begins an episode; None for nowhere.

    Returns:
        The output, `(batch, hidden)`.

    Raises:
        APIUsageError: if a tensor differs from the above.
        PufferError: if the device has a kernel that was not built.
    """
    if torch.jit.is_tracing() or torch.compiler.is_exporting():  # for other programs, which have no kernel
        resets = None if reset is None else reset[:, None]
        output, after = reference_mingru(gates[:, None], x[:, None], state, resets)
        state.copy_(after)
        return output[:, 0]
    return torch.ops.pufferlib.mingru_step(gates, x, state, reset)


def reference_mingru(
    gates: torch.Tensor, x: torch.Tensor, state: torch.Tensor, reset: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes `mingru_scan` step by step in plain torch, in the inputs' own precision."""
    candidate, gate, highway = gates.chunk(3, dim=-1)
    candidate = torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
    z, s = gate.sigmoid(), highway.sigmoid()
    fresh = torch.zeros_like(x[..., 0], dtype=torch.bool) if reset is None else reset
    states = []
    for z_t, candidate_t, fresh_t in zip(z.unbind(1), candidate.unbind(1), fresh.unbind(1), strict=True):
        state = (1 - z_t) * state.masked_fill(fresh_t[:, None], 0.0) + z_t * candidate_t
        states.append(state)
    return s * torch.stack(states, dim=1) + (1 - s) * x, state


def _has_kernel(device: torch.device) -> bool:
    if not cuda_library.is_nvidia(device):
        return device.type == "cpu"
    return torch.compiler.is_compiling() or cuda_library.can_run("mingru", device)


def _check(gates, x, state, reset, sequence: tuple[int, ...]) -> None:
    # sequence = (batch, steps) of a scan, (batch,) of a step.
    hidden = x.shape[-1]
    if x.ndim != len(sequence) + 1 or 0 in (hidden, *sequence[1:]):
        axes = "(batch, steps, hidden)" if len(sequence) == 2 else "(batch, hidden)"
        raise APIUsageError(
            f"x must have shape {axes} with at least one step and one hidden column, got {tuple(x.shape)}"
        )
    check_tensor("x", x, x.shape, x.device)
    check_tensor("gates", gates, (*sequence, 3 * hidden), x.device)
    check_tensor("state", state, (sequence[0], hidden), x.device)
    if reset is not None:
        check_tensor("reset", reset, sequence, x.device, torch.bool)


def _run(function: str, tensors: tuple[torch.Tensor | None, ...], sizes: tuple[int, int, int]) -> None:
    # sizes = (batch, steps, hidden).
    if tensors[0].device.type == "cpu":
        _run_cpu(function, tensors, sizes)
    else:
        _run_cuda(function, tensors, sizes)


def _run_cpu(function, tensors, sizes) -> None:
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    getattr(cpu_library.library(), function)(*addresses, *sizes, cpu_library.parallel_for())


def _run_cuda(function, tensors, sizes) -> None:
    lanes = sizes[0] * sizes[2]
    grid, block = -(-lanes // THREADS_PER_BLOCK), (THREADS_PER_BLOCK, 1)
    cuda_library.launch("mingru", function, grid, block, (*tensors, *sizes))


def _forward_fake(gates, x, state, reset):
    _check(gates, x, state, reset, x.shape[:2])
    return torch.empty_like(x), torch.empty_like(state), torch.empty_like(x)


def _forward(gates, x, state, reset):
    output, final, states = _forward_fake(gates, x, state, reset)
    _run("puffer_mingru_forward", (gates, x, reset, state, output, states), x.shape)
    final.copy_(states[:, -1])
    return output, final, states


def _save_for_backward(ctx, inputs, output):
    # The backward pass, which memory bounds, computes the gates again.
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])
    ctx.save_for_backward(*inputs, output[2])


def _differentiate(ctx, grad_output, grad_final, _):
    if torch.is_grad_enabled():  # by create_graph
        raise APIUsageError(
            "mingru_scan must be differentiated once, got create_graph=True; with kernel=False it can be twice"
        )
    gates, x, state, reset, states = ctx.saved_tensors
    grad_output = torch.zeros_like(x) if grad_output is None else grad_output.contiguous()
    grad_final = torch.zeros_like(state) if grad_final is None else grad_final.contiguous()
    grads = torch.ops.pufferlib.mingru_backward(gates, x, state, reset, states, grad_output, grad_final)
    return *grads, None


def _backward_fake(gates, x, state, reset, states, grad_output, grad_final):
    _check(gates, x, state, reset, x.shape[:2])
    check_tensor("states", states, x.shape, x.device)
    check_tensor("grad_output", grad_output, x.shape, x.device)
    check_tensor("grad_final", grad_final, state.shape, x.device)
    return torch.empty_like(gates), torch.empty_like(x), torch.empty_like(state)


def _backward(gates, x, state, reset, states, grad_output, grad_final):
    grads = _backward_fake(gates, x, state, reset, states, grad_output, grad_final)
    _run("puffer_mingru_backward", (gates, x, reset, state, states, grad_output, grad_final, *grads), x.shape)
    return grads


def _step_fake(gates, x, state, reset):
    _check(gates, x, state, reset, x.shape[:1])
    return torch.empty_like(x)


def _step(gates, x, state, reset):
    if not _has_kernel(x.device):
        return _step_reference(gates, x, state, reset)
    output = _step_fake(gates, x, state, reset)
    _run("puffer_mingru_forward", (gates, x, reset, state, output, state), (x.shape[0], 1, x.shape[1]))
    increment_version(state)
    return output


def _step_reference(gates, x, state, reset):
    _check(gates, x, state, reset, x.shape[:1])
    reset = None if reset is None else reset[:, None]
    output, final = reference_mingru(gates[:, None], x[:, None], state, reset)
    state.copy_(final)
    return output[:, 0].contiguous()


_INPUTS = "Tensor gates, Tensor x, Tensor state, Tensor? reset"
_OPERATORS = {  # name: (signature, kernel, fake)
    "mingru_forward": (f"({_INPUTS}) -> (Tensor, Tensor, Tensor)", _forward, _forward_fake),
    "mingru_backward": (
        f"({_INPUTS}, Tensor states, Tensor grad_output, Tensor grad_final) -> (Tensor, Tensor, Tensor)",
        _backward,
        _backward_fake,
    ),
    "mingru_step": (f"({_INPUTS.replace('Tensor state', 'Tensor(a!) state')}) -> Tensor", _step, _step_fake),
}

_library = torch.library.Library("pufferlib", "FRAGMENT")
for _name, (_signature, _kernel, _fake) in _OPERATORS.items():
    _library.define(_name + _signature, tags=torch.Tag.pt2_compliant_tag)
    _library.impl(_name, _kernel, "CPU")
    if torch.version.cuda is not None:
        _library.impl(_name, _kernel, "CUDA")
    torch.library.register_fake(f"pufferlib::{_name}", _fake, lib=_library)
_library.impl("mingru_step", _step_reference, "CompositeExplicitAutograd")
torch.library.register_autograd(
    "pufferlib::mingru_forward", _differentiate, setup_context=_save_for_backward, lib=_library
)
