"""Reads and writes the arena of a snake environment: its cells, and who lies where."""

from __future__ import annotations

import itertools

import numpy as np
from test_forged_snapshots import content_of, sealed

from pufferlib.ocean.snake.snake import Snake

EMPTY, FOOD, CORPSE, BODY, HEAD, WALL = range(6)
BORDER, MAX_SNAKES, MAX_LENGTH, START_LENGTH = 5, 512, 1024, 2
MOVES = [(1, 0), (-1, 0), (0, -1), (0, 1)]  # rows and columns, by action
AGENT = np.dtype(
    [("head", "i4"), ("tail", "i4"), ("first", "u2"), ("num_cells", "u2"), ("length", "u2")]
    + [("steps", "i2"), ("meals", "i2"), ("heading", "u1"), ("moves", "u1", MAX_LENGTH // 4), ("padding", "u1")]
)
SYMBOLS = ".*%"  # nothing, food and corpse in a drawing; letters are snakes, capitals their heads


class Arena:
    """A copy of the struct of one environment, to be looked at or changed and put back."""

    def __init__(self, env: Snake):
        self._env = env
        self.width, self.height = env.arguments["width"], env.arguments["height"]
        self.stride = self.width + 2 * BORDER
        self._snapshot = env.snapshot()
        content = self._content = bytearray(content_of(self._snapshot))
        # The cells begin with the rows of walls above the arena, after all snakes.
        offset = content.index(bytes([WALL]) * (self.stride * BORDER + BORDER))
        size = self.stride * (self.height + 2 * BORDER)
        self.cells = np.frombuffer(content, np.uint8, size, offset).reshape(-1, self.stride)
        self.agents = np.frombuffer(content, AGENT, MAX_SNAKES, offset - MAX_SNAKES * AGENT.itemsize)
        sizes = np.frombuffer(content, np.int32, offset // 4 - MAX_SNAKES * AGENT.itemsize // 4)
        arguments = [env.agents_per_env, self.width, self.height]
        (found,) = (i for i in range(len(sizes) - 8) if list(sizes[i : i + 3]) == arguments)
        self.longest, self.max_grown = sizes[found + 3 : found + 5].tolist()
        self._num_grown, self._num_edible = sizes[found + 5 : found + 6], sizes[found + 7 : found + 8]
        self.num_food = int(sizes[found + 6])
        self.inside = self.cells[BORDER:-BORDER, BORDER:-BORDER]

    def places(self, row: int) -> list[tuple[int, int]]:
        """Where a snake lies, the tail first: rows and columns."""
        agent = self.agents[row]
        moves = np.stack([agent["moves"] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).ravel()
        found = [(int(agent["tail"]) // self.stride - BORDER, int(agent["tail"]) % self.stride - BORDER)]
        for index in range(int(agent["num_cells"]) - 1):
            down, right = MOVES[moves[(int(agent["first"]) + index) % MAX_LENGTH]]
            found.append((found[-1][0] + down, found[-1][1] + right))
        assert self.cell(found[-1]) == agent["head"]
        return found

    def cell(self, place: tuple[int, int]) -> int:
        """The number of a cell in the struct."""
        return (place[0] + BORDER) * self.stride + place[1] + BORDER

    def draw(self, drawing: str) -> None:
        """Replaces everything: the drawing goes to the upper left, food to the bottom until no more grows.

        Digits are the snake a, from its tail on, where letters could be read in several ways.
        """
        self.inside[:] = EMPTY
        self._num_grown[0] = 0
        lines = [line.strip() for line in drawing.strip().splitlines()]
        symbols = {(y, x): symbol for y, line in enumerate(lines) for x, symbol in enumerate(line)}
        for row in range(self._env.agents_per_env):
            self.lay(row, _snake(symbols, chr(ord("a") + row)))
        for place, symbol in symbols.items():
            if symbol in SYMBOLS:
                self.inside[place] = SYMBOLS.index(symbol)
        edible = self.count_edible()
        for index in range(self.num_food - edible):
            self.inside[-1 - index // self.width, index % self.width] = FOOD
        self.count_edible()

    def count_edible(self) -> int:
        """Notes in the struct how many cells are edible."""
        self._num_edible[0] = np.sum((self.inside == FOOD) | (self.inside == CORPSE))
        return int(self._num_edible[0])

    def lay(self, row: int, places: list[tuple[int, int]]) -> None:
        """Puts a snake of two cells or more where nothing is, its tail first."""
        agent = self.agents[row]
        for place in places:
            self.inside[place] = HEAD if place == places[-1] else BODY
        moves = [MOVES.index((y - from_y, x - from_x)) for (from_y, from_x), (y, x) in itertools.pairwise(places)]
        packed = [move << 2 * (index % 4) for index, move in enumerate(moves)]
        for index in range(0, len(packed), 4):
            agent["moves"][index // 4] = sum(packed[index : index + 4])
        agent["tail"], agent["head"] = self.cell(places[0]), self.cell(places[-1])
        agent["first"], agent["num_cells"], agent["length"] = 0, len(places), len(places)
        agent["steps"] = agent["meals"] = 0
        agent["heading"] = moves[-1]
        self._num_grown[0] += len(places) - START_LENGTH

    def put_back(self) -> None:
        """Has the environment go on from what this copy holds."""
        self._env.restore(sealed(self._snapshot, bytes(self._content)))

    def drawn(self, rows: int, columns: int, dead: str = "") -> str:
        """The upper left part as a drawing; snakes in `dead` are elsewhere by now and left out."""
        letters = {
            place: SYMBOLS[self.inside[place]] for place in np.ndindex(rows, columns) if self.inside[place] < BODY
        }
        for row in range(self._env.agents_per_env):
            letter = chr(ord("a") + row)
            if letter not in dead:
                *body, head = self.places(row)
                letters |= dict.fromkeys(body, letter) | {head: letter.upper()}
        return "\n".join("".join(letters.get((y, x), "?") for x in range(columns)) for y in range(rows))


def _snake(symbols: dict[tuple[int, int], str], letter: str) -> list[tuple[int, int]]:
    """The places of a snake in a drawing, from its tail to its head."""
    numbered = sorted((symbol, place) for place, symbol in symbols.items() if symbol.isdigit())
    if letter == "a" and numbered:
        return [place for _, place in numbered]
    places = [place for place, symbol in symbols.items() if symbol == letter.upper()]
    body = {place for place, symbol in symbols.items() if symbol == letter}
    while body:
        y, x = places[-1]
        (neighbour,) = body & {(y + 1, x), (y - 1, x), (y, x - 1), (y, x + 1)}
        places.append(neighbour)
        body = body - {neighbour}
    return places[::-1]
