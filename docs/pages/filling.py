"""Puts what is generated into the place that a page written by hand keeps for it."""

from __future__ import annotations

from pathlib import Path


def fill(page: Path, name: str, text: str) -> None:
    """Replaces the line `<!-- generated: NAME -->` of a page.

    Args:
        page: the file, which is changed.
        name: of the place.
        text: what comes there.

    Raises:
        ValueError: unless the page has one such line.
    """
    mark = f"<!-- generated: {name} -->"
    before = page.read_text()
    if before.count(mark) != 1:
        raise ValueError(f"{page}: expected one line {mark!r}, found {before.count(mark)}; put it where {name} belong")
    page.write_text(before.replace(mark, text.strip()))


def code(text: object) -> str:
    """A text as code within a line; of several lines and backquotes nothing is expected."""
    return f"`{text}`"
