"""The progress of a video, in a line on the terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from typing_extensions import Self

from pufferlib.metrics.output import Output
from pufferlib.play.player import Player
from pufferlib.watch.video import VideoWriter

INTERVAL_SECONDS = 0.5


class RecordingLine:
    """A line on stderr inside a `with` statement, where that is a terminal; gone afterwards."""

    def __enter__(self) -> Self:
        output = Output(sys.stderr)
        console = Console(file=output)
        self._live = Live("", console=console, transient=True, auto_refresh=False) if output.isatty() else None
        if self._live is not None:
            self._live.start()
        self._begin = self._shown = time.perf_counter()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, video: VideoWriter, player: Player) -> None:
        """Shows the progress, at most every INTERVAL_SECONDS."""
        now = time.perf_counter()
        if self._live is None or now - self._shown < INTERVAL_SECONDS:
            return
        self._shown = now
        seconds, speed = video.frames / float(video.fps), video.frames / (now - self._begin)
        left = int(player.remaining.sum())
        line = f"{seconds:.0f} s recorded, {speed:.0f} frames a second, {left} episode{'s' * (left != 1)} to end"
        self._live.update(line, refresh=True)

    def clear(self) -> None:
        """Removes the line, for other output."""
        if self._live is not None:
            self._live.update("", refresh=True)
