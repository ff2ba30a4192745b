"""The logs of a run, kept in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Mapping


class LogHistory:
    """Keeps logs as rows of numbers: a tenth of the memory of the dicts, of which a long run has tens of thousands."""

    def __init__(self):
        self._rows: list[tuple[tuple[tuple[str, type], ...], array]] = []
        self._headers: dict[tuple[tuple[str, type], ...], tuple[tuple[str, type], ...]] = {}  # each one once

    def add(self, log: Mapping[str, float]) -> None:
        """Keeps a log; its values are integers below 2**53 and floats."""
        header = tuple((name, type(value)) for name, value in log.items())
        self._rows.append((self._headers.setdefault(header, header), array("d", log.values())))

    def logs(self) -> list[dict[str, float]]:
        """All logs, in the order in which they came, as they were."""
        return [
            {name: kind(value) for (name, kind), value in zip(header, row, strict=True)} for header, row in self._rows
        ]
