"""Tetris once more, slowly: cells are sets, pieces turn about their centres by the published offsets of SRS.

The offsets are those of the guideline's "true rotation" (tetris.wiki/Super_Rotation_System): a piece that turns
from one state into another is tried at the differences of the two states' offsets. tetris.h has the kicks instead.
"""

from __future__ import annotations

import math

import numpy as np

NOTHING, LEFT, RIGHT, TURN, SOFT, HARD, HOLD = range(7)
KINDS = "IOTSZJL"
SHAPES = {  # around the centre, as they appear: (right, up)
    "I": [(-1, 0), (0, 0), (1, 0), (2, 0)],
    "O": [(0, 0), (1, 0), (0, 1), (1, 1)],
    "T": [(-1, 0), (0, 0), (1, 0), (0, 1)],
    "S": [(-1, 0), (0, 0), (0, 1), (1, 1)],
    "Z": [(-1, 1), (0, 1), (0, 0), (1, 0)],
    "J": [(-1, 1), (-1, 0), (0, 0), (1, 0)],
    "L": [(-1, 0), (0, 0), (1, 0), (1, 1)],
}
OFFSETS_OF_MOST = [
    [(0, 0)] * 5,
    [(0, 0), (1, 0), (1, -1), (0, 2), (1, 2)],
    [(0, 0)] * 5,
    [(0, 0), (-1, 0), (-1, -1), (0, 2), (-1, 2)],
]
OFFSETS = {
    **dict.fromkeys("TSZJL", OFFSETS_OF_MOST),
    "I": [
        [(0, 0), (-1, 0), (2, 0), (-1, 0), (2, 0)],
        [(-1, 0), (0, 0), (0, 0), (0, 1), (0, -2)],
        [(-1, 1), (1, 1), (-2, 1), (1, 0), (-2, 0)],
        [(0, 1), (0, 1), (0, 1), (0, -1), (0, 2)],
    ],
    "O": [[(0, 0)], [(0, -1)], [(-1, -1)], [(-1, 0)]],
}
BOX_LEFT = {"I": (0, 2, 0, 1), "O": (1, 1, 1, 1)}  # empty columns of the box at the left of the cells, by state
BOX_BELOW = {"I": (2, 0, 1, 0), "O": (1, 1, 1, 1)}  # empty rows of the box below them
LINE_REWARDS = (0.0, 0.1, 0.3, 0.5, 1.0)


def speed(level):
    """Thousandths of a row that a piece falls in a tenth of a second."""
    return round(100 / (0.8 - 0.007 * (level - 1)) ** (level - 1))


class Piece:
    """A kind in one of four states, its centre somewhere in the field."""

    def __init__(self, kind, x=4, y=20, state=0):
        self.kind, self.x, self.y, self.state = kind, x, y, state

    def cells(self):
        cells = SHAPES[self.kind]
        for _ in range(self.state):
            cells = [(y, -x) for x, y in cells]
        return {(self.x + x, self.y + y) for x, y in cells}

    def moved(self, right, up, turns=0):
        return Piece(self.kind, self.x + right, self.y + up, (self.state + turns) % 4)

    def turned(self):
        """Every place where it is tried, in turn."""
        before, after = OFFSETS[self.kind][self.state], OFFSETS[self.kind][(self.state + 1) % 4]
        return [self.moved(a - c, b - d, 1) for (a, b), (c, d) in zip(before, after, strict=True)]

    def box_column(self):
        left = BOX_LEFT.get(self.kind, (0, 1, 0, 0))[self.state]
        return min(x for x, _ in self.cells()) - left

    def box_row(self):
        below = BOX_BELOW.get(self.kind, (1, 0, 0, 0))[self.state]
        return min(y for _, y in self.cells()) - below


