"""Overcooked: two cooks in a kitchen, and one reward for both."""

import gymnasium
import numpy as np

from pufferlib.environment import Keys
from pufferlib.ocean.environment import OceanEnv, index_of
from pufferlib.ocean.overcooked import binding

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
LAYOUTS = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit",
    "all",
)


class Overcooked(OceanEnv):
    """Kitchens in which two cooks make onion soup; see overcooked.h for the rules.

    With `partner="bot"` it is a game for one person.

    Args:
        num_envs: kitchens stepped together, at least 1.
        layout: `cramped_room`, `asymmetric_advantages`, `coordination_ring`, `forced_coordination`, `counter_circuit`,
            or `all`, which draws one of them for each episode.
        partner: `self`: both cooks are agents, or `bot`, which is the other cook.
        bot_random: percent of the bot's steps that are random, 0 to 100.
        soup_reward: of both cooks for each soup that one of them serves, 0 to 100.
        onion_reward: of a cook for an onion that it puts into a pot, 0 to 100.
        dish_reward: of a cook for taking a dish while one is needed, 0 to 100.
        pickup_reward: of a cook for taking a soup out of a pot, 0 to 100.
    """

    binding = binding
    agents_per_env = 2
    keys = Keys({"up": UP, "down": DOWN, "right": RIGHT, "left": LEFT, "space": INTERACT}, idle=STAY)

    def __init__(
        self,
        num_envs: int = 1024,
        layout: str = "cramped_room",
        partner: str = "self",
        bot_random: int = 5,
        soup_reward: float = 20.0,
        onion_reward: float = 3.0,
        dish_reward: float = 3.0,
        pickup_reward: float = 5.0,
        **kwargs,
    ):
        self.agents_per_env = 1 + index_of("partner", partner, ("bot", "self"))
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (270,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(6)
        arguments = {
            "layout": index_of("layout", layout, LAYOUTS),
            "agents": self.agents_per_env,
            "bot_random": bot_random,
            "soup_reward": soup_reward,
            "onion_reward": onion_reward,
            "dish_reward": dish_reward,
            "pickup_reward": pickup_reward,
        }
        super().__init__(num_envs, arguments, **kwargs)
