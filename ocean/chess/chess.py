"""Chess against a bot that looks ahead, or between two agents."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.chess import binding
from pufferlib.ocean.environment import TurnGame

# Keys for the legal moves by their numbers, which the picture shows: with space held for those after the first 36.
_KEYS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero", *"qwertyuiopasdfghjklzxcvbnm")
_CHORDS = (*_KEYS, *(f"space+{key}" for key in _KEYS[:30]))


class Chess(TurnGame):
    """The complete rules on 64 squares; see chess.h for them and for the numbers of the moves.

    Args:
        num_envs: games stepped together, at least 1.
        opponent: `bot`, which answers within the step, or `self`: two agents who take turns.
        bot_depth: turns that the bot looks ahead, 0 to 4; at 0 it moves by chance, and 5 draws 0, 1 or 2 for each game.
        chance_games: percent of the games in which a bot that is drawn moves by chance all the same, 0 to 100.
        bot_random: percent of its moves that are drawn by chance nonetheless, 0 to 100.
        draw_penalty: what a draw costs, 0 to 1; where it costs nothing, players that cannot win yet learn to draw.
        piece_reward: for each pawn's worth of pieces gained over the other's, 0 to 1; more than a side begins with
            counts no more.
    """

    binding = binding
    match_settings = {"piece_reward": 0.0}
    keys = Keys({chord: 1792 + index for index, chord in enumerate(_CHORDS)}, waits=True)

    def __init__(
        self,
        num_envs: int = 1024,
        opponent: str = "bot",
        bot_depth: int = 5,
        chance_games: int = 0,
        bot_random: int = 10,
        draw_penalty: float = 0.7,
        piece_reward: float = 0.02,
        **kwargs,
    ):
        self.single_observation_space = gymnasium.spaces.Box(0, 15, (130,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(1858)
        arguments = {
            "bot_depth": bot_depth,
            "chance_games": chance_games,
            "bot_random": bot_random,
            "draw_penalty": draw_penalty,
            "piece_reward": piece_reward,
        }
        super().__init__(num_envs, opponent, arguments, **kwargs)
