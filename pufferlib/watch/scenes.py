"""The scene of an environment of any family."""

from __future__ import annotations

from pufferlib.environment import PufferEnv
from pufferlib.ocean.environment import OceanEnv
from pufferlib.watch.array_scene import ArrayScene
from pufferlib.watch.scene import OceanScene, Scene


def make_scene(env: PufferEnv) -> Scene:
    """Returns the scene of an environment.

    Args:
        env: one that was reset; where it is not in C it was made with `array_scene.array_settings`.

    Raises:
        APIUsageError: if it cannot be drawn.
        MissingExtraError: if it is in C, and raylib is not installed.
    """
    return OceanScene(env) if isinstance(env, OceanEnv) else ArrayScene(env)
