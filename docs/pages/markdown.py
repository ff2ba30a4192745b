"""Pieces of MyST Markdown that the generated pages are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .rows import Row

SPECIAL = re.compile(r"([\\*_\[\]{}<>|$#~^])")
MOST_COMMANDS = 3  # beside a table; more of them are folded


def escaped(text: str) -> str:
    """Plain text as Markdown that shows it letter by letter; what stands in backticks stays code."""
    parts = text.split("`")
    return "`".join(part if index % 2 else SPECIAL.sub(r"\\\1", part) for index, part in enumerate(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell is escaped."""
    cells = [[text.replace("|", "\\|") for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells)) + "\n"


def count(value: float) -> str:
    """Three digits that count, as in `61.1 M`, `430 k` or `8.43`."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= 0.9995 * size:
            return three_digits(value / size) + letter
    return three_digits(value)


def three_digits(value: float) -> str:
    """`8.43`, `35.0`, `0.000430`; a number from 100 on without digits behind the point."""
    return f"{value:,.0f}" if abs(value) >= 99.95 or value == 0 else f"{value:#.3g}"


def span(values: Iterable[float]) -> str:
    """`4.15 to 6.74`, or one number where all are alike."""
    values = sorted(values)
    texts = [count(values[0]), count(values[-1])]
    if texts[0].split(" ")[1:] == texts[1].split(" ")[1:]:
        texts[0] = texts[0].split(" ")[0]  # the letter once
    return texts[1] if count(values[0]) == count(values[-1]) else " to ".join(texts)


def measured(rows: Iterable[Row]) -> str:
    """A line that says where, when, at which calibration and how rows were measured."""
    rows = list(rows)
    parts = []
    for machine in dict.fromkeys(row.machine for row in rows):
        own = [row for row in rows if row.machine == machine]
        dates = sorted({row.date[:10] for row in own})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        parts.append(f"{machine}, {when}, calibration {span(row.calibration for row in own)}")
    return f"*Measured on {'; '.join(parts)}.*\n\n{commands(rows)}"


def commands(rows: Iterable[Row]) -> str:
    """What to type to measure rows again."""
    lines = list(dict.fromkeys(row.command for row in rows))
    block = "```text\n" + "\n".join(lines) + "\n```\n"
    if len(lines) <= MOST_COMMANDS:
        return block
    return f"````{{dropdown}} The {len(lines)} commands that measured it\n{block}````\n"


def figure(light: Path, dark: Path, folder: Path, words: str) -> str:
    """A plot in two versions, of which the page shows the one for its background.

    Args:
        light: for a light background.
        dark: for a dark one.
        folder: of the page.
        words: what it shows, for those who do not see it.
    """
    return "".join(
        f"```{{image}} {path.relative_to(folder)}\n:class: only-{kind}\n:alt: {words}\n```\n"
        for kind, path in (("light", light), ("dark", dark))
    )
