"""`pufferlib.make` makes environments by name; names of environments that were made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from pufferlib import ocean, vector
from pufferlib.config import check_section, env_settings, load_config
from pufferlib.emulation import is_refusal, make_puffer_env, makes_others
from pufferlib.emulation.emulated_env import LibraryEnv
from pufferlib.environment import Origin, PufferEnv
from pufferlib.errors import APIUsageError, nearest
from pufferlib.families import catalog
from pufferlib.families.entry import importable_name
from pufferlib.setting import keyword_settings
from pufferlib.wrappers import PufferWrapper

NUM_ENVS = 256  # that `make` makes by default


def make(name: str | Callable[..., Any], **kwargs: Any) -> PufferEnv | vector.Vector:
    """Makes an environment, or many of them behind one PufferEnv.

    Args:
        name: a name that `puffer envs` lists, such as `puffer_breakout`, `CartPole-v1`, `ALE/Pong-v5`,
            `dm_control/cheetah/run` or `pettingzoo:butterfly/pistonball_v6`; or a class of environments, or a function
            that returns one: a PufferEnv, or one of Gymnasium or PettingZoo, which is emulated.
        kwargs: for the environment. A class or function gets them as they are; a name has the `[env]` settings of its
            configuration for those left out, and 256 for an Ocean environment's `num_envs`. `buf` holds the arrays to
            fill, `seed` is that of the environment by itself (a trainer resets it with its own). With `num_envs` an
            environment without such a keyword becomes a vector in this process.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name.
        MissingExtraError: if a package that it needs is not installed.
        APIUsageError: if the environment has no such keyword, or the function returns no environment.
        ConfigError: if a keyword has the wrong type.
    """
    if not isinstance(name, str) and not callable(name):
        raise APIUsageError(
            f"make() takes the name of an environment, a class or a function, got {type(name).__name__}"
        )
    passed_on = {keyword: kwargs.pop(keyword) for keyword in ("buf", "seed") if keyword in kwargs}  # no settings
    return (_make_named if isinstance(name, str) else _make_called)(name, kwargs, passed_on)


def is_to_be_made(env: object) -> bool:
    """Returns whether it is a name, a class or a function; a ready environment may be callable too."""
    is_function = callable(env) and not hasattr(env, "step")
    return not is_vector(env) and (isinstance(env, (str, type)) or is_function)


def is_vector(env: object) -> bool:
    """Returns whether it has the methods of a vector of environments."""
    return hasattr(env, "recv") and hasattr(env, "send")


@contextmanager
def ready_env(env: object) -> Iterator[PufferEnv | vector.Vector]:
    """Gives an environment or a vector; one that is to be made is closed afterwards."""
    if not is_to_be_made(env):
        yield vector.as_puffer_env(env)
        return
    with closing(make(env)) as made:
        yield made


def has_num_envs(creator: Callable) -> bool:
    """Returns whether a class or function takes `num_envs`, itself or where its `**kwargs` go."""
    try:
        if "num_envs" in inspect.signature(creator).parameters:
            return True
    except (TypeError, ValueError):  # a builtin that does not tell
        return False
    while isinstance(creator, partial):
        creator = creator.func
    return "num_envs" in keyword_settings(creator)[0]


def find_origin(env: PufferEnv | vector.Vector) -> Origin | None:
    """Returns how an environment or a vector was made by name, also inside a PufferWrapper; None if it was not."""
    found = getattr(env, "made_from", None)
    if found is not None:
        return found
    inside = env.env if isinstance(env, PufferWrapper) else getattr(env, "driver_env", env)
    return None if inside is env else find_origin(inside)


def wrapper_names(env: PufferEnv | vector.Vector) -> list[str]:
    """Returns the classes of the wrappers that a program has put around an environment which its name alone makes."""
    if getattr(env, "made_from", None) is not None:
        return []
    if isinstance(env, PufferWrapper):
        return [type(env).__name__, *wrapper_names(env.env)]
    if isinstance(env, LibraryEnv):
        return [wrapper.name for wrapper in getattr(getattr(env.env, "spec", None), "additional_wrappers", ())]
    inside = getattr(env, "driver_env", env)
    return [] if inside is env else wrapper_names(inside)


def environment_name(env: PufferEnv | vector.Vector) -> str:
    """Returns the name of an environment or vector, or its class in lower case; of a wrapper that of what is inside."""
    made_from = find_origin(env)
    if made_from is not None:
        return made_from.env_name
    env = getattr(env, "driver_env", env)
    while isinstance(env, PufferWrapper):
        env = env.env
    package, _, rest = type(env).__module__.partition("pufferlib.ocean.")
    if rest and not package:
        return ocean.PREFIX + rest.split(".")[0]
    if not isinstance(env, LibraryEnv):
        return type(env).__name__.lower()
    spec, metadata = getattr(env.env, "spec", None), getattr(env.env, "metadata", None) or {}
    if spec is not None:
        return spec.id
    return str(metadata.get("name") or type(getattr(env.env, "unwrapped", env.env)).__name__.lower())


def env_arguments(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the keyword arguments of an environment: those given, else its configuration's.

    Raises APIUsageError if it has no such keyword, and ConfigError if one has the wrong type.
    """
    known = env_settings(name)
    for keyword in given:
        if keyword not in known and not catalog.find(name).takes_any_setting:
            remedy = nearest(keyword, known) or f"; it has {', '.join(known)}"
            raise APIUsageError(f"{name} has no keyword {keyword!r}{remedy}")
    return check_section("env", {**load_config(name)["env"], **given}, name)