class Reference:
    """One game; the kinds to come, which are the only chance in it, are read off the observation."""

    def __init__(self, observation, level=1, shaped=True):
        self.starting_level, self.shaped = level, shaped
        self.begin(observation)

    def begin(self, observation):
        self.locked, self.roughness, self.lines, self.steps = set(), 0, 0, 0
        self.held, self.may_hold = None, True
        self.queue = [KINDS[int(np.argmax(row))] for row in observation[-21:].reshape(3, 7)]
        self.spawn(KINDS[int(np.argmax(observation[200:207]))])

    @property
    def level(self):
        return min(15, self.starting_level + self.lines // 10)

    def fits(self, piece):
        return all(0 <= x < 10 and 0 <= y < 24 for x, y in piece.cells()) and not piece.cells() & self.locked

    def landing(self, piece=None):
        piece = piece or self.piece
        while self.fits(piece.moved(0, -1)):
            piece = piece.moved(0, -1)
        return piece

    def spawn(self, kind):
        self.piece, self.fallen, self.ground_steps, self.ground_moves = Piece(kind), 0, 0, 0
        self.is_over = not self.fits(self.piece)
        self.deepest = self.piece.box_row()
        if not self.is_over:
            self.sink(1)

    def take_next(self, observation):
        self.queue.append(KINDS[int(np.argmax(observation[-7:]))])
        return self.queue.pop(0)

    def sink(self, rows):
        for fallen in range(rows):
            if not self.fits(self.piece.moved(0, -1)):
                return fallen
            self.piece = self.piece.moved(0, -1)
            if self.piece.box_row() < self.deepest:
                self.deepest, self.ground_steps, self.ground_moves = self.piece.box_row(), 0, 0
        return rows

    def move(self, places):
        for place in places:
            if self.fits(place):
                self.piece = place
                if self.ground_steps > 0 and self.ground_moves < 15:
                    self.ground_moves, self.ground_steps = self.ground_moves + 1, 0
                return

    def hold(self, observation):
        if self.may_hold:
            kind = self.held or self.take_next(observation)
            self.held, self.may_hold = self.piece.kind, False
            self.spawn(kind)

    def full_rows(self, cells):
        return [y for y in range(24) if all((x, y) in cells for x in range(10))]

    def gaps(self, piece):
        """Empty cells below a piece, in each of its columns down to the next locked one."""
        found = set()
        for x, y in piece.cells():
            while y > 0 and (x, y - 1) not in self.locked | piece.cells():
                y -= 1
                found.add((x, y))
        return len(found)

    def without_full_rows(self, cells):
        full = self.full_rows(cells)
        return {(x, y - sum(row < y for row in full)) for x, y in cells if y not in full}

    def rougher(self, piece):
        """By how much the field would be rougher if a piece lay there, in the steps that are shown."""
        left = self.without_full_rows(self.locked | piece.cells())
        return min(15, max(0, (roughness(left) - self.roughness + 25) // 5))

    def lock(self, observation):
        """Returns the reward for lines and, where it is shaped, for the field that is left."""
        cells, before = self.piece.cells(), self.roughness
        self.locked |= cells
        if all(y >= 20 for _, y in cells):
            self.is_over = True
            return 0.0
        full = self.full_rows(self.locked)
        self.locked = self.without_full_rows(self.locked)
        self.roughness = roughness(self.locked)
        self.lines += len(full)
        self.may_hold = True
        self.spawn(self.take_next(observation))
        neatness = 0.05 + 0.002 * (10 - min(y for _, y in cells)) - 0.004 * (self.roughness - before)
        return LINE_REWARDS[len(full)] + (neatness if self.shaped else 0.0)

    def step(self, action, observation):
        """Plays one step; returns reward, terminal and truncation, and leaves a game that is over as it is."""
        self.steps += 1
        reward, is_locking = 0.0, action == HARD
        if action in (LEFT, RIGHT):
            self.move([self.piece.moved(1 if action == RIGHT else -1, 0)])
        elif action == TURN:
            self.move(self.piece.turned())
        elif action == SOFT:
            reward += 0.001 * self.sink(1)
        elif action == HARD:
            reward += 0.002 * self.sink(99)
        elif action == HOLD:
            self.hold(observation)
        if not is_locking and not self.is_over:
            self.fallen += speed(self.level)
            self.sink(self.fallen // 1000)
            self.fallen %= 1000
            if not self.fits(self.piece.moved(0, -1)):
                self.fallen = 0
                self.ground_steps += 1
            is_locking = self.ground_steps == 5
        if is_locking:
            reward += self.lock(observation)
        return reward, self.is_over, not self.is_over and self.steps == 10_000

    def observation(self):
        """What tetris.h says that the player sees."""
        landing = self.landing()
        parts = [plane(self.locked), one_of(7, KINDS.index(self.piece.kind))]
        parts += [one_of(4, self.piece.state), one_of(11, self.piece.box_column() + 2)]
        parts += [one_of(22, min(21, self.piece.y - landing.y)), one_of(24, min(y for _, y in landing.cells()))]
        parts += [one_of(5, len(self.full_rows(self.locked | landing.cells()))), one_of(8, min(7, self.gaps(landing)))]
        parts += [one_of(16, self.rougher(landing)), one_of(5, self.ground_steps)]
        parts += [one_of(15, self.level - 1), one_of(7, -1 if self.held is None else KINDS.index(self.held))]
        steps = [one_of(7, step + 3) for step in surface(self.locked)]
        queue = [one_of(7, KINDS.index(kind)) for kind in self.queue]
        return np.concatenate([*parts, [self.may_hold], *steps, *queue])


def one_of(count, index):
    return np.arange(count) == index


def plane(cells):
    return np.array([(x, y) in cells for y in reversed(range(20)) for x in range(10)])


def heights(cells):
    return [max((y + 1 for column, y in cells if column == x), default=0) for x in range(10)]


def surface(cells):
    """By how many rows each column is higher than the one before, at most three."""
    tops = heights(cells)
    return [min(3, max(-3, after - before)) for before, after in zip(tops, tops[1:], strict=False)]


def roughness(cells):
    """How hard a field is to fill; see tetris.h."""
    tops, rows = heights(cells), range(max((y + 1 for _, y in cells), default=0))
    locked = cells | {(x, y) for x in (-1, 10) for y in rows} | {(x, -1) for x in range(10)}
    along_rows = sum(((x, y) in locked) != ((x + 1, y) in locked) for y in rows for x in range(-1, 10))
    along_columns = sum(((x, y) in locked) != ((x, y - 1) in locked) for x in range(10) for y in range(24))
    covered = sum((x, y) not in cells for x in range(10) for y in range(tops[x]))
    wells = 0
    for x in range(10):
        depth = 0
        for y in range(24, tops[x] - 1, -1):
            depth = depth + 1 if {(x - 1, y), (x + 1, y)} <= locked else 0
            wells += min(3, depth)
    return 3 * (along_rows - 2 * len(rows)) + 9 * (along_columns - 10) + 8 * covered + 3 * wells


def best_placement(game):
    """Turns and moves for the piece, by a published evaluation of where it would lie after a hard drop.

    The weights are those of Yiyuan Lee 2013, "Tetris AI - The (Near) Perfect Player".
    """
    found = []
    for turns in range(4):
        for shift in range(-5, 6):
            piece = Piece(game.piece.kind, game.piece.x, game.piece.y, 0)
            for _ in range(turns):
                piece = piece.turned()[0]
            piece = piece.moved(shift, 0)
            if game.fits(piece):
                found.append((evaluation(game.locked | game.landing(piece).cells()), turns, shift))
    return max(found)[1:] if found else (0, 0)


def evaluation(cells):
    rows = [sum(1 << x for x in range(10) if (x, y) in cells) for y in range(24)]
    kept = [row for row in rows if row != 1023]
    heights = [max((y + 1 for y, row in enumerate(kept) if row >> x & 1), default=0) for x in range(10)]
    holes = sum(height - sum(row >> x & 1 for row in kept) for x, height in enumerate(heights))
    bumps = sum(abs(a - b) for a, b in zip(heights, heights[1:], strict=False))
    return -0.510066 * sum(heights) + 0.760666 * (24 - len(kept)) - 0.35663 * holes - 0.184483 * bumps - math.ulp(1)
