"""Scenes: they draw one environment, of any family."""

from __future__ import annotations

import abc

from typing_extensions import override

from pufferlib.ocean.environment import OceanEnv

FRAMES_PER_SECOND = 60.0
"""Of a window."""


class Scene(abc.ABC):
    """Draws one environment onto the open screen, also the moments between two of its steps.

    It outlives a screen: what it loaded for one that is closed is loaded again for the next.

    Attributes:
        size: width and height in pixels that it is made for; drawn at scale 1 it covers as many.
        steps_per_second: the agent's steps in a second that look natural, above 0.
        frames_per_second: different pictures that it has for a second at that pace, as many as are worth drawing.
        title: the environment's name, for the window.
    """

    size: tuple[int, int]
    steps_per_second: float
    frames_per_second: float
    title: str

    @abc.abstractmethod
    def remember(self) -> None:
        """Keeps the environment as it is, for drawing the way from here; to be called before each of its steps."""

    @abc.abstractmethod
    def draw(self, x: float, y: float, scale: float, progress: float) -> None:
        """Draws the environment; between `begin` and `end` of the screen.

        Args:
            x: pixels from the screen's left edge to its own.
            y: pixels from the screen's upper edge to its own.
            scale: pixels of the screen for one of `size`, above 0.
            progress: how much of the step since `remember` is over: 0 shows the moment before it, 1 the one after. An
                episode that ended with the step is still shown at its end; the next begins with the next step.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Frees the resources of drawing; the environment stays open. Calling it twice is harmless."""


class OceanScene(Scene):
    """An environment in C, which is drawn between its steps too."""

    frames_per_second = FRAMES_PER_SECOND

    def __init__(self, env: OceanEnv):
        self._drawing = env.drawing()
        self.size = self._drawing.size
        self.steps_per_second = self._drawing.steps_per_second
        self.title = self._drawing.title

    @override
    def remember(self) -> None:
        self._drawing.remember()

    @override
    def draw(self, x: float, y: float, scale: float, progress: float) -> None:
        self._drawing.draw(x, y, scale, progress)

    @override
    def close(self) -> None:
        self._drawing.close()
