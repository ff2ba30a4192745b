"""The scene of an environment of any family."""

from __future__ import annotations

from pufferlib.environment import PufferEnv
from pufferlib.ocean.environment import OceanEnv
from pufferlib.watch.array_scene import ArrayScene
from pufferlib.watch.scene import OceanScene, Scene


def make_scene(env: PufferEnv) -> Scene:
    """Returns the scene of an environment."""
    return OceanScene(env) if isinstance(env, OceanEnv) else ArrayScene(env)
