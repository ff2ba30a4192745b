"""Playing: a policy acts in environments without learning."""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib.environment import EpisodeTracker
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.fast.cpu import torch_threads
from pufferlib.policy import Forward, Logits, acting_forward, device_of, initial_state
from pufferlib.ppo.sampling import greedy_action, mask_logits, sample_logits
from pufferlib.runs.checks import unchanged
from pufferlib.seeding import mix_seed
from pufferlib.spaces import is_number, num_choices
from pufferlib.vector import Vector
from pufferlib.vector.ordered import as_slice

Rows = slice | np.ndarray


@dataclass(frozen=True)
class Episodes:
    """Episodes that ended together."""

    agents: np.ndarray  # (episodes,) int64, the agent of each
    returns: np.ndarray  # (episodes,) float64, sums of the environment's rewards
    lengths: np.ndarray  # (episodes,) int64, steps at which the agent was present
    reports: Sequence[Mapping[str, Any]] = ()  # the environment's infos about them


@dataclass(frozen=True)
class Decision:
    """The policy's outputs before a step, valid until the next step overwrites them."""

    rows: Sequence[Rows]  # of the agents of every batch that steps now
    observations: np.ndarray  # (num_agents, *observation_shape), the latest of all agents
    logits: Logits  # of all agents, as pufferlib.policy describes them; -inf for what they may not do
    values: torch.Tensor  # of all agents, one number each
    actions: np.ndarray  # (num_agents, *action_shape), the policy's


@dataclass
class _Running:
    rows: Rows
    agent_ids: np.ndarray
    steps: int = 0


