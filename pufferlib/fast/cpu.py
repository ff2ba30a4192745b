"""Acting and learning on a CPU: by the kernel where it knows the layers, else by torch in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from pufferlib.config import ResolvedTrainConfig
from pufferlib.extensions.adam import AdamBatch, clip_gradients
from pufferlib.extensions.network import Learned, Network, NetworkBatch
from pufferlib.fast.policy_watch import copy_structure, find_kept, is_altered, watch_changes
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.advantages import Minibatch
from pufferlib.ppo.learner import Gradients, Loss
from pufferlib.ppo.losses import METRICS, ppo_loss
from pufferlib.ppo.rollout import Rollout


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Lets the calling thread's torch operations use `count` threads; one keeps them off the cores of others."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_MIN_CHUNK_STEPS = 128  # steps of a minibatch that are worth a thread of their own
_FEW_ROWS, _TOLERANCE = 16, 1e-4  # of the first minibatch; of the largest gradient


class ThreadedGradients(Gradients):
    """Gives each thread a chunk of the segments; the results are added in order, so the sum is always the same.

    The first minibatch, and that after a change, tells whether that is what one call finds: where the policy mixes
    rows, or keeps or draws something in a call, one call computes all of them, with torch's own threads.
    """

    def __init__(
        self,
        policy: nn.Module,
        rollout: Rollout,
        config: ResolvedTrainConfig,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
        loss: Loss = ppo_loss,
    ):
        super().__init__(policy, rollout, config, autocast, loss)
        self._num_threads = torch.get_num_threads()
        self._num_chunks = min(self._num_threads, max(1, self.config.minibatch_steps // _MIN_CHUNK_STEPS))
        self._pool = ThreadPoolExecutor(self._num_chunks, "chunk", initializer=torch.set_num_threads, initargs=(1,))
        self._are_rows_apart: bool | None = None
        self._is_changed: Callable[[], bool]  # whether the policy is another than that which was asked

    @override
    def differentiate(self, minibatch: Minibatch) -> Tensor:
        if self._are_rows_apart is None or (self._are_rows_apart and self._is_changed()):
            self._is_changed = watch_changes(self.policy, runs_no_code=True)
            self._are_rows_apart = not is_altered(self.policy) and self._computes_rows_apart(minibatch[:_FEW_ROWS])
        return super().differentiate(minibatch)

    def _computes_rows_apart(self, minibatch: Minibatch) -> bool | None:
        # By a copy of the policy; what this writes into the rollout is written again. None where no row counts.
        with torch.random.fork_rng([]):
            try:
                policy = copy_structure(self.policy)
                one_call = Gradients(policy, self.rollout, self.config, self._autocast, self.loss)
                kept = find_kept(policy)
                together = self._gradient(one_call, [minibatch])
                apart = self._gradient(one_call, minibatch.split(max(1, len(minibatch) // 2)))
            except Exception:  # noqa: BLE001 - whatever a user's code raises: one call raises it again
                return False
            is_steady = find_kept(policy) == kept
        largest = together.abs().max()
        if largest == 0:
            return None
        return is_steady and bool((together - apart).abs().max() <= _TOLERANCE * largest)

    def _gradient(self, gradients: Gradients, parts: list[Minibatch]) -> Tensor:
        gradients.clear()
        for part in parts:
            loss = gradients.loss_of(part, *gradients.outputs(part))
            (loss.total * len(part)).backward()
        found = ((each, each.grad) for each in gradients.parameters)  # None of what the call left out
        return torch.cat([(torch.zeros_like(each) if grad is None else grad).flatten() for each, grad in found])

    @override
    def _differentiate_part(self, part: Minibatch, num_rows: int) -> Tensor:
        if not self._are_rows_apart:
            with torch_threads(self._num_threads):
                return super()._differentiate_part(part, num_rows)

        def differentiate_chunk(rows: slice) -> tuple[Tensor, tuple[Tensor | None, ...]]:
            chunk = part[rows]
            loss = self.loss_of(chunk, *self.outputs(chunk))
            fraction = len(chunk) / num_rows
            metrics = self.keep(loss, chunk.rows) * fraction
            return metrics, torch.autograd.grad(loss.total * fraction, self.parameters, allow_unused=True)

        bounds = np.linspace(0, len(part), min(self._num_chunks, len(part)) + 1).astype(int).tolist()
        chunks = [slice(begin, end) for begin, end in zip(bounds, bounds[1:], strict=False)]
        run = self._pool.map if self._num_chunks > 1 else map  # a single chunk stays in this thread
        metrics, gradients = zip(*run(differentiate_chunk, chunks), strict=True)
        for parameter, *parts in zip(self.parameters, *gradients, strict=True):
            for gradient in parts:
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        return sum(metrics)

    @override
    def limit_caller(self) -> AbstractContextManager:
        return torch_threads(1)

    @override
    def close(self) -> None:
        self._pool.shutdown()


class NetworkActor(Actor):
    """An actor whose policy is a Network; it uses random numbers as `sample_logits` does.

    The kernel reads the observations where the environments wrote them, and writes the rollout's copy. The states are
    those of the network's layers, in their order.
    """

    def __init__(
        self, network: Network, policy: nn.Module, rollout: Rollout, num_agents: int, generator: torch.Generator
    ):
        super().__init__(policy, rollout, num_agents, generator)
        self._network = network
        self._draw = torch.rand if network.action_dtype == torch.int32 else torch.randn
        # By first segment, number of agents and column; they take observations that are not in the rollout yet.
        self._steps: dict[tuple[int, int, int], Callable[[Tensor | None], np.ndarray]] = {}
        self._noises: dict[int, Tensor] = {}  # memory, by agents
        self._seen: dict[int, Tensor] = {}  # a batch's observations until it acts, by its first agent

    @override
    def start_rollout(self, offset: int) -> None:
        super().start_rollout(offset)
        self._network.refresh()

    @override
    def store_observations(
        self, rows: slice, column: int, observations: np.ndarray, episode_starts: np.ndarray
    ) -> None:
        if column < self.rollout.horizon:
            self._seen[rows.start] = torch.from_numpy(observations)
            self._clear_states(rows, episode_starts)
        else:
            super().store_observations(rows, column, observations, episode_starts)

    @override
    def restart(self) -> None:
        super().restart()
        self._seen.clear()

    @override
    def act(self, rows: slice, column: int) -> np.ndarray:
        place = rows.start + self._offset, rows.stop - rows.start, column
        if place not in self._steps:
            self._steps[place] = self._prepare(rows, column)
        return self._steps[place](self._seen.pop(rows.start, None))

    def _prepare(self, rows: slice, column: int) -> Callable[[Tensor | None], np.ndarray]:
        rollout, segments, stored = self.rollout, self._segments(rows), self._stored(rows, column)
        noise = self._noises.setdefault(len(stored), rollout.values.new_empty(len(stored), self._network.num_parts))
        results = tuple(each[segments, column] for each in (rollout.actions, rollout.logprobs, rollout.values))
        masks = self.action_masks(rows, column)
        entries = self._network.layers.states_of(state[rows] for state in self.states.values())
        states = [entry.contiguous() for entry in entries]
        copies = [pair for pair in zip(entries, states, strict=True) if pair[0] is not pair[1]]
        present, actions = rollout.masks[segments, column], results[0].numpy()
        deciding = None if self.states else present
        act = self._network.prepare_act(stored, states, noise, *results, stored=stored, masks=masks, present=deciding)
        are_present = present.numpy()

        def step(seen: Tensor | None) -> np.ndarray:
            self._draw(noise.shape, out=noise, generator=self.streams.ready(rows))
            seen = stored if seen is None else seen
            # Without memory nothing is asked of absent agents; where they are few, all rows are computed all the same.
            if self.states or 4 * np.count_nonzero(are_present) >= 3 * len(are_present):
                for part, copy in copies:
                    copy.copy_(part)
                act(seen)
                for part, copy in copies:
                    part.copy_(copy)
            else:
                if seen is not stored:
                    stored.copy_(seen)
                chosen = torch.from_numpy(are_present.nonzero()[0])
                found = [result.new_empty(len(chosen), *result.shape[1:]) for result in results]
                some_masks = None if masks is None else masks[chosen]
                self._network.act(stored[chosen], [], noise[chosen], *found, masks=some_masks)
                for result, part in zip(results, found, strict=True):
                    result.zero_()[chosen] = part
            return actions

        return step

    @override
    def value(self, rows: slice | np.ndarray, observations: Tensor) -> Tensor:
        entries = self._network.layers.states_of(state[rows].clone() for state in self.states.values())
        values = self.rollout.values.new_empty(len(observations))
        self._network.value(observations, [entry.contiguous() for entry in entries], values)
        return values


class NetworkGradients(Gradients):
    """Differentiates `losses.ppo_loss` for a policy that is a Network, all of a minibatch in one call."""

    def __init__(self, network: Network, policy: nn.Module, rollout: Rollout, config: ResolvedTrainConfig):
        super().__init__(policy, rollout, config)
        self.network = network
        # Single steps are trained on with the values they had at first, so new ones are not needed.
        self._refreshes = config.shuffle == "segments"

    @override
    def differentiate(self, minibatch: Minibatch) -> Tensor:
        # All of it at once, as the kernel works in small blocks anyway.
        self.clear()
        rollout, rows = self.rollout, minibatch.rows
        if minibatch.weights is not None and not self._is_recurrent:
            # A last own move of which nothing is known weighs nothing, and its new value counts for those before.
            present = rollout.masks[rows, :-1] if self._refreshes else minibatch.weights > 0
            if present.any():
                return self._differentiate_present(minibatch, present)
        learned = self._learn(rollout.observations, self._batch(minibatch))
        if self._refreshes:
            rollout.ratios[rows, :-1] = learned.ratios
            rollout.values[rows, :-1] = learned.values
        return learned.metrics

    def _batch(self, minibatch: Minibatch) -> NetworkBatch:
        rollout, rows = self.rollout, minibatch.rows
        states = [state.index_select(0, rows) for state in rollout.states.values()]
        return NetworkBatch(
            segments=rows,
            actions=rollout.actions.index_select(0, rows),
            resets=minibatch.resets,
            states=[state.contiguous() for state in self.network.layers.states_of(states)],
            old_logprobs=rollout.logprobs.index_select(0, rows),
            old_values=minibatch.old_values,
            advantages=minibatch.advantages,
            returns=minibatch.returns,
            weights=minibatch.weights,
            masks=rollout.action_masks,
        )

    def prepare_steps(self, optimizer: Optimizer) -> AdamBatch | None:
        """What `train` steps by; None where the kernel does not take the policy or the optimizer."""
        if not self.network.can_train or not hasattr(optimizer, "steps_of_one_batch"):
            return None
        self.clear()
        self._set(self.network.gradients)
        return optimizer.steps_of_one_batch()

    def train(self, minibatches: Minibatch, size: int, adam: AdamBatch) -> Tensor:
        """Learns from minibatches of `size` rows each, one after the other, and makes a step after each.

        New values and ratios are not kept. Returns the sums of the metrics.
        """
        config, counts = self.config, [size] * (len(minibatches) // size)
        if minibatches.weights is not None:  # those of absent agents are left out
            present = minibatches.weights[:, 0] > 0
            ends = torch.cat([present.new_zeros(1, dtype=torch.int64), present.cumsum(0)])
            counts = ends[torch.tensor([0, *counts]).cumsum(0)].diff().tolist()
            minibatches = replace(minibatches[present], weights=None)
            if not len(minibatches):
                return torch.zeros(len(METRICS))
        batch, settings = self._batch(minibatches), {"max_norm": config.max_grad_norm, "is_normalized": config.norm_adv}
        return self.network.train(self.rollout.observations, batch, counts, adam, **settings, **self.coefficients)

    def _differentiate_present(self, minibatch: Minibatch, present: Tensor) -> Tensor:
        # Without memory every step is a segment of its own, and those of absent agents are left out.
        rollout, whole = self.rollout, self._batch(minibatch)
        rows, steps = present.nonzero(as_tuple=True)
        segments = minibatch.rows[rows]
        names = "actions", "resets", "old_logprobs", "old_values", "advantages", "returns", "weights"
        given = {name: getattr(whole, name) for name in names}
        chosen = {name: None if tensor is None else tensor[present].unsqueeze(1) for name, tensor in given.items()}
        chosen["weights"] *= len(segments) / whole.weights.numel()
        observations, masks = rollout.seen_by_step
        inputs = NetworkBatch(segments=steps * rollout.segments + segments, states=[], masks=masks, **chosen)
        learned = self._learn(observations, inputs)
        if self._refreshes:
            rollout.ratios[segments, steps] = learned.ratios[:, 0]
            rollout.values[segments, steps] = learned.values[:, 0]
        return learned.metrics

    def _learn(self, observations: Tensor, inputs: NetworkBatch) -> Learned:
        learned = self.network.learn(observations, inputs, **self.coefficients)
        self._set(learned.gradients)
        return learned

    def _set(self, gradients: list[Tensor]) -> None:
        for parameter, gradient in zip(self.network.parameters, gradients, strict=True):
            parameter.grad = gradient

    @override
    def clip(self, limit: float) -> None:
        gradients = [parameter.grad for parameter in self.network.parameters]
        own = self.network.gradient
        are_own = gradients[0].untyped_storage().data_ptr() == own.data_ptr()  # not averaged over processes since
        clip_gradients([own] if are_own else gradients, limit)

    @override
    def limit_caller(self) -> AbstractContextManager:
        return torch_threads(1)
