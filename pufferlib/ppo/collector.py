"""The rollout phase: steps the environments with the current policy and fills a Rollout."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pufferlib.episodes import EpisodeTracker
from pufferlib.errors import APIUsageError, DivergedError, PufferError
from pufferlib.metrics.finished_episodes import FinishedEpisodes
from pufferlib.metrics.finite import find_in_rollout, find_weight, is_finite, largest_weight
from pufferlib.metrics.phases import Phases
from pufferlib.ppo.actor import Actor, Rows
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.ppo.rollout import FinalValues
from pufferlib.vector.base import State

CARRIED = ("rewards", "terminals", "truncations", "masks", "pending")
"""What the last column of a rollout hands to the first one of the next, beside the observations."""

FINAL_OBSERVATION = "final_observation"
"""In an info: what an agent saw last in an episode that a limit cut; `agent_id` is its index in the vector."""


class Collector:
    """Steps the environments with what an actor chooses, and keeps what they give beside observations.

    At the end of a rollout every batch of the vector has been received and none sent, so nothing runs while the policy
    learns and a checkpoint catches the environments between two steps. The observations of column T are acted on again,
    by the new policy, as column 0 of the next rollout.
    """

    def __init__(
        self,
        vecenv: Any,
        actor: Actor,
        reward_clip: float,
        phases: Phases,
        reward_normalizer: RewardNormalizer | None = None,
    ):
        """Allocates; `reset` comes next.

        Args:
            vecenv: a vector from `pufferlib.vector.make`.
            actor: acts for the agents of `vecenv` and fills its rollout.
            reward_clip: the limit of rewards, 0 for none.
            phases: where the time of each phase is added up.
            reward_normalizer: scales the rewards before they are clipped.

        Raises:
            APIUsageError: if the vector mixes environments of different progress in one batch.
        """
        if getattr(vecenv, "mixes_batches", False):
            raise APIUsageError(
                "the trainer needs the same environments in every batch, got a vector that mixes them; "
                "set [vec] zero_copy to True, or batch_size to num_envs"
            )
        self.vecenv = vecenv
        self.actor = actor
        self.rollout = actor.rollout
        self.statistics = FinishedEpisodes()
        self._tracker = EpisodeTracker(vecenv.num_agents)
        self._reward_clip = reward_clip
        self._reward_normalizer = reward_normalizer
        self._finals: list[tuple[np.ndarray, int, Tensor]] = []  # segments, column, values of final observations
        self._reports: dict[int, FinishedEpisodes] = {}  # what environments told, by the batch's first agent
        self._phases = phases
        self._host = {name: host_memory(getattr(self.rollout, name).T) for name in CARRIED}
        self._arrays = {name: memory.numpy() for name, memory in self._host.items()}  # views: cheaper to write into
        self._held: deque[Rows] = deque()  # batches that were received and not sent, oldest first
        self._slices: dict[int, tuple[np.ndarray, Rows]] = {}  # agent_ids seen, by their id(), and what they are
        self._shuffled: np.ndarray | None = None  # the agents in the order in which the last batch brought them
        self._sorted: list[np.ndarray] = []  # what it brought, in the order of the agents
        self._columns = np.zeros(vecenv.num_agents, np.int64)  # the next column of every agent
        self._agents = np.arange(vecenv.num_agents)
        self._offset = 0  # first segment of the group of agents that is being filled
        self._agent_steps = 0  # before this rollout
        # On a CPU the policy's distribution has looked at its numbers already.
        self._checks_actions = self.rollout.values.device.type != "cpu" and self.rollout.actions.is_floating_point()

    def reset(self, seed: int | None) -> None:
        """Begins an episode in every environment and receives the first observations.

        Args:
            seed: as for the vector's `async_reset`; None takes the seed that the vector was made with.
        """
        self._forget()
        self._tracker.restart()
        self.vecenv.async_reset(seed)
        self._receive_all()

    def _forget(self) -> None:
        """Nothing of the episodes that ran until now counts for those that come."""
        self._held.clear()
        self._finals.clear()
        self._reports.clear()
        self.statistics.take()
        self.actor.restart()
        if self._reward_normalizer is not None:
            self._reward_normalizer.sums[:] = 0.0

    def collect(self, agent_steps: int = 0) -> int:
        """Fills the rollout.

        Args:
            agent_steps: of the run before this rollout, which tell where an error happened.

        Returns:
            The number of agent steps that count: those of absent agents do not.

        Raises:
            DivergedError: if a reward is not finite, or the policy cannot act because of what it was given.
        """
        self._agent_steps = agent_steps
        agents, segments = self.vecenv.num_agents, self.rollout.segments
        self.rollout.ratios.fill_(1.0)
        source = slice(segments - agents, segments)  # where the previous rollout ended
        for offset in range(0, segments, agents):
            self._offset = offset
            group = slice(offset, offset + agents)
            self._carry_over(source, group)
            self._collect_group()
            source = group
        self.actor.finish()
        if self.rollout.values.device.type == "cpu":  # a GPU would be waited for; learning looks at its numbers
            self._check_decisions()
        self._add_statistics()
        self._hand_over()
        return int(np.count_nonzero(self._arrays["masks"][:-1]))

    def _as_received(self, rows: Rows) -> np.ndarray:
        """The agents of a batch in the order in which it brought them."""
        return self._agents[rows] if self._shuffled is None else self._shuffled

    def _hold(self, agent_ids: np.ndarray) -> None:
        """Has a batch that brought these agents sent when the next rollout begins."""
        rows = as_slice(agent_ids)
        self._shuffled = None if isinstance(rows, slice) else agent_ids
        self._held.append(as_slice(np.sort(agent_ids)))

    def _sort(self, received: Sequence[np.ndarray]) -> tuple[slice, list[np.ndarray]]:
        """Puts what came in another order of the agents in theirs, so that each draws its own random numbers.

        Only a batch that is everything comes so, from workers of which the first that is done comes first.
        """
        if not self._sorted:
            self._sorted = [np.empty_like(array) for array in received]
        for ordered, array in zip(self._sorted, received, strict=True):
            ordered[self._shuffled] = array
        return slice(0, len(self._agents)), self._sorted

    def _add_statistics(self) -> None:
        """Adds what the rollout told of episodes, batch after batch: sums of numbers are rounded by their order."""
        _, returns, lengths = self._tracker.take()
        self.statistics.episodes.add(returns, lengths)
        for batch in sorted(self._reports):
            self.statistics.merge(self._reports[batch])
        self._reports.clear()

    def _hand_over(self) -> None:
        """Scales and clips the rewards; where the rollout is in another memory, copies what was received there."""
        if not is_finite(self._host["rewards"][1:]):  # before they change what other rewards are scaled by
            raise DivergedError(self.find_not_finite())
        if self._reward_normalizer is not None:
            rewards, terminals, truncations = (self._arrays[name][1:] for name in CARRIED[:3])
            # A step's mask comes one column earlier: column t - 1 was acted on, column t has the reward.
            ended = terminals | truncations | self._arrays["pending"][1:]
            self._reward_normalizer.normalize(rewards, ended, self._arrays["masks"][:-1])
        self.rollout.finals = self._take_finals()
        if self._reward_clip:
            self._host["rewards"].clamp_(-self._reward_clip, self._reward_clip)
        for name, memory in self._host.items():
            columns = getattr(self.rollout, name).T
            if columns.device != memory.device:
                columns.copy_(memory, non_blocking=True)

    def _take_finals(self) -> FinalValues | None:
        """The values of the final observations of this rollout, where there were any."""
        if not self._finals:
            return None
        device = self.rollout.values.device
        segments = np.concatenate([segments for segments, _, _ in self._finals])
        columns = np.concatenate([np.full(len(segments), column) for segments, column, _ in self._finals])
        values = torch.cat([values for _, _, values in self._finals])
        self._finals.clear()
        return FinalValues(torch.from_numpy(segments).to(device), torch.from_numpy(columns).to(device), values)

    def _carry_over(self, source: slice, group: slice) -> None:
        """Makes the last column of the segments `source` the first one of `group`."""
        for array in self._arrays.values():
            array[0, group] = array[-1, source]
        self.actor.begin(group.start)

    def _collect_group(self) -> None:
        horizon = self.rollout.horizon
        self._columns[:] = 0
        running = len(self._held)
        for _ in range(running):
            self._act(self._held.popleft())
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
        self._add_statistics()
        self.actor.finish()

    def _receive(self) -> Rows:
        """Waits for a batch and stores what it brings in its next column."""
        with self._phases.phase("environment"):
            observations, rewards, terminals, truncations, infos, agent_ids, masks = self.vecenv.recv()
        with self._phases.phase("store"):
            rows = self._as_slice(agent_ids)
            self._shuffled = None if isinstance(rows, slice) else agent_ids
            if self._shuffled is not None:
                received = observations, rewards, terminals, truncations, masks
                rows, (observations, rewards, terminals, truncations, masks) = self._sort(received)
            segments = self._segments(rows)
            self._columns[rows] += 1
            column = int(self._columns[rows][0])
            pending = self._tracker.is_pending[rows]
            for name, array in zip(CARRIED, (rewards, terminals, truncations, masks, pending), strict=True):
                self._arrays[name][column, segments] = array
            begins = self._tracker.step(rows, rewards, terminals | truncations, masks)
            if infos:
                self._take_infos(rows, infos, column)
            self.actor.see(rows, column, observations, begins)
            return rows

    def _take_infos(self, rows: Rows, infos: list[dict], column: int) -> None:
        """Values the final observations among them, with the states that end here; the rest are statistics.

        Only where a limit cut the episode: after a terminal there is nothing to come.
        """
        finals = [info for info in infos if FINAL_OBSERVATION in info and self._is_cut(info["agent_id"], column)]
        if finals:
            agents = np.array([info["agent_id"] for info in finals])
            observations = np.stack([info[FINAL_OBSERVATION] for info in finals])
            with self.explaining():
                values = self.actor.value_final(agents, observations)
            self._finals.append((agents + self._offset, column, values))
        reports = self._reports.setdefault(int(self._agents[rows][0]), FinishedEpisodes())
        reports.add(info for info in infos if FINAL_OBSERVATION not in info)

    def _is_cut(self, agent: int, column: int) -> bool:
        """Whether a limit ended the episode of an agent, and nothing else did."""
        segment = agent + self._offset
        return bool(self._arrays["truncations"][column, segment] and not self._arrays["terminals"][column, segment])

    def _act(self, rows: Rows) -> None:
        """Chooses actions for the current column of a batch and sends them."""
        with self._phases.phase("forward"), self.explaining():
            actions = self.actor.act(rows, int(self._columns[rows][0]))
            if self._checks_actions and not np.isfinite(actions).all():
                raise DivergedError("the policy's actions are not finite")
        with self._phases.phase("environment"):
            ordered = actions if self._shuffled is None else actions[self._shuffled]
            self.vecenv.send(ordered, self._as_received(rows))

    def _check_decisions(self) -> None:
        """Refuses to learn from values and log-probabilities that are not finite."""
        if not is_finite(self.rollout.values) or not is_finite(self.rollout.logprobs):
            with self.explaining():
                raise DivergedError("the policy's values or log-probabilities are not finite")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Replaces an error of the policy by what led to it, where that is a number which is not finite.

        Raises:
            DivergedError: names the first of them: a reward, an observation, or a weight; or says that these are not
                to blame for an error of this kind.
        """
        try:
            yield
        except Exception as error:  # NaN has policies of users raise anything
            self._explain(error)
            raise

    def _explain(self, error: Exception) -> None:
        self.actor.finish()
        finding = self.find_not_finite() or find_weight(self.actor.policy)
        if finding is not None:
            raise DivergedError(finding) from error
        if isinstance(error, DivergedError):
            raise DivergedError(
                f"{str(error).partition(';')[0]}, from finite observations and weights, the largest of them "
                f"{largest_weight(self.actor.policy):g}; lower [train] learning_rate, or look at the policy's forward()"
            ) from error

    def find_not_finite(self) -> str | None:
        """The first reward or observation of the rollout so far that is not finite; the earlier of the two."""
        agents, horizon, rollout = self.vecenv.num_agents, self.rollout.horizon, self.rollout
        last_step = horizon * (rollout.segments // agents)
        given = [
            ("reward", find_in_rollout(self._host["rewards"][1:], agents, 1)),
            ("observation", find_in_rollout(rollout.by_column, agents, 0)),
            ("observation", find_in_rollout(self.actor.newest_observations.unsqueeze(0), agents, last_step)),
        ]
        found = [(what, finding) for what, finding in given if finding is not None]
        if not found:
            return None
        what, finding = min(found, key=lambda pair: pair[1].step)
        return (
            f"{finding.describe(what)}, which began after {self._agent_steps:,} agent steps of the run; look at what "
            "the environment's step() returns"
        )

    def _bootstrap(self, rows: Rows) -> None:
        """Values the observations after the last action of a batch."""
        with self._phases.phase("forward"), self.explaining():
            self.actor.bootstrap(rows)

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
        """Everything a later process needs to go on exactly.

        Returns:
            None where it cannot be told: an environment has no snapshot, a failed or interrupted rollout left steps
            that were never received, or what was received is not finite.
        """
        if self.vecenv.state not in (State.READY, State.HANDED_OVER) or not self._is_finite():
            return None
        environments = self.vecenv.snapshot()
        if environments is None:
            return None
        last = slice(self.rollout.segments - self.vecenv.num_agents, None)
        return {
            "environments": [as_tensor(env) for env in environments["envs"]],
            "arrays": {name: as_tensor(array) for name, array in environments["arrays"].items()},
            "order": environments["order"],
            "columns": {name: memory[-1, last].clone() for name, memory in self._host.items()},
            "actor": self.actor.state_dict(),
            "tracker": {name: torch.from_numpy(array) for name, array in self._tracker.state_dict().items()},
            "reward_sums": self._reward_sums(),
            "statistics": self.statistics.state_dict(),
        }

    def _is_finite(self) -> bool:
        """Whether rewards were, and what comes of them; a recurrent state likewise."""
        kept = [self._host["rewards"][-1], torch.from_numpy(self._tracker.returns), *self.actor.states.values()]
        return all(map(is_finite, kept))

    def _reward_sums(self) -> Tensor | None:
        return None if self._reward_normalizer is None else torch.tensor(self._reward_normalizer.sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned.

        What the environments refuse leaves all as it was, unless they were in the middle of a step.
        """
        before = self.vecenv.snapshot() if self.vecenv.state is State.READY else None
        envs = [env.numpy().tobytes() for env in state["environments"]]
        arrays = {name: array.numpy().tobytes() for name, array in state["arrays"].items()}
        try:
            self.vecenv.restore({"envs": envs, "order": state["order"], "arrays": arrays})
        except Exception:
            if before is not None:
                with suppress(PufferError):  # of a worker that is gone: the first error says it
                    self.vecenv.restore(before)
            raise
        self._forget()
        first_agents = np.arange(self.vecenv.agents_per_env)
        for batch in state["order"]:
            rows = [env * self.vecenv.agents_per_env + first_agents for env in batch]
            self._hold(np.concatenate(rows))
        last = slice(self.rollout.segments - self.vecenv.num_agents, None)
        for name, column in state["columns"].items():
            self._host[name][-1, last] = column
        _, terminals, truncations, masks, pending = (self._arrays[name][-1, last] for name in CARRIED)
        self._tracker.restart()
        self._tracker.load_state_dict({name: array.numpy() for name, array in state["tracker"].items()})
        self._tracker.is_pending[:] = pending
        self._tracker.begin(slice(None), terminals | truncations, masks)
        self.actor.load_state_dict(state["actor"])
        if self._reward_normalizer is not None:
            self._reward_normalizer.sums[:] = state["reward_sums"].numpy()
        self.statistics.load_state_dict(state["statistics"])


def host_memory(columns: Tensor) -> Tensor:
    """The tensor itself where it is in CPU memory, else a copy there that the device can read by itself."""
    if columns.device.type == "cpu":
        return columns
    return columns.cpu().pin_memory() if columns.is_cuda else columns.cpu()


def as_slice(rows: np.ndarray) -> Rows:
    """The same rows as a slice where they are consecutive, so that indexing gives views."""
    if (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def as_tensor(content: bytes) -> Tensor:
    """Bytes in a form that a checkpoint holds without pickling objects."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
