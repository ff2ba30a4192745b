"""`puffer play`: a person plays, in a window."""

from __future__ import annotations

import enum
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, DisplayError, StorageError
from pufferlib.families import catalog
from pufferlib.families.entry import Entry
from pufferlib.metrics.output import printable
from pufferlib.ocean.screen import Screen, display_trouble, has_display, open_window, raylib
from pufferlib.watch import play_signs
from pufferlib.watch.array_scene import array_settings
from pufferlib.watch.game import Game
from pufferlib.watch.hands import Hands
from pufferlib.watch.high_scores import HighScores, shown_score
from pufferlib.watch.keyboard import Keyboard, keyboard_for
from pufferlib.watch.playback import PATIENCE_SECONDS, Mode, Playback
from pufferlib.watch.scene import FRAMES_PER_SECOND, Scene
from pufferlib.watch.scenes import make_scene

COUNTDOWN_SECONDS = 1.8  # three numbers
ALMOST_OVER = 0.999
"""How much of the last step is shown: when all of it is over, the environment shows the next episode."""

LIMIT = (1600, 960)
"""Pixels that a window may cover."""


class Phase(enum.Enum):
    """Where a game is; the value is what the bar says of it."""

    READY = "press any key"
    COUNTDOWN = "get ready"
    PLAYING = ""
    PAUSED = "paused"
    OVER = "game over"


class Match:
    """A person's games in one window, one after another.

    Attributes:
        phase: where the running game is.
        finished: scores of the games that were played to their end.
        trouble: why a score could not be kept; empty where nothing happened.
    """

    def __init__(self, game: Game, make_scene: Callable[[], Scene], scores: HighScores, speed: float):
        """Shows nothing yet.

        Args:
            game: to play.
            make_scene: makes a scene of its environment, for every game a new one: it may remember how the last ended.
            scores: of the games before, which those of this match are added to.
            speed: seconds of the game in one second.
        """
        self.phase = Phase.READY
        self.finished: list[float] = []
        self.trouble = ""
        self._game = game
        self._make_scene = make_scene
        self._scene = make_scene()
        self._scores = scores
        self._best = scores.best()
        self._place: int | None = None
        self._playback = Playback(self._scene.steps_per_second)
        self._playback.speed = speed
        self._countdown = 0.0
        self._turns: deque[set[str]] = deque()  # pressed together and not played yet, where the game waits for keys
        self.lay_out(LIMIT)

    def lay_out(self, limit: tuple[int, int]) -> tuple[int, int]:
        """Has the picture fit a width and a height, in pixels, by its proportions; returns the window's size."""
        width, height = self._scene.size
        self._scale = min(1.0, limit[0] / width, (limit[1] - play_signs.BAR_HEIGHT) / height)
        picture = (round(width * self._scale), round(height * self._scale))
        self.size = (max(picture[0], play_signs.MIN_WIDTH), picture[1] + play_signs.BAR_HEIGHT)
        self._left = (self.size[0] - picture[0]) / 2
        return self.size

    @property
    def title(self) -> str:
        """What is played, for a window."""
        return self._scene.title

    def close(self) -> None:
        """Lets go of what drawing needs."""
        self._scene.close()

    # ------------------------------------------------------------------------------------------------------- the time

    def advance(self, seconds: float, hands: Hands) -> None:
        """Lets time pass, and does what the keys ask for that were pressed in it."""
        for name in hands.pressed:
            self._obey(name, hands.held)
        if self.phase is Phase.COUNTDOWN:
            self._countdown -= seconds
            if self._countdown <= 0:
                self.phase = Phase.PLAYING
        elif self.phase is Phase.PLAYING:
            self._playback.advance(seconds)
            self._catch_up(hands)
            if self._playback.is_over:
                self._finish()

    def _catch_up(self, hands: Hands) -> None:
        begin, waits = time.perf_counter(), self._game.keyboard.waits
        while self._game.steps < self._playback.steps_due and not self._game.is_over:
            if waits and not self._turns:
                return
            self._scene.remember()
            self._game.step(self._turns.popleft() if waits else hands.take())
            if self._game.is_over:
                self._playback.end_at(self._game.steps)
                self._playback.mode = Mode.RUNNING  # to the end of the last step, and a moment longer
            elif time.perf_counter() - begin > PATIENCE_SECONDS:
                self._playback.fall_back(self._game.steps)

    def _finish(self) -> None:
        self.phase = Phase.OVER
        self.finished.append(self._game.score)
        try:
            self._place = self._scores.add(self._game.score)
        except StorageError as error:
            self._place, self.trouble = None, str(error)
        self._best = self._scores.best()

    # -------------------------------------------------------------------------------------------------------- the keys

    def _obey(self, name: str, held: set[str]) -> None:
        keyboard, is_paused = self._game.keyboard, self.phase is Phase.PAUSED
        if self.phase is Phase.READY:
            self._begin()
        elif name in ("r", "f5") and name not in keyboard.names:
            self._restart()
        elif self.phase is Phase.OVER:
            if name in ("enter", "space"):
                self._restart()
        elif is_paused or (name in ("p", "pause") and name not in keyboard.names and not keyboard.waits):
            if is_paused or self.phase is Phase.PLAYING:
                self.phase = Phase.PLAYING if is_paused else Phase.PAUSED
        elif self.phase is Phase.PLAYING and keyboard.waits:
            self._plan_turn({name} if keyboard.action({name}) is not None else {name, *held})

    def _plan_turn(self, keys: set[str]) -> None:
        if self._game.keyboard.action(keys) is not None:
            self._turns.append(keys)
            self._playback.step()

    def _restart(self) -> None:
        self._game.begin()
        self._scene.close()
        self._scene = self._make_scene()
        self._begin()

    def _begin(self) -> None:
        self._turns.clear()
        self._place = None
        self._playback.restart()
        if self._game.keyboard.waits:
            self._playback.mode = Mode.PAUSED  # but for the step of each key
            self.phase = Phase.PLAYING
        else:
            self.phase, self._countdown = Phase.COUNTDOWN, COUNTDOWN_SECONDS

    # ----------------------------------------------------------------------------------------------------- the picture

    def draw(self, screen: Screen) -> None:
        """Draws everything, between `begin` and `end` of a screen of this size."""
        progress = min(self._playback.progress, ALMOST_OVER) if self._game.is_over else self._playback.progress
        self._scene.draw(self._left, play_signs.BAR_HEIGHT, self._scale, progress)
        best = self._best[0].score if self._best else None
        play_signs.draw_bar(screen, self._game.score, best, self.phase.value)
        if self.phase is Phase.READY:
            play_signs.draw_sign(screen, self._welcome())
        elif self.phase is Phase.COUNTDOWN:
            play_signs.draw_number(screen, 1 + int(3 * self._countdown / COUNTDOWN_SECONDS))
        elif self.phase is Phase.PAUSED:
            play_signs.draw_sign(screen, [play_signs.title_line("paused"), play_signs.hint_line("any key goes on")])
        elif self.phase is Phase.OVER:
            play_signs.draw_sign(screen, self._result())

    def _welcome(self) -> list[play_signs.Line]:
        keyboard = self._game.keyboard
        keys = [(keyboard.told, "play")]
        if not keyboard.waits:
            keys.append(("P" if "p" not in keyboard.names else "pause", "pause"))
        keys += [("R" if "r" not in keyboard.names else "F5", "begin anew"), ("esc", "end")]
        lines = [play_signs.title_line(self._scene.title), *play_signs.keys_lines(keys)]
        return [*lines, play_signs.hint_line(Phase.READY.value)]

    def _result(self) -> list[play_signs.Line]:
        lines = [play_signs.title_line(f"score {shown_score(self._game.score)}")]
        if self._place == 1 and (self._game.score > 0 or len(self._best) > 1):
            lines.append(play_signs.Line(("a new high score",)))
        lines += play_signs.table_lines(self._best, self._place)
        return [*lines, play_signs.hint_line("enter plays again, esc ends")]


