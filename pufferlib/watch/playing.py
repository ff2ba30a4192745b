"""Episodes that a person plays: steps by the keys that are held, and the score."""

from __future__ import annotations

from collections.abc import Collection
import numpy as np
from pufferlib.environment import PufferEnv
from pufferlib.watch.keyboard import Keyboard
import enum
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any
from pufferlib.errors import APIUsageError, DisplayError, StorageError
from pufferlib.families.catalog import find
from pufferlib.dashboard.output import printable
from pufferlib.ocean.screen import Screen, display_trouble, has_display, open_window, raylib
from pufferlib.watch.scene import array_settings
from pufferlib.watch.keyboard import KeyState
from pufferlib.watch.high_scores import HighScores, shown_score
from pufferlib.watch.keyboard import keyboard_for
from pufferlib.watch.high_scores import (
    BAR_HEIGHT,
    MIN_WIDTH,
    SignLine,
    draw_bar,
    draw_number,
    draw_sign,
    hint_line,
    table_lines,
    title_line,
)
from pufferlib.watch.controls import PATIENCE_SECONDS, Mode, Playback
from pufferlib.watch.scene import FRAMES_PER_SECOND, Scene
from pufferlib.watch.scene import make_scene


class HumanEpisodes:
    """Plays one episode after another in an environment of one agent."""

    def __init__(self, env: PufferEnv, keyboard: Keyboard, seed: int):
        self.keyboard = keyboard
        self._env = env
        self._seed = seed
        self._action: np.ndarray | None = None
        env.reset(seed)
        self._clear()

    def begin(self) -> None:
        """Begins the next episode; one that has not ended is abandoned."""
        if self.is_over:
            self._env.reset()  # it has reset itself, but its arrays still tell of the end
        else:
            self._seed += 1
            self._env.reset(self._seed)
        self._clear()

    def step(self, held: Collection[str]) -> None:
        """Steps with the keys that are held; a game that waits makes no step while none of them means anything."""
        action = self.keyboard.action(held, self._action)
        if action is None:
            return
        self._action = action
        _, rewards, terminals, truncations, _ = self._env.step(action[None])
        self.score += float(rewards[0])
        self.steps += 1
        self.is_over = bool(terminals[0] or truncations[0])

    def _clear(self) -> None:
        self.score, self.steps, self.is_over = 0.0, 0, False
        self._action = None


COUNTDOWN_SECONDS = 1.8  # three numbers
ALMOST_OVER = 0.999  # of the last step: at its end, the environment shows the next episode
LIMIT = (1600, 960)  # pixels that a window may cover


class GamePhase(enum.Enum):
    """Where a game is; the value is the text in the bar."""

    READY = "press any key"
    COUNTDOWN = "get ready"
    PLAYING = ""
    PAUSED = "paused"
    OVER = "game over"


