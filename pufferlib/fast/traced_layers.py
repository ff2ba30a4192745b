"""Traces a policy into the layers that the kernel computes.

torch.fx records the operations of a call; each becomes a layer, a view of one, or the reason why torch computes the
policy. What the kernel then computes is compared with the policy on random rows, outputs and gradients, before it is
used, unless pufferlib.models made the policy. One that keeps something in a call, or draws something, is not traced.
"""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from pufferlib.extensions.cpu_library import CONSTANTS
from pufferlib.extensions.network import Network, NetworkBatch
from pufferlib.extensions.network_layers import Fields, Layers, Normalizer
from pufferlib.fast.policy_watch import (
    TRACING,
    OwnCode,
    copy_structure,
    find_change,
    find_kept,
    has_own_code,
    is_altered,
)
from pufferlib.fast.traced_graph import Tracer, Unseen, place_of
from pufferlib.fast.traced_states import SharedCellError, StepStates
from pufferlib.fast.traced_values import Parameter, UntracedError, Value
from pufferlib.metrics.measures import EPSILON
from pufferlib.models import ACTIVATIONS, LSTMWrapper, MinGRUWrapper
from pufferlib.policy import (
    NormalizedObservations,
    acting_forward,
    training_forward,
    unchecked_distributions,
)
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout
from pufferlib.ppo.sampling import sample_logits

_WRAPPERS = MinGRUWrapper, LSTMWrapper
_PARTS = *ACTIVATIONS.values(), nn.Linear, nn.Conv2d, nn.Flatten, nn.LSTMCell, nn.Sequential, nn.ModuleList
_TOLERANCE = 1e-4  # of the largest number of a result: how far the kernel's may be from the policy's


def trace(policy: nn.Module, rollout: Rollout) -> Layers:
    """Traces a policy, as the trainer calls it, that sees the observations of a rollout.

    The layers fit the kernel, which was compared with the policy; if it has only parts as pufferlib.models makes them,
    neither need be so. Raises UntracedError for an operation that the kernel does not know, or another result.
    """
    with TRACING:
        if is_altered(policy):
            raise UntracedError("has hooks or replaced methods")
        doubt = OwnCode(policy).doubt
        if doubt is not None:
            raise UntracedError(doubt)
        layers, _ = _find_layers(policy, rollout)
        if not layers.parameters():
            raise UntracedError("has no parameter that is trained")
        if not all(tensor.is_leaf for tensor in layers.tensors()):
            raise UntracedError("has a parametrization, which computes a weight in each call")
        kinds = {type(part) for part in policy.modules()}
        of_library = {*_PARTS, *(kind for kind in kinds if kind.__module__.startswith("pufferlib."))}
        if kinds <= of_library and not has_own_code(policy):
            return layers
        if len(layers.layers) > CONSTANTS["NETWORK_MAX_LAYERS"]:
            raise UntracedError(f"has {len(layers.layers)} layers, more than {CONSTANTS['NETWORK_MAX_LAYERS']}")
        if not layers.fit():
            raise UntracedError("has layers that are not of the sizes and types that the kernel takes")
        try:
            copied = copy_structure(policy)  # which a call may change
            its_layers, counts = _find_layers(copied, rollout)
            _add_noise(copied, its_layers)
            _compare(copied, its_layers, rollout, counts)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            raise UntracedError(f"cannot be compared with the kernel: {str(error).splitlines()[0]}") from error
        return layers


def _find_layers(policy: nn.Module, rollout: Rollout) -> tuple[Layers, Mapping[int, int]]:
    # And the columns of an observation that are categories, with how many there are.
    normalizer, inner = None, policy
    if type(inner) is NormalizedObservations:
        normalizer = Normalizer(inner.mean, inner.variance, EPSILON, inner.clip)
        inner = inner.policy
    own_states = rollout.states if hasattr(inner, "forward_eval") and type(inner) not in _WRAPPERS else {}
    seen = rollout.observations
    for are_cells_layers in (True, False):
        calls = _Calls(tuple(seen.shape[2:]), seen.dtype, normalizer is not None, own_states, are_cells_layers)
        try:
            layers = _follow(inner, calls, normalizer)
        except SharedCellError:
            continue
        if layers.fit() or not own_states:
            break
    trained = {id(parameter) for parameter in policy.parameters() if parameter.requires_grad}
    constants = [tensor for tensor in layers.tensors() if id(tensor) not in trained]
    return replace(layers, constants=constants), calls.counts


