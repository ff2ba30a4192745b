"""Numbers, settings and curves of a sweep as short texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pufferlib.metrics.dashboard import count_text, duration_text, number_text
from pufferlib.sweep.study.confirmation import ConfirmedTrial

BARS = "▁▂▃▄▅▆▇█"


def value_text(value: Any) -> str:
    """The value of a setting, such as `4.2M`, `0.9873` or `muon`."""
    if isinstance(value, float):
        return number_text(value)
    return count_text(value) if isinstance(value, int) and abs(value) >= 1e5 else str(value)


def cost_text(seconds: float) -> str:
    """Seconds of training, such as `7.4s` or `1m 20s`; `-` where they are not known."""
    return f"{seconds:.1f}s" if 0 <= seconds < 10 else duration_text(seconds)


def short_names(names: Sequence[str]) -> dict[str, str]:
    """A setting's name without its section, by the whole name; with it where two are alike."""
    keys = [name.rpartition(".")[2] for name in names]
    return {name: key if keys.count(key) == 1 else name for name, key in zip(names, keys, strict=True)}


def settings_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """The values by their short names."""
    names = short_names(list(settings))
    return {names[name]: value_text(value) for name, value in settings.items()}


def sparkline(curve: Sequence[Sequence[float]], progress: float, low: float, high: float, cells: int) -> str:
    """A curve as bars from the start of a run to where it is.

    Args:
        curve: rows of progress, seconds and score.
        progress: where the run is, in [0, 1].
        low: the score of the lowest bar.
        high: that of the highest.
        cells: how many characters a whole run has.

    Returns:
        As many characters as the part that is done has, blanks as long as no score is known.
    """
    points = [(row[0], row[2]) for row in curve if math.isfinite(row[2])]
    done = min(cells, math.ceil(min(max(progress, 0.0), 1.0) * cells - 1e-9))
    newest = [[score for place, score in points if place <= (cell + 1) / cells + 1e-9][-1:] for cell in range(done)]
    return "".join(bar(scores[0], low, high) if scores else " " for scores in newest)


def bar(score: float, low: float, high: float) -> str:
    """The bar of a score between two others."""
    share = (score - low) / (high - low) if high > low else 0.5
    return BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]


def winner_text(best: ConfirmedTrial) -> str:
    """How good the winner is, such as `trial 7: 0.98 in 12s of training, confirmed 0.95 ± 0.02 on 3 fresh seeds`."""
    again = f", confirmed {best.text}" if best.runs else ""
    trial = best.trial
    return f"trial {trial.number}: {number_text(trial.score)} in {cost_text(trial.cost)} of training{again}"
