"""Spaces: dicts and tuples are seen and answered, part by part; a test of packing.

An environment in Python, and a vector environment of Gymnasium's: what it sees and takes are dicts and tuples, which
pufferlib.emulation packs into rows and unpacks again.

Observation, all of it drawn anew in each step:

    picture   Box uint8 (3, 3), 0 to 255: one cell is bright, 200 or more, the others are below 100
    cards     Tuple of a Discrete(4) that starts at 1, and a MultiDiscrete [3, 5]
    switches  MultiBinary(3)
    gauge     Box float32 (2,) in [-1, 1]

Action: `cell` Discrete(9), which one is bright; `cards` Tuple of Discrete(4) that starts at 1 and MultiDiscrete [3, 5],
the same cards; `switches` MultiBinary(3), all the other way; `dials` Box float32 (2,) in [-1, 1], the second gauge and
then minus the first.

Reward: the mean over nine numbers, the cell, three cards, three switches and two dials, each 1 where it is right and 0
where it is not; of a dial 1 less how far it is off. Truncation after `rounds` steps; perf is the mean reward of them.

Every number of the structure counts, and neighbours have other sizes, types and meanings. What is wrong shows as a part
that is answered by chance: an offset, a type or an order in the packing of observations, in the columns of the action,
or in the distributions over them; and as values that are off, where the last observation is not unpacked as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from typing_extensions import override

from pufferlib.emulation.gymnasium_emulation import GymnasiumVectorPufferEnv
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError
from pufferlib.ocean.spaces.picture import draw

CARDS = Tuple((Discrete(4, start=1), MultiDiscrete([3, 5])))
OBSERVATION: gymnasium.Space = Dict(
    {
        "picture": Box(0, 255, (3, 3), np.uint8),
        "cards": CARDS,
        "switches": MultiBinary(3),
        "gauge": Box(-1, 1, (2,), np.float32),
    }
)
ACTION: gymnasium.Space = Dict(
    {"cell": Discrete(9), "cards": CARDS, "switches": MultiBinary(3), "dials": Box(-1, 1, (2,), np.float32)}
)


class SpacesVectorEnv(VectorEnv):
    """As many of these games as are asked for, whose episodes begin and end together; see the module for the rules."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"], "render_fps": 2}
    render_mode = "rgb_array"

    def __init__(self, num_envs: int, rounds: int):
        for name, value in (("num_envs", num_envs), ("rounds", rounds)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise APIUsageError(f"spaces: {name} must be an integer of at least 1, got {value!r}")
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = OBSERVATION, ACTION
        self.observation_space, self.action_space = batch_space(OBSERVATION, num_envs), batch_space(ACTION, num_envs)
        self._rounds = rounds
        self._generator = np.random.default_rng(0)
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._sums = np.zeros(self.num_envs)  # of the rewards of the running episodes
        self._seen = self._draw()
        self._answers: dict[str, Any] | None = None  # the last step: what was seen, done, and how right each part was

    @override
    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict | None = None
    ) -> tuple[dict[str, Any], dict]:
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._begin()
        return self._seen, {}

    @override
    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict]:
        shares = right_shares(self._seen, actions)
        rewards = shares.mean(1)
        self._steps += 1
        self._sums += rewards
        answers = {"seen": self._seen, "actions": actions, "shares": shares}
        self._seen = self._draw()
        is_over = self._steps == self._rounds
        infos = self._final_infos() if is_over else {}
        if is_over:
            self._begin()
        self._answers = answers
        flags = np.zeros(self.num_envs, bool)
        return self._seen, rewards, flags, flags | is_over, infos

    def _final_infos(self) -> dict[str, Any]:
        """What Gymnasium's vector environments say of episodes that ended: here of all at once."""
        all_of_them = np.ones(self.num_envs, bool)
        perf = self._sums / self._rounds
        lengths = np.full(self.num_envs, self._steps)
        numbers = {"perf": perf, "score": perf, "episode_return": self._sums, "episode_length": lengths}
        final = np.empty(self.num_envs, object)
        final[:] = [_one(self._seen, index) for index in range(self.num_envs)]
        return {
            "final_obs": final,
            "_final_obs": all_of_them,
            "final_info": {**numbers, **{f"_{name}": all_of_them for name in numbers}},
            "_final_info": all_of_them,
        }

    def _draw(self) -> dict[str, Any]:
        integers, games = self._generator.integers, self.num_envs
        picture = integers(100, size=(games, 9), dtype=np.uint8)
        picture[np.arange(games), integers(9, size=games)] = integers(200, 256, size=games)
        return {
            "picture": picture.reshape(games, 3, 3),
            "cards": (integers(1, 5, size=games), integers([3, 5], size=(games, 2))),
            "switches": integers(2, size=(games, 3), dtype=np.int8),
            "gauge": self._generator.uniform(-1, 1, size=(games, 2)).astype(np.float32),
        }

    @override
    def render(self) -> tuple[np.ndarray]:
        """The first game alone: what was seen last, and how it was answered."""
        if self._answers is None:
            return (draw(_one(self._seen, 0)),)
        seen, actions = _one(self._answers["seen"], 0), _one(self._answers["actions"], 0)
        return (draw(seen, actions, self._answers["shares"][0]),)


def right_shares(seen: dict[str, Any], actions: dict[str, Any]) -> np.ndarray:
    """How right each number of the actions is, 0 to 1: `(num_envs, 9)`, in the order of the module's comment."""
    suit, pair = seen["cards"]
    own_suit, own_pair = actions["cards"]
    dials = np.stack([seen["gauge"][:, 1], -seen["gauge"][:, 0]], 1)
    return np.column_stack(
        [
            actions["cell"] == seen["picture"].reshape(-1, 9).argmax(1),
            own_suit == suit,
            own_pair == pair,
            actions["switches"] != seen["switches"],
            np.maximum(1 - np.abs(actions["dials"] - dials), 0),
        ]
    )


def _one(parts: Any, index: int) -> Any:
    if isinstance(parts, dict):
        return {name: _one(part, index) for name, part in parts.items()}
    return tuple(_one(part, index) for part in parts) if isinstance(parts, tuple) else parts[index]


class Spaces(GymnasiumVectorPufferEnv):
    """Games whose observations and actions are dicts and tuples, packed into rows; see the module for the rules.

    Args:
        num_envs: games stepped together, at least 1.
        rounds: steps of an episode, at least 1.
        buf: arrays to fill, or None to allocate them.
        seed: of the first reset, where that gives none.
    """

    def __init__(self, num_envs: int = 1024, rounds: int = 8, buf: Buffers | None = None, seed: int = 0):
        super().__init__(SpacesVectorEnv(num_envs, rounds), buf=buf, seed=seed)
