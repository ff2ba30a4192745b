"""The running episodes of all agents: their starts, ends, returns and lengths.

Wrappers, the collector and players all use this class, so that they agree on which step counts for which agent. It
needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class EpisodeTracker:
    """Follows every agent's running episode, from batches of agents in any order.

    A step counts for the agents that acted on the observation before it. So the reward of the step after which an agent
    is absent is its last one. Later rewards add neither to its return nor to its length, and a later end ends the
    episode that it had started.

    Attributes:
        returns: `(num_agents,)` float64, sums of the rewards of the running episodes; an episode may have more steps
            than float32 has digits.
        lengths: `(num_agents,)` int64, the steps of the running episodes at which the agent acted.
        has_acted: `(num_agents,)` bool, the agents that act on the newest observation: the next step counts for them.
        is_pending: `(num_agents,)` bool, the agents whose episode ended and that were absent since.
    """

    def __init__(self, num_agents: int):
        self.returns = np.zeros(num_agents)
        self.lengths = np.zeros(num_agents, np.int64)
        self.has_acted = np.zeros(num_agents, bool)
        self.is_pending = np.ones(num_agents, bool)
        self._agents = np.arange(num_agents)
        # Until `take`: the first agent of the batch; agents, returns, lengths.
        self._ended: list[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]] = []

    def restart(self) -> None:
        """Drops all episodes, also the ended ones; each agent's next `step` has the results of a reset."""
        self.returns[:] = 0.0
        self.lengths[:] = 0
        self.has_acted[:] = False
        self.is_pending[:] = True
        self._ended.clear()

    def step(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Adds the results of one step of a batch of agents.

        Args:
            rows: the agents.
            rewards: `(rows,)` float32, of the environment; at an end the last one of the old episode.
            ended: `(rows,)` bool, whether the episode ended with this step.
            masks: `(rows,)` bool, False for agents that are absent from now on.

        Returns:
            The episode starts of `begin`.
        """
        self._add(rows, rewards, ended)
        self.has_acted[rows] = masks
        return self.begin(rows, ended, masks)

    def begin(self, rows: slice | np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Finds the agents whose episode starts with the observations of a step; a part of `step`.

        Returns:
            `(rows,)` bool, the episode starts, where recurrent state is reset. An agent that is absent after an end has
            one at every step, up to its return.
        """
        begins = ended | self.is_pending[rows]
        self.is_pending[rows] = begins > masks
        return begins

    def _add(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> None:
        returns, lengths = self.returns[rows], self.lengths[rows]  # views of consecutive agents, copies of others
        has_acted = self.has_acted[rows]
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
        if not isinstance(rows, slice):
            self.returns[rows], self.lengths[rows] = returns, lengths

    def take(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The agents, returns and lengths of the episodes that ended since the last call: `(episodes,)` each.

        They are sorted by batch, so that sums do not depend on the order in which batches came.
        """
        if not self._ended:
            return self._agents[:0], self.returns[:0], self.lengths[:0]
        ended = [arrays for _, arrays in sorted(self._ended, key=lambda pair: pair[0])]
        agents, returns, lengths = (np.concatenate(arrays) for arrays in zip(*ended, strict=True))
        self._ended.clear()
        return agents, returns, lengths

    def state_dict(self) -> dict[str, np.ndarray]:
        """The running episodes of all agents, without `is_pending`; `take` the ended ones before."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy(), "has_acted": self.has_acted.copy()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores the result of `state_dict`."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self.has_acted[:] = state["has_acted"]
