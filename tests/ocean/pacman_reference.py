"""Pac-Man a second time, tile by tile and slowly, from the rules at the top of pacman.h."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WAYS = ((-1, 0), (0, -1), (1, 0), (0, 1))  # up, left, down, right as (rows, columns)
WAITING, LEAVING, OUTSIDE, EYES, ENTERING = range(5)
EXIT, START, FRUIT = (11, 13), (23, 13), (17, 13)
DEPTH = 192  # of the house's floor
SCATTERS = [(0, 53), (204, 257), (408, 446), (597, 635)]  # seconds 0 to 7, 27 to 34, 54 to 59, 79 to 84, in steps
CORNERS = [(-3, 24), (-3, 2), (31, 26), (31, 0)]


def read_maze(text: str) -> list[str]:
    """The rows of the maze in pacman_maze.h."""
    return [line.split('"')[1] for line in text.splitlines() if line.startswith('    "')]


class Dice:
    """The generator of puffer_env.h from a state on."""

    def __init__(self, state: int):
        self.state = state

    def below(self, bound: int) -> int:
        state = self.state
        self.state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        shifted, rotation = ((state >> 18 ^ state) >> 27) % 2**32, state >> 59
        return ((shifted >> rotation | shifted << (-rotation % 32)) % 2**32 * bound) >> 32


@dataclass
class Ghost:
    tile: tuple[int, int] = EXIT
    progress: int = DEPTH
    heading: int = 1
    mode: int = WAITING
    is_frightened: bool = False
    must_turn: bool = False


@dataclass
class Reference:
    """One game from its beginning, given what is drawn there."""

    maze: list[str]
    dice: Dice
    heading: int
    ghosts: list[Ghost]
    tile: tuple[int, int] = START
    dots: set[tuple[int, int]] = field(default_factory=set)
    pills: set[tuple[int, int]] = field(default_factory=set)
    hunt_time: int = 0  # steps without fright
    fright_left: int = 0
    num_eaten: int = 0
    fruit_left: int = 0
    hungry: int = 0
    score: int = 0
    is_over: bool = False

    def __post_init__(self):
        tiles = {(row, column) for row in range(31) for column in range(27)}
        self.dots = {tile for tile in tiles if self.maze[tile[0]][tile[1]] in ".o"}
        self.pills = {tile for tile in tiles if self.maze[tile[0]][tile[1]] == "o"}
        self.total = len(self.dots)
        self.home = self.distances(EXIT)

    def distances(self, start: tuple[int, int]) -> dict[tuple[int, int], int]:
        found, queue = {start: 0}, deque([start])
        while queue:
            tile = queue.popleft()
            for heading in range(4):
                beside = self.beside(tile, heading)
                if beside and beside not in found:
                    found[beside] = found[tile] + 1
                    queue.append(beside)
        return found

    def beside(self, tile: tuple[int, int], heading: int) -> tuple[int, int] | None:
        """The next tile, through the tunnel too; None for a wall or the house's door."""
        row, column = tile[0] + WAYS[heading][0], (tile[1] + WAYS[heading][1]) % 27
        return None if self.maze[row][column] in "#-" else (row, column)

    @property
    def is_scatter(self) -> bool:
        return any(begin <= self.hunt_time < end for begin, end in SCATTERS)

    def target(self, index: int) -> tuple[int, int]:
        row, column = self.tile
        down, right = WAYS[self.heading]
        corner = CORNERS[index]
        if self.is_scatter and not (index == 0 and len(self.dots) <= 20):
            return corner
        if index == 0:
            return row, column
        if index == 1:
            return row + 4 * down, column + 4 * right
        if index == 2:
            blinky = self.ghosts[0].tile
            pivot = row + 2 * down, column + 2 * right
            return pivot[0] + (pivot[0] - blinky[0]), pivot[1] + (pivot[1] - blinky[1])
        clyde = self.ghosts[3].tile
        is_far = (clyde[0] - row) ** 2 + (clyde[1] - column) ** 2 > 64
        return (row, column) if is_far else corner

    def choose(self, index: int) -> int:
        """The heading of a ghost that stands in the middle of a tile."""
        ghost = self.ghosts[index]
        back = (ghost.heading + 2) % 4
        ways = {heading: self.beside(ghost.tile, heading) for heading in range(4)}
        ways = {heading: tile for heading, tile in ways.items() if tile}
        if ghost.must_turn:
            return back
        if ghost.mode == EYES:
            return min(ways, key=lambda heading: (self.home[ways[heading]], heading))
        ways.pop(back, None)
        if ghost.is_frightened:
            first = self.dice.below(4)
            return next(heading % 4 for heading in range(first, first + 4) if heading % 4 in ways)
        row, column = self.target(index)
        return min(
            ways, key=lambda heading: ((ways[heading][0] - row) ** 2 + (ways[heading][1] - column) ** 2, heading)
        )

    def touches(self, ghost: Ghost) -> bool:
        beside = self.beside(ghost.tile, ghost.heading)
        return ghost.mode == OUTSIDE and self.tile == (beside if ghost.progress >= 32 else ghost.tile)

    def meet(self, ghost: Ghost) -> None:
        if not self.touches(ghost):
            return
        if not ghost.is_frightened:
            self.is_over = True
            return
        self.score += 200 * 2**self.num_eaten
        self.num_eaten += 1
        ghost.mode, ghost.is_frightened, ghost.must_turn = EYES, False, False

    def eat(self) -> int:
        if self.tile == FRUIT and self.fruit_left:
            self.score += 100
            self.fruit_left = 0
        if self.tile not in self.dots:
            return 0
        self.dots.remove(self.tile)
        self.hungry = 0
        if self.total - len(self.dots) in (70, 170):
            self.fruit_left = 72
        if self.tile not in self.pills:
            self.score += 10
            return 1
        self.score += 50
        self.fright_left, self.num_eaten = 45, 0
        for ghost in self.ghosts:
            if ghost.mode not in (EYES, ENTERING):
                ghost.is_frightened, ghost.must_turn = True, ghost.mode == OUTSIDE
        return 3

    def speed(self, index: int) -> int:
        ghost, left = self.ghosts[index], len(self.dots)
        if ghost.mode in (EYES, ENTERING):
            return 128
        is_tunnel = ghost.tile[0] == 14 and (ghost.tile[1] < 5 or ghost.tile[1] > 21)
        if ghost.mode != OUTSIDE or is_tunnel:
            return 32
        if ghost.is_frightened:
            return 36
        return 60 if index or left > 20 else 64 if left > 10 else 68

    def move(self, index: int, way: int) -> None:
        """One 64th of a tile after the other."""
        ghost = self.ghosts[index]
        for _ in range(way):
            if ghost.mode == LEAVING:
                ghost.progress -= 1
                if ghost.progress == 0:
                    ghost.mode = OUTSIDE
                    return
            elif ghost.mode == ENTERING:
                ghost.progress += 1
                if ghost.progress == DEPTH:
                    ghost.mode = LEAVING
                    return
            elif ghost.mode in (OUTSIDE, EYES):
                ghost.progress += 1
                if ghost.progress == 64:
                    ghost.tile, ghost.progress = self.beside(ghost.tile, ghost.heading), 0
                    if ghost.mode == EYES and ghost.tile == EXIT:
                        ghost.mode = ENTERING
                        return
                    ghost.heading, ghost.must_turn = self.choose(index), False
                self.meet(ghost)
                if self.is_over:
                    return

    def release(self) -> None:
        self.hungry += 1
        is_late = self.hungry == 30
        if is_late:
            self.hungry = 0
        for ghost, dots in zip(self.ghosts, (0, 0, 30, 90), strict=True):
            if ghost.mode == WAITING and (self.total - len(self.dots) >= dots or is_late):
                ghost.mode, is_late = LEAVING, False

    def pass_time(self) -> None:
        self.fruit_left = max(0, self.fruit_left - 1)
        if self.fright_left:
            self.fright_left -= 1
            if not self.fright_left:
                for ghost in self.ghosts:
                    ghost.is_frightened = False
            return
        was_scatter = self.is_scatter
        self.hunt_time += 1
        if self.is_scatter != was_scatter:
            for ghost in self.ghosts:
                ghost.must_turn |= ghost.mode == OUTSIDE

    def step(self, action: int) -> None:
        if 0 <= action < 4 and self.beside(self.tile, action):
            self.heading = action
        self.tile = self.beside(self.tile, self.heading) or self.tile
        frames = self.eat()
        if not self.dots:
            self.is_over = True
            return
        for ghost in self.ghosts:
            self.meet(ghost)
        for index in range(4):
            if not self.is_over:
                self.move(index, self.speed(index) + self.speed(index) * frames // 8)
        self.release()
        self.pass_time()
