"""A class or function of the user's that makes environments, as an entry of the catalog."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pufferlib.families.entry import Entry
from pufferlib.families.keywords import keyword_settings

if TYPE_CHECKING:
    from pufferlib.environment import Buffers, PufferEnv


_NAMED_OTHERWISE = ("builtins", "gymnasium", "pettingzoo", "pufferlib")  # packages whose environments have names


class CallableEntry(Entry):
    """A class or function that makes a PufferEnv, or an environment of Gymnasium or PettingZoo.

    The keyword arguments that its signature names are settings of `[env]`; it has no ini, so `load_config` chooses by
    its spaces.
    """

    family = "callable"

    def __init__(self, creator: Callable[..., Any], name: str | None = None):
        """Reads the creator's signature.

        Args:
            creator: the class or function.
            name: `package.module:MyEnv`, by which other processes import it; None is its own name in lower case.
        """
        self.name = name or getattr(_unwrapped(creator), "__name__", type(creator).__name__).lower()
        self.creator = creator if name is None else partial(make_imported, creator)
        self.settings, self.takes_any_setting = keyword_settings(creator)


def make_imported(creator: Callable[..., Any], buf: Buffers | None = None, seed: int = 0, **settings: Any) -> PufferEnv:
    """Makes one environment of a class or function of the user's; those of Gymnasium and PettingZoo are emulated.

    Args:
        creator: the class or function.
        buf: the arrays to fill.
        seed: of the environment by itself.
        settings: keyword arguments of the creator.

    Raises:
        APIUsageError: if the creator does not take these arguments, or returns no environment.
    """
    from pufferlib.emulation.wrapping import make_puffer_env  # these two: the catalog is imported without Gymnasium
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
    while isinstance(creator, partial):
        creator = creator.func
    return creator
