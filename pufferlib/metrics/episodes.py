"""Episodes as the trainer sees them: what each agent's rewards add up to from one end to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch

from pufferlib.runs import checkpoint_pattern


@dataclass
class EpisodeTotals:
    """Sums and extremes over finished episodes, in plain numbers."""

    count: int = 0
    return_sum: float = 0.0
    return_min: float = math.inf
    return_max: float = -math.inf
    length_sum: int = 0

    STATE: ClassVar[checkpoint_pattern.Pattern] = {
        **dict.fromkeys(("count", "length_sum"), checkpoint_pattern.count),
        **dict.fromkeys(("return_sum", "return_min", "return_max"), checkpoint_pattern.any_number),
    }
    """What `state_dict` may return."""

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Adds episodes, at least one: `(episodes,)` each."""
        self.count += len(returns)
        self.return_sum += float(returns.sum())
        self.return_min = min(self.return_min, float(returns.min()))
        self.return_max = max(self.return_max, float(returns.max()))
        self.length_sum += int(lengths.sum())

    def merge(self, other: EpisodeTotals) -> None:
        """Adds the episodes that another one holds."""
        self.count += other.count
        self.return_sum += other.return_sum
        self.return_min = min(self.return_min, other.return_min)
        self.return_max = max(self.return_max, other.return_max)
        self.length_sum += other.length_sum

    def clear(self) -> None:
        """Starts over."""
        self.load_state_dict(EpisodeTotals().state_dict())

    def metrics(self) -> dict[str, float]:
        """`return_mean, return_min, return_max, length_mean` and `count`; empty when no episode ended."""
        if not self.count:
            return {}
        return {
            "return_mean": self.return_sum / self.count,
            "return_min": self.return_min,
            "return_max": self.return_max,
            "length_mean": self.length_sum / self.count,
            "count": self.count,
        }

    def state_dict(self) -> dict[str, float]:
        """Every field by its name."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Puts back what `state_dict` returned."""
        for field in fields(self):
            setattr(self, field.name, state[field.name])


class EpisodeTracker:
    """Follows the return and length of every agent's running episode.

    A step counts for the agents that acted on the observation before it. So the reward that comes to an agent together
    with its absence is its last one, and what comes while it is absent adds neither to its return nor to its length; an
    end that comes then ends the episode that it had begun.
    """

    def __init__(self, num_agents: int):
        """Begins an episode for every agent."""
        self._has_acted = np.ones(num_agents, bool)  # on the observation before the next step
        self._returns = np.zeros(num_agents)  # float64: an episode may have more steps than float32 has digits
        self._lengths = np.zeros(num_agents, np.int64)
        self._agents = np.arange(num_agents)
        # Not yet taken: the first agent of the batch; agents, returns, lengths.
        self._ended: list[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]] = []

    def step(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> None:
        """Takes what one step gave to a batch of agents.

        Args:
            rows: the agents.
            rewards: `(rows,)` float32, as the environment gave them; at an end the last one of the old episode.
            ended: `(rows,)` bool, whose episode ended with this step.
            masks: `(rows,)` bool, False for agents that are absent from now on.
        """
        returns, lengths = self._returns[rows], self._lengths[rows]  # views of consecutive agents, copies of others
        has_acted = self._has_acted[rows]
        if np.count_nonzero(has_acted) == len(has_acted):  # in less than half of the time that all() takes
            returns += rewards
            lengths += 1
        else:
            np.add(returns, rewards, out=returns, where=has_acted)
            lengths += has_acted
            ended = ended & (lengths > 0)  # nothing ends where nothing has begun
        if np.count_nonzero(ended):
            (which,) = ended.nonzero()
            agents = self._agents[rows]
            self._ended.append((int(agents[0]), (agents[which], returns[which], lengths[which])))
            returns[which] = 0.0
            lengths[which] = 0
        self._has_acted[rows] = masks
        if not isinstance(rows, slice):
            self._returns[rows], self._lengths[rows] = returns, lengths

    def hand_over(self, totals: EpisodeTotals) -> None:
        """Adds the episodes that ended since the last call to `totals`; apart from `step`, which has no time for it."""
        if self._ended:
            _, returns, lengths = self.take()
            totals.add(returns, lengths)

    def take(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The agents, returns and lengths of the episodes that ended and were not taken before: `(episodes,)` each.

        Batch after batch, so that their sum is the same in whichever order batches came.
        """
        if not self._ended:
            return self._agents[:0], self._returns[:0], self._lengths[:0]
        ended = [arrays for _, arrays in sorted(self._ended, key=lambda pair: pair[0])]
        agents, returns, lengths = (np.concatenate(arrays) for arrays in zip(*ended, strict=True))
        self._ended.clear()
        return agents, returns, lengths

    def running(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns and lengths of the running episodes of all agents, as far as they went: copies."""
        return self._returns.copy(), self._lengths.copy()

    def restart(self) -> None:
        """Forgets what was stepped since the last `hand_over`: every agent begins a new episode."""
        self._returns[:] = 0.0
        self._lengths[:] = 0
        self._ended.clear()

    def state_dict(self) -> dict[str, Any]:
        """The running episodes of all agents; those that ended are to be handed over before."""
        names = ("returns", "lengths", "has_acted")
        return {name: torch.tensor(getattr(self, f"_{name}")) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Puts back what `state_dict` returned."""
        self._returns[:] = state["returns"].numpy()
        self._lengths[:] = state["lengths"].numpy()
        self._has_acted[:] = state["has_acted"].numpy()