class Game:
    """Shows a person's episodes in one window, one after another.

    Attributes:
        phase: of the running episode.
        finished: scores of the episodes that were played to their end.
        trouble: why a score could not be kept; empty if nothing happened.
    """

    def __init__(
        self, episodes: HumanEpisodes, make_scene: Callable[[], Scene], high_scores: HighScores, speed: float = 1.0
    ):
        self.phase = GamePhase.READY
        self.finished: list[float] = []
        self.trouble = ""
        self._episodes = episodes
        self._keyboard = episodes.keyboard
        self._make_scene = make_scene
        self._scene = make_scene()
        self._high_scores = high_scores
        self._best = high_scores.best()
        self._place: int | None = None
        self._playback = Playback(self._scene.steps_per_second)
        self._playback.speed = speed
        self._countdown = 0.0
        self._turns: deque[set[str]] = deque()  # keys of turns that are not played yet, where the game waits for keys
        self.lay_out(LIMIT)

    def lay_out(self, limit: tuple[int, int]) -> tuple[int, int]:
        """Fits the picture into a width and a height, in pixels, by its proportions; returns the window's size."""
        width, height = self._scene.size
        self._scale = min(1.0, limit[0] / width, (limit[1] - BAR_HEIGHT) / height)
        picture = (round(width * self._scale), round(height * self._scale))
        self.size = (max(picture[0], MIN_WIDTH), picture[1] + BAR_HEIGHT)
        self._left = (self.size[0] - picture[0]) / 2
        return self.size

    def run(self, library: ModuleType) -> None:
        """Opens the window and plays until the person closes it; `library` is raylib."""
        screen = open_window(self.lay_out, self._scene.title, LIMIT)
        try:
            library.HideCursor()
            keys = KeyState(self._keyboard, library)
            before = due = time.perf_counter()
            while not screen.is_closing():
                screen.begin()
                self.draw(screen)
                screen.end()
                due = max(due + 1 / FRAMES_PER_SECOND, time.perf_counter())
                time.sleep(max(0.0, due - time.perf_counter()))
                keys.poll()
                now = time.perf_counter()
                self.advance(now - before, keys)
                before = now
        finally:
            self._scene.close()
            screen.close()

    def advance(self, seconds: float, keys: KeyState) -> None:
        """Obeys the keys that were pressed, then plays for some time."""
        for name in keys.pressed:
            self._obey(name, keys.held)
        if self.phase is GamePhase.COUNTDOWN:
            self._countdown -= seconds
            if self._countdown <= 0:
                self.phase = GamePhase.PLAYING
        elif self.phase is GamePhase.PLAYING:
            self._playback.advance(seconds)
            self._make_due_steps(keys)
            if self._playback.is_over:
                self._finish()

    def _make_due_steps(self, keys: KeyState) -> None:
        begin, episodes = time.perf_counter(), self._episodes
        while episodes.steps < self._playback.steps_due and not episodes.is_over:
            if self._keyboard.waits and not self._turns:
                return
            self._scene.remember()
            episodes.step(self._turns.popleft() if self._keyboard.waits else keys.take())
            if episodes.is_over:
                self._playback.end_at(episodes.steps)
                self._playback.mode = Mode.RUNNING  # to the end of the last step, and a moment longer
            elif time.perf_counter() - begin > PATIENCE_SECONDS:
                self._playback.fall_back(episodes.steps)

    def _finish(self) -> None:
        self.phase = GamePhase.OVER
        self.finished.append(self._episodes.score)
        try:
            self._place = self._high_scores.add(self._episodes.score)
        except StorageError as error:
            self._place, self.trouble = None, str(error)
        self._best = self._high_scores.best()

    def _obey(self, name: str, held: set[str]) -> None:
        # Keys of the game mean something else only before and after an episode.
        keyboard, is_paused = self._keyboard, self.phase is GamePhase.PAUSED
        if self.phase is GamePhase.READY:
            self._begin()
        elif (name in ("r", "f5") and name not in keyboard.names) or (
            self.phase is GamePhase.OVER and name in ("enter", "space")
        ):
            self._episodes.begin()
            self._scene.close()
            self._scene = self._make_scene()
            self._begin()
        elif self.phase is GamePhase.OVER:
            return
        elif is_paused or (name in ("p", "pause") and name not in keyboard.names and not keyboard.waits):
            if is_paused or self.phase is GamePhase.PLAYING:
                self.phase = GamePhase.PLAYING if is_paused else GamePhase.PAUSED
        elif self.phase is GamePhase.PLAYING and keyboard.waits:
            turn = {name} if keyboard.action({name}) is not None else {name, *held}
            if keyboard.action(turn) is not None:
                self._turns.append(turn)
                self._playback.step()

    def _begin(self) -> None:
        self._turns.clear()
        self._place = None
        self._playback.restart()
        if self._keyboard.waits:
            self._playback.mode = Mode.PAUSED  # but for the step of each key
            self.phase = GamePhase.PLAYING
        else:
            self.phase, self._countdown = GamePhase.COUNTDOWN, COUNTDOWN_SECONDS

    def draw(self, screen: Screen) -> None:
        """Draws everything, between `begin` and `end` of a screen of this size."""
        is_over, progress = self._episodes.is_over, self._playback.progress
        self._scene.draw(self._left, BAR_HEIGHT, self._scale, min(progress, ALMOST_OVER) if is_over else progress)
        draw_bar(screen, self._episodes.score, self._best[0].score if self._best else None, self.phase.value)
        if self.phase is GamePhase.READY:
            draw_sign(screen, self._welcome())
        elif self.phase is GamePhase.COUNTDOWN:
            draw_number(screen, 1 + int(3 * self._countdown / COUNTDOWN_SECONDS))
        elif self.phase is GamePhase.PAUSED:
            draw_sign(screen, [title_line("paused"), hint_line("press any key to continue")])
        elif self.phase is GamePhase.OVER:
            draw_sign(screen, self._result())

    def _welcome(self) -> list[SignLine]:
        names = self._keyboard.names
        keys = [(self._keyboard.description, "play")]
        if not self._keyboard.waits:
            keys.append(("P" if "p" not in names else "pause", "pause"))
        keys += [("R" if "r" not in names else "F5", "start over"), ("esc", "end")]
        return [title_line(self._scene.title), *(hint_line(*pair) for pair in keys), hint_line(self.phase.value)]

    def _result(self) -> list[SignLine]:
        score = self._episodes.score
        is_record = self._place == 1 and (score > 0 or len(self._best) > 1)
        return [
            title_line(f"score {shown_score(score)}"),
            *([SignLine(("a new high score",))] if is_record else []),
            *table_lines(self._best, self._place),
            hint_line("enter plays again, esc ends"),
        ]


