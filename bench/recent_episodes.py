"""Whether a run has learnt: the mean of a metric over the episodes that ended last, and over whole ones.

The episodes that ended last only tell when it may have: early in a run they are those that end early. Where their mean
is high enough the policy plays as many whole episodes, and their mean decides; see `PuffeRL.score`.
"""

from __future__ import annotations

import time
from collections import deque

from pufferlib import PuffeRL, Score

PAUSE = 0.1  # of the steps so far, after which a policy that was not good enough plays again


class RecentEpisodes:
    """The mean of a metric over at least the last episodes, from means over groups of them."""

    def __init__(self, metric: str, count: str, least: int):
        """Takes the names of the metric and of the number of episodes that it is a mean over, and how many to keep."""
        self._metric = metric
        self._count = count
        self._least = least
        self.played: Score | None = None  # the last
        self.played_seconds = 0.0
        self._next_step = 0.0
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
    def episodes(self) -> int:
        return round(self._episodes)

    @property
    def is_full(self) -> bool:
        return self._episodes >= self._least

    def reaches(self, threshold: float, trainer: PuffeRL) -> bool:
        """Whether the policy is good enough; all processes ask after each iteration, with the same groups."""
        if not self.is_full or self.mean < threshold or trainer.global_step < self._next_step:
            return False
        self._next_step = (1 + PAUSE) * trainer.global_step
        score = self.play(trainer)
        return score is None or score.mean >= threshold

    def play(self, trainer: PuffeRL) -> Score | None:
        """Plays as many whole episodes; None where no environments can be made as those of the training."""
        begin = time.perf_counter()
        scores = trainer.ranks.from_first(lambda: trainer.score(self._least))
        name = self._metric if "/" in self._metric else f"environment/{self._metric}"
        self.played = scores.get(name)
        self.played_seconds += time.perf_counter() - begin
        return self.played
