"""A play step by step, and the loop that shows it: in a window, as a video, or both at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from pufferlib.config.flags import EvalOptions
from pufferlib.ocean.screen import CYAN, WHITE, Screen, open_window, raylib
from pufferlib.play.matches import sheet_for
from pufferlib.play.player import Decision, Player
from pufferlib.runs.stopping import StopRequest
from pufferlib.watch import stage
from pufferlib.watch.controls import OTHER_KEYS, PATIENCE_SECONDS, KeyState, Playback, ViewerCommand, keyboard_for
from pufferlib.watch.scene import make_scene
from pufferlib.watch.video import VideoWriter

# Pictures of a window a second, as keys are read with each.
LEAST_PICTURES = 30.0  # where `--fps` does not say
SLOWEST_PICTURES = 4.0


class WatchedPlay:
    """Plays step by step, when asked to, and keeps a scene for each environment that plays."""

    def __init__(self, player: Player, quotas: np.ndarray, max_steps: int, seed: int, side_by_side: int):
        self.player = player  # of the policy; it knows how many episodes remain
        self.side_by_side = side_by_side  # places at the most
        self._begin = partial(player.play, quotas, max_steps, seed, side_by_side, self._decide)
        self._own: np.ndarray | None = None  # a person's action for the first place, a row
        self.places: list[stage.Place] = []  # of the picture, in order; filled by the first step
        self.restart()

    def restart(self) -> None:
        """Starts the same play over, with empty scores."""
        self.close()
        self.traces: deque[stage.PolicyTrace] = deque(maxlen=stage.MAX_TRACES)  # of the first agent of the first place
        self.steps = 0  # made so far
        self.is_helped = False  # whether a person took part
        self.sheet = sheet_for(self.player)  # of the episodes that ended
        self._play = self._begin()

    def step(self, own: np.ndarray | None = None) -> bool:
        """Steps every environment that plays, the first by a person's `own` action, a row; returns whether one did."""
        self._own = own
        ended = next(self._play, None)
        if ended is None:
            return False
        self.steps += 1
        self.sheet.add(ended)
        return True

    def close(self) -> None:
        """Closes the scenes; the environments stay open."""
        for place in self.places:
            place.scene.close()
        self.places = []

    def _decide(self, decision: Decision) -> np.ndarray:
        self._seat(decision.rows)
        for place in self.places:
            if place.is_playing:
                place.scene.remember()
        actions, row = decision.actions, self.places[0].rows.start
        if self._own is not None and self.places[0].is_playing:
            self.is_helped = True
            actions = actions.copy()
            actions[self.places[0].rows] = self._own
        self.traces.append(stage.trace_of(decision, actions, row, self.player.lengths[row] == 0))
        return actions

    def _seat(self, playing: Sequence[slice]) -> None:
        for place in self.places:
            place.is_playing = place.rows in playing
        seated = [place.rows for place in self.places]
        for rows in (each for each in playing if each not in seated):
            scene = make_scene(self.player.vecenv.envs[rows.start // self.player.vecenv.agents_per_env])
            free = next((place for place in self.places if not place.is_playing), None)
            if free is None:
                self.places.append(stage.Place(rows, scene))
            else:
                free.scene.close()
                free.rows, free.scene, free.is_playing = rows, scene, True


NOTICE_SECONDS = 2.0


def _draw_label(screen: Screen, text: str, color: stage.Color, middle_of: float | None = None) -> None:
    # At the bottom, at the left or in the middle of a width.
    width, height = screen.text_width(text, stage.SMALL) + 20, 26
    left = 12 if middle_of is None else (middle_of - width) / 2
    top = screen.size[1] - height - 12
    screen.rectangle(left, top, width, height, stage.VEIL)
    screen.text(text, left + 10, top + (height - stage.SMALL) / 2, stage.SMALL, color)


class Show:
    """Shows a play until it is over, or until the person closes the window.

    A window follows the clock: a picture that comes late leaves others out and no game time. A video follows its
    frames: number k shows game time k / fps. Both at once follow the frames.
    """

    def __init__(self, play: WatchedPlay, options: EvalOptions, in_window: bool, name: str = ""):
        """Opens nothing yet; without a window there is a video. The name is of screenshots."""
        self.video: VideoWriter | None = None
        self.is_left = False  # whether the person closed the window
        self._play, self._options, self._in_window, self._name = play, options, in_window, name
        vecenv = play.player.vecenv
        self._panel = stage.SidePanel(vecenv.single_action_space, action_names(vecenv.driver_env))
        self._keyboard = keyboard_for(vecenv.driver_env)  # None where the meaning of keys is not known
        self._own_last: np.ndarray | None = None  # the person's last action
        self._has_panel = options.panel
        self._wants_picture = self._is_helping = False
        self._say("F1 lists the keys")

    def run(self) -> None:
        """Shows everything; raises KeyboardInterrupt if a signal such as SIGINT ended it, with a whole video."""
        self._play.step()  # from here on it is known what there is to draw
        scene = self._play.places[0].scene
        path, natural = self._options.video, scene.frames_per_second
        self._fps = self._options.fps or (max(natural, LEAST_PICTURES) if path is None else natural)
        self._playback = Playback(scene.steps_per_second, self._options.speed)
        with ExitStack() as undo:
            undo.callback(self._play.close)
            self._open()
            undo.callback(lambda: self._screen.close())  # another one once the panel was toggled
            stop = undo.enter_context(StopRequest())
            if path is not None:
                self.video = undo.enter_context(VideoWriter(Path(path), self._stage.size, self._fps))
            self._loop(stop)
        if stop.requested:
            raise KeyboardInterrupt

    def _open(self) -> None:
        scene, panel = self._play.places[0].scene, self._panel if self._has_panel else None

        def lay_out(limit: tuple[int, int]) -> tuple[int, int]:
            self._stage = stage.Stage(scene.size, self._play.side_by_side, panel, limit)
            return self._stage.size

        if not self._in_window:
            self._screen = Screen(*lay_out(stage.LIMIT), scene.title, is_visible=False)
        else:
            self._screen = open_window(lay_out, scene.title, stage.LIMIT)
            self._keys = KeyState(self._keyboard, raylib())

    def _toggle_panel(self) -> None:
        # Another size needs another window: raylib's software renderer does not survive a window that changes its own.
        if self.video is not None:
            self._say("the panel stays as it is while a video is recorded")
            return
        self._has_panel = not self._has_panel
        self._screen.close()
        self._open()

    def _loop(self, stop: StopRequest) -> None:
        before = due = time.perf_counter()
        has_moved = True
        while not (self._playback.is_over or stop.requested):
            self._catch_up()
            self._draw(has_moved)
            if self._in_window:
                due = max(due + 1 / max(self._fps, SLOWEST_PICTURES), time.perf_counter())
                time.sleep(max(0.0, due - time.perf_counter()))
                if self._screen.is_closing():
                    self.is_left = True
                    return
                self._keys.poll()
                for command in self._keys.commands:
                    self._obey(command)
            now = time.perf_counter()
            has_moved = self._advance(now - before)
            before = now

    def _catch_up(self) -> None:
        begin = time.perf_counter()
        while self._play.steps < self._playback.steps_due:
            if not self._play.step(self._own_action()):
                self._playback.end = self._play.steps
            elif self.video is None and time.perf_counter() - begin > PATIENCE_SECONDS:
                self._playback.fall_back(self._play.steps)

    def _draw(self, has_moved: bool) -> None:
        self._screen.begin()
        self._stage.draw(self._screen, self._play.places, self._play.traces, self._playback.progress)
        if self._wants_picture:
            self._save_picture(self._screen.frame())
        if self.video is not None and has_moved:
            self.video.add(self._screen.frame())
        if self._in_window:
            self._draw_overlay()
        self._screen.end()

    def _say(self, notice: str) -> None:
        self._notice, self._notice_end = notice, time.perf_counter() + NOTICE_SECONDS

    def _draw_overlay(self) -> None:
        badge = self._badge()
        if badge:
            _draw_label(self._screen, badge, CYAN)
        if time.perf_counter() < self._notice_end:
            _draw_label(self._screen, self._notice, WHITE, self._stage.width)
        if self._is_helping:
            keys = [(command.value[0], command.value[1]) for command in ViewerCommand]
            stage.draw_sign(self._screen, [stage.hint(f"{key}: {effect}") for key, effect in (*keys, *OTHER_KEYS)])

    def _advance(self, seconds: float) -> bool:
        if self._is_playing and self._keyboard.waits and not self._keys.held:
            return False  # the game stands until the person moves
        return self._playback.advance(seconds if self.video is None else 1 / self._fps)

    @property
    def _is_playing(self) -> bool:
        return self._in_window and self._keyboard is not None and self._keys.is_shift_held

    def _own_action(self) -> np.ndarray | None:
        self._own_last = self._keyboard.action(self._keys.held, self._own_last) if self._is_playing else None
        return self._own_last

    def _obey(self, command: ViewerCommand) -> None:
        playback = self._playback
        match command:
            case ViewerCommand.PAUSE:
                playback.toggle_pause()
            case ViewerCommand.STEP:
                playback.step()
            case ViewerCommand.FASTER | ViewerCommand.SLOWER | ViewerCommand.NORMAL_SPEED if self.video is not None:
                self._say("the speed stays as it is while a video is recorded")
            case ViewerCommand.FASTER:
                playback.change_speed(2)
            case ViewerCommand.SLOWER:
                playback.change_speed(1 / 2)
            case ViewerCommand.NORMAL_SPEED:
                playback.speed = 1.0
                self._say("1x")
            case ViewerCommand.RESTART:
                self._play.restart()
                playback.restart()
                self._say("from the beginning")
            case ViewerCommand.PANEL:
                self._toggle_panel()
            case ViewerCommand.HELP:
                self._is_helping = not self._is_helping
            case ViewerCommand.SCREENSHOT:
                self._wants_picture = True

    def _badge(self) -> str:
        parts = [f"{Fraction(self._playback.speed)}x"] if self._playback.speed != 1 else []
        parts += ["you play"] if self._is_playing else []
        parts += ["paused"] if self._playback.is_paused else []
        return " · ".join(parts)

    def _save_picture(self, frame: np.ndarray) -> None:
        self._wants_picture = False
        path = next(path for number in range(1, 10**6) if not (path := Path(f"{self._name}_{number}.png")).exists())
        try:
            Image.fromarray(frame).save(path)
        except OSError as error:
            self._say(f"{path} cannot be written ({error.strerror or error})")
        else:
            self._say(f"saved {path}")


def action_names(env: object) -> dict[int, str]:
    """Returns the names that some discrete actions have by the environment's keys."""
    keys = getattr(env, "keys", None)
    if keys is None:
        return {}
    idle = {keys.idle: "none"} if isinstance(keys.idle, int) else {}
    return idle | {action: name for name, action in keys.actions.items() if isinstance(action, int)}
