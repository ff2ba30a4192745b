"""The rollout phase: steps the environments with the current policy and fills a Rollout."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pufferlib.errors import APIUsageError
from pufferlib.profile import Profile
from pufferlib.rollout import Rollout
from pufferlib.sampling import sample_logits
from pufferlib.statistics import EpisodeStatistics

Rows = slice | np.ndarray

CARRIED = ("rewards", "terminals", "truncations", "masks")
"""What the last column of a rollout hands to the first one of the next, beside the observations."""


class Collector:
    """Keeps the environments, the recurrent state of every agent and the last observations between rollouts.

    At the end of a rollout every batch of the vector has been received and none sent, so nothing runs while the policy
    learns and a checkpoint catches the environments between two steps. The observations of column T are acted on again,
    by the new policy, as column 0 of the next rollout.
    """

    def __init__(
        self,
        vecenv: Any,
        policy: nn.Module,
        rollout: Rollout,
        generator: torch.Generator,
        autocast: Callable[[], AbstractContextManager],
        reward_clip: float,
        profile: Profile,
    ):
        """Allocates; `reset` comes next.

        Raises:
            APIUsageError: if the vector mixes environments of different progress in one batch.
        """
        if getattr(vecenv, "mixes_batches", False):
            raise APIUsageError(
                "the trainer needs the same environments in every batch, got a vector that mixes them; "
                "set [vec] zero_copy to True, or batch_size to num_envs"
            )
        self.vecenv = vecenv
        self.rollout = rollout
        self.statistics = EpisodeStatistics()
        self.states = {name: torch.zeros_like(state[: vecenv.num_agents]) for name, state in rollout.states.items()}
        self.last_observations = torch.zeros_like(rollout.by_column[0, : vecenv.num_agents])  # those of column T
        self._forward = getattr(policy, "forward_eval", policy)
        self._device = rollout.values.device
        self._generator = generator
        self._autocast = autocast
        self._reward_clip = reward_clip
        self._profile = profile
        self._host = {name: host_memory(getattr(rollout, name)) for name in CARRIED}
        self._arrays = {name: memory.numpy() for name, memory in self._host.items()}  # views: cheaper to write into
        self._held: deque[Rows] = deque()  # batches that were received and not sent, oldest first
        self._slices: dict[int, tuple[np.ndarray, Rows]] = {}  # agent_ids seen, by their id(), and what they are
        self._columns = np.zeros(vecenv.num_agents, np.int64)  # the next column of every agent
        self._agents = np.arange(vecenv.num_agents)
        self._offset = 0  # first segment of the group of agents that is being filled

    def reset(self, seed: int | None) -> None:
        """Begins an episode in every environment and receives the first observations.

        Args:
            seed: as for the vector's `async_reset`; None takes the seed that the vector was made with.
        """
        self.vecenv.async_reset(seed)
        self._receive_all()

    @torch.no_grad()
    def collect(self) -> int:
        """Fills the rollout; returns the number of agent steps that count (absent agents do not)."""
        agents, segments = self.vecenv.num_agents, self.rollout.segments
        self.rollout.ratios.fill_(1.0)
        source = slice(segments - agents, segments)  # where the previous rollout ended
        for offset in range(0, segments, agents):
            self._offset = offset
            group = slice(offset, offset + agents)
            self._carry_over(source, group)
            self._collect_group()
            source = group
        self._hand_over()
        return int(np.count_nonzero(self._arrays["masks"][:, :-1]))

    def _hand_over(self) -> None:
        """Clips the rewards; where the rollout is in another memory, copies what was received there, all at once."""
        if self._reward_clip:
            self._host["rewards"].clamp_(-self._reward_clip, self._reward_clip)
        for name, memory in self._host.items():
            target = getattr(self.rollout, name)
            if target is not memory:
                target.copy_(memory, non_blocking=True)

    def _carry_over(self, source: slice, group: slice) -> None:
        """Makes the last column of the segments `source` the first one of `group`."""
        for array in self._arrays.values():
            array[group, 0] = array[source, -1]
        self.rollout.by_column[0, group] = self.last_observations
        for name, state in self.states.items():
            self.rollout.states[name][group] = state

    def _collect_group(self) -> None:
        horizon = self.rollout.horizon
        self._columns[:] = 0
        running = len(self._held)
        for _ in range(running):
            rows = self._held.popleft()
            self._act(rows)
        while running:
            rows = self._receive()
            if self._columns[rows][0] < horizon:
                self._act(rows)
            else:
                self._bootstrap(rows)
                self._held.append(rows)
                running -= 1

    def _receive_all(self) -> None:
        """Receives every batch once, into the last column, as if a rollout had just ended."""
        self._offset = self.rollout.segments - self.vecenv.num_agents
        self._columns[:] = self.rollout.horizon - 1
        for _ in range(self.vecenv.num_agents // self.vecenv.agents_per_batch):
            self._held.append(self._receive())

    def _receive(self) -> Rows:
        """Waits for a batch, stores what it brings in its next column and clears the state of episodes that ended."""
        with self._profile.phase("environment"):
            observations, rewards, terminals, truncations, infos, agent_ids, masks = self.vecenv.recv()
        with self._profile.phase("store"):
            rows = self._as_slice(agent_ids)
            segments = self._segments(rows)
            self._columns[rows] += 1
            column = int(self._columns[rows][0])
            received = torch.from_numpy(observations)
            if column < self.rollout.horizon:
                self.rollout.by_column[column, segments] = received
            else:
                self.last_observations[rows] = received
            for name, array in zip(CARRIED, (rewards, terminals, truncations, masks), strict=True):
                self._arrays[name][segments, column] = array
            if self.states:
                self._clear_states(rows, terminals | truncations)
            if infos:
                self.statistics.add(infos)
            return rows

    def _clear_states(self, rows: Rows, ended: np.ndarray) -> None:
        """Zeroes the recurrent state of the agents of a batch whose episode ended."""
        if ended.any():
            agents = torch.from_numpy(self._agents[rows][ended]).to(self._device)
            for state in self.states.values():
                state.index_fill_(0, agents, 0)

    def _observations(self, rows: Rows) -> Tensor:
        """What a batch saw last, on the policy's device; a view where it can be."""
        column = int(self._columns[rows][0])
        if column < self.rollout.horizon:
            return self.rollout.by_column[column, self._segments(rows)].to(self._device)
        return self.last_observations[rows].to(self._device)

    def _act(self, rows: Rows) -> None:
        """Chooses actions for the current column of a batch and sends them."""
        column = int(self._columns[rows][0])
        segments = self._segments(rows)
        with self._profile.phase("forward"):
            held = {name: value[rows] for name, value in self.states.items()}
            state = dict(held)
            with self._autocast():
                logits, values = self._forward(self._observations(rows), state)
            actions, logprobs, _ = sample_logits(logits, generator=self._generator)
            actions = actions.to(self.rollout.actions.dtype)
            self.rollout.actions[segments, column] = actions
            self.rollout.logprobs[segments, column] = logprobs
            self.rollout.values[segments, column] = values.view(-1)
            for name, value in state.items():  # last: what the policy returned may be views of its state
                if value is not held[name] or not isinstance(rows, slice):  # else it was updated in place
                    self.states[name][rows] = value
        with self._profile.phase("environment"):
            self.vecenv.send(actions.cpu().numpy(), self._agents[rows])

    def _bootstrap(self, rows: Rows) -> None:
        """Values the observation after the last action; the state stays as it was before that observation."""
        with self._profile.phase("forward"), self._autocast():
            state = {name: value[rows].clone() for name, value in self.states.items()}
            _, values = self._forward(self._observations(rows), state)
            self.rollout.values[self._segments(rows), -1] = values.view(-1)

    def _segments(self, rows: Rows) -> Rows:
        """The segments of agents in the current group."""
        if isinstance(rows, slice):
            return slice(rows.start + self._offset, rows.stop + self._offset)
        return rows + self._offset

    def _as_slice(self, agent_ids: np.ndarray) -> Rows:
        """As `as_slice`, which is asked once for every array that a vector hands out again and again."""
        known, rows = self._slices.get(id(agent_ids), (None, None))
        if known is not agent_ids:
            rows = as_slice(agent_ids)
            if len(self._slices) < self.vecenv.num_agents // self.vecenv.agents_per_batch:  # fixed batches need no more
                self._slices[id(agent_ids)] = agent_ids, rows
        return rows

    def state_dict(self) -> dict[str, Any] | None:
        """Everything a later process needs to go on exactly; None where an environment cannot give its state."""
        environments = self.vecenv.snapshot()
        if environments is None:
            return None
        last = slice(self.rollout.segments - self.vecenv.num_agents, None)
        return {
            "environments": [as_tensor(env) for env in environments["envs"]],
            "arrays": {name: as_tensor(array) for name, array in environments["arrays"].items()},
            "order": environments["order"],
            "held": [self._agents[rows].tolist() for rows in self._held],
            "columns": {name: memory[last, -1].clone() for name, memory in self._host.items()},
            "last_observations": self.last_observations.clone(),
            "states": {name: state.clone() for name, state in self.states.items()},
            "statistics": self.statistics.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        envs = [env.numpy().tobytes() for env in state["environments"]]
        arrays = {name: array.numpy().tobytes() for name, array in state["arrays"].items()}
        self.vecenv.restore({"envs": envs, "order": state["order"], "arrays": arrays})
        self._held = deque(as_slice(np.array(rows)) for rows in state["held"])
        last = slice(self.rollout.segments - self.vecenv.num_agents, None)
        for name, column in state["columns"].items():
            self._host[name][last, -1] = column
        self.last_observations.copy_(state["last_observations"])
        for name, value in state["states"].items():
            self.states[name].copy_(value)
        self.statistics.load_state_dict(state["statistics"])


def host_memory(tensor: Tensor) -> Tensor:
    """The tensor itself where it is in CPU memory, else a copy there that the device can read by itself."""
    if tensor.device.type == "cpu":
        return tensor
    return tensor.cpu().pin_memory() if tensor.is_cuda else tensor.cpu()


def as_slice(rows: np.ndarray) -> Rows:
    """The same rows as a slice where they are consecutive, so that indexing gives views."""
    if (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def as_tensor(content: bytes) -> Tensor:
    """Bytes in a form that a checkpoint holds without pickling objects."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
