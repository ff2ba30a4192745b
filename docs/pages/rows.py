"""Rows of bench/results, of which a page shows the newest of each case."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "bench" / "results"
SEED = re.compile(r", seed (\d+)")


@dataclass(frozen=True)
class Row:
    """One number that was measured."""

    date: str
    machine: str
    commit: str
    calibration: float  # million visits per second, see bench/README.md
    case: str
    value: float
    unit: str
    command: str

    @property
    def seed(self) -> int:
        """Of the run, where the case names one; 0 otherwise."""
        found = SEED.search(self.case)
        return int(found[1]) if found else 0


def read(name: str) -> list[Row]:
    """All rows of `bench/results/<name>.csv`, in the order of the file.

    Raises:
        ValueError: if there is no such file, it has no rows, or it has others than bench/record.py writes.
    """
    path = RESULTS / f"{name}.csv"
    place = f"{path.parent.parent.name}/{path.parent.name}/{path.name}"
    if not path.exists():
        raise ValueError(f"{place}: expected a file of rows, found none; measure it by bench/record.py")
    with path.open(newline="") as file:
        found = list(csv.DictReader(file))
    if not found:
        raise ValueError(f"{place}: expected rows, found none; measure it by bench/record.py")
    try:
        return [
            Row(
                **{name: row[name] for name in ("date", "machine", "commit", "case", "unit", "command")},
                calibration=float(row["calibration"]),
                value=float(row["value"]),
            )
            for row in found
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: expected the columns of bench/record.py, found others ({error!r})") from error


def newest(rows: Iterable[Row]) -> list[Row]:
    """The newest row of each case and unit, in the order in which cases came first.

    A change is measured beside the version before it, in turn; so of two rows the newer one is that of the newer
    commit, and only of one commit the later one.
    """
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        before = found.get((row.case, row.unit))
        if before is None or age(row.commit) >= age(before.commit):
            found[row.case, row.unit] = row
    return list(found.values())


def of_the_newest_commit(rows: Iterable[Row]) -> list[Row]:
    """Those that were measured by the newest commit of all, the newest of each case."""
    found = newest(rows)
    last = max((age(row.commit) for row in found), default="")
    return [row for row in found if age(row.commit) == last]


def age(commit: str) -> str:
    """When a commit was measured first, in any file: the later, the newer it is."""
    return _first_dates(RESULTS).get(commit.rstrip("+"), "")


@functools.cache
def _first_dates(results: Path) -> dict[str, str]:
    dates: dict[str, str] = {}
    for path in results.glob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                commit, date = (row.get("commit") or "").rstrip("+"), row.get("date") or ""
                dates[commit] = min(date, dates.get(commit, date))
    return dates
