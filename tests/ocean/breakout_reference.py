"""One frame of Breakout in float64, by brute force over every brick: what the C code is compared with.

It knows nothing of lattices or early-outs: every brick, wall and the paddle is a box, and the ball is swept against all
of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT, BALL, FRAME = 576.0, 330.0, 32.0, 1.0 / 60.0
PADDLE_TOP, PADDLE_REACH = 312.0, 620.0 / 60.0
POINTS = np.repeat([7, 7, 4, 4, 1, 1], 18)  # by brick, row by row
_ROWS, _COLUMNS = np.divmod(np.arange(108), 18)
BRICKS = np.stack([_COLUMNS * 32.0, 50.0 + _ROWS * 12.0, _COLUMNS * 32.0 + 32.0, 62.0 + _ROWS * 12.0], axis=1)


@dataclass
class State:
    """The parts of a game that a frame changes, in pixels and pixels a second."""

    ball: np.ndarray  # (2,) left top corner
    velocity: np.ndarray  # (2,)
    paddle_x: float
    paddle_width: float
    speed: float
    hits: int  # of the paddle, by this ball
    score: int
    is_broken: np.ndarray  # (108,)
    is_second_wall: bool


def play_frame(state: State, direction: int, events: dict[str, int]) -> bool:
    """Plays one frame in place and counts what happened; returns False when the ball is lost."""
    reach = WIDTH - state.paddle_width
    state.paddle_x = float(np.clip(state.paddle_x + direction * PADDLE_REACH, 0.0, reach))
    left = 1.0
    for _ in range(8):
        way = state.velocity * FRAME
        event, time, axis, brick = _first_contact(state, way, left)
        state.ball = state.ball + way * time
        left -= time
        if event is None:
            return True
        events[event] += 1
        if event == "floor":
            return False
        if event == "paddle":
            _hit_paddle(state, events)
            continue
        state.velocity[axis] = -state.velocity[axis]
        if event == "back wall" and state.paddle_width == 62.0:
            state.paddle_x, state.paddle_width = state.paddle_x + 15.5, 31.0
        if brick is not None:
            _break(state, brick)
    return True


def _first_contact(state, way, left):
    """Returns the event, its time in frames, the axis that reflects, and the brick."""
    candidates = [(left, 0.0, None, None, None)]
    limits = [("side wall", 0, 0.0), ("side wall", 0, WIDTH - BALL), ("back wall", 1, 0.0), ("floor", 1, HEIGHT - BALL)]
    for name, axis, limit in limits:
        time = (limit - state.ball[axis]) / way[axis] if way[axis] and (limit > 0.0) == (way[axis] > 0.0) else np.inf
        candidates.append((max(time, 0.0), -BALL, name, axis, None))
    paddle = np.array([[state.paddle_x, PADDLE_TOP, state.paddle_x + state.paddle_width, PADDLE_TOP + 8.0]])
    if way[1] > 0.0:
        times, _, _ = _sweep(state.ball, way, paddle, may_overlap=True)
        candidates.append((times[0], -BALL, "paddle", 1, None))
    if state.ball[1] > 130.0:  # more than a frame's way below the wall
        return _earliest(candidates, left)
    standing = np.flatnonzero(~state.is_broken)
    times, axes, overlaps = _sweep(state.ball, way, BRICKS[standing], may_overlap=False)
    middles = (BRICKS[standing, :2] + BRICKS[standing, 2:]) / 2.0
    for i in np.flatnonzero(times <= left + 1e-9):
        along = 1 - axes[i]
        distance = abs(middles[i, along] - (state.ball + way * times[i])[along] - BALL / 2.0)
        name = ("brick side", "brick face")[axes[i]]
        candidates.append((times[i], -overlaps[i] + 1e-6 * distance, name, axes[i], standing[i]))
    return _earliest(candidates, left)


def _earliest(candidates, left):
    first = min(time for time, *_ in candidates)
    time, _, name, axis, brick = min((c for c in candidates if c[0] < first + 1e-6), key=lambda c: c[1])
    return (None, left, None, None) if name is None else (name, time, axis, brick)


def _sweep(ball, way, boxes, may_overlap):
    """Entry time into each box (inf: never), the axis entered last, and the overlap along the other axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low = (boxes[:, :2] - BALL - ball) / way
        high = (boxes[:, 2:] - ball) / way
    entry, leave = np.fmin(low, high), np.fmax(low, high)
    for axis in np.flatnonzero(way == 0.0):
        inside = (boxes[:, axis] - BALL < ball[axis]) & (ball[axis] < boxes[:, 2 + axis])
        entry[:, axis], leave[:, axis] = np.where(inside, -np.inf, np.inf), np.inf
    axes = np.argmax(entry, axis=1)
    time = entry.max(axis=1)
    is_met = (time < leave.min(axis=1)) & (leave.min(axis=1) > 0.0)
    is_met &= (time > -1.0) if may_overlap else (time > -1e-3)  # positions are known to about 1e-4 pixels
    if may_overlap:
        is_met |= (time <= -1.0) & (leave.min(axis=1) > 0.0)
    time = np.where(is_met, np.maximum(time, 0.0), np.inf)
    along, rows = 1 - axes, np.arange(len(boxes))
    start = ball[along] + way[along] * np.where(is_met, time, 0.0)
    overlap = np.minimum(start + BALL, boxes[rows, 2 + along]) - np.maximum(start, boxes[rows, along])
    return time, axes, overlap


def _hit_paddle(state, events):
    state.hits += 1
    if state.hits % 4 == 0 and state.speed < 448.0:
        state.speed += 64.0
        events["speed up"] += 1
    offset = np.clip((state.ball[0] + BALL / 2.0 - state.paddle_x) / state.paddle_width, 0.0, 1.0)
    angle = np.pi / 4.0 * (2.0 * offset - 1.0)
    state.velocity = state.speed * np.array([np.sin(angle), -np.cos(angle)])
    if state.score == 432 and not state.is_second_wall:
        state.is_second_wall = True
        state.is_broken[:] = False
        events["second wall"] += 1


def _break(state, brick):
    state.is_broken[brick] = True
    state.score += int(POINTS[brick])
    if brick < 3 * 18:
        state.velocity *= 448.0 / state.speed
        state.speed = 448.0
