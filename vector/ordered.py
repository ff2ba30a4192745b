"""A vector's batches as consecutive agents, in whichever order its workers finish."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pufferlib.errors import APIUsageError, PufferError
from pufferlib.vector.base import State, Vector


class BatchResult(NamedTuple):
    """A received batch: one row of each array for every agent of `rows`, in their order."""

    rows: slice
    observations: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    truncations: np.ndarray
    masks: np.ndarray
    action_masks: np.ndarray | None
    infos: list[dict]


class OrderedVector:
    """Receives and sends batches of a vector whose batches are always of the same agents.

    They come as consecutive agents but for one case: a batch of everything, whose workers come in the order in which
    they finish. Its rows are sorted, so that each agent draws its own random numbers.
    """

    def __init__(self, vecenv: Vector):
        if getattr(vecenv, "mixes_batches", False):
            raise APIUsageError(
                "the trainer needs the same environments in every batch, got a vector that mixes them; "
                "set [vec] zero_copy to True, or batch_size to num_envs"
            )
        self.vecenv = vecenv
        self.held: deque[slice] = deque()  # received and not sent, oldest first, as the caller leaves them here
        self._num_batches = vecenv.num_agents // vecenv.agents_per_batch
        self._agents = np.arange(vecenv.num_agents)
        self._ids: dict[int, np.ndarray] = {}  # of the batches that were received, by their first agent
        self._slices: dict[int, tuple[np.ndarray, slice | None]] = {}  # agent_ids seen, by their id(), as slices
        self._order: np.ndarray | None = None  # of the agents in the last batch, where that was another one
        self._sorted: list[np.ndarray | None] = []  # what it brought, in the order of the agents

    @property
    def are_all_held(self) -> bool:
        """Whether every batch is held, as between two rollouts, and nobody else has reset the vector since."""
        return len(self.held) == self._num_batches and self.vecenv.holder is self.held

    def reset(self, seed: int | None) -> None:
        """Starts a reset of all environments, whose steps are this one's from then on."""
        self.held.clear()
        self.vecenv.async_reset(seed)
        self.vecenv.holder = self.held

    def require_own(self) -> None:
        """Raises an APIUsageError if another one steps the environments now."""
        if self.vecenv.holder is not None and self.vecenv.holder is not self.held:
            raise APIUsageError(f"no steps are possible now; {State.HANDED_OVER.value}")

    def receive(self) -> BatchResult:
        """Waits for a batch; its arrays are valid until the next call of the vector."""
        observations, rewards, terminals, truncations, infos, agent_ids, masks = self.vecenv.recv()
        rows = self._as_slice(agent_ids)
        arrays = [observations, rewards, terminals, truncations, masks, self.vecenv.action_masks]
        self._order = agent_ids if rows is None else None
        if rows is None:
            rows, arrays = slice(0, len(self._agents)), self._sort(arrays)
        else:
            self._ids[rows.start] = agent_ids
        return BatchResult(rows, *arrays, infos)

    def send(self, rows: slice, actions: np.ndarray) -> None:
        """Starts the next step of the agents `rows`, a batch that was received and not sent since."""
        if self._order is None:
            self.vecenv.send(actions, self._ids.get(rows.start, self._agents[rows]))
        else:
            self.vecenv.send(actions[self._order], self._order)

    def snapshot(self) -> dict[str, Any] | None:
        """The vector's snapshot; None also where not all batches are held."""
        can_be_taken = self.are_all_held and self.vecenv.state in (State.READY, State.HANDED_OVER)
        return self.vecenv.snapshot() if can_be_taken else None

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restores a snapshot of a time when all batches were held, and holds them.

        If the environments refuse it, their state before is restored, unless they were in the middle of a step.
        """
        holder = self.vecenv.holder
        before = self.vecenv.snapshot() if self.vecenv.state is State.READY else None
        try:
            self.vecenv.restore(snapshot)
        except Exception:
            if before is not None:
                with suppress(PufferError):  # of a worker that is gone: the first error says it
                    self.vecenv.restore(before)
                    self.vecenv.holder = holder
            raise
        self.held.clear()
        self.vecenv.holder = self.held
        first_agents = np.arange(self.vecenv.agents_per_env)
        for batch in snapshot["order"]:
            agent_ids = np.concatenate([env * self.vecenv.agents_per_env + first_agents for env in batch])
            self._order = agent_ids if as_slice(agent_ids) is None else None
            self.held.append(slice(int(agent_ids.min()), int(agent_ids.max()) + 1))

    def _sort(self, arrays: list[np.ndarray | None]) -> list[np.ndarray | None]:
        if not self._sorted:
            self._sorted = [None if array is None else np.empty_like(array) for array in arrays]
        for ordered, array in zip(self._sorted, arrays, strict=True):
            if ordered is not None:
                ordered[self._order] = array
        return self._sorted

    def _as_slice(self, agent_ids: np.ndarray) -> slice | None:
        # A vector hands the same arrays out again and again, so each is looked at once.
        known, rows = self._slices.get(id(agent_ids), (None, None))
        if known is not agent_ids:
            rows = as_slice(agent_ids)
            if len(self._slices) < self._num_batches:  # fixed batches need no more
                self._slices[id(agent_ids)] = agent_ids, rows
        return rows


def as_slice(rows: np.ndarray) -> slice | None:
    """Rows as a slice where they are consecutive, so that indexing gives views; else None."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if (np.diff(rows) == 1).all() else None
