"""Reads and writes the arena of a snake environment: its cells, and who lies where."""

from __future__ import annotations

import numpy as np
from test_forged_snapshots import content_of, sealed

from pufferlib.ocean.snake.snake import Snake

EMPTY, FOOD, CORPSE, BODY, HEAD, WALL = range(6)
BORDER, MAX_SNAKES, MAX_LENGTH, START_LENGTH = 5, 512, 64, 2
AGENT = np.dtype(
    [("ring", "u2", MAX_LENGTH), ("tail", "u1"), ("num_cells", "u1"), ("length", "u1"), ("heading", "u1")]
    + [("steps", "i2"), ("meals", "i2")]
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
        (found,) = (i for i in range(len(sizes) - 6) if list(sizes[i : i + 3]) == arguments)
        self.longest, self.num_food = sizes[found + 3 : found + 5].tolist()
        self._num_edible = sizes[found + 5 : found + 6]
        self.inside = self.cells[BORDER:-BORDER, BORDER:-BORDER]

    def places(self, row: int) -> list[tuple[int, int]]:
        """Where a snake lies, the tail first: rows and columns."""
        agent = self.agents[row]
        found = agent["ring"][(agent["tail"] + np.arange(agent["num_cells"])) % MAX_LENGTH]
        return [(int(cell) // self.stride - BORDER, int(cell) % self.stride - BORDER) for cell in found]

    def draw(self, drawing: str) -> None:
        """Replaces everything: the drawing goes to the upper left, food to the bottom until no more grows.

        Digits are the snake a, from its tail on, where letters could be read in several ways.
        """
        self.inside[:] = EMPTY
        lines = [line.strip() for line in drawing.strip().splitlines()]
        symbols = {(y, x): symbol for y, line in enumerate(lines) for x, symbol in enumerate(line)}
        for row in range(self._env.agents_per_env):
            self._lay(row, _snake(symbols, chr(ord("a") + row)))
        for place, symbol in symbols.items():
            if symbol in SYMBOLS:
                self.inside[place] = SYMBOLS.index(symbol)
        edible = int(np.sum((self.inside == FOOD) | (self.inside == CORPSE)))
        for index in range(self.num_food - edible):
            self.inside[-1 - index // self.width, index % self.width] = FOOD
        self._num_edible[0] = max(edible, self.num_food)

    def _lay(self, row: int, places: list[tuple[int, int]]) -> None:
        agent = self.agents[row]
        for index, (y, x) in enumerate(places):
            self.inside[y, x] = HEAD if index == len(places) - 1 else BODY
            agent["ring"][index] = (y + BORDER) * self.stride + x + BORDER
        agent["tail"], agent["num_cells"], agent["length"] = 0, len(places), len(places)
        agent["steps"] = agent["meals"] = 0
        (y, x), (neck_y, neck_x) = places[-1], places[-2]
        agent["heading"] = [(1, 0), (-1, 0), (0, -1), (0, 1)].index((y - neck_y, x - neck_x))

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
