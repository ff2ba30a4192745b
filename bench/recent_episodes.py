"""The mean of a metric over the episodes that ended last, which decides whether a run has learnt."""

from __future__ import annotations

from collections import deque


class RecentEpisodes:
    """The mean of a metric over at least the last episodes, from means over groups of them."""

    def __init__(self, metric: str, count: str, least: int):
        """Takes the names of the metric and of the number of episodes that it is a mean over, and how many to keep."""
        self._metric = metric
        self._count = count
        self._least = least
        self._groups: deque[tuple[float, float]] = deque()  # (mean, episodes), oldest first
        self._episodes = 0.0

    def add(self, stats: dict[str, float]) -> None:
        if self._metric not in stats:  # the environment may report in another rollout than its episodes end in
            return
        self._groups.append((stats[self._metric], stats[self._count]))
        self._episodes += stats[self._count]
        while self._episodes - self._groups[0][1] >= self._least:
            self._episodes -= self._groups.popleft()[1]

    @property
    def mean(self) -> float:
        return sum(mean * count for mean, count in self._groups) / max(self._episodes, 1.0)

    @property
    def is_full(self) -> bool:
        return self._episodes >= self._least
