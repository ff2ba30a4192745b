"""A panel in the output of a notebook's cell, redrawn in place."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.panel import Panel

_COLUMNS, _LINES = 96, 30  # what a cell is wide enough for
_STYLE = "font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace; font-size:13px; line-height:normal; white-space:pre"


def is_notebook(stream: TextIO | None) -> bool:
    """Whether a stream goes to the output of a notebook's cell, which is no terminal and takes more than text."""
    return type(stream).__module__.startswith("ipykernel.")


class NotebookPanel:
    """A panel in a cell of its own; where a frontend shows no HTML, it shows the panel as text."""

    def __init__(self, background: str):
        self._format = (
            f'<div style="overflow-x:auto"><pre style="display:inline-block; background-color:{background}; {_STYLE}">'
            "{code}</pre></div>"
        )
        self._handle: Any = None

    def draw(self, render: Callable[[Console], Panel]) -> None:
        """Shows the panel, in place of that of before."""
        content = _drawn(render, self._format)
        if self._handle is None:
            from IPython.display import display

            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _drawn(render: Callable[[Console], Panel], html_format: str) -> dict[str, str]:
    from rich.console import Console

    console = Console(
        **dict(file=io.StringIO(), record=True, width=_COLUMNS, height=_LINES),
        **dict(force_terminal=True, force_jupyter=False, color_system="truecolor"),
    )
    console.print(render(console))
    html = console.export_html(inline_styles=True, code_format=html_format, clear=False)
    return {"text/html": html, "text/plain": console.export_text()}
