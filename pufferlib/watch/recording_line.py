"""The progress of a video, in a line on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from pufferlib.metrics.output import Output
from pufferlib.play.player import Player
from pufferlib.watch.video import VideoWriter

INTERVAL_SECONDS = 0.5


class RecordingLine:
    """Shows the progress of a video in one line, which it overwrites; `live` is None where there is no terminal."""

    def __init__(self, live: Live | None):
        self._live = live
        self._begin = self._told = time.perf_counter()

    def update(self, video: VideoWriter, player: Player) -> None:
        """Shows the progress, at most every INTERVAL_SECONDS."""
        now = time.perf_counter()
        if self._live is None or now - self._told < INTERVAL_SECONDS:
            return
        self._told = now
        seconds, speed = video.frames / float(video.fps), video.frames / (now - self._begin)
        left = int(player.remaining.sum())
        line = f"{seconds:.0f} s recorded, {speed:.0f} frames a second, {left} episode{'s' * (left != 1)} to end"
        self._live.update(line, refresh=True)

    def clear(self) -> None:
        """Removes the line."""
        if self._live is not None:
            self._live.update("", refresh=True)


@contextmanager
def recording_line() -> Iterator[RecordingLine]:
    """Yields a line on stderr, and removes it afterwards."""
    output = Output(sys.stderr)
    if not output.isatty():
        yield RecordingLine(None)
        return
    with Live("", console=Console(file=output), transient=True, auto_refresh=False) as live:
        yield RecordingLine(live)
