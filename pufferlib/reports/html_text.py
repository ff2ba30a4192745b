"""Pieces of HTML pages: text that is safe in them, and tables."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from pufferlib.dashboard.output import printable_lines


def escaped(value: object) -> str:
    """A value as text that means nothing to HTML, in an attribute either, and that every encoding of a file has."""
    return html.escape(printable_lines(str(value)))


def table(header: Sequence[str], rows: Sequence[Sequence[Any]], text_columns: Sequence[int] = ()) -> str:
    """A table that scrolls by itself where it is too wide.

    Args:
        header: names of the columns; empty for none.
        rows: of as many values; everything is escaped.
        text_columns: which are aligned at the left and may wrap; all others are numbers.
    """

    def cells(tag: str, values: Sequence[Any]) -> str:
        kinds = [' class="text"' if column in text_columns else "" for column in range(len(values))]
        return "".join(f"<{tag}{kind}>{escaped(value)}</{tag}>" for kind, value in zip(kinds, values, strict=True))

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', header)}</tr></thead>" if header else ""
    return f'<div class="table"><table>{head}<tbody>{lines}</tbody></table></div>'
