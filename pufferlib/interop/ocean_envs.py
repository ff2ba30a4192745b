"""The C environments behind every interface of another library."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pufferlib import ocean
from pufferlib.emulation.emulated_env import ACTION_MASK
from pufferlib.environment import fitting_actions
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.screen import Screen, open_screen

if TYPE_CHECKING:
    from pufferlib.ocean.rendering import Drawing


_NEVER = 2**62  # steps; statistics are read on demand
_OURS = ("num_envs", "buf", "report_interval")  # keywords of OceanEnv that the interfaces decide


def ocean_name(name: str | type[OceanEnv]) -> str | type[OceanEnv]:
    """The Ocean environment that a name of the catalog leads to, or the class given; an APIUsageError for others."""
    if _is_class(name):
        return name
    entry = catalog.find(name)
    if entry.family != "ocean" or not _is_class(entry.creator):
        raise APIUsageError(
            f"an environment in C, such as puffer_breakout, is expected, got {name}; make others by "
            "gymnasium.make, gymnasium.make_vec or PettingZoo"
        )
    return entry.name


def _make_ocean(name: str | type[OceanEnv], num_envs: int, env_kwargs: Mapping[str, Any]) -> OceanEnv:
    wrong = [keyword for keyword in _OURS if keyword in env_kwargs]
    if wrong:
        raise APIUsageError(f"{wrong[0]} is not an argument of the environment here; leave it out")
    creator = name if _is_class(name) else ocean.env_class(name)
    return creator(num_envs=num_envs, report_interval=_NEVER, **{"seed": secrets.randbits(63), **env_kwargs})


def write_actions(env: OceanEnv, row: int, action: ArrayLike) -> None:
    """Writes one agent's action into the environment's own array; one that does not fit is an APIUsageError."""
    rows = env.actions[row : row + 1]
    rows[...] = fitting_actions(np.asarray(action)[np.newaxis], rows)


def mask_info(env: OceanEnv, row: int) -> dict[str, np.ndarray]:
    """One agent's action mask by its name, int8; nothing where the environment has none."""
    return {ACTION_MASK: env.action_masks[row].astype(np.int8)} if env.has_action_masks else {}


def _is_class(name: object) -> bool:
    return isinstance(name, type) and issubclass(name, OceanEnv)


class OceanInside:
    """C environments inside an interface of another library.

    The environments themselves are `ocean`, and keep their final observations.
    """

    ocean: OceanEnv
    metadata: dict[str, Any]

    def _open(
        self,
        name: str | type[OceanEnv],
        num_envs: int,
        render_mode: str | None,
        env_kwargs: Mapping[str, Any],
        max_episode_steps: int | None = None,
        is_of_one_agent: bool = True,
    ) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise APIUsageError(f"render_mode must be one of {modes} or None, got {render_mode!r}")
        if max_episode_steps is not None and not (isinstance(max_episode_steps, int) and max_episode_steps >= 1):
            raise APIUsageError(f"max_episode_steps must be an integer from 1, or None, got {max_episode_steps!r}")
        self.render_mode, self._max_episode_steps = render_mode, max_episode_steps
        self.ocean = _make_ocean(name, num_envs, env_kwargs)
        if is_of_one_agent and self.ocean.agents_per_env != 1:
            self.ocean.close()
            raise APIUsageError(
                f"an environment of one agent is expected, got {type(self.ocean).__name__} with "
                f"{self.ocean.agents_per_env}; pufferlib.make_pettingzoo makes those of several"
            )
        self.metadata = dict(self.metadata)
        if render_mode is not None:
            self.metadata["render_fps"] = _natural_pace(name, env_kwargs)
        self._drawings: dict[int, Drawing] = {}  # nothing is loaded or opened before the first picture
        self._final = self.ocean.keep_final_observations()

    def _picture(self, index: int = 0) -> np.ndarray:
        # Of environment `index`, which was reset; `(height, width, 3)` uint8 RGB, owned by the caller.
        if index not in self._drawings:
            self._drawings[index] = self.ocean.drawing(index)
        drawing = self._drawings[index]
        screen = _open_screen(drawing.size)
        screen = screen or Screen(*drawing.size, drawing.title, is_visible=False, gives_way=True)
        screen.begin()
        try:
            drawing.draw()
            return screen.frame()
        finally:
            screen.end()

    def _show(self) -> None:
        if self.render_mode == "human":
            self.ocean.render()

    def render(self) -> np.ndarray | None:
        """The frame, `(height, width, 3)` uint8 RGB; None unless `render_mode` is `rgb_array`."""
        return self._picture() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Closes the environment and its pictures; may be called twice."""
        for drawing in self._drawings.values():
            screen = _open_screen(drawing.size)
            drawing.close()
            if screen is not None:
                screen.close()  # another picture opens it again
        self._drawings.clear()
        self.ocean.close()


def _natural_pace(name: str | type[OceanEnv], env_kwargs: Mapping[str, Any]) -> int:
    # Steps per second, rounded: what a video is to be shown at.
    with closing(_make_ocean(name, 1, env_kwargs)) as env:
        env.reset()
        with closing(env.drawing()) as drawing:
            return round(drawing.steps_per_second)


def _open_screen(size: tuple[int, int]) -> Screen | None:
    # The one screen of this process, where it is for single pictures of that size, on which environments take turns.
    screen = open_screen()
    return screen if screen is not None and screen.gives_way and screen.size == size else None
