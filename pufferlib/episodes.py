"""The running episodes of all agents: where each begins and ends, and what its rewards add up to.

Wrappers, the collector and players follow episodes by this class alone, so that all of them agree on which step counts
for whom. It computes with NumPy, and torch stays out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class EpisodeTracker:
    """Follows every agent's running episode, from batches of agents in any order.

    A step counts for the agents that acted on the observation before it. So the reward that comes to an agent together
    with its absence is its last one, and what comes while it is absent adds neither to its return nor to its length; an
    end that comes then ends the episode that it had begun.

    Attributes:
        returns: `(num_agents,)` float64, sums of the rewards of the running episodes; an episode may have more steps
            than float32 has digits.
        lengths: `(num_agents,)` int64, the steps of the running episodes at which the agent acted.
        has_acted: `(num_agents,)` bool, who acts on the newest observation, so that the next step counts for them.
        is_pending: `(num_agents,)` bool, whose episode ended and who were not there since: nothing has begun for them.
    """

    def __init__(self, num_agents: int):
        self.returns = np.zeros(num_agents)
        self.lengths = np.zeros(num_agents, np.int64)
        self.has_acted = np.zeros(num_agents, bool)
        self.is_pending = np.ones(num_agents, bool)
        self._agents = np.arange(num_agents)
        # Not yet taken: the first agent of the batch; agents, returns, lengths.
        self._ended: list[tuple[int, tuple[np.ndarray, np.ndarray, np.ndarray]]] = []

    def restart(self) -> None:
        """Forgets all episodes, also those that ended and were not taken.

        What each agent's next `step` takes is what a reset gave: it begins an episode and is no step of it.
        """
        self.returns[:] = 0.0
        self.lengths[:] = 0
        self.has_acted[:] = False
        self.is_pending[:] = True
        self._ended.clear()

    def step(self, rows: slice | np.ndarray, rewards: np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Takes what one step gave to a batch of agents.

        Args:
            rows: the agents.
            rewards: `(rows,)` float32, as the environment gave them; at an end the last one of the old episode.
            ended: `(rows,)` bool, whose episode ended with this step.
            masks: `(rows,)` bool, False for agents that are absent from now on.

        Returns:
            What `begin` does.
        """
        self._add(rows, rewards, ended)
        self.has_acted[rows] = masks
        return self.begin(rows, ended, masks)

    def begin(self, rows: slice | np.ndarray, ended: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Finds for whom an episode begins with the observations of one step; a part of `step`, with its arguments.

        Returns:
            `(rows,)` bool, who must not remember what was before. An agent that is absent after an end begins at every
            step, and so when it is there again.
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
        """The agents, returns and lengths of the episodes that ended and were not taken before: `(episodes,)` each.

        Batch after batch, so that their sum is the same in whichever order batches came.
        """
        if not self._ended:
            return self._agents[:0], self.returns[:0], self.lengths[:0]
        ended = [arrays for _, arrays in sorted(self._ended, key=lambda pair: pair[0])]
        agents, returns, lengths = (np.concatenate(arrays) for arrays in zip(*ended, strict=True))
        self._ended.clear()
        return agents, returns, lengths

    def state_dict(self) -> dict[str, np.ndarray]:
        """The running episodes of all agents, but for `is_pending`; those that ended are to be taken before."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy(), "has_acted": self.has_acted.copy()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Puts back what `state_dict` returned."""
        self.returns[:] = state["returns"]
        self.lengths[:] = state["lengths"]
        self.has_acted[:] = state["has_acted"]
