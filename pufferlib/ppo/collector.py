"""The rollout phase: steps the environments with the current policy and fills a Rollout."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch

from pufferlib import spaces
from pufferlib.environment import EpisodeTracker
from pufferlib.errors import APIUsageError, DivergedError, PufferWarning
from pufferlib.metrics.finite import find_first, is_finite, require_finite
from pufferlib.metrics.measures import FinishedEpisodes, Phases
from pufferlib.policy import acting_forward
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.opponents import OpponentPool, agents_in_one
from pufferlib.ppo.rollout import FinalValues, RewardNormalizer
from pufferlib.vector.base import Vector
from pufferlib.vector.ordered import OrderedVector

BOUNDARY_COLUMNS = ("rewards", "terminals", "truncations", "masks", "pending")
"""Of a rollout's last column these are copied to the first column of the next, beside the observations."""

ENDLESS_STEPS = 10_000
"""In a running episode of every agent: the environment then seems never to end one."""


class Collector:
    """Steps the environments with the actions of an actor, and stores what they return beside observations.

    At the end of a rollout every batch of the vector has been received and none sent, so nothing runs while the policy
    learns and a checkpoint catches the environments between two steps. The new policy acts again on the observations
    of column T, as column 0 of the next rollout.

    Raises:
        APIUsageError: if the vector mixes environments of different progress in one batch.
    """

    follows_later = False  # whether `follow_episodes` is left to the caller of `collect`, so that a GPU need not wait

    def __init__(
        self,
        vecenv: Vector,
        actor: Actor,  # acts for all agents and fills its rollout; may be replaced between two rollouts
        phases: Phases,
        reward_clip: float = 0.0,  # the limit of rewards, 0 for none
        reward_normalizer: RewardNormalizer | None = None,  # scales the rewards before they are clipped
        skips_nonfinite: bool = False,  # `[train] skip_nonfinite`; otherwise such a number raises
        pool: OpponentPool | None = None,  # plays some of the agents, which are then absent in the rollout
    ):
        self.vecenv = vecenv
        self.actor = actor
        self.rollout = actor.rollout
        self.reward_normalizer = reward_normalizer
        self.pool = pool
        self.statistics = FinishedEpisodes()  # of the episodes that ended
        self.batches = OrderedVector(vecenv)
        self.tracker = EpisodeTracker(vecenv.num_agents)
        columns = {name: getattr(self.rollout, name).T for name in BOUNDARY_COLUMNS}
        # (T + 1, S) tensors that NumPy writes to: the rollout's own memory on a CPU, pinned copies of it on a GPU.
        self.host_buffers = {name: x.cpu().pin_memory() if x.is_cuda else x.cpu() for name, x in columns.items()}
        # Views, which are cheaper to write into.
        self._arrays = {name: memory.numpy() for name, memory in self.host_buffers.items()}
        self.skipped_steps = 0  # of the last rollout, in segments that had a number that was not finite
        self._columns_missing: dict[str, int] = {}  # in the rollout, of what was received; of others all are
        self._reward_clip = reward_clip
        self._skips_nonfinite = skips_nonfinite
        self._is_skipped = np.zeros(self.rollout.segments, bool)  # segments that had a number that was not finite
        self._phases = phases
        self._finals: list[FinalValues] = []
        self._reports: dict[int, FinishedEpisodes] = {}  # of the environments, by the batch's first agent
        self._columns = np.zeros(vecenv.num_agents, np.int64)  # the next column of every agent
        self._offset = 0  # first segment of the group of agents that is being filled
        self._agent_steps = 0  # of the run, before this rollout
        self._is_endless = False  # and a warning said so
        parts = [part.choices for part in spaces.action_parts(vecenv.single_action_space) if part.choices is not None]
        self._part_starts = np.cumsum([0, *parts[:-1]])  # of the parts of an action in action masks

    def reset(self, seed: int | None) -> None:
        """Begins an episode in every environment; None takes the vector's own seed."""
        self.forget()
        self.batches.reset(seed)
        # Into the last column, as if a rollout had just ended.
        self._offset = self.rollout.segments - self.vecenv.num_agents
        self._columns[:] = self.rollout.horizon - 1
        while not self.batches.are_all_held:
            self.batches.held.append(self._receive())
        self.statistics.take_over(self.tracker, self._reports)
        self.actor.finish()

    def forget(self) -> None:
        """Drops everything that belongs to the running episodes."""
        self._finals.clear()
        self._reports.clear()
        self.statistics.take()
        self.tracker.restart()
        self.actor.restart()
        if self.pool is not None:
            self.pool.restart()
        if self.reward_normalizer is not None:
            self.reward_normalizer.sums[:] = 0.0
        self._is_skipped[:] = False

    def collect(self, agent_steps: int = 0) -> int:
        """Fills the rollout; returns the number of agent steps, without those of absent agents.

        `agent_steps` are of the run before this rollout; errors name the step. A reward, a value or a log-probability
        that is not finite raises a DivergedError. After a call that was left in its middle, or somebody else's reset,
        other episodes begin; an APIUsageError if another trainer steps the environments now.
        """
        self._finals.clear()  # of the rollout before
        self.batches.require_own()
        if not self.batches.are_all_held:
            self.reset(None)
        if self.follows_later:
            self.follow_episodes()  # of the rollout before
        self._agent_steps = agent_steps
        agents, segments = self.vecenv.num_agents, self.rollout.segments
        self.rollout.ratios.fill_(1.0)
        if self.pool is not None:
            self.pool.begin_rollout(self.actor.policy, agent_steps)
        source = slice(segments - agents, segments)  # where the previous rollout ended
        for offset in range(0, segments, agents):
            self._offset = offset
            group = slice(offset, offset + agents)
            for array in self._arrays.values():
                array[0, group] = array[-1, source]
            self._collect_group()
            source = group
        if self.pool is not None:
            self.pool.end_rollout()
        self.actor.finish()
        require_finite(self.rollout.values, self.rollout.logprobs)
        self._arrays["masks"][:-1, self._is_skipped] = False  # their agents count as absent
        self.skipped_steps = self.rollout.horizon * int(self._is_skipped.sum())
        self._is_skipped[:] = False
        if not self.follows_later:
            self.follow_episodes()
        self._finish_rollout()
        return int(np.count_nonzero(self._arrays["masks"][:-1]))

    @property
    def num_waiting(self) -> int:
        """Agents that are absent after the last step though their episodes go on, so that no value follows it."""
        _, *flags = (array[-1, -self.vecenv.num_agents :] for array in self._arrays.values())
        return int(np.count_nonzero(~np.logical_or.reduce(flags)))

    def _collect_group(self) -> None:
        # One segment for every agent: each batch acts, and steps while the others act, until its row is full.
        self.actor.start_rollout(self._offset)
        self._columns[:] = 0
        held = self.batches.held
        running = len(held)
        for _ in range(running):
            self._act(held.popleft())
        while running:
            rows = self._receive()
            if self._columns[rows.start] < self.rollout.horizon:
                self._act(rows)
            else:
                with self._phases.phase("forward"):
                    self.actor.bootstrap(rows)
                held.append(rows)
                running -= 1

    def _act(self, rows: slice) -> None:
        with self._phases.phase("forward"):
            actions = self.actor.act(rows, int(self._columns[rows.start]))
            if self.pool is not None:
                actions = self.pool.act(rows, actions)
            if actions.dtype.kind == "f" and not np.isfinite(actions).all():
                raise DivergedError("the policy's actions are not finite")
        with self._phases.phase("environment"):
            self.batches.send(rows, actions)

    def _receive(self) -> slice:
        # Waits for a batch and stores what it brings in its next column.
        with self._phases.phase("environment"):
            received = self.batches.receive()
        with self._phases.phase("store"):
            rows, observations, rewards, terminals, truncations, masks, action_masks, infos = received
            segments = slice(rows.start + self._offset, rows.stop + self._offset)
            self._columns[rows] += 1
            column = int(self._columns[rows.start])
            if action_masks is not None:
                action_masks = self._playable(rows, action_masks, masks)
            rewards, _ = self._without_nonfinite(rewards, segments)
            observations, is_whole = self._without_nonfinite(observations, segments)
            if self.pool is not None:
                ended = terminals | truncations
                masks = self.pool.receive(rows, observations, rewards, ended, masks, action_masks)
            # The mask of the last column is what the next rollout begins with.
            received = rewards, terminals, truncations, masks & is_whole, self.tracker.is_pending[rows]
            for name, array in zip(BOUNDARY_COLUMNS, received, strict=True):
                self._arrays[name][column, segments] = array
            episode_starts = self.tracker.step(rows, rewards, terminals | truncations, masks)
            if infos:
                self._take_infos(rows, infos, column)
            self.actor.store_observations(rows, column, observations, episode_starts)
            if action_masks is not None:
                self.actor.store_action_masks(rows, column, action_masks)
            return rows

    def _without_nonfinite(
        self, numbers: np.ndarray, segments: slice | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | bool]:
        # What one step gave to the agents of some segments, a copy with zeros where such numbers are skipped; and
        # whether the numbers of an agent, or of all agents, were finite.
        if not self._skips_nonfinite or numbers.dtype.kind != "f" or math.isfinite(numbers.sum()):
            return numbers, True
        is_finite = np.isfinite(numbers)
        is_whole = is_finite.reshape(len(numbers), -1).all(1)
        self._is_skipped[segments] |= ~is_whole
        return np.where(is_finite, numbers, numbers.dtype.type(0)), is_whole

    def _playable(self, rows: slice, action_masks: np.ndarray, masks: np.ndarray) -> np.ndarray:
        # The action masks, with everything allowed to agents that are absent and have no choice.
        starts = self._part_starts
        has_choice = action_masks.any(1) if len(starts) == 1 else np.logical_or.reduceat(action_masks, starts, 1).all(1)
        if has_choice.all():
            return action_masks
        stuck = masks & ~has_choice
        if stuck.any():
            agent = rows.start + int(stuck.argmax())
            step = self._agent_steps + int(self._columns[rows.start]) * self.vecenv.num_agents
            raise APIUsageError(
                f"an agent that acts must have an allowed choice in each part of its action, agent {agent} has none "
                f"after agent step {step:,}; let its action_masks allow one, as a pass, or end the episode there"
            )
        return action_masks | ~has_choice[:, None]

    def follow_episodes(self) -> None:
        """Adds the episodes that ended in the last rollout to `statistics`; it may be called again."""
        self.statistics.take_over(self.tracker, self._reports)
        if not self._is_endless and self.tracker.lengths.min() >= ENDLESS_STEPS:
            self._is_endless = True
            warnings.warn(
                f"no episode has ended in {ENDLESS_STEPS:,} steps of every agent; does the environment's step set "
                "terminals or truncations where episodes end?",
                PufferWarning,
                stacklevel=4,
            )

    def require_steps(self) -> None:
        """Raises a DivergedError if every segment was skipped, so that none is left to learn from."""
        if self.skipped_steps == self.rollout.logprobs.numel():
            raise DivergedError(
                "every segment of the rollout has a reward or an observation that is infinite or NaN, and [train] "
                "skip_nonfinite leaves nothing to learn from; look at what the environment's step() returns"
            )

    def _take_infos(self, rows: slice, infos: list[dict], column: int) -> None:
        # Computes the values of final observations, with the states that end here; the rest are statistics. Only where
        # a limit cut the episode: after a terminal nothing is to come.
        is_cut = (self._arrays["truncations"][column] & ~self._arrays["terminals"][column])[self._offset :]
        final_infos = [info for info in infos if "final_observation" in info and is_cut[info["agent_id"]]]
        if final_infos:
            agents = np.array([info["agent_id"] for info in final_infos])
            finals = np.stack([info["final_observation"] for info in final_infos])
            finals, _ = self._without_nonfinite(finals, agents + self._offset)
            values = self.actor.value_final(agents, finals)
            segments = torch.from_numpy(agents + self._offset).to(values.device)
            self._finals.append(FinalValues(segments, torch.full_like(segments, column), values))
        reports = self._reports.setdefault(rows.start, FinishedEpisodes())
        reports.add(info for info in infos if "final_observation" not in info)

    def _finish_rollout(self) -> None:
        # Scales and clips the rewards; where the rollout is in another memory, copies what was received there.
        rewards = self.host_buffers["rewards"]
        if not is_finite(rewards[1:]):  # before they change what other rewards are scaled by
            raise DivergedError(self.find_not_finite())
        if self.reward_normalizer is not None:
            _, terminals, truncations, masks, pending = self._arrays.values()
            # A step's mask comes one column earlier: column t - 1 was acted on, column t has the reward.
            ended = (terminals | truncations | pending)[1:]
            self.reward_normalizer.normalize(rewards[1:].numpy(), ended, masks[:-1])
        if self._reward_clip:
            rewards.clamp_(-self._reward_clip, self._reward_clip)
        self.rollout.finals = FinalValues(*map(torch.cat, zip(*self._finals, strict=True))) if self._finals else None
        for name, memory in self.host_buffers.items():
            columns = getattr(self.rollout, name).T
            if columns.device != memory.device:
                missing = slice(self._columns_missing.get(name))
                columns[missing].copy_(memory[missing], non_blocking=True)

    def find_not_finite(self) -> str | None:
        """Describes the first reward or observation of the rollout that is not finite; None if all are."""
        self.actor.finish()
        return find_first(
            self.host_buffers["rewards"],
            observations=self.rollout.by_column,
            newest=self.actor.last_observations,
            agent_steps=self._agent_steps,
            agents_per_env=agents_in_one(self.vecenv),
        )

    def act_again(self) -> None:
        """Calls the policy, by torch, on all columns of the rollout and on the first observations of the next."""
        self.actor.finish()
        forward, device = acting_forward(self.actor.policy), self.rollout.values.device
        state = {name: value.clone() for name, value in self.rollout.states.items()}
        for observations in self.rollout.by_column:
            forward(observations.to(device), state)
        forward(self.actor.last_observations.to(device), {name: s.clone() for name, s in self.actor.states.items()})
