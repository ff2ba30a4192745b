"""Go once more, slowly: boards are dicts, chains are flooded anew for every question.

The rules are those of John Tromp and Bill Taylor (tromp.github.io/go.html), one by one.
"""

from __future__ import annotations

import numpy as np

BLACK, WHITE = 0, 1
KOMI = 7.5


class Board:
    """Stones on a board, and all positions that there were."""

    def __init__(self, size):
        self.size = size
        self.points = [(row, column) for row in range(size) for column in range(size)]
        self.stones = {}  # (row, column): colour
        self.positions = {frozenset()}

    def neighbours(self, point):
        row, column = point
        around = ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1))
        return [(a, b) for a, b in around if 0 <= a < self.size and 0 <= b < self.size]

    def chain(self, point, stones=None):
        """The stones that are joined to one, and their liberties."""
        stones = self.stones if stones is None else stones
        chain, liberties, left, color = set(), set(), [point], stones[point]
        while left:
            point = left.pop()
            if point in chain:
                continue
            chain.add(point)
            for near in self.neighbours(point):
                if near not in stones:
                    liberties.add(near)
                elif stones[near] == color:
                    left.append(near)
        return chain, liberties

    def after(self, color, point):
        """The stones after a move: the other's chains next to it lose theirs first, then its own chain."""
        stones = {**self.stones, point: color}
        for its_color in (1 - color, color):
            for near in [point, *self.neighbours(point)]:
                if stones.get(near) == its_color:
                    chain, liberties = self.chain(near, stones)
                    stones = stones if liberties else {p: c for p, c in stones.items() if p not in chain}
        return stones

    def may_play(self, color, point):
        return point not in self.stones and frozenset(self.after(color, point).items()) not in self.positions

    def play(self, color, point):
        self.stones = self.after(color, point)
        self.positions.add(frozenset(self.stones.items()))

    def allowed(self, color):
        return {point for point in self.points if self.may_play(color, point)}

    def threatened(self, color):
        return {p for p, its_color in self.stones.items() if its_color == color and len(self.chain(p)[1]) == 1}

    def reaches(self, point):
        """Colours that an empty point reaches through empty ones."""
        seen, left, colors = set(), [point], set()
        while left:
            point = left.pop()
            if point in self.stones:
                colors.add(self.stones[point])
            elif point not in seen:
                seen.add(point)
                left += self.neighbours(point)
        return colors

    def margin(self, color):
        """Points by which a colour is ahead."""
        counts = [0, 0]
        for point in self.points:
            colors = {self.stones[point]} if point in self.stones else self.reaches(point)
            if len(colors) == 1:
                counts[colors.pop()] += 1
        margin = counts[BLACK] - counts[WHITE] - KOMI
        return margin if color == BLACK else -margin


class Reference:
    """A game between the agent and the opponent, whose moves are read off the observations."""

    def __init__(self, size, observation):
        self.size = size
        self.begin(observation)

    def plane(self, observation, index):
        count = self.size**2
        rows, columns = np.nonzero(observation[index * count : (index + 1) * count].reshape(self.size, self.size))
        return {(int(row), int(column)) for row, column in zip(rows, columns, strict=True)}

    def begin(self, observation):
        self.board = Board(self.size)
        self.color = BLACK if observation[-2] else WHITE
        self.turns, self.has_passed, self.last = 0, False, set()
        if self.color == WHITE:
            self.reply(observation)

    def turn(self, color, point):
        """Returns whether it ends the game."""
        self.turns += 1
        is_over = point is None and self.has_passed
        self.has_passed = point is None
        if point is not None:
            assert self.board.may_play(color, point)
            self.board.play(color, point)
        return is_over

    def reply(self, observation):
        self.last = self.plane(observation, 5)
        return self.turn(1 - self.color, next(iter(self.last), None))

    def step(self, action, observation):
        """Plays one step with the opponent's answer as observed; returns reward, terminal and truncation."""
        point = divmod(action, self.size) if 0 <= action < self.size**2 else None
        if point is not None and not self.board.may_play(self.color, point):
            point = None
        is_over = self.turn(self.color, point)
        is_cut = self.turns == 3 * self.size**2
        if not is_over and not is_cut:
            is_over = self.reply(observation)
            is_cut = self.turns == 3 * self.size**2
        reward = (1.0 if self.board.margin(self.color) > 0 else -1.0) if is_over else 0.0
        return reward, is_over, is_cut and not is_over

    def observation(self):
        board, own = self.board, self.color
        sets = [{p for p, color in board.stones.items() if color == each} for each in (own, 1 - own)]
        sets += [board.threatened(own), board.threatened(1 - own), board.allowed(own), self.last]
        planes = [[point in points for point in board.points] for points in sets]
        return np.array([*sum(planes, []), own == BLACK, self.has_passed], np.uint8)
