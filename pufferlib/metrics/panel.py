"""A panel that a person sees, redrawn in place on a terminal and in a notebook, and plain lines everywhere else."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from pufferlib.metrics.notebook import NotebookPanel, is_notebook
from pufferlib.metrics.output import Output, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

CYAN, RED, WHITE, BACKGROUND = "#00BBBB", "#BB0000", "#F1F1F1", "#061818"
TRACK = "#1D3C3C"  # the part of a bar that is still ahead
FRAME_COLUMNS = 4  # of the panel's border and its padding


class LivePanel:
    """A stream that shows one panel, or lines where it is neither terminal nor notebook, or TERM is `dumb`.

    The terminal is put back by `close`, and at the latest when Python ends. A stream that cannot be written is warned
    about once and left; a closed one is left without a word.

    Attributes:
        is_panel: whether the stream shows a panel rather than lines.
    """

    def __init__(self, stream: TextIO | None = None):
        stream = sys.stdout if stream is None else stream
        self._output = Output(stream)
        self._notebook = NotebookPanel(BACKGROUND) if is_notebook(stream) else None
        is_terminal = self._output.isatty() and os.environ.get("TERM") != "dumb"
        self.is_panel = is_terminal or self._notebook is not None
        self._live = None
        self._stop = None  # stops the live display, once; also called when this object or the interpreter goes

    def draw(self, render: Callable[[Console], Panel]) -> None:
        """Redraws the panel in place."""
        if self._notebook is not None:
            self._notebook.draw(render)
        elif self._output.error is None:
            if self._live is None:
                self._start()
            self._live.update(render(self._live.console), refresh=True)
        self._leave_what_failed()

    def write(self, line: str) -> None:
        """Writes a line of plain text, without the control codes that may be in it."""
        self._output.write(f"{printable(line)}\n")
        self._output.flush()
        self._leave_what_failed()

    def close(self) -> None:
        """Leaves the last panel on the screen and gives the terminal back; calling it twice is harmless."""
        if self._stop is not None:
            self._stop()

    def _start(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=self._output), auto_refresh=False, vertical_overflow="crop")
        self._stop = weakref.finalize(self, self._live.stop)
        self._live.start()

    def _leave_what_failed(self) -> None:
        if self._output.error is not None:
            self.close()  # first, so that the warning does not go where it cannot be read
            self._output.report()


def frame(title: str, lines: Sequence[Text]) -> Panel:
    """The panel around lines, which are cut where they are wider than it; control codes in them are not obeyed."""
    from rich import box
    from rich.panel import Panel
    from rich.text import Text

    heading = Text.assemble(("PufferLib ", f"bold {CYAN}"), (printable(title), WHITE))
    for line in lines:
        line.plain = printable(line.plain)  # of the same length, so its styles stay where they are
    body = Text("\n", no_wrap=True, overflow="crop").join(lines)
    style = f"{WHITE} on {BACKGROUND}"
    return Panel(body, title=heading, title_align="left", border_style=CYAN, style=style, box=box.ROUNDED)


def progress(left: Text, fraction: float, right: Text, width: int) -> Text:
    """A line with a bar between two texts, filled as far as the fraction says."""
    from rich.text import Text

    cells = max(0, width - len(left) - len(right) - 2)
    filled = round(cells * min(max(fraction, 0.0), 1.0))
    return Text.assemble(left, " ", ("━" * filled, CYAN), ("─" * (cells - filled), TRACK), " ", right)


def pairs(values: Mapping[str, str], width: int) -> Text:
    """A line of names and values, cut where it is wider."""
    from rich.text import Text

    line = Text("   ").join(pair(label, value) for label, value in values.items())
    line.truncate(width, overflow="ellipsis")
    return line


def pair(label: str, value: str) -> Text:
    """A name and its value."""
    from rich.text import Text

    return Text.assemble((f"{label} ", CYAN), (str(value), WHITE))


def fit(text: str, width: int) -> str:
    """A text of exactly that many characters."""
    return text.ljust(width) if len(text) <= width else text[: max(0, width - 1)] + "…"