@torch.enable_grad()  # so that it shows which weights are computed in a call
def _follow(inner: nn.Module, calls: _Calls, normalizer: Normalizer | None) -> Layers:
    if type(inner) in _WRAPPERS:
        recurrent = inner.layers if type(inner) is MinGRUWrapper else inner.cells
        hidden = calls.follow(inner.policy, "encode_observations", calls.observation)
        outputs = calls.follow(inner.policy, "decode_actions", calls.recur(hidden, recurrent))
    else:
        name = "forward_eval" if hasattr(inner, "forward_eval") else "forward"
        outputs = calls.follow(inner, name, calls.observation)
    return calls.finish(outputs, normalizer)


class _Calls(StepStates):
    # The layers of all calls of a policy, one after the other.

    def follow(self, module: nn.Module, name: str, given: Value) -> Any:
        """The results of a method for a value, which may read and replace entries of a recurrent state."""
        graph, left = self._record(module, name, given.kind in ("float", "double"))
        results: dict[fx.Node, Any] = {}
        makers: list[fx.Node] = []  # of the last layer
        for node in graph.nodes:
            self.place = node.meta["place"]
            are_makers = bool(makers) and node.all_input_nodes == makers
            self.is_only_user = are_makers and len(makers[0].users) == 1 and makers[0] not in left.values()
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

    def _record(self, module: nn.Module, name: str, sees_floats: bool) -> tuple[fx.Graph, dict[str, fx.Node | None]]:
        # The operations of a method, and those whose results it leaves in the state.
        tracer = Tracer(sees_floats, self._entries)
        tracer.traced_func_name = name
        try:
            code, copied = getattr(type(module), name).__code__, copy_structure(module)
            others = dict.fromkeys(code.co_varnames[2 : code.co_argcount])
            kept = find_kept(copied) if has_own_code(module) else {}  # of the library nothing, whatever others draw
            with unchecked_distributions(), Unseen(is_tracing=True):
                graph = tracer.trace(copied, others)
            left = {entry: getattr(tracer.state[entry], "node", None) for entry in self._entries}
        except UntracedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code raises on what is no tensor
            sentence = str(error).strip().splitlines()[0].split(". ")[0] if str(error).strip() else type(error).__name__
            place = place_of(reversed([*traceback.walk_tb(error.__traceback__)]))
            raise UntracedError(f"cannot be traced: {sentence}{place}") from error
        if kept:
            _require_steady(copied, kept)
        return graph, left

    def finish(self, outputs: object, normalizer: Normalizer | None) -> Layers:
        """The layers, of which `outputs` are the logits and the values."""
        if not isinstance(outputs, (tuple, list)) or len(outputs) != 2:
            raise UntracedError("returns something else than logits and values")
        logits, value = outputs
        if not isinstance(value, Value) or value.kind != "float" or value.shape not in ((), (1,)):
            raise UntracedError("returns values that are not one number of each row")
        log_std = None
        if isinstance(logits, tuple) and len(logits) == 2 and isinstance(logits[1], Parameter):
            logits, deviation = logits
            log_std, parts = deviation.tensor, [1] * math.prod(logits.shape)
            if not deviation.is_exponential:
                raise UntracedError("has deviations that are not the exponential of a parameter")
            decisions = [logits]
        else:
            decisions = list(logits) if isinstance(logits, (tuple, list)) else [logits]
            if not all(map(_is_row, decisions)):
                raise UntracedError("returns logits that are not one row of numbers for each part")
            parts = [part.shape[0] for part in decisions]
        if 0 in (value.index, *(decision.index for decision in decisions)):
            raise UntracedError("returns its observation")
        places = [*itertools.accumulate(math.prod(each.shape) for each in decisions)]
        sources, (head, _) = [*map(self._source, [*decisions, value])], self._source(value)
        if sources == [(head, place) for place in (0, *places)]:  # side by side, as of an ActionHead
            found = {"decision": head, "value": head, "value_place": places[-1]}
        else:
            decision = self._row(decisions[0]) if len(decisions) == 1 else self._concatenate(decisions)
            found = {"decision": decision.index, "value": self._row(value).index, "value_place": 0}
        return Layers(
            layers=self.layers,
            shape=self._observation_shape(),
            parts=parts,
            **found,
            log_std=log_std,
            normalizer=normalizer,
            categories=self.categories,
            divides_integers=self.seen == {True},
            are_bytes=self.seen == {False}
            and self.dtype in (torch.uint8, torch.int8)
            and not self.is_normalized
            and self.categories is None,
            has_channels_last=self.has_channels_last,
            fields=self._fields(),
            state_places=self.state_places(),
        ).in_loops()


def _is_row(value: object) -> bool:
    return isinstance(value, Value) and value.kind == "float" and len(value.shape) == 1


def _require_steady(policy: nn.Module, before: dict[str, object]) -> None:
    name = find_change(before, find_kept(policy))
    if name is not None:
        raise UntracedError(f"keeps something in a call: {name}")


