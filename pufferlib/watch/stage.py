"""The picture around environments: what an agent sees and thinks, the side panel, and tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
from torch.distributions import Normal

from pufferlib import spaces
from pufferlib.ocean.screen import BACKGROUND, CYAN, PANEL, RED, WHITE, Screen
from pufferlib.play.player import Decision
from pufferlib.watch.scene import Scene, draw_picture

EDGE = (28, 80, 80)
DIM_CYAN = (0, 96, 96)
GREY = (140, 165, 165)
VEIL = (*BACKGROUND, 225)  # over what lies below something that is to be read
SHADE = (*BACKGROUND, 140)  # over what is not to be looked at

Color = tuple[int, ...]  # red, green, blue and, if it is not opaque, alpha


def _fill(screen: Screen, x: float, y: float, width: float, height: float, color: Color) -> None:
    # A rectangle of whole pixels, so that those beside each other show no seam.
    left, top = round(x), round(y)
    right, bottom = round(x + max(width, 0.0)), round(y + max(height, 0.0))
    screen.rectangle(left, top, right - left, bottom - top, color)


def _write(screen: Screen, text: str, x: float, y: float, size: int, color: Color, is_before: bool = False) -> None:
    # A line that begins at x, or ends there.
    left = x - screen.text_width(text, size) if is_before else x
    screen.text(text, round(left), round(y), size, color)


SMALL, NORMAL, LARGE = 18, 22, 40  # pixels of text
_PADDING = 26


class SignLine(NamedTuple):
    """One line of a sign."""

    text: str
    size: int = NORMAL
    color: Color = WHITE


title = partial(SignLine, size=LARGE, color=CYAN)
hint = partial(SignLine, size=SMALL, color=GREY)


def draw_sign(screen: Screen, lines: Sequence[SignLine], top: float = 0.0) -> None:
    """Draws lines in the middle, over a picture that begins at `top`; smaller on a small screen."""
    width, height = screen.size
    wide = max(screen.text_width(line.text, line.size) for line in lines) + 2 * _PADDING
    tall = sum(1.3 * line.size for line in lines) + 2 * _PADDING
    scale = min(1.0, (width - 20) / wide, (height - top - 20) / tall)
    wide, tall = scale * wide, scale * tall
    left, y = (width - wide) / 2, (height + top - tall) / 2
    screen.rectangle(0, top, width, height - top, SHADE)
    screen.rectangle(left - 2, y - 2, wide + 4, tall + 4, EDGE, 16)
    screen.rectangle(left, y, wide, tall, PANEL, 14)
    y += scale * _PADDING
    for line in lines:
        size = max(4, round(scale * line.size))
        screen.text(line.text, (width - screen.text_width(line.text, size)) / 2, y, size, line.color)
        y += 1.3 * scale * line.size


@dataclass(frozen=True)
class PolicyTrace:
    """One step of one agent, a copy of its part of a decision."""

    observation: np.ndarray  # in the shape and dtype of its space
    value: float  # the critic's estimate of the return from there on
    parts: tuple[torch.Tensor | Normal, ...]  # of the action, in their order: probabilities, or of numbers a Normal
    action: np.ndarray  # that was taken, a flat row
    is_first: bool  # of its episode


def trace_of(decision: Decision, actions: np.ndarray, row: int, is_first: bool) -> PolicyTrace:
    """Returns the trace of the agent of a row, who takes that of the actions."""
    logits = decision.logits
    parts = tuple(_own(part, row) for part in ((logits,) if isinstance(logits, torch.Tensor | Normal) else logits))
    value = float(decision.values.reshape(len(actions), -1)[row, 0])
    return PolicyTrace(decision.observations[row].copy(), value, parts, actions[row].flatten(), is_first)


def _own(part: torch.Tensor | Normal, row: int) -> torch.Tensor | Normal:
    if isinstance(part, Normal):
        return Normal(*(each[row].float().cpu().clone() for each in (part.loc, part.scale)), validate_args=False)
    return part[row].float().softmax(-1).cpu()


MAX_TRACES = 200  # steps that are kept


PANEL_WIDTH = 300  # pixels
PANEL_MIN_HEIGHT = 460
_MARGIN = 16
_INNER = PANEL_WIDTH - 2 * _MARGIN
_TEXT, _TINY = 16, 13
_HEADING = 26  # pixels from a heading to what it is about
_SECTION = 16  # pixels between two sections
_BARS_HEIGHT, _CHOICES_HEIGHT = 72, 40
_MAX_IMAGE = 150
_MAX_LISTED = 8  # choices with a line each; more are bars side by side
_STEP = _INNER / MAX_TRACES  # pixels of the curve for each step


class SidePanel:
    """Draws the newest trace of one agent and the values of those before it.

    Numbers of an observation are bars, each as long as it is large beside the largest that it was so far.
    """

    def __init__(self, action_space: gymnasium.Space, action_names: Mapping[int, str]):
        self._action_space, self._action_names = action_space, action_names
        self._largest: np.ndarray | None = None
        self._has_negative = False  # so far

    def draw(self, screen: Screen, left: float, height: float, traces: Sequence[PolicyTrace], progress: float) -> None:
        """Draws it, from the top of the screen."""
        _fill(screen, left, 0, PANEL_WIDTH, height, PANEL)
        _fill(screen, left, 0, 1, height, EDGE)
        x, y, newest = left + _MARGIN, _MARGIN, traces[-1]
        y = self._draw_observation(screen, x, y, newest.observation) + _SECTION
        y = self._draw_actions(screen, x, y, newest) + _SECTION
        self._draw_values(screen, x, y, height - _MARGIN - y, [*traces], progress)

    def _draw_observation(self, screen: Screen, x: float, y: float, observation: np.ndarray) -> float:
        shape = " × ".join(map(str, observation.shape)) if observation.ndim > 1 else f"{observation.size} numbers"
        _heading(screen, x, y, "observation", shape)
        y += _HEADING
        picture = as_picture(observation)
        if picture is None:
            return self._draw_bars(screen, x, y, observation.ravel().astype(float))
        rows, columns, _ = picture.shape
        scale = min(_INNER / columns, _MAX_IMAGE / rows)
        draw_picture(picture, x, y, round(scale * columns), round(scale * rows))
        return y + round(scale * rows)

    def _draw_bars(self, screen: Screen, x: float, y: float, numbers: np.ndarray) -> float:
        numbers = np.nan_to_num(numbers)
        if self._largest is None:
            self._largest = np.zeros(len(numbers))
        np.maximum(self._largest, abs(numbers), out=self._largest)
        heights = pooled(numbers / np.maximum(self._largest, 1e-9), _INNER // 2)
        self._has_negative |= bool((heights < 0).any())
        reach = _BARS_HEIGHT / (2 if self._has_negative else 1)
        _draw_columns(screen, x, y + reach, reach, heights.tolist())
        return y + _BARS_HEIGHT

    def _draw_actions(self, screen: Screen, x: float, y: float, trace: PolicyTrace) -> float:
        _heading(screen, x, y, "action", "")
        y += _HEADING
        bounds = spaces.joint_space(self._action_space, 1, are_actions=True)  # a Box where there are numbers
        for part, place in zip(trace.parts, spaces.action_parts(self._action_space), strict=True):
            taken = trace.action[place.columns]
            if isinstance(part, Normal):
                low, high = (bound.reshape(-1)[place.columns] for bound in (bounds.low, bounds.high))
                y = _draw_amounts(screen, x, y, part, taken, low, high)
            elif len(part) <= _MAX_LISTED and len(trace.parts) == 1:
                y = _draw_list(screen, x, y, part.tolist(), int(taken[0]), self._action_names)
            else:
                _draw_columns(screen, x, y + _CHOICES_HEIGHT, _CHOICES_HEIGHT, part.tolist(), int(taken[0]))
                y += _CHOICES_HEIGHT + 8
        return y

    def _draw_values(
        self, screen: Screen, x: float, y: float, height: float, traces: Sequence[PolicyTrace], progress: float
    ) -> None:
        _heading(screen, x, y, "value", f"{traces[-1].value:.3g}")
        top, reach = y + _HEADING, height - _HEADING
        if reach < 20:
            return
        values = np.nan_to_num([trace.value for trace in traces])
        low, high = float(values.min()), float(values.max())
        margin = max(0.1 * (high - low), 0.05 * max(abs(low), abs(high)), 1e-3)  # so that small changes look small
        low, high = low - margin, high + margin
        base = top + reach
        across = x + _INNER + _STEP * (np.arange(len(values)) + 1 - progress - len(values))
        points = np.stack((across, base - (values - low) / (high - low) * reach), 1)[across >= x]
        screen.line(points, CYAN)
        for trace, place in zip(traces, across.tolist(), strict=True):
            if trace.is_first and place >= x:
                _fill(screen, place, top, 1, reach, GREY)
        _write(screen, f"{high:.3g}", x, top - 4, _TINY, GREY)
        _write(screen, f"{low:.3g}", x, base - _TINY, _TINY, GREY)


def _heading(screen: Screen, x: float, y: float, title: str, detail: str) -> None:
    _write(screen, title, x, y, _TEXT, GREY)
    _write(screen, detail, x + _INNER, y, _TEXT, WHITE, is_before=True)


def _draw_list(
    screen: Screen, x: float, y: float, shares: Sequence[float], taken: int, names: Mapping[int, str]
) -> float:
    line, label, percent = 20, 60, 44
    room = _INNER - label - percent
    for index, share in enumerate(shares):
        is_taken = index == taken
        color = WHITE if is_taken else GREY
        _write(screen, names.get(index, str(index)), x, y, _TEXT, color)
        _fill(screen, x + label, y + 5, room, 8, EDGE)
        _fill(screen, x + label, y + 5, share * room, 8, WHITE if is_taken else CYAN)
        _write(screen, f"{100 * share:.0f}%", x + _INNER, y, _TEXT, color, is_before=True)
        y += line
    return y


def _draw_columns(
    screen: Screen, x: float, base: float, reach: float, shares: Sequence[float], taken: int | None = None
) -> None:
    # Shares from -1 to 1 as bars up or down from the base, each as long as that part of the reach.
    width = _INNER / max(len(shares), 1)
    gap = 1 if width >= 3 else 0
    for index, share in enumerate(shares):
        across = x + index * width
        if index == taken and not gap:
            _fill(screen, across, base - reach, width, reach, WHITE)  # else it would be too thin to be seen
        color = WHITE if index == taken else CYAN if share >= 0 else RED
        _fill(screen, across, base - reach * max(share, 0.0), width - gap, reach * abs(share), color)
    _fill(screen, x, base, _INNER, 1, EDGE)


def _draw_amounts(
    screen: Screen, x: float, y: float, normal: Normal, taken: np.ndarray, low: np.ndarray, high: np.ndarray
) -> float:
    means, deviations = normal.loc.numpy().ravel(), normal.scale.numpy().ravel()
    line = max(6, min(20, 160 // len(means)))
    span = np.where(np.isfinite(high - low), high - low, 2.0)
    low = np.where(np.isfinite(low), low, -1.0)

    def across(numbers: np.ndarray) -> list[float]:
        return (x + np.clip((numbers - low) / span, 0.0, 1.0) * _INNER).tolist()

    lefts, rights = across(means - deviations), across(means + deviations)
    for left, right, mean, own in zip(lefts, rights, across(means), across(taken), strict=True):
        middle = y + line / 2
        _fill(screen, x, middle - 1, _INNER, 2, EDGE)
        _fill(screen, left, middle - line / 4, right - left, line / 2, DIM_CYAN)
        _fill(screen, mean - 1, middle - line / 4, 2, line / 2, CYAN)
        _fill(screen, own - 2, middle - line / 2 + 1, 4, line - 2, WHITE)
        y += line
    return y


def as_picture(observation: np.ndarray) -> np.ndarray | None:
    """Returns an observation as `(rows, columns, 3)` uint8 where it is a picture, else None.

    One is `(rows, columns)` or has 1 to 4 channels, first or last; of pictures behind each other it is the newest.
    """
    match observation.shape:
        case (_, _) | (_, _, 3):
            picture = observation
        case (_, _, 1 | 2 | 4):
            picture = observation[:, :, -1]
        case (3, _, _):
            picture = observation.transpose(1, 2, 0)
        case (1 | 2 | 4, _, _):
            picture = observation[-1]
        case _:
            return None
    if observation.dtype != np.uint8 or min(picture.shape[:2]) < 16:
        return None
    return np.repeat(picture[:, :, None], 3, 2) if picture.ndim == 2 else picture


def pooled(numbers: np.ndarray, most: int) -> np.ndarray:
    """Returns at most `most` numbers: of neighbours that share a place, the one furthest from 0."""
    if len(numbers) <= most:
        return numbers
    groups = np.array_split(numbers, most)
    return np.array([group[abs(group).argmax()] for group in groups])


GAP = 12  # pixels between pictures and around them


@dataclass
class Place:
    """One of the environments that are shown side by side."""

    rows: slice  # of its agents in the vector
    scene: Scene  # draws it
    is_playing: bool = True  # whether it made the last step; if not, it is done


LIMIT = (1920, 1080)  # pixels that everything may cover together, however large a display is


class Stage:
    """Lays pictures of one size out, the largest that fit and of several such ways the fewest gaps, and draws them.

    None is enlarged; everything covers at most `limit`. All measures are in pixels.
    """

    def __init__(self, picture: tuple[int, int], count: int, panel: SidePanel | None, limit: tuple[int, int]):
        gap = self._gap = GAP if count > 1 else 0
        room = limit[0] - gap - (0 if panel is None else PANEL_WIDTH), limit[1] - gap

        def scaled(columns: int) -> float:
            widest, highest = room[0] / columns - gap, room[1] / math.ceil(count / columns) - gap
            return max(1e-2, min(1.0, widest / picture[0], highest / picture[1]))

        def rank(columns: int) -> tuple[float, int, float]:
            rows = math.ceil(count / columns)
            proportion = columns * picture[0] / (rows * picture[1])
            return round(scaled(columns), 3), -rows * columns, -abs(proportion - 16 / 9)

        self.panel = panel  # None where it is hidden
        self._columns = max(range(1, count + 1), key=rank)
        self._scale = scaled(self._columns)
        self.picture = (self._scale * picture[0], self._scale * picture[1])  # width and height of one
        self.width = math.ceil(self._columns * (self.picture[0] + gap) + gap)  # without the panel at their right
        height = math.ceil(math.ceil(count / self._columns) * (self.picture[1] + gap) + gap)
        self.size = (self.width, height) if panel is None else (self.width + PANEL_WIDTH, max(height, PANEL_MIN_HEIGHT))
        self._top = gap + (self.size[1] - height) // 2

    def place(self, index: int) -> tuple[float, float]:
        """Returns the left top corner of a picture."""
        row, column = divmod(index, self._columns)
        width, height = self.picture
        return self._gap + column * (width + self._gap), self._top + row * (height + self._gap)

    def draw(self, screen: Screen, places: Sequence[Place], traces: Sequence[PolicyTrace], progress: float) -> None:
        """Draws everything, between `begin` and `end`; a place that is done is in the shade."""
        for index, place in enumerate(places):
            x, y = self.place(index)
            place.scene.draw(x, y, self._scale, progress if place.is_playing else 1.0)
            if not place.is_playing and len(places) > 1:
                _fill(screen, x, y, *self.picture, SHADE)
        if self.panel is not None and traces:
            self.panel.draw(screen, self.width, self.size[1], traces, progress)
