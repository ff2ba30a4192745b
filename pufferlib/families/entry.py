"""An entry of the catalog: an environment's name, settings and maker; classes and functions have one too."""

from __future__ import annotations

import abc
import contextlib
import difflib
import functools
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferlib.errors import is_installed, require_extra
from pufferlib.setting import Setting, keyword_settings

if TYPE_CHECKING:
    from pufferlib.environment import Buffers, PufferEnv
    from pufferlib.vector import Vector


def slug(name: str) -> str:
    """A name as files and folders have it: `ALE/Pong-v5` is `ALE_Pong-v5`; none leads to another folder."""
    return re.sub(r"[^\w.-]+|^\.+|^$", "_", name)


def nearest_names(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Ends an error message about an unknown name with the nearest known ones; empty where none is near."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3)
    if not close:
        words = difflib.get_close_matches(word_of(name), {word_of(each) for each in known}, n=3, cutoff=0.75)
        close = [each for word in words for each in known if word_of(each) == word][:3]
    return f"; did you mean {' or '.join(repr(prefix + each) for each in close)}?" if close else ""


def word_of(name: str) -> str:
    """The word of a name that people remember: `pong` of `ALE/Pong-v5`."""
    last = re.split(r"[/:]", name)[-1].removeprefix("puffer_")
    return re.sub(r"[-_]v\d+$", "", last).lower()


_FOLDER = Path(__file__).parent


class Entry:
    """One environment that a name leads to. An entry is made without making the environment.

    The `creator` makes it as `creator(buf=Buffers or None, seed=int, **settings)`, for `pufferlib.vector.make`; it can
    be pickled, and raises MissingExtraError if a package that the environment needs is not installed.
    """

    name: str  # the one name of this environment: what the configuration, runs and their files call it
    family: str  # the name of its family, `[base] package` of the configuration
    creator: Callable[..., PufferEnv]
    settings: Mapping[str, Setting]  # the keyword arguments that `[env]` sets, by name
    takes_any_setting: bool = False  # whether the environment accepts keywords that `settings` does not list
    policy_modules: tuple[str, ...] = ("pufferlib.models",)  # where its policy's classes are looked for, in order
    agents_per_env: int = 1  # in each of the `[env] num_envs` environments, where there is such a setting
    local_backend: str = "Serial"  # what steps several of them for `pufferlib.make`, in this process
    whole_games: Mapping[str, Any] = {}  # settings by which an episode is a whole game with its true rewards

    def __init__(
        self,
        name: str,
        family: str,
        creator: Callable[..., PufferEnv],
        settings: tuple[Mapping[str, Setting], bool],  # and whether it takes any other, as of `keyword_settings`
        inis: tuple[str | None, ...] = (),  # names of ini files, where there are such; None looks at the actions
    ):
        self.name, self.family, self.creator = name, family, creator
        self.settings, self.takes_any_setting = settings
        self._inis = inis

    @functools.cached_property
    def ini_files(self) -> tuple[Path, ...]:
        """The files of its configuration, the more particular the later."""
        names = [self._fitting_recipe() if name is None else name for name in self._inis]
        return tuple(path for name in dict.fromkeys(names) if (path := _FOLDER / f"{name}.ini").exists())

    def _fitting_recipe(self) -> str:
        from gymnasium.spaces import Box  # not before: the catalog is imported without Gymnasium

        from pufferlib.spaces import LEAST_PIXELS, image_edge

        with contextlib.closing(self.creator(buf=None, seed=0)) as env:
            if image_edge(env.single_observation_space) >= LEAST_PIXELS:
                return ""  # config/automatic.py has what pictures want
            return "continuous" if isinstance(env.single_action_space, Box) else "discrete"

    def make_vector(self, env_kwargs: dict[str, Any], **keywords: object) -> Vector:
        """Makes the vector to train in, with further keywords of `pufferlib.vector.make`."""
        from pufferlib import vector

        return vector.make(self.creator, env_kwargs=env_kwargs, **keywords)


class Family(abc.ABC):
    """Environments of one origin, which share a form of names, an extra to install and a configuration."""

    name: str  # such as `atari`
    example: str  # the name of one of its environments
    packages: tuple[str, ...] = ()  # that have to be installed, as they are imported
    extra: str = ""  # of pufferlib, which installs them; empty where there are none
    is_listed_freely: bool = False  # whether `names` imports none of the family's packages
    prefixes: tuple[str, ...] = ()  # one of which its names begin with, unless it owns names by another rule

    def owns(self, name: str) -> bool:
        """Whether a name has the form of this family's names; nothing is imported to find out."""
        return name.startswith(self.prefixes)

    @abc.abstractmethod
    def find(self, name: str) -> Entry | None:
        """The environment of a name that the family owns, None where there is no such environment."""

    def require(self) -> None:
        """Raises a MissingExtraError that names the extra, where the family is not installed."""
        for package in self.packages:
            require_extra(package, self.extra)

    @property
    def is_installed(self) -> bool:
        """Whether its packages are there; nothing is imported to find out."""
        return all(map(is_installed, self.packages))

    @abc.abstractmethod
    def names(self) -> list[str]:
        """The names of all its environments, in alphabetical order; imports what is needed to know them."""

    def counts(self) -> dict[str, int]:
        """The environments of each of its kinds, where it has several."""
        return {}

    def nearest(self, name: str) -> str:
        """Ends an error message about a name that it owns and does not know, with the nearest ones; empty for none."""
        return nearest_names(name, self.names())


_NAMED_OTHERWISE = ("builtins", "gymnasium", "pettingzoo", "pufferlib")  # packages whose environments have names


def callable_entry(creator: Callable[..., Any], name: str | None = None) -> Entry:
    """The entry of a class or function that makes a PufferEnv, or an environment of Gymnasium or PettingZoo.

    It has no ini, so `load_config` chooses by its spaces. Other processes import it by a name `package.module:MyEnv`;
    None is its own name in lower case.
    """
    own = getattr(_unwrapped(creator), "__name__", type(creator).__name__).lower()
    made_by = creator if name is None else partial(make_imported, creator)
    return Entry(name or own, "callable", made_by, keyword_settings(creator))


def make_imported(
    creator: Callable[..., Any], buf: Buffers | None = None, seed: int = 0, **settings: object
) -> PufferEnv:
    """Makes one environment of a class or function of the user's; those of Gymnasium and PettingZoo are emulated."""
    from pufferlib.emulation import make_puffer_env  # these two: the catalog is imported without Gymnasium
    from pufferlib.environment import check_env

    env = make_puffer_env(creator, (), settings, {"buf": buf, "seed": seed})
    check_env(env)
    return env


def importable_name(creator: Callable[..., Any]) -> str | None:
    """The name `package.module:MyEnv` by which any process can import a class or function; None where none can.

    A `functools.partial` has the name of what is inside. What is defined in a function or in the program that was
    started (`__main__`) cannot be imported.
    """
    creator = _unwrapped(creator)
    module, path = getattr(creator, "__module__", None), getattr(creator, "__qualname__", "")
    if module in (None, "__main__") or not path or "<" in path or module.split(".")[0] in _NAMED_OTHERWISE:
        return None
    try:
        is_there = importlib.util.find_spec(module) is not None and attrgetter(path)(sys.modules[module]) is creator
    except (AttributeError, ImportError, KeyError, ValueError):
        return None
    return f"{module}:{path}" if is_there else None


def _unwrapped(creator: Callable[..., Any]) -> Callable[..., Any]:
    return creator.func if isinstance(creator, partial) else creator  # Python itself joins partials of partials
