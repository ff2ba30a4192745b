"""Environments of Gymnasium, dm_control and MiniGrid by name, with the ini files of their families."""

from __future__ import annotations

import contextlib
import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.wrappers import FlattenObservation
from typing_extensions import override

from pufferlib import spaces, vector
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError, MissingExtraError, import_quietly
from pufferlib.families import envpool_family
from pufferlib.families.entry import Entry, Family, slug
from pufferlib.families.envpool_family import MOST_WORDS, declared_as, grid_view, split_words
from pufferlib.setting import keyword_settings, signature_settings
from pufferlib.vector.envpool_vector import MakeView

EnvBuilder = Callable[..., gymnasium.Env]


def build(
    target: str | EnvSpec, render_mode: str | None = None, max_episode_steps: int | None = None, **keywords: object
) -> gymnasium.Env:
    """Makes a Gymnasium environment as the trainer wants it.

    Args:
        target: the id, or the registration itself for a process that does not know the id.
        render_mode: What render() gives: human for a window, rgb_array for frames, None for nothing.
        max_episode_steps: Steps after which an episode is truncated; None is the environment's own limit.
        keywords: of the environment's class.
    """
    spec = copy.copy(gymnasium.spec(target) if isinstance(target, str) else target)
    spec.order_enforce = False  # these two wrappers look at every call for mistakes that PufferEnvs cannot make
    spec.disable_env_checker = True
    if render_mode is not None:
        keywords["render_mode"] = render_mode
    return in_single_precision(gymnasium.make(spec, max_episode_steps=max_episode_steps, **keywords))


def in_single_precision(env: gymnasium.Env) -> gymnasium.Env:
    """Declares observations of double precision as float32, which is what policies compute in."""
    space = spaces.in_single_precision(env.observation_space)
    if space == env.observation_space:
        return env
    env = env if isinstance(env, gymnasium.Wrapper) else gymnasium.Wrapper(env)  # the environment's own space stays
    env.observation_space = space
    return env


def make_emulated(
    builder: EnvBuilder, target: str | EnvSpec, buf: Buffers | None = None, seed: int = 0, **settings: object
) -> PufferEnv:
    """Makes one environment as `builder(target, **settings)` and emulates it."""
    return GymnasiumPufferEnv(env_creator=builder, env_args=(target,), env_kwargs=settings, buf=buf, seed=seed)


def _entry_point(name: str, spec: EnvSpec) -> Callable:
    if not isinstance(spec.entry_point, str):
        return spec.entry_point
    try:
        return load_env_creator(spec.entry_point)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{name} needs the package {error.name}, which is not installed; run `pip install {error.name}`"
        ) from error


class GymnasiumEntry(Entry):
    """An environment of Gymnasium's.

    EnvPool steps it where the backend is EnvPool, or `auto` and the table says that EnvPool of this version is the
    same, with all settings at their defaults. Where EnvPool is asked for, and has no such environment or setting of it,
    that is an APIUsageError.
    """

    @override
    def make_vector(self, env_kwargs: dict[str, Any], **keywords: object) -> vector.Vector:
        backend, row = keywords.get("backend", vector.AUTO), envpool_family.compared().get(self.name)
        is_same = row is not None and row.is_same and row.version == envpool_family.version()
        defaults = {name: setting.default for name, setting in self.settings.items()}
        changed = [name for name, value in env_kwargs.items() if name not in defaults or value != defaults[name]]
        if backend in ("EnvPool", vector.EnvPool):
            if row is None:
                raise APIUsageError(f"{self.name} was not compared with EnvPool's; `puffer envs envpool` lists those")
            if changed:
                raise APIUsageError(
                    f"EnvPool steps {self.name} as it is, got the setting {changed[0]}; "
                    f"train envpool/{row.task}, which has settings of its own"
                )
        elif backend != vector.AUTO or changed or not is_same:
            return super().make_vector(env_kwargs, **keywords)
        return envpool_family.make_vector(row.task, {"make_view": self.view_maker()}, **keywords)

    def view_maker(self) -> MakeView:
        """What shows the observations of EnvPool's environment as those of this one."""
        with contextlib.closing(self.creator(buf=None, seed=0)) as env:
            if isinstance(env.env, GridView):
                return partial(grid_view, num_words=env.env.num_words)
            return partial(declared_as, env.single_observation_space)


