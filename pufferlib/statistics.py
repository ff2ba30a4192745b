"""Episode statistics: means that weigh every episode the same, however it was reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class EpisodeStatistics:
    """Adds up what environments report in their infos until it is taken.

    An info that holds `n` gives means over `n` finished episodes; one without speaks of a single episode. Values that
    are no numbers are ignored.
    """

    def __init__(self):
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}

    def add(self, infos: Iterable[Mapping[str, Any]]) -> None:
        """Adds the reports of one step."""
        for info in infos:
            count = float(info.get("n", 1.0))
            if count <= 0.0:
                continue
            for name, value in info.items():
                if name == "n" or not _is_number(value):
                    continue
                self._sums[name] = self._sums.get(name, 0.0) + float(value) * count
                self._counts[name] = self._counts.get(name, 0.0) + count

    def means(self) -> dict[str, float]:
        """The mean of every value, and `n`, the number of episodes; empty when none ended."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        return {**means, "n": max(self._counts.values())} if means else {}

    def take(self) -> dict[str, float]:
        """Returns `means()` and starts over."""
        means = self.means()
        self._sums.clear()
        self._counts.clear()
        return means

    def merge(self, other: EpisodeStatistics) -> None:
        """Adds what another one holds."""
        for name, total in other._sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + total
            self._counts[name] = self._counts.get(name, 0.0) + other._counts[name]

    @classmethod
    def merged(cls, states: Iterable[Mapping[str, dict[str, float]]]) -> EpisodeStatistics:
        """The episodes of several, of which each gave its `state_dict`."""
        whole = cls()
        for state in states:
            part = cls()
            part.load_state_dict(state)
            whole.merge(part)
        return whole

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Sums and counts."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, dict[str, float]]) -> None:
        """Puts back what `state_dict` returned."""
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])


def _is_number(value: Any) -> bool:
    """Whether it is one number: of Python, of NumPy, or a tensor without dimensions."""
    is_single = getattr(value, "ndim", 0) == 0
    return is_single and hasattr(value, "__float__") and not isinstance(value, (str, bytes))