def run(match: Match, library: ModuleType, keyboard: Keyboard) -> None:
    """Opens the window and plays until the person closes it."""
    screen = open_window(match.lay_out, match.title, LIMIT)
    try:
        library.HideCursor()
        hands = Hands(keyboard, library)
        before = due = time.perf_counter()
        while not screen.is_closing():
            screen.begin()
            match.draw(screen)
            screen.end()
            due = max(due + 1 / FRAMES_PER_SECOND, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))
            hands.look()
            now = time.perf_counter()
            match.advance(now - before, hands)
            before = now
    finally:
        match.close()
        screen.close()


def play_command(env_name: str, args: Mapping[str, Any], speed: float = 1.0, seed: int | None = None) -> None:
    """`puffer play`: opens a window for a person to play in; prints the score of every game that was finished.

    Args:
        env_name: any name that `pufferlib.families.catalog.find` knows.
        args: settings from `load_config`.
        speed: seconds of the game in one second.
        seed: of the first game; None draws one.

    Raises:
        DisplayError: if there is no display to open a window on.
        APIUsageError: if nobody knows how to play the environment, or it cannot be drawn.
    """
    if not has_display():
        raise _without_display(env_name)
    entry = catalog.find(env_name)
    env = _make_environment(entry, args["env"])
    try:
        keyboard = keyboard_for(env)
        if keyboard is None:
            raise APIUsageError(f"{entry.name} cannot be played: {_why_unplayable(env)}")
        game = Game(env, keyboard, secrets.randbelow(2**31) if seed is None else seed)
        scores = HighScores(entry.name, _differences(entry, args["env"], speed))
        told = f"playing {entry.name} by {keyboard.told}; the best scores are kept in {scores.path}"
        print(printable(told), flush=True)
        match = Match(game, partial(make_scene, env), scores, speed)
        try:
            run(match, raylib(), keyboard)
        except DisplayError as error:
            raise _without_display(env_name) from error
    finally:
        env.close()
    _tell(match)


def _without_display(env_name: str) -> DisplayError:
    return DisplayError(
        f"puffer play needs a window, and {display_trouble()}; set DISPLAY to a screen, or watch an agent play by "
        f"`puffer eval {env_name} --video play.gif`"
    )


def _make_environment(entry: Entry, settings: Mapping[str, Any]) -> PufferEnv:
    alone = {"num_envs": 1, "report_interval": 1, "episodic_life": False, "clip_rewards": False}
    known = {name: value for name, value in alone.items() if name in entry.settings}
    return entry.creator(**{**settings, **known, **array_settings(entry)})


def _why_unplayable(env: PufferEnv) -> str:
    agents = env.num_agents // getattr(env, "num_envs", 1)
    if agents != 1:
        return f"it has {agents} agents that act at a time, and a person plays one that acts alone"
    return "nobody said which keys mean which action; an environment says it by its attribute `keys`"


def _differences(entry: Entry, settings: Mapping[str, Any], speed: float) -> dict[str, Any]:
    others = {"num_envs", "report_interval", "episodic_life", "clip_rewards", "render_mode"}
    different = {
        name: value
        for name, value in settings.items()
        if name not in others and (name not in entry.settings or value != entry.settings[name].default)
    }
    return different if speed == 1.0 else {**different, "--speed": speed}


def _tell(match: Match) -> None:
    for score in match.finished:
        print(f"score {shown_score(score)}")
    if not match.finished:
        print("no game was finished")
    if match.trouble:
        print(printable(match.trouble))
