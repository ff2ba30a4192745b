"""A line on the terminal for those who wait for a video: how far it has come."""

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
    """Tells of a video, in one line that is written anew."""

    def __init__(self, live: Live | None):
        self._live = live
        self._begin = self._told = time.perf_counter()

    def tell(self, video: VideoWriter, player: Player) -> None:
        """Takes note of one more frame."""
        now = time.perf_counter()
        if self._live is None or now - self._told < INTERVAL_SECONDS:
            return
        self._told = now
        seconds, speed = video.frames / float(video.fps), video.frames / (now - self._begin)
        left = int(player.remaining.sum())
        line = f"{seconds:.0f} s recorded, {speed:.0f} frames a second, {left} episode{'s' * (left != 1)} to end"
        self._live.update(line, refresh=True)

    def clear(self) -> None:
        """Takes the line away, for what is printed next."""
        if self._live is not None:
            self._live.update("", refresh=True)


@contextmanager
def recording_line() -> Iterator[RecordingLine]:
    """A line on stderr that is gone afterwards; none where that is no terminal."""
    output = Output(sys.stderr)
    if not output.isatty():
        yield RecordingLine(None)
        return
    with Live("", console=Console(file=output), transient=True, auto_refresh=False) as live:
        yield RecordingLine(live)
