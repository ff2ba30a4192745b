"""EnvPool's environments by name, and those names of Gymnasium's that EnvPool was shown to step alike."""

from __future__ import annotations

import csv
import functools
import math
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from typing_extensions import override

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError, MissingExtraError, is_installed
from pufferlib.families.entry import Entry, Family, slug
from pufferlib.setting import Setting
from pufferlib.spaces import in_single_precision
from pufferlib.vector import AUTO, Options, Vector
from pufferlib.vector.envpool_vector import EnvPoolEnv, MakeView, View, import_envpool, make_spec
from pufferlib.vector.recipe import count_workers, is_count

_PREFIX = "envpool/"
_TABLE = Path(__file__).with_name("envpool_same.csv")
_OF_THE_POOL = {
    *("num_envs", "batch_size", "num_threads", "max_num_players", "thread_affinity_offset", "base_path", "seed"),
    *("gym_reset_return_info", "reward_threshold"),
}
"""Entries of a configuration that are no settings of the environment."""

_INIS = {"envpool.atari": ("atari",), "envpool.minigrid": ("discrete", "minigrid")}  # by EnvPool's module
_PRESETS = {
    "envpool.atari": {"episodic_life": True, "reward_clip": True},  # as of ALE/ here
    "envpool.vizdoom": {"use_combined_action": True},  # a choice of buttons in place of a number for each
}


class Compared(NamedTuple):
    """A row of the table of `bench/envpool_same.py`: an environment of Gymnasium's and EnvPool's of the same name."""

    name: str  # Gymnasium's
    task: str  # EnvPool's
    version: str  # of EnvPool, which was compared
    is_same: bool  # whether no difference was found
    found: str  # what was compared, and the differences


@functools.cache
def compared() -> Mapping[str, Compared]:
    """The rows of the table by Gymnasium's name."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = [Compared(*row[:3], row[3] == "yes", row[4]) for row in list(csv.reader(file))[1:]]
    return {row.name: row for row in rows}


@functools.cache
def version() -> str | None:
    """The version of EnvPool that is installed; nothing is imported to find out."""
    try:
        return metadata.version("envpool") if is_installed("envpool") else None
    except metadata.PackageNotFoundError:
        return None


def make_vector(task: str, config: Mapping[str, Any], **keywords: Any) -> Vector:
    """Makes a vector of environments of EnvPool; workers of Multiprocessing and Ray each step a pool of their own.

    The keywords are those of `pufferlib.vector.make`, for environments of EnvPool, and `config` has EnvPoolEnv's; the
    backend `auto` is Multiprocessing where a step has a time limit, else EnvPool.
    """
    backend, num_envs = keywords.get("backend", AUTO), keywords.get("num_envs", 1)
    if backend == AUTO and keywords.get("step_timeout_seconds") is not None:
        backend = vector.Multiprocessing
    if backend in ("Multiprocessing", "Ray", vector.Multiprocessing, vector.Ray) and is_count(num_envs):
        options = Options(keywords.get("num_workers", AUTO), keywords.get("batch_size", AUTO))
        workers = count_workers(options, num_envs)
        inside = num_envs // workers
        config = {**config, "num_envs": inside}
        batch_size = AUTO if options.batch_size == AUTO else options.batch_size // inside
        keywords |= {"num_envs": workers, "num_workers": workers, "batch_size": batch_size}
    return vector.make(partial(EnvPoolEnv, task), env_kwargs=config, **{**keywords, "backend": backend})


def declared_as(space: gymnasium.Space, found: gymnasium.Space) -> View:
    """The view that shows EnvPool's observations with the bounds of another space."""
    if found.shape != space.shape or found.dtype != space.dtype:
        raise APIUsageError(f"EnvPool's observations must be {space}, got {found}; leave out --vec.backend EnvPool")
    return space, None


CELL = (11, 6, 3)  # kinds of things, colours and states of a cell in MiniGrid's numbers
DIRECTIONS = 4  # of an agent in a grid world
MOST_WORDS = 32  # of a mission that are shown, where its grammar does not say how many there may be
WORDS = (
    *("a", "after", "agent", "and", "at", "avoid", "ball", "behind", "blue", "box", "door", "doors", "empty", "end"),
    *("fetch", "find", "floor", "from", "front", "get", "go", "goal", "green", "grey", "hallway", "in", "key", "lava"),
    *("left", "matching", "maze", "must", "near", "next", "object", "of", "on", "open", "opening", "pick", "purple"),
    *("put", "reach", "red", "right", "room", "rooms", "square", "the", "then", "to", "traverse", "unlock", "up"),
    *("use", "wall", "with", "yellow", "you", "your", ","),
)
"""Of missions. A word's number is its place here, from 1 on; 0 is none, and one after the last is any other word."""
_NUMBERS = {word: number for number, word in enumerate(WORDS, 1)}


