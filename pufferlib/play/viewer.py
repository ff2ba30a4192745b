"""The window that a person watches a policy in, whoever draws it."""

from __future__ import annotations

import abc
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from pufferlib.environment import PufferEnv
from pufferlib.families.catalog import Entry
from pufferlib.families.ocean_family import OceanFamily
from pufferlib.ocean import rendering

HUMAN = {"render_mode": "human"}
"""What Gymnasium and PettingZoo call a window that the environment itself keeps up to date."""


class Viewer(abc.ABC):
    """Shows one environment.

    Attributes:
        env_kwargs: keyword arguments that the environment is to be made with.
    """

    env_kwargs: ClassVar[Mapping[str, Any]] = {}

    @abc.abstractmethod
    def show(self, env: PufferEnv) -> bool:
        """Shows the environment as it is after a step; False when the person closed the window."""


class OceanViewer(Viewer):
    """Draws a C environment with raylib."""

    @override
    def show(self, env: PufferEnv) -> bool:
        env.render()
        return not rendering.is_closing()


class HumanViewer(Viewer):
    """Watches an environment that draws by itself at every step."""

    env_kwargs: ClassVar[Mapping[str, Any]] = HUMAN

    @override
    def show(self, env: PufferEnv) -> bool:
        """Only the windows of pygame tell that they were closed."""
        pygame = sys.modules.get("pygame")
        is_open = pygame is not None and pygame.display.get_init()
        return not (is_open and pygame.event.peek(pygame.QUIT))


def make_viewer(entry: Entry) -> Viewer | None:
    """The viewer for an environment; None where it cannot be drawn."""
    if entry.family == OceanFamily.name:
        return OceanViewer()
    return HumanViewer() if "render_mode" in entry.settings else None
