"""The colours of plots and pages: those of the panel on a terminal, and others beside them that are told apart."""

from __future__ import annotations

from pufferlib.metrics.panel import BACKGROUND, CYAN, RED, WHITE

__all__ = ["BACKGROUND", "CYAN", "GRID", "MUTED", "PHASES", "RED", "SERIES", "SURFACE", "WHITE", "series_colour"]

SURFACE = "#0B2424"  # of plots, tables and bars on the background
GRID = "#1D3C3C"
MUTED = "#8FAAAA"  # text that stands back: 7 to 1 on the background

SERIES = (CYAN, WHITE, "#E5484D", "#F2B134", "#8E9BFF", "#7BD88F", "#E48CE0", "#7A9A9A")
"""Colours of curves; RED itself is too dark for a thin line."""

PHASES = {
    "environment": CYAN,
    "forward": "#F2B134",
    "store": "#7A9A9A",
    "advantage": "#8E9BFF",
    "learn": "#E5484D",
    "evaluation": "#7BD88F",
    "communicate": "#E48CE0",
    "other": "#35504F",
}
"""Colours of the phases of a training."""


def series_colour(index: int) -> str:
    """Returns the colour of a curve; they repeat after the last one."""
    return SERIES[index % len(SERIES)]
