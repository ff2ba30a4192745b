"""The families that the catalog knows, PettingZoo and Ocean among them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry
from typing_extensions import override

from pufferlib import ocean
from pufferlib.emulation import PettingZooPufferEnv
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError, MissingExtraError, PufferWarning, import_named, import_quietly, is_installed
from pufferlib.families.atari import ATARI
from pufferlib.families.entry import Entry, Family, callable_entry, nearest_names, slug
from pufferlib.families.gymnasium_families import GymnasiumFamily, build_dm_control, build_minigrid, register_tasks
from pufferlib.setting import class_settings, keyword_settings

_PREFIX = "pettingzoo:"


def make_pettingzoo_env(module: str, buf: Buffers | None = None, seed: int = 0, **settings: object) -> PufferEnv:
    """Makes and emulates one environment of a module such as `pettingzoo.butterfly.pistonball_v6`."""
    return PettingZooPufferEnv(env_creator=_creator(_import_env(module)), env_kwargs=settings, buf=buf, seed=seed)


class PettingZoo(Family):
    """Environments of several agents, named `pettingzoo:<family>/<name>_v<version>`."""

    name = "pettingzoo"
    example = "pettingzoo:butterfly/knights_archers_zombies_v10"
    packages = ("pettingzoo",)
    extra = "pettingzoo"
    is_listed_freely = True
    prefixes = (_PREFIX,)

    @override
    def find(self, name: str) -> Entry | None:
        self.require()
        module = _modules().get(name)
        if module is None:
            return None
        found = _import_env(module)
        settings = keyword_settings(getattr(found, "raw_env", _creator(found)))
        inis = (None, self.name, f"tuned/{slug(name)}")
        return Entry(name, self.name, partial(make_pettingzoo_env, module), settings, inis)

    @override
    def names(self) -> list[str]:
        """The names of all environments, found without importing one; some need packages besides."""
        return sorted(_modules())


def _modules() -> dict[str, str]:
    # By name; some families became packages of their own.
    found = {}
    for package in ("pettingzoo", "mpe2", "magent2"):
        if is_installed(package):
            folder = Path(importlib.util.find_spec(package).origin).parent
            for path in (*folder.glob("*_v[0-9]*.py"), *folder.glob("*/*_v[0-9]*.py")):
                module = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
                family = module.removeprefix("pettingzoo.").split(".")[0]
                found[f"{_PREFIX}{family}/{path.stem}"] = module
    return found


def _import_env(module: str) -> ModuleType:
    try:
        return import_quietly(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{module} needs the package {error.name}, which is not installed; "
            "run `pip install 'pufferlib[pettingzoo]'`, or pip install that package"
        ) from error


def _creator(module: ModuleType) -> Callable[..., Any]:
    # The parallel form where there is one, else that of turns, which emulation converts.
    return getattr(module, "parallel_env", None) or module.env


_ID_PREFIX = "pufferlib/"


class OceanFamily(Family):
    """The environments in C; one's id in Gymnasium, such as `pufferlib/squared`, means the same as its name."""

    name = "ocean"
    example = "puffer_squared"
    is_listed_freely = True
    prefixes = (ocean.PREFIX, _ID_PREFIX)

    @override
    def find(self, name: str) -> Entry | None:
        folder = name.removeprefix(_ID_PREFIX).removeprefix(ocean.PREFIX)
        own = ocean.PREFIX + folder
        if own not in ocean.names():
            return None
        creator, policies = ocean.env_class(own), f"pufferlib.ocean.{folder}.torch"
        entry = Entry(own, self.name, creator, (class_settings("env", creator), False))
        entry.ini_files = (ocean.config_path(own),)
        entry.agents_per_env = getattr(creator, "agents_per_env", 1)
        if importlib.util.find_spec(policies) is not None:
            entry.policy_modules = (policies, *Entry.policy_modules)
        return entry

    @override
    def names(self) -> list[str]:
        return ocean.names()


