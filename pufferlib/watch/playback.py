"""Game time, which a person can stop, slow down and speed up."""

from __future__ import annotations

import enum
import math

SLOWEST, FASTEST = 1 / 8, 64.0
PATIENCE_SECONDS = 0.1  # for which steps may hold up the next picture of a window: what they then lack goes slower
HOLD_SECONDS = 0.5  # of the person's time, for which the last moment stays


class Mode(enum.Enum):
    """The state of game time."""

    RUNNING = "runs"
    PAUSED = "stands"
    STEPPING = "runs to the end of a step, and stands from then on"


class Playback:
    """Turns the time that passes into steps that are due, and into how much of the last one is to be seen.

    A step is made when its motion begins, so that what is between it and the one before can be shown: at `position`
    2.25 three steps have been made, and a quarter of the third is over.

    Attributes:
        steps_per_second: the agent's steps in a second of game time.
        speed: seconds of game time in one second, SLOWEST to FASTEST; where a video is recorded, how fast that is done.
        mode: the state of game time.
        seconds: of game time since the beginning.
    """

    def __init__(self, steps_per_second: float, frames_per_second: float | None = None, speed: float = 1.0):
        """Begins at 0, running.

        Args:
            steps_per_second: see the class.
            frames_per_second: of a video that is recorded; None where time flows freely. Recorded game time goes from
                frame to frame, and only stands after whole frames.
            speed: seconds of game time in one second, of the video where one is recorded.
        """
        self.steps_per_second = steps_per_second
        self.speed = speed if frames_per_second is None else 1.0
        self._lapse = speed
        self.mode = Mode.RUNNING
        self.seconds = 0.0
        self._frames_per_second = frames_per_second
        self._frames = 0  # that passed since the beginning
        self._stop: int | None = None  # the position that STEPPING leads to
        self._end: int | None = None

    @property
    def position(self) -> float:
        """Steps that have been shown, the last one maybe in part."""
        position = round(self.seconds * self.steps_per_second, 6)  # what is a whole step is one, whatever the rounding
        return position if self._end is None else min(position, float(self._end))

    @property
    def steps_due(self) -> int:
        """Steps that have to be made for the present position, at least 1: the first moment is where that begins."""
        return max(1, math.ceil(self.position))

    @property
    def progress(self) -> float:
        """The part of the last due step that is over, 0 to 1."""
        return self.position - (self.steps_due - 1)

    @property
    def is_over(self) -> bool:
        """Whether all steps that there are were shown, and the last moment long enough."""
        if self._end is None:
            return False
        hold = HOLD_SECONDS * (self._lapse if self.is_recorded else self.speed)
        return round(self.seconds - self._end / self.steps_per_second - hold, 6) >= 0

    @property
    def is_recorded(self) -> bool:
        """Whether game time goes from frame to frame of a video."""
        return self._frames_per_second is not None

    def advance(self, seconds: float) -> bool:
        """Advances the time."""
        if self.mode is Mode.PAUSED:
            return False
        if self._frames_per_second is None:
            self.seconds += seconds * self.speed
        else:
            self._frames += 1
            self.seconds = self._frames * self._lapse / self._frames_per_second
        if self.mode is Mode.STEPPING and self.position >= self._stop:
            self.mode = Mode.PAUSED
            if not self.is_recorded:
                self.seconds = self._stop / self.steps_per_second
        return True

    def toggle_pause(self) -> None:
        """Stops, or continues."""
        self.mode = Mode.PAUSED if self.mode is Mode.RUNNING else Mode.RUNNING

    def step(self) -> None:
        """Plays to the end of the step that is shown, or of the next one, and stops there; several calls add up."""
        begin = self._stop if self.mode is Mode.STEPPING else math.floor(self.position)
        self._stop = begin + 1
        self.mode = Mode.STEPPING

    def hurry(self) -> None:
        """Doubles the speed, up to the fastest."""
        self.speed = min(2 * self.speed, FASTEST)

    def slow_down(self) -> None:
        """Halves the speed, down to the slowest."""
        self.speed = max(self.speed / 2, SLOWEST)

    def end_at(self, steps: int) -> None:
        """Sets the number of steps that can be made."""
        self._end = steps

    def fall_back(self, steps: int) -> None:
        """Moves time back to the steps that could be made in it."""
        self.seconds = min(self.seconds, steps / self.steps_per_second)

    def restart(self) -> None:
        """Goes back to the first moment, running, at the speed that it has."""
        self.mode = Mode.RUNNING
        self.seconds = 0.0
        self._frames = 0
        self._stop = self._end = None
