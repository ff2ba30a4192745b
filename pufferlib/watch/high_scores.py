"""The best scores of the person at this machine, kept from one day to the next."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from pufferlib.families.catalog import slug
from pufferlib.runs.whole_files import write_atomically

KEPT = 10


@dataclass(frozen=True)
class HighScore:
    """One of the best games.

    Attributes:
        score: the sum of its rewards, finite.
        date: the day on which it was played, such as `2026-05-17`.
    """

    score: float
    date: str


class HighScores:
    """The best games of one environment with one choice of settings, the best first.

    They lie in a file of the environment, together with those of its other settings. It is read each time, as another
    window may write it too. What cannot be read is no reason to stop a game: the scores begin anew, and the file is put
    aside as `<name>.damaged.json`.

    Attributes:
        path: the file, which there need not be.
    """

    def __init__(self, env_name: str, settings: Mapping[str, Any], folder: Path | None = None):
        """Reads and writes nothing yet.

        Args:
            env_name: the environment's one name.
            settings: those in which it differs from how it is by itself; games of others are not compared.
            folder: where the file lies; None is `high_scores` in the person's data folder of pufferlib, on Linux
                `~/.local/share/pufferlib`, or elsewhere as XDG_DATA_HOME says.
        """
        folder = platformdirs.user_data_path("pufferlib", appauthor=False) / "high_scores" if folder is None else folder
        self.path = folder / f"{slug(env_name)}.json"
        self._settings = json.loads(json.dumps(dict(settings), default=str, sort_keys=True))

    def best(self) -> list[HighScore]:
        """The scores of these settings, at most KEPT."""
        return _scores(self._tables(), self._settings)

    def add(self, score: float) -> int | None:
        """Takes note of a game that was finished today.

        Returns:
            Its place among the best, 1 for the best of all; None where it is none of them. One as good as an older one
            comes after it.

        Raises:
            StorageError: if the file cannot be written.
        """
        tables = self._tables()
        scores = _scores(tables, self._settings)
        place = sum(other.score >= score for other in scores)
        if not math.isfinite(score) or place >= KEPT:
            return None
        scores.insert(place, HighScore(float(score), datetime.date.today().isoformat()))
        others = [table for table in tables if table["settings"] != self._settings]
        table = {"settings": self._settings, "scores": [asdict(one) for one in scores[:KEPT]]}
        text = json.dumps([*others, table], indent=1) + "\n"
        write_atomically(self.path, text.encode())
        return place + 1

    def _tables(self) -> list[dict[str, Any]]:
        try:
            tables = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            return self._damaged()
        is_whole = isinstance(tables, list) and all(
            isinstance(table, dict) and isinstance(table.get("settings"), dict) and _is_list_of_scores(table)
            for table in tables
        )
        return tables if is_whole else self._damaged()

    def _damaged(self) -> list[dict[str, Any]]:
        with contextlib.suppress(OSError):
            os.replace(self.path, self.path.with_suffix(".damaged.json"))
        return []


def _is_list_of_scores(table: dict[str, Any]) -> bool:
    scores = table.get("scores")
    return isinstance(scores, list) and all(
        isinstance(one, dict)
        and isinstance(one.get("date"), str)
        and type(one.get("score")) in (int, float)
        and math.isfinite(one["score"])
        for one in scores
    )


def _scores(tables: list[dict[str, Any]], settings: dict[str, Any]) -> list[HighScore]:
    found = [one for table in tables if table["settings"] == settings for one in table["scores"]]
    scores = [HighScore(float(one["score"]), one["date"]) for one in found]
    return sorted(scores, key=lambda one: -one.score)[:KEPT]


def shown_score(score: float) -> str:
    """A score in a few characters: whole numbers without a point, others with two digits after it."""
    return f"{score:,.0f}" if float(score).is_integer() else f"{score:,.2f}"