def _make_named(name: str, given: dict[str, Any], passed_on: dict[str, Any]) -> PufferEnv | vector.Vector:
    entry = catalog.find(name)
    counts = "num_envs" in env_settings(name)
    if counts and given.get("num_envs", "auto") == "auto":
        given["num_envs"] = NUM_ENVS
    is_vector = not counts and "num_envs" in given
    vec = {"num_envs": given.pop("num_envs"), "backend": entry.local_backend} if is_vector else {"num_envs": 1}
    arguments = env_arguments(name, given)
    if is_vector:
        made = _make_many(entry.creator, arguments, vec["num_envs"], passed_on, entry.local_backend)
    else:
        made = entry.creator(**arguments, **passed_on)
    made.made_from = Origin(entry.name, arguments, vec)
    return made


def _make_called(creator: Callable, given: dict[str, Any], passed_on: dict[str, Any]) -> PufferEnv | vector.Vector:
    is_counted = "num_envs" in given and not has_num_envs(creator)  # here, as it takes no such number
    made = None
    if not is_counted or (keyword_settings(creator)[1] and not makes_others(creator)):  # only a call can tell
        try:
            env = make_puffer_env(creator, (), dict(given), passed_on)
            vector.check_env(env)
            made = env
        except TypeError as error:
            if not is_counted or not is_refusal(error, ["num_envs"]):
                raise
    if made is None:
        alone = {name: value for name, value in given.items() if name != "num_envs"}
        made = _make_many(creator, alone, given["num_envs"], passed_on)
    if getattr(made, "made_from", None) is None:
        is_vector = "num_envs" in given and not isinstance(made, PufferEnv)
        vec = {"num_envs": given.pop("num_envs"), "backend": "Serial"} if is_vector else {"num_envs": 1}
        made.made_from = origin_of_call(creator, given, vec)
    return made


def _make_many(
    creator: Callable, env_kwargs: dict[str, Any], num_envs: int, passed_on: dict[str, Any], backend: str = "Serial"
) -> vector.Vector:
    if "buf" in passed_on:
        raise APIUsageError(f"buf is for one environment, got it with num_envs={num_envs}; leave out one of the two")
    seed = passed_on.get("seed", 0)
    return vector.make(creator, env_kwargs=env_kwargs, backend=backend, num_envs=num_envs, seed=seed)


def origin_of_call(creator: Callable, arguments: dict[str, Any], vec: dict[str, Any]) -> Origin | None:
    """Returns how a class or function of the user's made environments; None if no other process could."""
    name = importable_name(creator)
    while isinstance(creator, partial):
        if creator.args:
            return None
        arguments, creator = {**creator.keywords, **arguments}, creator.func
    is_plain = all(isinstance(value, (bool, int, float, str, type(None))) for value in arguments.values())
    if name is None or not is_plain:
        return None
    return Origin(name, arguments, vec)
