"""Curves and winners of a sweep as short texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pufferlib.metrics.dashboard import number_text
from pufferlib.reports.texts import cost_text
from pufferlib.sweep.study.confirmation import ConfirmedTrial

BARS = "▁▂▃▄▅▆▇█"


def sparkline(curve: Sequence[Sequence[float]], progress: float, low: float, high: float, cells: int) -> str:
    """Returns a curve as bars from the start of a run to where it is.

    Args:
        curve: rows of progress, seconds and score.
        progress: where the run is, in [0, 1]; the text ends there, with blanks where no score is known yet.
        low: the score of the lowest bar.
        high: that of the highest.
        cells: the number of characters of a whole run.
    """
    points = [(row[0], row[2]) for row in curve if math.isfinite(row[2])]
    done = min(cells, math.ceil(min(max(progress, 0.0), 1.0) * cells - 1e-9))
    newest = [[score for place, score in points if place <= (cell + 1) / cells + 1e-9][-1:] for cell in range(done)]
    return "".join(bar(scores[0], low, high) if scores else " " for scores in newest)


def bar(score: float, low: float, high: float) -> str:
    """Returns the bar of a score between two others."""
    share = (score - low) / (high - low) if high > low else 0.5
    return BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]


def winner_text(best: ConfirmedTrial) -> str:
    """Returns a text such as `trial 7: 0.98 in 12s of training, confirmed 0.95 ± 0.02 on 3 fresh seeds`."""
    again = f", confirmed {best.text}" if best.runs else ""
    trial = best.trial
    of = "" if trial.episodes is None else f" over {trial.episodes_text} episodes"
    return f"trial {trial.number}: {number_text(trial.score)}{of} in {cost_text(trial.cost)} of training{again}"
