"""Compares a policy with what the kernel makes of the layers into which it was traced."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pufferlib.extensions import Layers, Network, NetworkBatch
from pufferlib.extensions.network_layers import Fields
from pufferlib.fast.traced_values import UntracedError
from pufferlib.policy import Logits, training_forward
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

TOLERANCE = 1e-4
"""Of the largest number of a result: how far the kernel's may be from the policy's."""


def compare(policy: nn.Module, layers: Layers, rollout: Rollout, counts: Mapping[int, int]) -> None:
    """Compares what the kernel makes of the layers of a policy with the policy: outputs and gradients, on random rows.

    `counts` has the columns of the observation that are categories, and how many there are.

    Raises:
        UntracedError: if they differ, or a parameter has no gradient.
    """
    generator = torch.Generator().manual_seed(0)
    count, steps = 12, 1 if layers.num_states == 0 else 3
    seen = _draw_observations(layers, rollout.observations, counts, (count, steps), generator)
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
    policy: nn.Module, layers: Layers, seen: Tensor, states: Mapping[str, Tensor], resets: Tensor
) -> tuple[Logits, Tensor]:
    if not layers.num_states:
        return training_forward(policy, policy)(seen.flatten(0, 1), {})
    return policy(seen, {**{name: state.clone() for name, state in states.items()}, "resets": resets})


def _draw_observations(
    layers: Layers, like: Tensor, counts: Mapping[int, int], rows: tuple[int, int], generator: torch.Generator
) -> Tensor:
    # Any numbers, but for the columns of categories, of which there are `counts`.
    fields = layers.fields or Fields([(like.dtype, 0, layers.numbers)], 0)
    parts = [_numbers(dtype, (*rows, count), generator) for dtype, _, count in fields.places]
    numbers = torch.cat(parts, -1)
    for column, count in counts.items():
        numbers[..., column] = torch.randint(0, count, rows, generator=generator).float()
    if layers.fields is None:
        return numbers.to(like.dtype).view(*rows, *like.shape[2:])
    seen = torch.zeros(*rows, fields.row_bytes, dtype=torch.uint8)
    for part, (dtype, first, count) in zip(numbers.split([p.shape[-1] for p in parts], -1), fields.places, strict=True):
        seen[..., first : first + count * dtype.itemsize] = part.to(dtype).contiguous().view(torch.uint8)
    return seen


def _numbers(dtype: torch.dtype, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator)
    return torch.randint(0, 256 if dtype == torch.uint8 else 128, shape, generator=generator).float()


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