class Player:
    """Plays episodes with a policy, a fixed number with every agent, so that long ones count like short ones.

    One in which an agent never came to act is one of its number, and is left out. A report of a PufferEnv belongs to
    those of its episodes that end with the same step; one that it makes every some steps belongs to none. Reports of
    batches of several environments need an `agent_id`, see `vector.Native`, and are left out without one. `remaining`,
    `(num_agents,)` int64, are the episodes that each agent still has to play. Where the policy is a `matches.Versus`
    they are games, of `seats_per_game` agents.
    """

    def __init__(
        self,
        vecenv: Vector,
        policy: nn.Module,
        generator: torch.Generator | None = None,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ):
        self.vecenv, self.policy, self._device = vecenv, policy, device_of(policy)
        self.remaining = np.zeros(vecenv.num_agents, np.int64)
        self._generator = generator  # samples the actions, by its seed; None takes the likeliest ones
        self._seed = None if generator is None else generator.initial_seed()
        self._autocast = autocast
        space, agents = vecenv.single_observation_space, vecenv.num_agents
        self._observations = np.zeros((agents, *space.shape), space.dtype)
        self._action_masks: np.ndarray | None = None  # (num_agents, choices) bool, where the environments have some
        if vecenv.has_action_masks:
            self._action_masks = np.ones((agents, num_choices(vecenv.single_action_space)), bool)
        self._episode_starts = np.ones(agents, bool)  # with the last observation, so that recurrent state is reset
        self._has_owners = vecenv.agents_per_batch == vecenv.agents_per_env
        self._reports_every_step = getattr(vecenv.driver_env, "report_interval", 1) == 1
        self.seats_per_game = getattr(policy, "seats_per_game", 1)
        self._tracker = EpisodeTracker(agents, self.seats_per_game)

    def play(
        self,
        quotas: np.ndarray,
        max_steps: int,
        seed: int | None = None,
        side_by_side: int | None = None,
        decide: Callable[[Decision], np.ndarray] | None = None,
    ) -> Iterator[Episodes]:
        """Plays until every agent has played its quota, with the policy's present weights.

        Equal seeds give equal episodes, however many play side by side.

        Args:
            quotas: `(num_agents,)`, episodes to play.
            max_steps: of each environment, after which it stops.
            seed: as for the vector's `async_reset`.
            side_by_side: batches that play at a time, while the others wait; None lets all play.
            decide: called before every step; returns the actions to take, which may be the policy's.

        Yields:
            After every step the episodes that ended with it, which may be none.
        """
        vecenv = self.vecenv
        self.remaining[:] = quotas
        forward = acting_forward(self.policy)  # every time, as its parts may have been replaced
        self._tracker.restart()
        state = initial_state(self.policy, vecenv.num_agents, self._device)
        vecenv.async_reset(seed)
        waiting = deque(_Running(*self._receive()[:2]) for _ in range(vecenv.num_agents // vecenv.agents_per_batch))
        side_by_side = side_by_side or len(waiting)
        playing: list[_Running] = []
        while True:
            playing = [batch for batch in playing if batch.steps < max_steps and self.remaining[batch.rows].any()]
            while waiting and len(playing) < side_by_side:
                batch = waiting.popleft()
                if self.remaining[batch.rows].any():
                    playing.append(batch)
            if not playing:
                return
            actions = self._act(forward, state, playing, decide)
            for batch in playing:
                vecenv.send(actions[batch.rows], batch.agent_ids)
            reports: defaultdict[int, list[dict]] = defaultdict(list)  # by environment
            for batch in playing:
                batch.rows, batch.agent_ids, infos = self._receive()
                batch.steps += 1
                for info in infos if self._reports_every_step else ():
                    owner = batch.agent_ids[0] if self._has_owners else info.get("agent_id")
                    if owner is not None and "final_observation" not in info:
                        reports[int(owner) // vecenv.agents_per_env].append(info)
            if state and self._episode_starts.any():
                clear_states(state, torch.from_numpy(self._episode_starts).to(self._device))
            yield self._take(reports)

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the running episodes so far: `(num_agents,)` int64, read-only."""
        return self._tracker.lengths

    def running(self) -> Episodes:
        """Returns the unfinished episodes of the last play, of agents that had not played their quotas."""
        is_cut = (self.remaining > 0) & (self._tracker.lengths > 0)
        return Episodes(is_cut.nonzero()[0], self._tracker.returns[is_cut], self._tracker.lengths[is_cut])

    @torch.no_grad()
    def _act(
        self,
        forward: Forward,
        state: dict[str, torch.Tensor],
        playing: Sequence[_Running],
        decide: Callable[[Decision], np.ndarray] | None,
    ) -> np.ndarray:
        with self._autocast():
            logits, values = forward(torch.from_numpy(self._observations).to(self._device), state)
        if self._action_masks is not None:
            logits = mask_logits(logits, torch.from_numpy(self._action_masks).to(self._device))
        actions = self._choose(logits, playing)
        if decide is None:
            return actions
        return decide(Decision([batch.rows for batch in playing], self._observations, logits, values, actions))

    def _choose(self, logits: Logits, playing: Sequence[_Running]) -> np.ndarray:
        if self._generator is None:
            return greedy_action(logits).cpu().numpy()
        drawn = {}
        for steps in {batch.steps for batch in playing}:
            self._generator.manual_seed(mix_seed(self._seed, steps))
            drawn[steps] = draw_actions(logits, self._generator).cpu().numpy()
        if len(drawn) == 1:
            return next(iter(drawn.values()))
        actions = np.zeros_like(next(iter(drawn.values())))
        for batch in playing:
            actions[batch.rows] = drawn[batch.steps][batch.rows]
        return actions

    def _receive(self) -> tuple[Rows, np.ndarray, list[dict]]:
        observations, rewards, terminals, truncations, infos, agent_ids, masks = self.vecenv.recv()
        rows = as_slice(agent_ids)
        rows = agent_ids if rows is None else rows  # of workers in the order in which they finished
        self._observations[rows] = observations
        if self._action_masks is not None:  # an agent that waits may have no choice
            given = self.vecenv.action_masks
            self._action_masks[rows] = given | ~masks[:, None]
        ended = terminals | truncations
        self.remaining[rows] -= self._tracker.sat_out(rows, ended) & (self.remaining[rows] > 0)
        self._episode_starts[rows] = self._tracker.step(rows, rewards, ended, masks)
        return rows, agent_ids, infos

    def _take(self, reports: Mapping[int, list[dict]]) -> Episodes:
        agents, returns, lengths = self._tracker.take()
        counts = self.remaining[agents] > 0
        self.remaining[agents] -= counts
        envs = agents // self.vecenv.agents_per_env
        owned = [each for env, infos in reports.items() for each in _owned(infos, counts[envs == env])]
        return Episodes(agents[counts], returns[counts], lengths[counts], owned)


def clear_states(state: dict[str, torch.Tensor], starts: torch.Tensor) -> None:
    """Replaces the rows of a recurrent state where an episode starts, `(rows,)` bool, by zeros."""
    for name, value in state.items():  # not in place: the policy's tensor may be a view of another
        state[name] = value.masked_fill(starts.view(-1, *[1] * (value.dim() - 1)), 0)


def draw_actions(logits: Logits, generator: torch.Generator) -> torch.Tensor:
    """Draws actions as `sample_logits` does; logits that are NaN raise a DivergedError on a GPU too."""
    actions, logprobs, _ = sample_logits(logits, generator=generator)
    if logprobs.isnan().any():
        raise DivergedError("the policy's logits contain NaN; check its weights and the observations")
    return actions


def _owned(reports: list[dict], counts: np.ndarray) -> list[dict]:
    # A single report of `n` episodes, as many as ended with this step, stands for each of them that counts.
    for report in reports:
        if not is_number(report.get("n", 1)):
            raise APIUsageError(
                f"the n of an info must be a number of episodes, got {report['n']!r}; name it otherwise"
            )
    if len(reports) == 1 and reports[0].get("n", 1) == len(counts) > 1:
        return reports * int(counts.sum())
    reports = [info for info in reports if info.get("n", 1) == 1]
    if len(reports) == len(counts):
        return [report for report, is_counted in zip(reports, counts, strict=True) if is_counted]
    return reports if len(reports) == 1 and counts.any() else []


@contextlib.contextmanager
def eval_mode(policy: nn.Module) -> Iterator[None]:
    """Puts a policy in evaluation mode, without gradients; restores modes, buffers and torch's generators afterwards.

    It acts on one thread, as the barriers of such small operations wait long where other programs run.
    """
    modes = [(module, module.training) for module in policy.modules()]
    policy.eval()
    try:
        with unchanged(policy), torch_threads(1):
            yield
    finally:
        for module, is_training in modes:
            module.training = is_training