@torch.no_grad()
def _add_noise(policy: nn.Module, layers: Layers) -> None:
    # To what is trained and what the layers read of the policy: where a weight begins at zero, gradients before it
    # would be zero too.
    generator, read = torch.Generator().manual_seed(1), set(map(id, layers.tensors()))
    for each in (*policy.parameters(), *policy.buffers()):
        if each.requires_grad or id(each) in read:
            inputs = math.prod(each.shape[1:])
            each.add_(torch.randn(each.shape, generator=generator), alpha=0.1 / math.sqrt(max(inputs, 1)))


def _compare(policy: nn.Module, layers: Layers, rollout: Rollout, counts: Mapping[int, int]) -> None:
    # Outputs and gradients on random rows.
    generator = torch.Generator().manual_seed(0)
    count, steps = 12, 1 if layers.num_states == 0 else max(3, rollout.horizon)  # gradients may be cut between them
    seen = _draw_observations(layers, rollout.observations, counts, (count, steps), generator)
    resets = torch.rand(count, steps, generator=generator) < 0.3
    entries = {name: torch.randn(count, *each.shape[1:], generator=generator) for name, each in rollout.states.items()}
    states = [each.contiguous() for each in layers.states_of(entries.values())]
    if layers.log_std is None:
        actions = torch.stack([torch.randint(0, size, resets.shape, generator=generator) for size in layers.parts], -1)
        actions = actions.int()
    else:
        actions = torch.randn(*resets.shape, len(layers.parts), generator=generator)
    kept = find_kept(policy)
    with torch.enable_grad(), Unseen(is_tracing=False):
        if layers.num_states:
            logits, values = policy(seen, {**{name: each.clone() for name, each in entries.items()}, "resets": resets})
        else:
            logits, values = training_forward(policy, policy)(seen.flatten(0, 1), {})
        taken = actions if layers.num_states else actions.flatten(0, 1)
        if isinstance(logits, Tensor) and layers.log_std is None:  # a single choice
            taken = taken.squeeze(-1)
        _, logprobs, entropy = sample_logits(logits, action=taken)
        logprobs, values, entropy = (tensor.float().view(count, steps) for tensor in (logprobs, values, entropy))
        _check_acting(policy, seen, entries, resets, actions, (logprobs.detach(), values.detach()))
        _require_steady(policy, kept)
        noise = [0.3 * torch.randn(count, steps, generator=generator) for _ in range(4)]
        old = [logprobs.detach() + 0.1 * noise[0], values.detach() + noise[1], noise[2], noise[3]]
        coefficients = {"clip_coef": 0.2, "vf_clip_coef": 10.0, "vf_coef": 0.5, "ent_coef": 0.01}
        loss = ppo_loss(logprobs, values, entropy, *old, None, **coefficients)
        parameters = layers.parameters()
        expected = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    batch = NetworkBatch(torch.arange(count), actions, resets, states, *old, None)
    learned = Network(layers).learn(seen, batch, **coefficients)
    _check_close("values", learned.values, values.detach())
    _check_close("log-probabilities", learned.ratios.log() + old[0], logprobs.detach())
    for parameter, found, gradient in zip(parameters, learned.gradients, expected, strict=True):
        name = next(name for name, each in policy.named_parameters() if each is parameter)
        if gradient is None:
            raise UntracedError(f"does not use its parameter {name}")
        _check_close(f"gradient of {name}", found, gradient)


@torch.no_grad()
def _check_acting(
    policy: nn.Module,
    seen: Tensor,
    entries: Mapping[str, Tensor],
    resets: Tensor,
    actions: Tensor,
    expected: tuple[Tensor, Tensor],  # log-probabilities and values, as training has them
) -> None:
    forward, state = acting_forward(policy), {name: each.clone() for name, each in entries.items()}
    for step in range(seen.shape[1]):
        for name, each in state.items():
            state[name] = each.masked_fill(resets[:, step].view(-1, *[1] * (each.dim() - 1)), 0)
        logits, values = forward(seen[:, step], state)
        taken = actions[:, step]
        _, logprobs, _ = sample_logits(logits, action=taken.squeeze(-1) if isinstance(logits, Tensor) else taken)
        _check_close("acting's log-probabilities", logprobs.float().view(-1), expected[0][:, step])
        _check_close("acting's values", values.float().view(-1), expected[1][:, step])


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


def _check_close(name: str, found: Tensor, expected: Tensor) -> None:
    limit = _TOLERANCE * max(expected.abs().max().item(), 1e-3)
    difference = (found - expected).abs().max().item()
    if not difference <= limit:
        raise UntracedError(
            f"differs from what the kernel makes of it: {name} by {difference:.2g}, of {limit:.2g} allowed"
        )
