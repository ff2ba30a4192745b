"""The best scores at this machine, kept from one day to the next."""

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
    """One of the best games: the sum of its rewards, and its day, such as `2026-05-17`."""

    score: float
    date: str


class HighScores:
    """The best games of one environment with one choice of settings, the best first.

    An environment has one file for all its settings. Each call reads it, as another window may write it too. A file
    that cannot be read does not stop a game: it is renamed to `<name>.damaged.json`, and the scores start over.

    Attributes:
        path: the file, which need not exist.
    """

    def __init__(self, env_name: str, settings: Mapping[str, Any], folder: Path | None = None):
        """Touches no file.

        Args:
            env_name: the environment's one name.
            settings: those that are not the defaults; games with others are not compared.
            folder: where the file lies; None is `high_scores` in the user's data folder of pufferlib, on Linux
                `~/.local/share/pufferlib`, or as XDG_DATA_HOME says.
        """
        folder = platformdirs.user_data_path("pufferlib", appauthor=False) / "high_scores" if folder is None else folder
        self.path = folder / f"{slug(env_name)}.json"
        self._settings = json.dumps(dict(settings), default=str, sort_keys=True)

    def best(self) -> list[HighScore]:
        """Returns the scores of these settings, at most KEPT."""
        return self._read().get(self._settings, [])[:KEPT]

    def add(self, score: float) -> int | None:
        """Notes a game that was finished today.

        Returns:
            Its place, 1 for the best, behind older ones as good; None where it is not among the best.

        Raises:
            StorageError: if the file cannot be written.
        """
        tables = self._read()
        scores = tables.get(self._settings, [])[:KEPT]
        place = sum(other.score >= score for other in scores)
        if not math.isfinite(score) or place >= KEPT:
            return None
        scores.insert(place, HighScore(float(score), datetime.date.today().isoformat()))
        tables[self._settings] = scores[:KEPT]
        found = [{"settings": json.loads(key), "scores": [*map(asdict, table)]} for key, table in tables.items()]
        write_atomically(self.path, f"{json.dumps(found, indent=1)}\n".encode())
        return place + 1

    def _read(self) -> dict[str, list[HighScore]]:
        tables = {}
        try:
            found = json.loads(self.path.read_bytes())
            if not isinstance(found, list):
                raise TypeError
            for table in found:
                scores = [HighScore(float(one["score"]), str(one["date"])) for one in table["scores"]]
                finite = [one for one in scores if math.isfinite(one.score)]
                tables[json.dumps(table["settings"], sort_keys=True)] = sorted(finite, key=lambda one: -one.score)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError):
            with contextlib.suppress(OSError):
                os.replace(self.path, self.path.with_suffix(".damaged.json"))
            return {}
        return tables


def shown_score(score: float) -> str:
    """Returns a score in a few characters: whole numbers without a point, others with two digits after it."""
    return f"{score:,.0f}" if float(score).is_integer() else f"{score:,.2f}"
