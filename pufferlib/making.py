"""`pufferlib.make`: an environment by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pufferlib import ocean
from pufferlib.config import check_env, env_settings, load_config
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, nearest
from pufferlib.vector import check_env as check_instance
from pufferlib.wrappers import PufferWrapper

NUM_ENVS = 256
"""Environments that `make` makes where nobody says how many."""

_PASSED_ON = ("buf", "seed")  # keywords of every environment that are no settings


def make(name: str | Callable[..., PufferEnv], **kwargs: Any) -> PufferEnv:
    """Makes an environment, or many of them behind one PufferEnv.

    Args:
        name: an Ocean environment such as `puffer_breakout`, or a callable that returns a PufferEnv.
        kwargs: for the environment. A callable gets them as they are. An Ocean environment has its ini's `[env]`
            settings for what is not given, and 256 for `num_envs`; `buf` holds the arrays to fill, `seed` is that of
            the environment by itself (a trainer resets it with its own).

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        APIUsageError: if the environment has no such keyword, or the callable returns no PufferEnv.
        ConfigError: if a keyword has the wrong type.
    """
    if isinstance(name, str):
        return _make_ocean(name, kwargs)
    if not callable(name):
        raise APIUsageError(f"make() takes the name of an environment or a callable, got {type(name).__name__}")
    env = name(**kwargs)
    check_instance(env)
    return env


def environment_name(env: PufferEnv) -> str:
    """What runs in an environment are called: `puffer_breakout`, or the class in lower case where it is not Ocean's.

    A PufferWrapper is called what the environment inside is.
    """
    while isinstance(env, PufferWrapper):
        env = env.env
    package, _, rest = type(env).__module__.partition("pufferlib.ocean.")
    if rest and not package:
        return ocean.PREFIX + rest.split(".")[0]
    return type(env).__name__.lower()


def _make_ocean(name: str, kwargs: dict[str, Any]) -> PufferEnv:
    known = env_settings(name)
    given = {keyword: value for keyword, value in kwargs.items() if keyword not in _PASSED_ON}
    for keyword in given:
        if keyword not in known:
            remedy = nearest(keyword, known) or f"; it has {', '.join(known)}"
            raise APIUsageError(f"{name} has no keyword {keyword!r}{remedy}")
    defaults = load_config(name)["env"]
    if "num_envs" in known and given.get("num_envs", "auto") == "auto":
        given["num_envs"] = NUM_ENVS
    arguments = check_env(name, {**defaults, **given})
    passed_on = {keyword: kwargs[keyword] for keyword in _PASSED_ON if keyword in kwargs}
    return ocean.env_class(name)(**arguments, **passed_on)
