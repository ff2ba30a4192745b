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
from pufferlib.runs.folder import write_atomically
from collections.abc import Sequence
from dataclasses import dataclass
from pufferlib.ocean.screen import Screen
from pufferlib.watch.stage import CYAN, EDGE, GREY, PANEL, VEIL, WHITE


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


BAR_HEIGHT = 44  # pixels
MIN_WIDTH = 520  # pixels of a window, so that the bar has room

SMALL, NORMAL, LARGE, _HUGE = 18, 22, 40, 120
_PADDING = 26
_TABLE_ROWS = 5


@dataclass(frozen=True)
class SignLine:
    """One line of a sign: its parts stand in columns, a single one in the middle."""

    parts: tuple[str, ...]
    size: int = NORMAL
    color: tuple[int, ...] = WHITE


def title_line(text: str) -> SignLine:
    """Returns the first line of a sign."""
    return SignLine((text,), LARGE, CYAN)


def hint_line(*parts: str) -> SignLine:
    """Returns a line that says what a key does."""
    return SignLine(parts, SMALL, GREY)


def table_lines(scores: Sequence[HighScore], place: int | None) -> list[SignLine]:
    """Returns the best games, the one at `place` in another colour and always among them."""
    shown = [*range(1, min(len(scores), _TABLE_ROWS) + 1)]
    if place is not None and place > _TABLE_ROWS:
        shown[-1] = place
    found = [(number, scores[number - 1]) for number in shown]
    return [
        SignLine((f"{number}", shown_score(one.score), one.date), color=CYAN if number == place else WHITE)
        for number, one in found
    ]


def draw_bar(screen: Screen, score: float, best: float | None, middle: str) -> None:
    """Draws the line above the picture: the score, the best of all games where there is one, and a text."""
    width, _ = screen.size
    screen.rectangle(0, 0, width, BAR_HEIGHT, PANEL)
    y = (BAR_HEIGHT - NORMAL) / 2
    screen.text(f"score {shown_score(score)}", 16, y, NORMAL, WHITE)
    if best is not None:
        text = f"best {shown_score(best)}"
        screen.text(text, width - 16 - screen.text_width(text, NORMAL), y, NORMAL, CYAN)
    screen.text(middle, (width - screen.text_width(middle, SMALL)) / 2, y + 2, SMALL, GREY)


def draw_number(screen: Screen, number: int) -> None:
    """Draws a large number in the middle, over the picture."""
    width, height = screen.size
    y = (height + BAR_HEIGHT - _HUGE) / 2
    _draw_frame(screen, width / 2 - 75, y - 15, 150, _HUGE + 30)
    screen.text(str(number), (width - screen.text_width(str(number), _HUGE)) / 2, y, _HUGE, CYAN)


def draw_sign(screen: Screen, lines: Sequence[SignLine]) -> None:
    """Draws lines in a frame in the middle, over the picture; they become smaller in a small window."""
    width, height = screen.size
    inner = max(sum(screen.text_width(part, line.size) + 40 for part in line.parts) - 40 for line in lines)
    tall = sum(1.3 * line.size for line in lines)
    scale = min(1.0, (width - 20) / (inner + 2 * _PADDING), (height - BAR_HEIGHT - 20) / (tall + 2 * _PADDING))
    inner, tall, padding = inner * scale, tall * scale, _PADDING * scale
    left, y = (width - inner) / 2, (height + BAR_HEIGHT - tall) / 2
    screen.rectangle(0, BAR_HEIGHT, width, height - BAR_HEIGHT, (*VEIL[:3], 120))
    _draw_frame(screen, left - padding, y - padding, inner + 2 * padding, tall + 2 * padding)
    for line in lines:
        size = max(4, round(line.size * scale))
        widths = [screen.text_width(part, size) for part in line.parts]
        free, gaps = inner - sum(widths), len(widths) - 1
        x = left if gaps else left + free / 2
        for part, wide in zip(line.parts, widths, strict=True):
            screen.text(part, x, y, size, line.color)
            x += wide + free / max(gaps, 1)
        y += 1.3 * line.size * scale


def _draw_frame(screen: Screen, x: float, y: float, width: float, height: float) -> None:
    screen.rectangle(x - 2, y - 2, width + 4, height + 4, EDGE, 16)
    screen.rectangle(x, y, width, height, PANEL, 14)
