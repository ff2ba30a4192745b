"""Text output that survives a lost terminal, a closed pipe and a full disk."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import unicodedata
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from pufferlib.errors import PufferWarning, StorageError

if TYPE_CHECKING:
    from jinja2 import Template

_reported: weakref.WeakSet[TextIO] = weakref.WeakSet()  # what was said of the process's streams
_PLAIN = str.maketrans("━─…±▁▂▃▄▅▆▇█", "=-~+_.,:;oO#")  # for a stream that has no such signs
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # of Unicode: control, format (bidi), surrogates, line and paragraph ends


def printable(text: str) -> str:
    """A text for one line of a terminal, which shows it and obeys nothing in it.

    Tabs become spaces, and every other control code, line end, bidirectional control and half of a surrogate pair
    becomes a replacement character; the text keeps its length.
    """
    if text.isprintable():
        return text
    spaced = text.replace("\t", " ")
    return "".join("\ufffd" if unicodedata.category(sign) in _UNSEEN else sign for sign in spaced)


def printable_lines(text: str) -> str:
    """As `printable`, of a text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def page_template(package: str, name: str) -> Template:
    """Loads the template of a page, whose values are escaped and `printable`, but for what is `Markup`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not before: most commands write no page

    environment = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if hasattr(value, "__html__") else printable_lines(str(value)),
    )
    return environment.get_template(name)


class Output:
    """A stream whose `write` and `flush` never raise; what comes after one that failed goes nowhere.

    Signs that the stream's encoding lacks are replaced by similar ones.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self.error: Exception | None = None  # why the stream was given up

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        ask = getattr(self._stream, "isatty", None)  # a stream of one's own may have `write` and `flush` alone
        return ask is not None and not getattr(self._stream, "closed", False) and bool(ask())

    def write(self, text: str) -> int:
        """Writes as much as can be written; returns the number of characters given."""
        shown = text
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            shown = text.translate(_PLAIN).encode(self.encoding, "replace").decode(self.encoding)
        self._attempt(lambda: self._stream.write(shown))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self._attempt(lambda: self._stream.flush())

    def report(self) -> None:
        """Warns if the stream was given up, once for each stream."""
        if self.error is not None and self._stream not in _reported:
            _reported.add(self._stream)
            reason = getattr(self.error, "strerror", None) or self.error
            warnings.warn(f"the output cannot be written ({reason}); the run goes on without it", PufferWarning, 2)

    def _attempt(self, call: Callable[[], object]) -> None:
        if self._stream is None or self.error is not None:
            return
        try:
            call()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self.error = error
            discard(self._stream)


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a text to a stream, stdout where None is given, as far as that can be written; control codes are not."""
    output = Output(sys.stdout if stream is None else stream)
    output.write(f"{printable_lines(text)}\n")
    output.flush()
    output.report()


def discard(stream: TextIO) -> None:
    """Empties what a stream still holds, so that Python does not try to write that again when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, number)
            stream.flush()
        finally:
            os.dup2(kept, number)
            os.close(kept)
            os.close(nowhere)


def flush_stdout(more: str = "") -> None:
    """Writes what stdout still holds, and `more`; a StorageError if it cannot, as on a full disk."""
    try:
        if sys.stdout is not None:
            if more:  # /dev/full refuses even nothing
                sys.stdout.write(more)
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise StorageError(f"the output cannot be written ({error.strerror}); direct it elsewhere") from error


def is_stdout_gone() -> bool:
    """Whether the reader of stdout is gone; if so, stdout discards everything from now on."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are always reported
    is_gone = bool(poll.poll(0))
    if is_gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return is_gone


def terminal_columns() -> int:
    """The width of stdout, practically unlimited where that is no terminal."""
    return shutil.get_terminal_size().columns if Output(sys.stdout).isatty() else 10**6


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 10**6) -> str:
    """Aligns columns by spaces, which other programs can split; cells are without control codes.

    Lines that are longer than `width` are cut.
    """
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    aligned = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join(line if len(line) <= width else f"{line[: width - 3]}..." for line in aligned)