class AnyGymnasium(GymnasiumFamily):
    """Every other registered id, and classes and functions in modules."""

    is_listed_freely = True

    @override
    def owns(self, name: str) -> bool:
        return ":" in name or (name in registry and self.lists(registry[name]))

    @override
    def find(self, name: str) -> Entry | None:
        """The environment of an id, of `module:id`, or of `module:MyEnv`.

        Importing the module registers the id, or defines a class or function MyEnv that makes environments. Where it
        does both, the id counts, with a warning.
        """
        module, _, env_id = name.rpartition(":")
        found = _attribute(import_named(name), env_id) if module else None
        spec = registry.get(env_id)
        if spec is not None:
            if found is not None:
                warnings.warn(
                    f"{name} is both an environment registered with Gymnasium and a name in the module {module}; the "
                    "registered environment is used",
                    PufferWarning,
                    stacklevel=2,
                )
            return self.entry(name, spec, spec)
        if found is None:
            return None
        if not callable(found):
            raise APIUsageError(
                f"{name} must be a class or function that makes environments, got {type(found).__name__}"
            )
        return callable_entry(found, name)

    @override
    def names(self) -> list[str]:
        others = ("gymnasium.", "ale_py", "shimmy", "minigrid", "pufferlib.")
        return [name for name in super().names() if not _module(registry[name]).startswith(others)]

    @override
    def nearest(self, name: str) -> str:
        """Of `module:id` the ids that this module registers, with the module before them, as they are to be typed."""
        module, _, env_id = name.rpartition(":")
        package = module.split(".")[0]
        own = [each for each, spec in registry.items() if _module(spec).split(".")[0] == package]
        own += [each for each, value in vars(sys.modules.get(module, object)).items() if isinstance(value, type)]
        return nearest_names(env_id, own, f"{module}:") if own else super().nearest(name)

    @override
    def lists(self, spec: EnvSpec) -> bool:
        """Not where Gymnasium keeps an id only to say that it is gone."""
        return isinstance(spec.entry_point, str) or not _module(spec).startswith("gymnasium.")


def _module(spec: EnvSpec) -> str:
    if isinstance(spec.entry_point, str):
        return spec.entry_point.split(":")[0]
    function = getattr(spec.entry_point, "func", spec.entry_point)  # that of a functools.partial
    return getattr(function, "__module__", None) or ""


def _attribute(module: ModuleType, path: str) -> Any:
    try:
        return attrgetter(path)(module)
    except AttributeError:
        return None


def _register_box2d() -> None:
    with warnings.catch_warnings():
        # Its binding warns of how it is made; where warnings are errors, it crashes the process over that.
        warnings.filterwarnings("ignore", "builtin type .* has no __module__", DeprecationWarning)
        importlib.import_module("Box2D")


ENVS = "gymnasium.envs."
FAMILIES = (  # the first that owns a name answers for it
    GymnasiumFamily("classic_control", "CartPole-v1", module=f"{ENVS}classic_control"),
    GymnasiumFamily("toy_text", "FrozenLake-v1", module=f"{ENVS}toy_text", recipe="discrete"),
    GymnasiumFamily(
        *("box2d", "LunarLander-v3"),
        module=f"{ENVS}box2d",
        packages=("Box2D",),
        extra="box2d",
        register=_register_box2d,
    ),
    GymnasiumFamily(  # versions before 4 need a package that is gone, and so are no names here
        *("mujoco", "HalfCheetah-v5"),
        module=f"{ENVS}mujoco",
        packages=("mujoco", "imageio"),
        extra="mujoco",
        recipe="continuous",
    ),
    ATARI,
    GymnasiumFamily(
        *("dm_control", "dm_control/cheetah/run"),
        pattern="dm_control/(?!compatibility-env)",  # which is nothing by itself
        alias=(r"^dm_control/(\w+)/(\w+)$", r"dm_control/\1-\2-v0"),
        packages=("shimmy", "dm_control", "imageio"),
        extra="dm_control",
        register=register_tasks,
        recipe="continuous",
        builder=build_dm_control,
        fixed=frozenset({"domain_name", "task_name"}),
        is_closed=True,  # all else would be taken for arguments of the renderer
    ),
    GymnasiumFamily(
        *("minigrid", "MiniGrid-DoorKey-5x5-v0"),
        pattern="MiniGrid-|BabyAI-",
        packages=("minigrid",),
        extra="minigrid",
        register=partial(import_quietly, "minigrid"),
        recipe="discrete",
        builder=build_minigrid,
    ),
)
ANY_OTHER = AnyGymnasium("gymnasium", "module:Id-v0")
