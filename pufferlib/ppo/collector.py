"""The rollout phase: steps the environments with the current policy and fills a Rollout."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pufferlib.episodes import EpisodeTracker
from pufferlib.errors import DivergedError
from pufferlib.metrics.finished_episodes import FinishedEpisodes
from pufferlib.metrics.finite import find_first, is_finite
from pufferlib.metrics.phases import Phases
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.normalization import RewardNormalizer
from pufferlib.ppo.rollout import FinalValues
from pufferlib.vector.in_order import InOrder

CARRIED = ("rewards", "terminals", "truncations", "masks", "pending")
"""What the last column of a rollout hands to the first one of the next, beside the observations."""

FINAL_OBSERVATION = "final_observation"
"""In an info: what an agent saw last in an episode that a limit cut; `agent_id` is its index in the vector."""


class Collector:
    """Steps the environments with what an actor chooses, and keeps what they give beside observations.

    At the end of a rollout every batch of the vector has been received and none sent, so nothing runs while the policy
    learns and a checkpoint catches the environments between two steps. The observations of column T are acted on again,
    by the new policy, as column 0 of the next rollout.

    Attributes:
        actor: acts for the agents of the vector and fills its rollout; may be replaced between two rollouts.
        statistics: what was told of the episodes that ended.
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
            actor: as above.
            reward_clip: the limit of rewards, 0 for none.
            phases: where the time of each phase is added up.
            reward_normalizer: scales the rewards before they are clipped.

        Raises:
            APIUsageError: if the vector mixes environments of different progress in one batch.
        """
        self.vecenv = vecenv
        self.actor = actor
        self.rollout = actor.rollout
        self.statistics = FinishedEpisodes()
        self._batches = InOrder(vecenv)
        self._tracker = EpisodeTracker(vecenv.num_agents)
        self._reward_clip = reward_clip
        self._reward_normalizer = reward_normalizer
        self._finals: list[tuple[np.ndarray, int, Tensor]] = []  # segments, column, values of final observations
        self._reports: dict[int, FinishedEpisodes] = {}  # what environments told, by the batch's first agent
        self._phases = phases
        self._host = {name: host_memory(getattr(self.rollout, name).T) for name in CARRIED}
        self._arrays = {name: memory.numpy() for name, memory in self._host.items()}  # views: cheaper to write into
        self._columns = np.zeros(vecenv.num_agents, np.int64)  # the next column of every agent
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
        self._batches.held.clear()
        self._tracker.restart()
        self.vecenv.async_reset(seed)
        # Into the last column, as if a rollout had just ended.
        self._offset = self.rollout.segments - self.vecenv.num_agents
        self._columns[:] = self.rollout.horizon - 1
        for _ in range(self.vecenv.num_agents // self.vecenv.agents_per_batch):
            self._batches.held.append(self._receive())
        self._add_statistics()
        self.actor.finish()

    def collect(self, agent_steps: int = 0) -> int:
        """Fills the rollout.

        Args:
            agent_steps: of the run before this rollout, which tell where an error happened.

        Returns:
            The number of agent steps that count: those of absent agents do not.

        Raises:
            DivergedError: if a reward, a value or a log-probability is not finite.
        """
        self._agent_steps = agent_steps
        agents, segments = self.vecenv.num_agents, self.rollout.segments
        self.rollout.ratios.fill_(1.0)
        source = slice(segments - agents, segments)  # where the previous rollout ended
        for offset in range(0, segments, agents):
            self._offset = offset
            group = slice(offset, offset + agents)
            for array in self._arrays.values():
                array[0, group] = array[-1, source]
            self.actor.begin(offset)
            self._collect_group()
            source = group
        self.actor.finish()
        self._check_decisions()
        self._add_statistics()
        self._hand_over()
        return int(np.count_nonzero(self._arrays["masks"][:-1]))

    def _collect_group(self) -> None:
        """One segment for every agent: each batch acts, and steps while the others act, until its row is full."""
        horizon = self.rollout.horizon
        self._columns[:] = 0
        held = self._batches.held
        running = len(held)
        for _ in range(running):
            self._act(held.popleft())
        while running:
            rows = self._receive()
            if self._columns[rows.start] < horizon:
                self._act(rows)
            else:
                with self._phases.phase("forward"):
                    self.actor.bootstrap(rows)
                held.append(rows)
                running -= 1

    def _act(self, rows: slice) -> None:
        """Chooses actions for the current column of a batch and sends them."""
        with self._phases.phase("forward"):
            actions = self.actor.act(rows, int(self._columns[rows.start]))
            if self._checks_actions and not np.isfinite(actions).all():
                raise DivergedError("the policy's actions are not finite")
        with self._phases.phase("environment"):
            self._batches.send(rows, actions)

    def _receive(self) -> slice:
        """Waits for a batch and stores what it brings in its next column."""
        with self._phases.phase("environment"):
            received = self._batches.receive()
        with self._phases.phase("store"):
            rows, observations, rewards, terminals, truncations, masks, infos = received
            segments = slice(rows.start + self._offset, rows.stop + self._offset)
            self._columns[rows] += 1
            column = int(self._columns[rows.start])
            pending = self._tracker.is_pending[rows]
            for name, array in zip(CARRIED, (rewards, terminals, truncations, masks, pending), strict=True):
                self._arrays[name][column, segments] = array
            begins = self._tracker.step(rows, rewards, terminals | truncations, masks)
            if infos:
                self._take_infos(rows, infos, column)
            self.actor.see(rows, column, observations, begins)
            return rows

    def _take_infos(self, rows: slice, infos: list[dict], column: int) -> None:
        """Values the final observations among them, with the states that end here; the rest are statistics.

        Only where a limit cut the episode: after a terminal there is nothing to come.
        """
        finals = [info for info in infos if FINAL_OBSERVATION in info and self._is_cut(info["agent_id"], column)]
        if finals:
            agents = np.array([info["agent_id"] for info in finals])
            values = self.actor.value_final(agents, np.stack([info[FINAL_OBSERVATION] for info in finals]))
            self._finals.append((agents + self._offset, column, values))
        reports = self._reports.setdefault(rows.start, FinishedEpisodes())
        reports.add(info for info in infos if FINAL_OBSERVATION not in info)

    def _is_cut(self, agent: int, column: int) -> bool:
        """Whether a limit ended the episode of an agent, and nothing else did."""
        segment = agent + self._offset
        return bool(self._arrays["truncations"][column, segment] and not self._arrays["terminals"][column, segment])

    def _check_decisions(self) -> None:
        """Refuses to learn from values and log-probabilities that are not finite; a GPU would be waited for."""
        rollout = self.rollout
        if rollout.values.device.type == "cpu" and not (is_finite(rollout.values) and is_finite(rollout.logprobs)):
            raise DivergedError("the policy's values or log-probabilities are not finite")

    def find_not_finite(self) -> str | None:
        """Says which reward or observation of the rollout so far is not finite, the first of them; None if all are."""
        self.actor.finish()
        found = find_first(self._host["rewards"], self.rollout.by_column, self.actor.last_observations)
        return found and (
            f"{found}, which began after {self._agent_steps:,} agent steps of the run; look at what "
            "the environment's step() returns"
        )

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
        segments = np.concatenate([segments for segments, _, _ in self._finals])
        columns = np.concatenate([np.full(len(segments), column) for segments, column, _ in self._finals])
        values = torch.cat([values for _, _, values in self._finals])
        self._finals.clear()
        return FinalValues(
            torch.from_numpy(segments).to(values.device), torch.from_numpy(columns).to(values.device), values
        )

    def _forget(self) -> None:
        """Nothing of the episodes that ran until now counts for those that come."""
        self._finals.clear()
        self._reports.clear()
        self.statistics.take()
        self.actor.restart()
        if self._reward_normalizer is not None:
            self._reward_normalizer.sums[:] = 0.0

    # ------------------------------------------------------------------------------------------------ what outlives it

    def state_dict(self) -> dict[str, Any] | None:
        """Everything a later process needs to go on exactly.

        Returns:
            None where it cannot be told: an environment has no snapshot, a failed or interrupted rollout left steps
            that were never received, or what was received is not finite.
        """
        environments = self._batches.snapshot() if self._is_finite() else None
        if environments is None:
            return None
        return {
            "environments": [as_tensor(env) for env in environments["envs"]],
            "arrays": {name: as_tensor(array) for name, array in environments["arrays"].items()},
            "order": environments["order"],
            "columns": {name: memory[-1, self._last].clone() for name, memory in self._host.items()},
            "actor": self.actor.state_dict(),
            "tracker": {name: torch.from_numpy(array) for name, array in self._tracker.state_dict().items()},
            "reward_sums": None if self._reward_normalizer is None else torch.tensor(self._reward_normalizer.sums),
            "statistics": self.statistics.state_dict(),
        }

    @property
    def _last(self) -> slice:
        """The segments of the last group of agents."""
        return slice(self.rollout.segments - self.vecenv.num_agents, None)

    def _is_finite(self) -> bool:
        """Whether rewards were, and what comes of them; a recurrent state likewise."""
        kept = [self._host["rewards"][-1], torch.from_numpy(self._tracker.returns), *self.actor.states.values()]
        return all(map(is_finite, kept))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts back what `state_dict` returned; what the environments refuse leaves all as it was."""
        envs = [env.numpy().tobytes() for env in state["environments"]]
        arrays = {name: array.numpy().tobytes() for name, array in state["arrays"].items()}
        self._batches.restore({"envs": envs, "order": state["order"], "arrays": arrays})
        self._forget()
        for name, column in state["columns"].items():
            self._host[name][-1, self._last] = column
        _, terminals, truncations, masks, pending = (self._arrays[name][-1, self._last] for name in CARRIED)
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


def as_tensor(content: bytes) -> Tensor:
    """Bytes in a form that a checkpoint holds without pickling objects."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)
