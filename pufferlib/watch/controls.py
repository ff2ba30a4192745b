"""A person's control: the keys of environments, those that are down, commands to a play, and playback."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Tuple

from pufferlib import spaces
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import Keys, PufferEnv
from pufferlib.errors import APIUsageError

GRID = Keys(dict(left=0, right=1, up=2, page_up=3, page_down=4, space=5, enter=6), waits=True)
"""Of MiniGrid: turn left, turn right, forward, pick up, drop, toggle, done."""

KNOWN: Mapping[str, tuple[Keys, ...]] = {
    "CartPole": (Keys({"left": 0, "right": 1}, idle=[0, 1]),),
    "MountainCar": (Keys({"left": 0, "right": 2}, idle=1), Keys({"left": -1.0, "right": 1.0})),
    "Acrobot": (Keys({"left": 0, "right": 2}, idle=1),),
    "Pendulum": (Keys({"left": 2.0, "right": -2.0}),),  # a positive torque turns it anticlockwise
    "LunarLander": (
        Keys({"left": 1, "up": 2, "right": 3}, idle=0),
        Keys({"left": (0, -1), "up": (1, 0), "right": (0, 1)}),  # main engine, side engines
    ),
    "CarRacing": (
        Keys({"left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, 1, 0), "down": (0, 0, 0.8)}),  # wheel, gas, brake
        Keys({"right": 1, "left": 2, "up": 3, "down": 4}, idle=0),
    ),
    "FrozenLake": (Keys({"left": 0, "down": 1, "right": 2, "up": 3}, waits=True),),
    "CliffWalking": (Keys({"up": 0, "right": 1, "down": 2, "left": 3}, waits=True),),
    "Taxi": (Keys({"down": 0, "up": 1, "right": 2, "left": 3, "page_up": 4, "page_down": 5}, waits=True),),
    "Blackjack": (Keys({"s": 0, "h": 1}, waits=True),),  # stick, hit
    "MiniGrid-": (GRID,),
    "BabyAI-": (GRID,),
}
"""By the beginning of the id; one for each kind of action space that the environment can have."""

ARROWS = {"w": "up", "a": "left", "s": "down", "d": "right"}  # the arrows of letters without another meaning

OPPOSITES = (("left", "right"), ("up", "down"))


def _gymnasium_keys(env: gymnasium.Env) -> list[Keys]:
    # Those that may fit its actions.
    name = "" if env.spec is None else env.spec.id
    found = [keys for beginning, known in KNOWN.items() if name.startswith(beginning) for keys in known]
    if hasattr(env.unwrapped, "get_keys_to_action"):
        found += _declared_keys(env.unwrapped.get_keys_to_action())
    return found


def _declared_keys(actions: Mapping[object, object]) -> list[Keys]:
    # Gymnasium names keys by letters: W, A, S and D are the arrows, and E does nothing.
    names = {**ARROWS, " ": "space"}
    chords = {tuple(keys): action for keys, action in actions.items() if isinstance(keys, (tuple, str))}
    if len(chords) < len(actions) or not all(isinstance(key, str) for keys in chords for key in keys):
        return []  # numbers of keys, which mean something else to every library
    idle = chords.pop((), None)
    idle = chords.pop(("e",), idle)
    named = {"+".join(names.get(key, key) for key in keys): action for keys, action in chords.items()}
    return [Keys(named, idle=idle)]


class Keyboard:
    """The actions of one agent by the keys that are held; independent of any window."""

    def __init__(self, space: gymnasium.Space, keys: Keys):
        self._space = space
        self._shape, self._dtype = spaces.action_shape(space), spaces.action_dtype(space)
        self._actions = {frozenset(chord.split("+")): self._row(action) for chord, action in keys.actions.items()}
        used = frozenset().union(*self._actions)
        self._arrows = {letter: arrow for letter, arrow in ARROWS.items() if letter not in used and arrow in used}
        self.names = used | self._arrows.keys()  # that mean something, as raylib calls them, in small letters
        # For a person to read, such as `left, right, space`.
        self.description = ", ".join(chord.replace("_", " ") for chord in keys.actions if "+" not in chord)
        self.waits = keys.waits  # nothing moves before one of them is pressed
        self._idle = self._idle_rows(keys.idle)

    def action(self, held: Collection[str], last: np.ndarray | None = None) -> np.ndarray | None:
        """Returns the action for the keys that are held, a row of the action space that the caller owns.

        `last` is the action before, None at the beginning. None where `waits` and no key that means something is held.
        """
        down = {self._arrows.get(name, name) for name in held}
        down -= {name for pair in OPPOSITES if down.issuperset(pair) for name in pair}
        chords = [chord for chord in self._actions if chord <= down]
        chords = [chord for chord in chords if not any(chord < other for other in chords)]
        if not chords:
            return self._without_keys(last)
        if isinstance(self._space, Discrete):
            return self._actions[max(chords, key=len)].copy()
        return self._combined([self._actions[chord] for chord in chords])

    def _without_keys(self, last: np.ndarray | None) -> np.ndarray | None:
        if self.waits:
            return None
        if not self._idle:
            return (next(iter(self._actions.values())) if last is None else last).copy()
        turn = next((index for index, row in enumerate(self._idle) if np.array_equal(row, last)), -1)
        return self._idle[(turn + 1) % len(self._idle)].copy()

    def _combined(self, actions: Iterable[np.ndarray]) -> np.ndarray:
        (idle,) = self._idle
        row = idle.copy()
        for action in actions:
            changed = action != idle
            row[changed] = action[changed] + (row[changed] - idle[changed]) * isinstance(self._space, Box)
        return np.clip(row, self._space.low, self._space.high) if isinstance(self._space, Box) else row

    def _idle_rows(self, idle: object) -> list[np.ndarray]:
        # The actions that take turns while no key is held; none where the last action stays.
        if idle is None:
            return [] if isinstance(self._space, Discrete) else [np.zeros(self._shape, self._dtype)]
        is_several = isinstance(self._space, Discrete) and isinstance(idle, (list, tuple))
        return [self._row(action) for action in (idle if is_several else [idle])]

    def _row(self, action: object) -> np.ndarray:
        row = np.asarray(action, self._dtype)
        if row.shape == () and self._shape == (1,):
            row = row.reshape(1)
        if row.shape != self._shape or not self._space.contains(row.astype(self._space.dtype)):
            raise APIUsageError(f"the actions of `keys` must be of {self._space}, got {action!r}")
        return row


def keyboard_for(env: PufferEnv) -> Keyboard | None:
    """Returns the keyboard of an environment: by its `keys`, or for one of Gymnasium by a table.

    None where no keys are known, several agents act at a time and not by turns, or actions mix choices and numbers.
    """
    agents = env.num_agents // getattr(env, "num_envs", 1)
    space = env.single_action_space
    if (agents != 1 and not getattr(env, "has_turns", False)) or isinstance(space, Tuple):
        return None
    keys = getattr(env, "keys", None)
    if keys is not None:
        return Keyboard(space, keys)
    for keys in _gymnasium_keys(env.env) if isinstance(env, GymnasiumPufferEnv) else ():
        with contextlib.suppress(APIUsageError):  # they are of another kind of actions
            return Keyboard(space, keys)
    return None


SLOWEST, FASTEST = 1 / 8, 64.0
PATIENCE_SECONDS = 0.1  # for which steps may hold up the next picture of a window: what they then lack goes slower
HOLD_SECONDS = 0.5  # of the person's time, for which the last moment stays


class Playback:
    """Turns the time that passes into steps that are due, and into how much of the last one is to be seen.

    A step is made when its motion begins, so that what is between it and the one before can be shown: at `position`
    2.25 three steps have been made, and a quarter of the third is over.
    """

    def __init__(self, steps_per_second: float, speed: float = 1.0):
        self.steps_per_second = steps_per_second  # of the agent, in a second of game time
        self.speed = speed  # seconds of game time in one second, SLOWEST to FASTEST
        self.restart()

    def restart(self) -> None:
        """Goes back to the first moment, running, at the speed that it has."""
        self.seconds = 0.0  # of game time since the beginning
        self.stop_at = math.inf  # the position at which time stands
        self.end = math.inf  # steps that can be made, where that is known

    @property
    def position(self) -> float:
        """Steps that have been shown, the last one maybe in part."""
        position = round(self.seconds * self.steps_per_second, 6)  # what is a whole step is one, whatever the rounding
        return min(position, float(self.end))

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
        return round(self.seconds - self.end / self.steps_per_second - HOLD_SECONDS * self.speed, 6) >= 0

    @property
    def is_paused(self) -> bool:
        """Whether time stands."""
        return self.position >= self.stop_at

    def advance(self, seconds: float) -> bool:
        """Advances the time; returns whether it moved."""
        if self.is_paused:
            return False
        self.seconds += seconds * self.speed
        if self.is_paused:
            self.seconds = self.stop_at / self.steps_per_second
        return True

    def toggle_pause(self) -> None:
        """Stops, or continues."""
        self.stop_at = self.position if self.stop_at == math.inf else math.inf

    def step(self) -> None:
        """Plays to the end of the step that is shown, or of the next one, and stops there; several calls add up."""
        begin = self.position if self.stop_at == math.inf else self.stop_at
        self.stop_at = math.floor(begin) + 1

    def change_speed(self, factor: float) -> None:
        """Multiplies the speed, within SLOWEST to FASTEST."""
        self.speed = min(max(factor * self.speed, SLOWEST), FASTEST)

    def fall_back(self, steps: int) -> None:
        """Moves time back to the steps that could be made in it."""
        self.seconds = min(self.seconds, steps / self.steps_per_second)


class ViewerCommand(enum.Enum):
    """A command to a play; the value is its keys and its effect, for the list of keys, and their names."""

    PAUSE = ("space", "pause, or go on", "space")
    STEP = ("right or .", "a single step", "right period")
    FASTER = ("+", "twice as fast, up to 64x", "")
    SLOWER = ("-", "half as fast, down to 1/8x", "")
    NORMAL_SPEED = ("1", "as fast as it naturally is", "one kp_1")
    RESTART = ("R", "play again from the beginning", "r")
    PANEL = ("tab or P", "what the agent sees and thinks", "tab p")
    SCREENSHOT = ("F12 or S", "a picture, into this folder", "f12 s")
    HELP = ("F1 or H", "these keys, or close them", "f1 h")


OTHER_KEYS = (("shift + keys", "play the first one yourself"), ("esc", "end"))

KEYS = {key: command for command in ViewerCommand for key in command.value[2].split()}

CHARACTERS = {"+": ViewerCommand.FASTER, "=": ViewerCommand.FASTER, "-": ViewerCommand.SLOWER}
"""Their keys differ between keyboards; `=` is the `+` of many without shift."""


class KeyState:
    """Reads raylib's window once for each picture, by `poll`; steps take the keys of the game from it.

    A step may last for several pictures: a key that was touched in between counts for the step, if none is held then.
    """

    def __init__(self, keyboard: Keyboard | None, raylib: ModuleType):  # None where no keys are known
        self._codes = {name[4:].lower(): getattr(raylib, name) for name in dir(raylib) if name.startswith("KEY_")}
        self._names = {code: name for name, code in self._codes.items()}
        self._keyboard, self._raylib = keyboard, raylib
        self._game = frozenset() if keyboard is None else keyboard.names
        for name in self._game - self._codes.keys():
            raise APIUsageError(f"there is no key {name!r}; keys are called as raylib calls them, such as left, one")
        self.pressed: list[str] = []  # all keys that went down since the poll before, in order
        self.repeated: list[str] = []  # keys of the game that mean something alone and repeat, as in writing
        self.held: set[str] = set()  # keys of the game that are down
        self.is_shift_held = False
        self.commands: list[ViewerCommand] = []  # to a play; with shift the keys are the game's
        self._touched: set[str] = set()

    def poll(self) -> None:
        """Reads the keys; to be called after each picture."""
        library = self._raylib
        self.pressed = [self._names.get(code, "") for code in iter(library.GetKeyPressed, 0)]
        self.held = {name for name in self._game if library.IsKeyDown(self._codes[name])}
        repeated = [name for name in self._game if library.IsKeyPressedRepeat(self._codes[name])]
        self.repeated = [name for name in repeated if self._keyboard.action({name}) is not None]
        self._touched |= self.held | self._game.intersection(self.pressed)
        self.is_shift_held = any(library.IsKeyDown(self._codes[f"{side}_shift"]) for side in ("left", "right"))
        keys = [] if self.is_shift_held else [KEYS[name] for name in self.pressed if name in KEYS]
        characters = map(chr, iter(library.GetCharPressed, 0))
        self.commands = keys + [CHARACTERS[sign] for sign in characters if sign in CHARACTERS]

    def take(self) -> set[str]:
        """Returns the keys that count for a step."""
        keys, self._touched = self.held or self._touched, set()
        return keys