def play_command(env_name: str, args: Mapping[str, Any], speed: float = 1.0, seed: int | None = None) -> None:
    """`puffer play`: opens a window for a person to play in; prints the score of every game that was finished."""
    if not has_display():
        raise _no_display(env_name)
    entry = find(env_name)
    # One environment, of whole games with their true scores.
    alone = {"num_envs": 1, "report_interval": 1, "episodic_life": False, "clip_rewards": False}
    known = {name: value for name, value in alone.items() if name in entry.settings}
    env = entry.creator(**{**args["env"], **known, **array_settings(entry)})
    try:
        keyboard = keyboard_for(env)
        if keyboard is None:
            raise APIUsageError(f"{entry.name} cannot be played: {_why_unplayable(env)}")
        episodes = HumanEpisodes(env, keyboard, secrets.randbelow(2**31) if seed is None else seed)
        changed = {  # games with other settings do not compare
            name: value
            for name, value in args["env"].items()
            if name not in (*alone, "render_mode")
            and (name not in entry.settings or value != entry.settings[name].default)
        }
        high_scores = HighScores(entry.name, changed if speed == 1.0 else {**changed, "--speed": speed})
        described = f"playing {entry.name} by {keyboard.description}; the best scores are kept in {high_scores.path}"
        print(printable(described), flush=True)
        game = Game(episodes, partial(make_scene, env), high_scores, speed)
        try:
            game.run(raylib())
        except DisplayError as error:
            raise _no_display(env_name) from error
    finally:
        env.close()
    for score in game.finished:
        print(f"score {shown_score(score)}")
    if not game.finished:
        print("no game was finished")
    if game.trouble:
        print(printable(game.trouble))


def _no_display(env_name: str) -> DisplayError:
    return DisplayError(
        f"puffer play needs a window, and {display_trouble()}; set DISPLAY to a screen, or watch an agent play by "
        f"`puffer eval {env_name} --video play.gif`"
    )


def _why_unplayable(env: PufferEnv) -> str:
    agents = env.num_agents // getattr(env, "num_envs", 1)
    if agents != 1:
        return f"it has {agents} agents that act at a time, and a person plays one that acts alone"
    return "it does not say which keys mean which action; an environment says it by its attribute `keys`"
