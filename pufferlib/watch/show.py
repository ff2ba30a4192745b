"""The loop that shows a play: in a window, as a video, or both at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from pufferlib.ocean.screen import Screen, open_window, raylib
from pufferlib.runs.stopping import StopRequest
from pufferlib.watch.brush import Brush
from pufferlib.watch.controls import Command, Controls
from pufferlib.watch.keyboard import keyboard_for
from pufferlib.watch.overlay import Overlay
from pufferlib.watch.person import Person
from pufferlib.watch.playback import PATIENCE_SECONDS, Mode, Playback
from pufferlib.watch.scene import Scene
from pufferlib.watch.side_panel import SidePanel
from pufferlib.watch.stage import LIMIT, Stage
from pufferlib.watch.video import VideoWriter
from pufferlib.watch.watched_play import WatchedPlay

SLOWEST_PICTURES = 4.0
"""Pictures of a window a second at the least, as keys are read with each."""


@dataclass(frozen=True)
class Manner:
    """How a play is shown.

    Attributes:
        frame_rate: tells how many pictures a second the window and the video have, above 0, for what is to be drawn.
        is_seen: in a window; else there must be a video.
        video: the file to write, None for none.
        name: what pictures that the person asks for are called.
        has_panel: whether the panel is there at the beginning.
        speed: seconds of the game in one second, of the video where there is one.
    """

    frame_rate: Callable[[Scene], float]
    is_seen: bool
    video: Path | None
    name: str = ""
    has_panel: bool = False
    speed: float = 1.0


class Show:
    """Shows a play until it is over, or until the person has seen enough.

    A window follows the clock: a picture that comes late leaves others out and no game time. A video follows its
    frames: number k shows game time k / fps. Both at once follow the frames, as fast as the speed says.

    Attributes:
        video: what was recorded; None where nothing is, or not yet.
        is_left: whether the person closed the window.
    """

    def __init__(self, play: WatchedPlay, manner: Manner, on_frame: Callable[[VideoWriter], None] = lambda video: None):
        """Shows nothing yet.

        Args:
            play: of which no step is made.
            manner: how to show it.
            on_frame: is told of every frame of the video.
        """
        self.video: VideoWriter | None = None
        self.is_left = False
        self._play = play
        self._manner = manner
        self._is_seen = manner.is_seen
        self._on_frame = on_frame
        self._panel = SidePanel(action_names(play.player.vecenv.driver_env))
        self._has_panel = manner.has_panel
        self._overlay = Overlay()
        self._wants_picture = False

    def run(self) -> None:
        """Shows everything.

        SIGINT, as by Ctrl-C, SIGTERM and SIGHUP end it after the picture that is being drawn.

        Raises:
            KeyboardInterrupt: if a signal ended it; the video is whole then.
            APIUsageError: if the environment cannot be drawn.
            StorageError: if the video cannot be written.
        """
        self._play.step()  # from here on it is known what there is to draw
        scene = self._play.places[0].scene
        path = self._manner.video
        self._fps = self._manner.frame_rate(scene)
        self._playback = Playback(scene.steps_per_second, None if path is None else self._fps, self._manner.speed)
        try:
            self._open(scene.size, scene.title)
            with (
                StopRequest() as stop,
                nullcontext() if path is None else VideoWriter(path, self._stage.size, self._fps) as video,
            ):
                self.video = video
                self._loop(stop)
        finally:
            self._play.close()
            self._close()
        if stop.requested:
            raise KeyboardInterrupt

    # ------------------------------------------------------------------------------------------------- the screen

    def _open(self, picture: tuple[int, int], title: str) -> None:
        panel = self._panel if self._has_panel else None

        def lay_out(limit: tuple[int, int]) -> tuple[int, int]:
            self._stage = Stage(picture, self._play.side_by_side, panel, limit)
            return self._stage.size

        if self._is_seen:
            self._screen = open_window(lay_out, title, LIMIT)
        else:
            self._screen = Screen(*lay_out(LIMIT), title, is_visible=False)
        self._brush = Brush(self._screen)
        if self._is_seen:
            self._controls = Controls(raylib())
            self._person = Person(keyboard_for(self._play.player.vecenv.driver_env), self._controls, raylib())
            self._play.override = self._person.action

    def _close(self) -> None:
        self._play.override = lambda: None
        if hasattr(self, "_screen"):
            self._screen.close()

    def _toggle_panel(self) -> None:
        # Another size needs another window: raylib's software renderer does not survive a window that changes its own.
        if self.video is not None:
            self._overlay.say("the panel stays as it is while a video is recorded")
            return
        self._has_panel = not self._has_panel
        scene = self._play.places[0].scene
        self._close()
        self._open(scene.size, scene.title)

    # --------------------------------------------------------------------------------------------------- the loop

    def _loop(self, stop: StopRequest) -> None:
        before = self._due = time.perf_counter()
        has_moved = True
        while not (self._playback.is_over or stop.requested):
            self._catch_up()
            self._draw(has_moved)
            if self._is_seen:
                self._wait()
                if self._screen.is_closing():
                    self.is_left = True
                    return
                for command in self._controls.commands():
                    self._obey(command)
            now = time.perf_counter()
            has_moved = self._advance(now - before)
            before = now

    def _catch_up(self) -> None:
        begin = time.perf_counter()
        while self._play.steps < self._playback.steps_due:
            if not self._play.step():
                self._playback.end_at(self._play.steps)
            elif not self._playback.is_recorded and time.perf_counter() - begin > PATIENCE_SECONDS:
                self._playback.fall_back(self._play.steps)

    def _draw(self, has_moved: bool) -> None:
        self._screen.begin()
        self._stage.draw(self._brush, self._play.places, self._play.thoughts, self._playback.progress)
        if self._wants_picture:
            self._save_picture(self._screen.frame())
        if self.video is not None and has_moved:
            self.video.add(self._screen.frame())
            self._on_frame(self.video)
        if self._is_seen:
            self._overlay.draw(self._brush, self._stage.width, self._badge())
        self._screen.end()

    def _wait(self) -> None:
        pictures = self._fps * (self._playback.speed if self._playback.is_recorded else 1.0)
        self._due += 1 / max(pictures, SLOWEST_PICTURES)
        now = time.perf_counter()
        if self._due > now:
            time.sleep(self._due - now)
        else:
            self._due = now

    def _advance(self, seconds: float) -> bool:
        self._overlay.advance(seconds)
        if self._is_seen and self._person.is_at_a_loss:
            self._overlay.say("nobody said which keys play this")
        if self._is_seen and self._person.is_waited_for:
            return False
        return self._playback.advance(seconds)

    # ------------------------------------------------------------------------------------------------- the person

    def _obey(self, command: Command) -> None:
        playback, overlay = self._playback, self._overlay
        if command is Command.PAUSE:
            playback.toggle_pause()
        elif command is Command.STEP:
            playback.step()
        elif command in (Command.FASTER, Command.SLOWER, Command.NORMAL_SPEED):
            self._change_speed(command)
        elif command is Command.RESTART:
            self._play.restart()
            playback.restart()
            overlay.say("from the beginning")
        elif command is Command.PANEL:
            self._toggle_panel()
        elif command is Command.HELP:
            overlay.is_helping = not overlay.is_helping
        elif command is Command.SCREENSHOT:
            self._wants_picture = True

    def _change_speed(self, command: Command) -> None:
        if command is Command.NORMAL_SPEED:
            self._playback.speed = 1.0
            self._overlay.say("1x")
        elif command is Command.FASTER:
            self._playback.hurry()
        else:
            self._playback.slow_down()

    def _badge(self) -> str:
        parts = [f"{Fraction(self._playback.speed)}x"] if self._playback.speed != 1 else []
        parts += ["you play"] if self._person.is_playing else []
        parts += ["paused"] if self._playback.mode is Mode.PAUSED else []
        return " · ".join(parts)

    def _save_picture(self, frame: np.ndarray) -> None:
        self._wants_picture = False
        path = next(
            path for number in range(1, 10**6) if not (path := Path(f"{self._manner.name}_{number}.png")).exists()
        )
        try:
            Image.fromarray(frame).save(path)
        except OSError as error:
            self._overlay.say(f"{path} cannot be written ({error.strerror or error})")
        else:
            self._overlay.say(f"saved {path}")


def action_names(env: object) -> list[str]:
    """What the choices of an environment are called, as far as its keys say; numbers for the others."""
    keys = getattr(env, "keys", None)
    if keys is None:
        return []
    numbers = {action: name for name, action in keys.actions.items() if isinstance(action, int)}
    if isinstance(keys.idle, int):
        numbers.setdefault(keys.idle, "none")
    return [numbers.get(index, str(index)) for index in range(max(numbers, default=-1) + 1)]
