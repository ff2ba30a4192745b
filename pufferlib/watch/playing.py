"""`puffer play`: a person plays, and high scores are kept."""

from __future__ import annotations

import enum
import json
import math
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import platformdirs
import torch

from pufferlib.config.flags import PlayOptions
from pufferlib.dashboard.output import printable
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, DisplayError, StorageError
from pufferlib.families.catalog import find, slug
from pufferlib.ocean.screen import CYAN, PANEL, WHITE, Screen, display_trouble, has_display, open_window, raylib
from pufferlib.play.agent import Agent
from pufferlib.play.matches import BOT, against, load_member
from pufferlib.play.scores import array_settings
from pufferlib.runs.folder import write_atomically
from pufferlib.watch.controls import PATIENCE_SECONDS, Keyboard, KeyState, Playback, keyboard_for
from pufferlib.watch.scene import make_scene
from pufferlib.watch.stage import GREY, NORMAL, SMALL, SignLine, draw_sign, hint, title

KEPT = 5  # scores, all of which are shown


class HighScores:
    """The best scores of one environment with one choice of settings that are no defaults, the best first.

    An environment has one file for all its settings, in `high_scores` of the user's data folder of pufferlib. Each call
    reads it, as another window may write it too.
    """

    def __init__(self, env_name: str, settings: Mapping[str, Any]):
        folder = platformdirs.user_data_path("pufferlib", appauthor=False) / "high_scores"
        self.path = folder / f"{slug(env_name)}.json"
        self._settings = json.dumps(dict(settings), default=str, sort_keys=True)

    def best(self) -> list[float]:
        """Returns the scores of these settings, at most KEPT; StorageError if the file is damaged."""
        return self._read().get(self._settings, [])

    def add(self, score: float) -> int | None:
        """Notes a game, and returns its place: 1 for the best, behind older ones as good; None if it is not among them.

        StorageError if the file is damaged or cannot be written.
        """
        tables = self._read()
        scores = tables.setdefault(self._settings, [])
        place = sum(other >= score for other in scores)
        if not math.isfinite(score) or place >= KEPT:
            return None
        scores.insert(place, score)
        del scores[KEPT:]
        write_atomically(self.path, f"{json.dumps(tables, indent=1)}\n".encode())
        return place + 1

    def _read(self) -> dict[str, list[float]]:
        try:
            tables = json.loads(self.path.read_bytes())
            return {settings: sorted(map(float, scores), reverse=True)[:KEPT] for settings, scores in tables.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StorageError(f"{self.path} must hold high scores, found something else; remove it") from error


def shown_score(score: float) -> str:
    """Returns a score in a few characters: whole numbers without a point, others with two digits after it."""
    return f"{score:,.0f}" if float(score).is_integer() else f"{score:,.2f}"


FRAMES_PER_SECOND = 60.0  # of the window
BAR_HEIGHT = 44  # pixels
MIN_WIDTH = 520  # pixels of a window, so that the bar has room


def _draw_bar(screen: Screen, score: float, best: float | None, middle: str) -> None:
    width, _ = screen.size
    screen.rectangle(0, 0, width, BAR_HEIGHT, PANEL)
    y = (BAR_HEIGHT - NORMAL) / 2
    screen.text(f"score {shown_score(score)}", 16, y, NORMAL, WHITE)
    if best is not None:
        text = f"best {shown_score(best)}"
        screen.text(text, width - 16 - screen.text_width(text, NORMAL), y, NORMAL, CYAN)
    screen.text(middle, (width - screen.text_width(middle, SMALL)) / 2, y + 2, SMALL, GREY)


class HumanEpisodes:
    """Plays one episode after another; the score is the sum of the person's rewards.

    The environment has one agent, or agents who take turns: `side` is the person's, and the rival acts for the others.
    """

    def __init__(self, env: PufferEnv, keyboard: Keyboard, seed: int, side: int = 0, rival: Agent | None = None):
        self.env, self.keyboard = env, keyboard
        self._side, self._rival, self._seed = side, rival, seed
        self.begin()

    def begin(self) -> None:
        """Begins the next episode, by the next seed; one that has not ended is abandoned."""
        self.env.reset(self._seed)
        self._seed += 1
        if self._rival is not None:
            self._rival.reset()
        self.score, self.steps, self.is_over = 0.0, 0, False
        self._action: np.ndarray | None = None  # the person's last

    def step(self, held: Collection[str]) -> None:
        """Steps with the keys that are held; a game that waits makes no step while none of them means anything.

        Where it is the rival's turn, the keys mean nothing and the rival acts.
        """
        if self.is_rivals_turn:
            allowed = None if self.env.action_masks is None else self.env.action_masks | ~self.env.masks[:, None]
            actions = self._rival.act(self.env.observations, sample=True, action_masks=allowed)
        else:
            action = self.keyboard.action(held, self._action)
            if action is None:
                return
            self._action = action
            actions = np.repeat(action[None], self.env.num_agents, 0)
        _, rewards, terminals, truncations, _ = self.env.step(actions)
        self.score += float(rewards[self._side])
        self.steps += 1
        self.is_over = bool(terminals[self._side] or truncations[self._side])

    @property
    def is_rivals_turn(self) -> bool:
        """Whether the next step is another's."""
        return self._rival is not None and not self.is_over and not self.env.masks[self._side]


ALMOST_OVER = 0.999  # of the last step: at its end, the environment shows the next episode
LIMIT = (1600, 960)  # pixels that a window may cover


class GamePhase(enum.Enum):
    """Where a game is; the value is the text in the bar."""

    PAUSED = "press any key"  # also before the first step
    PLAYING = ""
    OVER = "game over"


class Game:
    """Shows a person's episodes in one window, one after another."""

    def __init__(self, episodes: HumanEpisodes, high_scores: HighScores, speed: float = 1.0):
        self.finished: list[float] = []  # scores of the episodes that were played to their end
        self.trouble = ""  # why a score could not be kept
        self._episodes, self._keyboard = episodes, episodes.keyboard
        self._scene = make_scene(episodes.env)
        self._high_scores, self._best = high_scores, high_scores.best()
        self._playback = Playback(self._scene.steps_per_second, speed=speed)
        self._turns: deque[set[str]] = deque()  # keys of turns that are not played yet, where the game waits for keys
        self._begin(GamePhase.PAUSED)
        self.lay_out(LIMIT)

    def lay_out(self, limit: tuple[int, int]) -> tuple[int, int]:
        """Fits the picture into a width and a height, in pixels, by its proportions; returns the window's size."""
        width, height = self._scene.size
        self._scale = min(1.0, limit[0] / width, (limit[1] - BAR_HEIGHT) / height)
        picture = (round(width * self._scale), round(height * self._scale))
        self.size = (max(picture[0], MIN_WIDTH), picture[1] + BAR_HEIGHT)
        self._left = (self.size[0] - picture[0]) / 2
        return self.size

    def run(self) -> None:
        """Opens the window and plays until the person closes it."""
        screen, library = open_window(self.lay_out, self._scene.title, LIMIT), raylib()
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
        for name in (*keys.pressed, *keys.repeated):
            self._obey(name, keys.held)
        if self.phase is GamePhase.PLAYING:
            self._playback.advance(seconds)
            self._make_due_steps(keys)
            if self._playback.is_over:
                self._finish()

    def _make_due_steps(self, keys: KeyState) -> None:
        begin, episodes = time.perf_counter(), self._episodes
        while episodes.steps < self._playback.steps_due and not episodes.is_over:
            is_rivals = episodes.is_rivals_turn
            if self._keyboard.waits and not self._turns and not is_rivals:
                return
            self._scene.remember()
            episodes.step(set() if is_rivals else self._turns.popleft() if self._keyboard.waits else keys.take())
            if episodes.is_rivals_turn:
                self._playback.step()
            if episodes.is_over:
                self._playback.end = episodes.steps
                self._playback.stop_at = math.inf  # to the end of the last step, and a moment longer
            elif time.perf_counter() - begin > PATIENCE_SECONDS:
                self._playback.fall_back(episodes.steps)

    def _finish(self) -> None:
        self.phase = GamePhase.OVER
        self.finished.append(self._episodes.score)
        try:
            self._place = self._high_scores.add(self._episodes.score)
            self._best = self._high_scores.best()
        except StorageError as error:
            self._place, self.trouble = None, str(error)

    def _obey(self, name: str, held: set[str]) -> None:
        # Keys of the game mean something else only before and after an episode.
        keyboard = self._keyboard
        if (name in ("r", "f5") and name not in keyboard.names) or (
            self.phase is GamePhase.OVER and name in ("enter", "space")
        ):
            self._episodes.begin()
            self._scene.close()
            self._scene = make_scene(self._episodes.env)
            self._begin(GamePhase.PLAYING)
        elif self.phase is GamePhase.OVER:
            return
        elif self.phase is GamePhase.PAUSED:
            self.phase = GamePhase.PLAYING
        elif name in ("p", "pause") and name not in keyboard.names and not keyboard.waits:
            self.phase = GamePhase.PAUSED
        elif keyboard.waits:
            turn = {name} if keyboard.action({name}) is not None else {name, *held}
            if keyboard.action(turn) is not None:
                self._turns.append(turn)
                self._playback.step()

    def _begin(self, phase: GamePhase) -> None:
        self.phase = phase
        self._turns.clear()
        self._place: int | None = None
        self._playback.restart()
        if self._keyboard.waits:
            self._playback.stop_at = 0  # but for the step of each key
            if self._episodes.is_rivals_turn:
                self._playback.step()

    def draw(self, screen: Screen) -> None:
        """Draws everything, between `begin` and `end` of a screen of this size."""
        is_over, progress = self._episodes.is_over, self._playback.progress
        self._scene.draw(self._left, BAR_HEIGHT, self._scale, min(progress, ALMOST_OVER) if is_over else progress)
        _draw_bar(screen, self._episodes.score, self._best[0] if self._best else None, self.phase.value)
        if self.phase is GamePhase.PAUSED:
            draw_sign(screen, self._welcome(), BAR_HEIGHT)
        elif self.phase is GamePhase.OVER:
            draw_sign(screen, self._result(), BAR_HEIGHT)

    def _welcome(self) -> list[SignLine]:
        keyboard = self._keyboard
        pause = [] if keyboard.waits else [f"{'pause' if 'p' in keyboard.names else 'P'}: pause"]
        keys = [f"{keyboard.description}: play", *pause]
        keys += [f"{'F5' if 'r' in keyboard.names else 'R'}: start over", "esc: end"]
        return [title(self._scene.title), *map(hint, keys), SignLine(self.phase.value)]

    def _result(self) -> list[SignLine]:
        score = self._episodes.score
        is_record = self._place == 1 and (score > 0 or len(self._best) > 1)
        return [
            title(f"score {shown_score(score)}"),
            *([SignLine("a new high score")] if is_record else []),
            *(
                SignLine(f"{place}.  {shown_score(best)}", color=CYAN if place == self._place else WHITE)
                for place, best in enumerate(self._best, 1)
            ),
            hint("enter plays again, esc ends"),
        ]


def play_command(env_name: str, args: Mapping[str, Any], options: PlayOptions) -> None:
    """`puffer play`: opens a window for a person to play in; prints the score of every game that was finished."""
    if not has_display():
        raise _no_display(env_name)
    entry, opponent = find(env_name), options.opponent
    # One environment, of whole games with their true scores.
    known = {**entry.whole_games, **{name: 1 for name in ("num_envs", "report_interval") if name in entry.settings}}
    env_kwargs = args["env"] if opponent is None else against(opponent, entry, args["env"])
    with closing(entry.creator(**{**env_kwargs, **known, **array_settings(entry)})) as env:
        keyboard = keyboard_for(env)
        if keyboard is None:
            agents = env.num_agents
            why = f"it has {agents} agents that act at a time, and a person plays one that acts alone"
            if agents == 1:
                why = "it does not say which keys mean which action; an environment says it by its attribute `keys`"
            raise APIUsageError(f"{entry.name} cannot be played: {why}")
        flag = "--side" if options.side == "second" else "--opponent" if opponent not in (None, BOT) else None
        if flag is not None and env.num_agents == 1:
            raise APIUsageError(f"{flag} needs a game of 2 agents or more, {entry.name} has 1; leave it out")
        if opponent is None and env.num_agents > 1:
            raise APIUsageError(f"{entry.name} needs somebody for the other side; pass --opponent, such as random")
        rival = None
        if env.num_agents > 1:
            policy = load_member(opponent, entry.name, env, torch.device("cpu"), args["train"]["data_dir"])
            rival = Agent(policy, env)
        first_seed = secrets.randbelow(2**31) if options.seed is None else options.seed
        episodes = HumanEpisodes(env, keyboard, first_seed, int(options.side == "second"), rival)
        changed = {  # games with other settings do not compare
            name: value
            for name, value in args["env"].items()
            if name not in (*known, "render_mode")
            and (name not in entry.settings or value != entry.settings[name].default)
        }
        changed |= {} if rival is None else {"--opponent": opponent, "--side": options.side}
        high_scores = HighScores(entry.name, changed if options.speed == 1.0 else {**changed, "--speed": options.speed})
        described = f"playing {entry.name} by {keyboard.description}; the best scores are kept in {high_scores.path}"
        print(printable(described), flush=True)
        game = Game(episodes, high_scores, options.speed)
        try:
            game.run()
        except DisplayError as error:
            raise _no_display(env_name) from error
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