@dataclass(frozen=True, eq=False)
class GymnasiumFamily(Family):
    """A row of the table of families: environments that one package registers with Gymnasium."""

    name: str
    example: str
    pattern: str = ""  # how the names begin, a regular expression
    module: str = ""  # how the modules of the environments begin, where it is that by which an id belongs here
    listed: str = ""  # how the names begin that `names` lists, where that is fewer
    packages: tuple[str, ...] = ()
    extra: str = ""
    register: Callable[[], object] = lambda: None  # makes the package register its environments
    recipe: str | None = None  # the ini that the family's own one builds on; None looks at the action space
    builder: EnvBuilder = build  # makes an environment from its id and settings, those of `build` and further ones
    fixed: frozenset[str] = frozenset()  # arguments of `build` and the environment's class that `builder` decides
    is_closed: bool = False  # whether all settings are known, although the class takes `**kwargs`
    alias: tuple[str, str] | None = None  # another spelling of names, and theirs, as `re.sub` takes them
    entry_class: type[Entry] = GymnasiumEntry

    @property
    @override
    def is_listed_freely(self) -> bool:
        return bool(self.module)

    @override
    def owns(self, name: str) -> bool:
        if self.module:
            return name in registry and self.lists(registry[name])
        return re.match(self.pattern, name) is not None

    @override
    def find(self, name: str) -> Entry | None:
        self.require()
        self.register()
        name = name if self.alias is None else re.sub(*self.alias, name)
        spec = registry.get(name)
        return None if spec is None or not self.lists(spec) else self.entry(name, spec, name)

    def entry(self, name: str, spec: EnvSpec, target: str | EnvSpec) -> Entry:
        """The entry of a registered environment, with the settings of its class; `target` is as `build` takes it."""
        own, takes_any = keyword_settings(_entry_point(name, spec), spec.kwargs)
        common = signature_settings("env", build, {"max_episode_steps": spec.max_episode_steps})
        if self.builder is not build:
            common |= signature_settings("env", self.builder)
        known = common | {key: one for key, one in own.items() if key not in common}
        shown = {key: one for key, one in known.items() if key not in self.fixed}
        made_by = partial(make_emulated, self.builder, target)
        inis = (self.recipe, self.name, f"tuned/{slug(name)}")
        return self.entry_class(name, self.name, made_by, (shown, takes_any and not self.is_closed), inis)

    @override
    def names(self) -> list[str]:
        if not self.is_listed_freely:
            self.register()
        return sorted(name for name, spec in registry.items() if self.lists(spec) and re.match(self.listed, name))

    def lists(self, spec: EnvSpec) -> bool:
        """Whether a registered environment is one of this family, and one that can be made."""
        return str(spec.entry_point).startswith(self.module) if self.module else self.owns(spec.id)


def build_dm_control(
    target: str, width: int = 320, height: int = 240, camera_id: int = -1, **keywords: object
) -> gymnasium.Env:
    """Makes an environment whose observations are one flat row: they are dicts of small arrays by themselves.

    Args:
        target: the id.
        width: Of a frame, in pixels.
        height: Of a frame, in pixels.
        camera_id: Which of the cameras of the model looks; -1 is the free one.
        keywords: of the task, and of `build`.
    """
    register_tasks()
    if keywords.get("render_mode") is not None:
        keywords.update(width=width, height=height, camera_id=camera_id)
    return in_single_precision(FlattenObservation(build(target, **keywords)))


def register_tasks() -> None:
    """Registers the tasks of Shimmy with Gymnasium."""
    with warnings.catch_warnings():
        # Looking for a display is how dm_control chooses its renderer; without one it takes another.
        warnings.filterwarnings("ignore", r"(?s).*DISPLAY")
        import_quietly("shimmy")


class GridView(gymnasium.ObservationWrapper):
    """Shows the agent's view, its direction and the words of its mission as one row of categories.

    A mission is left out where it is always the same.
    """

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.num_words = most_words(env.observation_space["mission"])
        self.observation_space, self._write = grid_view(env.observation_space, self.num_words)

    @override
    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        """The flat row: three numbers of every cell, then the direction, then the numbers of the words."""
        rows = np.empty((1, *self.observation_space.shape), np.uint8)
        mission = np.frombuffer(f"{observation['mission']}\0".encode(), np.uint8)
        self._write(rows, {**observation, "mission": mission[None]})
        return rows[0]


def most_words(space: gymnasium.Space) -> int:
    """The most words of a mission that are shown; 0 where every mission is the same."""
    if "BabyAI" in type(space).__name__:  # whose grammar is not in the space
        return MOST_WORDS
    choices = space.ordered_placeholders
    if not choices:
        return 0
    longest = (max(words, key=lambda text: len(split_words(text))) for words in choices)
    return min(len(split_words(space.mission_func(*longest))), MOST_WORDS)


def build_minigrid(target: str, **keywords: object) -> gymnasium.Env:
    """Makes a grid world whose observations are one row of categories, with the arguments of `build`."""
    import_quietly("minigrid")
    return GridView(build(target, **keywords))
