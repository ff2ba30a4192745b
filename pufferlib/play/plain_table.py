"""A table on a terminal, in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from pufferlib.metrics.output import printable


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligns columns by spaces, which other programs can split; cells are without control codes."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
