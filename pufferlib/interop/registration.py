"""The ids of the Ocean environments in Gymnasium: `pufferlib/breakout` is `puffer_breakout`.

Gymnasium looks for nothing by itself since its first version. So `import pufferlib` registers the ids where Gymnasium
was imported before, and else when it will be; `gymnasium.make("pufferlib:pufferlib/breakout")` does that import too.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from gymnasium.envs.registration import EnvSpec

_PREFIX = "puffer_"
_GYMNASIUM = "gymnasium"


def register_when_gymnasium_is_there() -> None:
    """Registers the ids now, or as soon as somebody has imported Gymnasium; imports nothing by itself."""
    if _GYMNASIUM in sys.modules:
        register_environments()
    else:
        sys.meta_path.insert(0, _Waiting())


def register_environments() -> None:
    """Registers every Ocean environment in C that is not registered yet; imports none of them."""
    from gymnasium.envs.registration import register, registry

    for name in _names():
        if env_id(name) not in registry:
            register(
                env_id(name),
                entry_point="pufferlib.interop.gymnasium_env:OceanGymnasiumEnv",
                vector_entry_point="pufferlib.interop.gymnasium_vector:OceanVectorEnv",
                kwargs={"name": name},
            )


def env_id(name: str) -> str:
    """The id in Gymnasium of a name such as `puffer_breakout`."""
    return f"pufferlib/{name.removeprefix(_PREFIX)}"


def _names() -> list[str]:
    """What `pufferlib.ocean.names` tells of what is in C; that may be importing Gymnasium at this moment."""
    spec = importlib.util.find_spec("pufferlib.ocean")
    folders = Path(spec.origin).parent.glob("*/*.ini") if spec is not None and spec.origin is not None else []
    own = (path for path in folders if path.stem == path.parent.name and [*path.parent.glob("binding.*")])
    return sorted(_PREFIX + path.stem for path in own)


def spec_of(name: Any, **kwargs: Any) -> EnvSpec | None:
    """The registration of an environment with the arguments that it was made with; None for a class."""
    import copy

    import gymnasium

    if not isinstance(name, str):
        return None
    register_environments()
    spec = copy.deepcopy(gymnasium.spec(env_id(name)))
    spec.kwargs.update(kwargs)
    return spec


class _Waiting:
    """Finds Gymnasium as the finders behind it do, and has the ids registered when it has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _GYMNASIUM:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in behind)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Loader) -> None:
        execute = loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register_environments()

        loader.exec_module = execute_and_register
