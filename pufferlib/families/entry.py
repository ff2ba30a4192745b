"""An environment in the catalog, and a family of environments."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferlib.extras import is_installed, require_extra
from pufferlib.families.names import nearest_names
from pufferlib.settings.setting import Setting

if TYPE_CHECKING:
    from pufferlib.environment import PufferEnv
    from pufferlib.vector import Vector


class Entry:
    """One environment that a name leads to. Making an entry imports and makes as little as tells that it exists.

    Attributes:
        name: the one name of this environment: what the configuration, runs and their files call it.
        family: the name of its family, `[base] package` of the configuration.
        takes_any_setting: whether the environment accepts keywords that `settings` does not list.
        creator: makes it as `creator(buf=Buffers or None, seed=int, **settings)`, for `pufferlib.vector.make`; can be
            pickled. It raises MissingExtraError if a package that the environment needs is not installed.
        settings: the keyword arguments that `[env]` sets, by name.
        ini_files: the files of its configuration, the more particular the later.
    """

    name: str
    family: str
    takes_any_setting: bool = False
    creator: Callable[..., PufferEnv]
    settings: Mapping[str, Setting]
    ini_files: tuple[Path, ...] = ()

    @property
    def policy_modules(self) -> tuple[str, ...]:
        """The modules where its policy and recurrent classes are looked for, the first first."""
        return ("pufferlib.models",)

    @property
    def agents_per_env(self) -> int:
        """Agents in each of the `[env] num_envs` environments, where there is such a setting."""
        return 1

    def make_vector(self, env_kwargs: dict[str, Any], **keywords: Any) -> Vector:
        """Makes the vector to train in.

        Args:
            env_kwargs: values of some of the settings.
            keywords: further ones of `pufferlib.vector.make`.

        Raises:
            APIUsageError: if they do not fit together.
        """
        from pufferlib import vector  # not before: the catalog is imported without Gymnasium

        return vector.make(self.creator, env_kwargs=env_kwargs, **keywords)


class Family(abc.ABC):
    """Environments of one origin, which share a form of names, an extra to install and a configuration.

    Attributes:
        name: of the family, such as `atari`.
        example: the name of one of its environments.
        packages: that have to be installed, as they are imported.
        extra: of pufferlib, which installs them; empty where there are none.
        is_listed_freely: whether `names` imports none of the family's packages.
    """

    name: str
    example: str
    packages: tuple[str, ...] = ()
    extra: str = ""
    is_listed_freely: bool = False

    @abc.abstractmethod
    def owns(self, name: str) -> bool:
        """Whether a name has the form of this family's names; nothing is imported to find out."""

    @abc.abstractmethod
    def find(self, name: str) -> Entry | None:
        """The environment of a name that the family owns, None where there is no such environment.

        Raises:
            MissingExtraError: if the family, or what this environment needs besides, is not installed.
        """

    def require(self) -> None:
        """Checks that the family is installed.

        Raises:
            MissingExtraError: naming the extra to install.
        """
        for package in self.packages:
            require_extra(package, self.extra)

    @property
    def is_installed(self) -> bool:
        """Whether its packages are there; nothing is imported to find out."""
        return all(map(is_installed, self.packages))

    @abc.abstractmethod
    def names(self) -> list[str]:
        """The names of all its environments, in alphabetical order; imports what is needed to know them."""

    def nearest(self, name: str) -> str:
        """Ends an error message about a name that it owns and does not know, with the nearest ones; empty for none."""
        return nearest_names(name, self.names())
