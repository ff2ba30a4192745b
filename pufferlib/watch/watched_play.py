"""A policy's play with what it sees and thinks at every step, to be drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import torch
from torch.distributions import Normal

from pufferlib import spaces
from pufferlib.play.matches import sheet_for
from pufferlib.play.player import Decision, Episodes, Player
from pufferlib.watch.scene import Scene


@dataclass(frozen=True)
class DiscreteProbs:
    """The probabilities of a discrete action, and the one that was taken."""

    probabilities: np.ndarray  # (n,)
    taken: int


@dataclass(frozen=True)
class GaussianParams:
    """Normal distributions of continuous actions, which are clipped to their range."""

    means: np.ndarray  # (k,) like the others
    deviations: np.ndarray
    taken: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class PolicyTrace:
    """One step of one agent."""

    observation: np.ndarray  # in the shape and dtype of its space
    value: float  # the critic's estimate of the return from there on
    actions: tuple[DiscreteProbs | GaussianParams, ...]  # its parts in their order
    is_first: bool  # of its episode


def trace_of(decision: Decision, row: int, space: gymnasium.Space, is_first: bool) -> PolicyTrace:
    """Returns one agent's part of a decision, copied."""
    logits = decision.logits
    parts = (logits,) if isinstance(logits, torch.Tensor | Normal) else logits
    taken, bounds = decision.actions[row].reshape(-1), spaces.joint_space(space, 1)  # a Box where there are numbers
    actions: list[DiscreteProbs | GaussianParams] = []
    for part, place in zip(parts, spaces.action_parts(space), strict=True):
        if isinstance(part, Normal):
            low, high = (bound.reshape(-1)[place.columns] for bound in (bounds.low, bounds.high))
            means, deviations = part.mean[row], part.stddev[row].expand_as(part.mean[row])
            means, deviations = _array(means).ravel(), _array(deviations).ravel()
            actions.append(GaussianParams(means, deviations, taken[place.columns].copy(), low, high))
        else:
            actions.append(DiscreteProbs(_array(part[row].float().softmax(-1)), int(taken[place.columns.start])))
    value = float(decision.values.reshape(len(decision.actions), -1)[row, 0])
    return PolicyTrace(decision.observations[row].copy(), value, tuple(actions), is_first)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy().copy()


MAX_TRACES = 200
"""Steps that are kept."""

Override = Callable[[], "np.ndarray | None"]
"""Returns a person's action, a row of the single action space; None leaves it to the policy."""


@dataclass
class Place:
    """One of the environments that are shown side by side."""

    env: int  # its index in the vector
    rows: slice  # of its agents
    scene: Scene  # draws it
    is_playing: bool = True  # whether it made the last step; if not, it is done
    running: float = 0.0  # its return at the moment before the last step, the mean over its agents
    last: float | None = None  # return of the episode before, the mean over the agents that ended last


class WatchedPlay:
    """Plays step by step, when asked to, and keeps a scene for each environment that plays.

    Attributes:
        places: of the picture, in order; filled by the first step.
        sheet: scores of the episodes that ended.
        side_by_side: places at the most.
        traces: of the first agent of the first place, the newest of the last step.
        steps: made so far, since the beginning or the last restart.
        player: of the policy, which knows how many episodes remain.
        is_helped: whether a person took part.
    """

    def __init__(
        self,
        player: Player,
        make_scene: Callable[[Any], Scene],
        quotas: np.ndarray,
        max_steps: int,
        seed: int,
        side_by_side: int,
    ):
        self.player = player
        self._make_scene = make_scene
        self._quotas = quotas
        self._max_steps = max_steps
        self._seed = seed
        self.side_by_side = side_by_side
        self.override: Override = lambda: None  # asked before every step for the environment of the first place
        self.places: list[Place] = []
        self.restart()

    def restart(self) -> None:
        """Starts the same play over, with empty scores."""
        self.close()
        self.traces: deque[PolicyTrace] = deque(maxlen=MAX_TRACES)
        self.steps = 0
        self.is_helped = False
        self.sheet = sheet_for(self.player)
        self._play: Iterator[list[Episodes]] = self.player.play(
            self._quotas, self._max_steps, self._seed, self.side_by_side, self._decide
        )

    def step(self) -> bool:
        """Steps every environment that plays; returns whether there was one left."""
        ended = next(self._play, None)
        if ended is None:
            return False
        self.steps += 1
        for episodes in ended:
            self.sheet.add(episodes)
            place = next(place for place in self.places if place.rows.start <= episodes.agents[0] < place.rows.stop)
            place.last = float(episodes.returns.mean())
        return True

    def close(self) -> None:
        """Closes the scenes; the environments stay open."""
        for place in self.places:
            place.scene.close()
        self.places = []

    def _decide(self, decision: Decision) -> np.ndarray:
        self._seat([rows.start // self.player.vecenv.agents_per_env for rows in decision.rows])
        for place in self.places:
            if place.is_playing:
                place.scene.remember()
                place.running = float(self.player.returns[place.rows].mean())
        actions, row = decision.actions, self.places[0].rows.start
        own = self.override() if self.places[0].is_playing else None
        if own is not None:
            self.is_helped = True
            actions = actions.copy()
            actions[self.places[0].rows] = own
        space = self.player.vecenv.single_action_space
        trace = trace_of(replace(decision, actions=actions), row, space, self.player.lengths[row] == 0)
        self.traces.append(trace)
        return actions

    def _seat(self, playing: list[int]) -> None:
        for place in self.places:
            place.is_playing = place.env in playing
        seated = {place.env for place in self.places}
        for env in playing:
            if env in seated:
                continue
            free = next((index for index, place in enumerate(self.places) if not place.is_playing), None)
            if free is None:
                self.places.append(self._place(env))
            else:
                last = self.places[free].last
                self.places[free].scene.close()
                self.places[free] = self._place(env)
                self.places[free].last = last

    def _place(self, env: int) -> Place:
        agents = self.player.vecenv.agents_per_env
        return Place(env, slice(env * agents, (env + 1) * agents), self._make_scene(self.player.vecenv.envs[env]))
