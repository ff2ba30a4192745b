"""Go: surround more of a small board than a greedy opponent, or than another agent."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import TurnGame
from pufferlib.ocean.go import binding

DIGITS = ("one", "two", "three", "four", "five", "six", "seven", "eight")  # keys, as raylib calls them


class Go(TurnGame):
    """Go by the rules of Tromp and Taylor; see go.h for them and for the opponent.

    To play, hold a column's letter and press a row's digit, as they stand at the board; space passes.

    Args:
        num_envs: games played together, at least 1.
        size: points along one side, 2 to 8.
        strength: of the bot, 0 to 4; 5 draws one for each game, the strongest twice as often as any other.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
    """

    binding = binding
    has_truncations = True

    def __init__(self, num_envs: int = 1024, size: int = 7, strength: int = 5, opponent: str = "bot", **kwargs):
        # Any other size is refused by the C side, before it could ask for a huge or senseless array here.
        side = int(size) if size in range(2, 9) else 1
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (6 * side * side + 2,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(side * side + 1)
        points = {
            f"{letter}+{digit}": (side - 1 - row) * side + column
            for column, letter in enumerate("abcdefgh"[:side])
            for row, digit in enumerate(DIGITS[:side])
        }
        self.keys = Keys({**points, "space": side * side}, waits=True)
        super().__init__(num_envs, opponent, {"size": size, "strength": strength}, **kwargs)