def grid_view(space: gymnasium.Space, num_words: int) -> View:
    """The view of grid worlds, one or many at once, as rows of categories; missions are bytes.

    A row has the numbers of every cell, the direction, and the numbers of the mission's first words, 0 behind the last.
    """
    direction = math.prod(space["image"].shape)  # its place, behind the cells
    counts = np.array([*CELL * (direction // len(CELL)), DIRECTIONS, *[len(WORDS) + 2] * num_words], np.uint8)
    told, numbers = np.zeros((0, 0), np.uint8), np.zeros((0, num_words), np.uint8)  # missions and their words

    def words_of(missions: np.ndarray) -> np.ndarray:
        nonlocal told, numbers
        if missions.shape != told.shape:
            told, numbers = np.zeros_like(missions), np.zeros((len(missions), num_words), np.uint8)
        for row in (missions != told).any(1).nonzero()[0].tolist():  # an episode began there
            numbers[row] = word_numbers(bytes(missions[row]), num_words)
        told = missions
        return numbers

    def write(rows: np.ndarray, observations: Mapping[str, np.ndarray]) -> None:
        rows[:, :direction] = observations["image"].reshape(len(rows), -1)
        rows[:, direction] = observations["direction"]
        if num_words:
            rows[:, direction + 1 :] = words_of(observations["mission"])

    return Box(np.zeros_like(counts), counts - 1, dtype=np.uint8), write


@functools.lru_cache(maxsize=100_000)
def word_numbers(mission: bytes, count: int) -> np.ndarray:
    """The numbers of the first words of a mission, `(count,)` uint8."""
    numbers = np.zeros(count, np.uint8)
    found = [_NUMBERS.get(word, len(WORDS) + 1) for word in split_words(mission.rstrip(b"\0").decode())][:count]
    numbers[: len(found)] = found
    return numbers


def split_words(text: str) -> list[str]:
    """The words of a mission, and its commas."""
    return text.replace(",", " , ").split()


class EnvPoolEntry(Entry):
    """An environment of EnvPool, whose settings are EnvPool's."""

    local_backend = "EnvPool"

    def __init__(self, task: str):
        self._task = task
        spec = make_spec(task)
        self._preset = _PRESETS.get(_world(task), {})
        config = {**spec.config._asdict(), **self._preset}
        settings = {
            name: Setting("env", name, type(value), value, f"EnvPool's {name} of {task}.")
            for name, value in config.items()
            if name not in _OF_THE_POOL and isinstance(value, (bool, int, float, str))
        }
        drawn = Setting("env", "render_mode", str | None, None, "Rgb_array for frames from render(), None for nothing.")
        creator = partial(_make_env, task, **self._preset)
        self.whole_games = {"episodic_life": False, "reward_clip": False} if _world(task) == "envpool.atari" else {}
        inis = (*_INIS.get(_world(task), (None,)), f"tuned/{slug(task)}")
        super().__init__(_PREFIX + task, "envpool", creator, ({"render_mode": drawn, **settings}, False), inis)

    @override
    def make_vector(self, env_kwargs: dict[str, Any], **keywords: object) -> Vector:
        config = {**self._preset, **env_kwargs, "make_view": _view_of(self._task)}
        return make_vector(self._task, config, **keywords)


def _view_of(task: str) -> MakeView | None:
    return partial(grid_view, num_words=MOST_WORDS) if _world(task) == "envpool.minigrid" else None


def _make_env(
    task: str, buf: Buffers | None = None, seed: int = 0, render_mode: str | None = None, **config: object
) -> PufferEnv:
    if render_mode is not None and _world(task).startswith("envpool.mujoco"):  # it ends the process without OpenGL
        return _drawn_by_gymnasium(task, buf, seed, render_mode)
    return EnvPoolEnv(task, render_mode=render_mode, make_view=_view_of(task), buf=buf, seed=seed, **config)


def _drawn_by_gymnasium(task: str, buf: Buffers | None, seed: int, render_mode: str) -> PufferEnv:
    if task not in gymnasium.registry:
        raise APIUsageError(
            f"{_PREFIX}{task} cannot be drawn: EnvPool's pictures of MuJoCo end the process where there is no OpenGL, "
            "and Gymnasium has no environment of this name; pass --headless to score it"
        )
    env = gymnasium.make(task, render_mode=render_mode)
    env.observation_space = in_single_precision(env.observation_space)
    return GymnasiumPufferEnv(env, buf=buf, seed=seed)


class EnvPoolFamily(Family):
    """All environments that EnvPool lists, by its names behind `envpool/`."""

    name = "envpool"
    example = "envpool/HalfCheetah-v5"
    packages = ("envpool",)
    extra = "envpool"
    prefixes = (_PREFIX,)

    @override
    def find(self, name: str) -> Entry | None:
        task = name.removeprefix(_PREFIX)
        try:
            self.require()
        except MissingExtraError as error:
            known = next((row.name for row in compared().values() if row.task == task), None)
            wheels = " EnvPool has wheels for Python 3.11 and later alone" if sys.version_info < (3, 11) else ""
            other = "" if known is None else f"; without it, `{known}` is the environment of Gymnasium's"
            raise MissingExtraError(f"{error}{wheels}{other}") from error
        return EnvPoolEntry(task) if task in import_envpool().list_all_envs() else None

    @override
    def names(self) -> list[str]:
        return sorted(_PREFIX + task for task in import_envpool().list_all_envs())

    @override
    def counts(self) -> dict[str, int]:
        worlds = Counter(_world(task).removeprefix("envpool.") for task in import_envpool().list_all_envs())
        return dict(worlds.most_common())


def _world(task: str) -> str:
    return import_envpool().registration.registry.specs[task][0]
