"""Settings that follow from what is seen of an environment, where the user sets none.

`LINES` is the whole table: for which trainings a line is, what it sets, and the measurement that it comes from. A later
line counts over an earlier one. A full vector, as Ocean's environments are, keeps what `PuffeRL`'s signature promises.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from typing_extensions import Self

from pufferlib.config.schema import AUTO_SINGLE_ENVS
from pufferlib.emulation.emulated_env import LibraryEnv
from pufferlib.environment import PufferEnv
from pufferlib.spaces import LEAST_PIXELS, action_parts, has_channels_last, image_edge

FULL_VECTOR = 64
"""Agents in one PufferEnv from which on it is a full vector, unless it emulates an environment of another library."""

PPO_DEFAULTS = {
    "learning_rate": 3e-4,
    "update_epochs": 4.0,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_coef": 0.2,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    # What a learning rate of 3e-4 is made for.
    "optimizer": "adam",
    "adam_beta1": 0.9,
    "adam_eps": 1e-5,
    # The trainer sees the rewards as they are.
    "reward_clip": 0.0,
    "normalize_rewards": False,
    "vf_clip_coef": 0.2,
}
"""Defaults of keywords that differ from those of `[train]`, or are promised; the lines of LINES add to them."""

BATCH_SIZE = 32_768  # of a full vector, rounded up to whole segments of all agents
NUM_STEPS = 128

SMALL_BATCH_SIZE = 2_048  # as in the published results of PPO
_LEAST_STEPS = 32  # in shorter segments advantages see too little of what follows
_LARGE = 100.0  # of an observation, where 1 is what a network expects
_MOST_CATEGORIES = 16  # of an integer that is a name, such as the cell of a board
_FEW_OBSERVATIONS = 64  # which cannot tell all that happened
_PIXELS_OF_MNIH = 36  # of which the filters of Mnih et al. 2015 leave one number


def environment_count(env: PufferEnv) -> int:
    """How many PufferEnvs such as this one a training makes: 16, or the full vectors that a batch has room for."""
    agents = _agents_together(env)
    return AUTO_SINGLE_ENVS if agents < FULL_VECTOR else max(1, BATCH_SIZE // (NUM_STEPS * agents))


def _agents_together(env: PufferEnv) -> int:
    return 1 if isinstance(env, LibraryEnv) else env.num_agents


@dataclass(frozen=True)
class Facts:
    """Facts of a training, before it begins, and the settings that follow from them."""

    observation_space: Space  # of one agent, in a row of the vector's
    action_space: Space  # of one agent
    num_agents: int  # of all processes
    agents_per_env: int  # of one PufferEnv, which steps them together; 1 where it emulates another environment
    is_amounts: bool = True  # False where rows hold names of things, or parts of several dtypes, as of a Layout
    sees_names: bool = False  # whether an observation is nothing but names of states: Discrete or MultiDiscrete
    is_recurrent: bool = False  # whether the policy remembers
    is_own_policy: bool = False  # whether the user made it, and may take it on into another training
    world_size: int = 1  # processes that train together

    @classmethod
    def of(cls, env: PufferEnv, num_agents: int, policy: object = None, world_size: int = 1) -> Self:
        """The facts of a training: a PufferEnv, the agents of all processes, and the user's policy or None."""
        layout = getattr(env, "emulated", None)
        return cls(
            env.single_observation_space,
            env.single_action_space,
            num_agents,
            _agents_together(env),
            layout is None or layout.is_amounts,
            layout is not None and all(isinstance(leaf.space, (Discrete, MultiDiscrete)) for leaf in layout.leaves),
            hasattr(policy, "initial_state"),
            policy is not None,
            world_size,
        )

    @property
    def is_full_vector(self) -> bool:
        """Whether one PufferEnv steps so many agents that a large batch costs no time."""
        return self.agents_per_env >= FULL_VECTOR

    @property
    def num_steps(self) -> int:
        """Steps of a segment: fewer where a batch of one for each of many agents would be large."""
        steps = NUM_STEPS
        while not self.is_full_vector and steps > _LEAST_STEPS and steps * self.num_agents > 2 * SMALL_BATCH_SIZE:
            steps //= 2
        return steps

    @property
    def acts_by_numbers(self) -> bool:
        """Whether an action is a vector of numbers, and nothing else."""
        return isinstance(self.action_space, Box)

    @property
    def most_choices(self) -> int:
        """The choices of the part of an action that has most of them."""
        return max((part.choices or 0 for part in action_parts(self.action_space)), default=0)

    @property
    def sees_amounts(self) -> bool:
        """Whether observations are amounts, of which a mean can be taken."""
        space = self.observation_space
        is_of_numbers = isinstance(space, Box) and space.dtype.kind in "iuf" and space.low.size > 0
        return is_of_numbers and self.is_amounts and not self.sees_categories

    @property
    def sees_large_amounts(self) -> bool:
        """Whether they may be far from 1: integers or numbers whose bounds are, or that have none."""
        space = self.observation_space
        return self.sees_amounts and max(float(np.max(space.high)), -float(np.min(space.low))) > _LARGE

    @property
    def sees_categories(self) -> bool:
        """Whether observations are integers of a few values each, which are names of things."""
        space = self.observation_space
        if not self.is_amounts or not isinstance(space, Box) or space.dtype.kind not in "iu" or space.low.size == 0:
            return False
        return 2 < np.max(space.high.astype(np.float64) - space.low) + 1 <= _MOST_CATEGORIES

    @property
    def num_observations(self) -> float:
        """How many different observations there can be; infinite where they are no integers."""
        space = self.observation_space
        if not isinstance(space, Box) or space.dtype.kind not in "iub":
            return np.inf
        return float(np.prod(space.high.astype(np.float64) - space.low + 1))

    @property
    def image_edge(self) -> int:
        """The pixels along the shorter edge of a picture; 0 where observations are none."""
        return image_edge(self.observation_space) if self.is_amounts else 0

    @property
    def sees_images(self) -> bool:
        """Whether observations are pictures that convolutions are for."""
        return self.image_edge >= LEAST_PIXELS

    @property
    def lines(self) -> list[Line]:
        """The lines of the table that are for the training, in their order."""
        return [line for line in LINES if line.of_full_vectors in (None, self.is_full_vector) and line.fits(self)]

    def settings(self, section: str) -> dict[str, Any]:
        """The settings of a section that the lines set, by name; lists are the caller's."""
        prefix = f"{section}."
        found = {name: deepcopy(value) for line in self.lines for name, value in line.settings.items()}
        return {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}

    def reasons(self, without: Container[str]) -> dict[str, list[str]]:
        """The settings that each line decided, by section and name, under what was seen; `without` some of them."""
        decided = {name: line.seen for line in self.lines for name in line.settings if name not in without}
        return {line.seen: [name for name, seen in decided.items() if seen == line.seen] for line in self.lines}


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    seen: str  # for which trainings it is, in words
    fits: Callable[[Facts], bool]  # whether a training is one of them, whatever its agents
    settings: Mapping[str, Any]  # what it sets, by section and name, such as `train.learning_rate`
    measured: str  # what showed that it helps
    of_full_vectors: bool | None = False  # whether it is for full vectors or for fewer agents; None for both


LINES = (
    Line(
        "a full vector",
        lambda facts: True,
        {"train.minibatch_size": 1_024, "policy.hidden_size": 64, "policy.num_layers": 2},
        "minibatches: puffer_cartpole 0.83 after 2 M steps, 0.21 by 8,192; bandit 0.92 after 1 M, 0.84; stochastic "
        "0.81 and 0.83; of batches of 131,072, where 4,096 would be as many as before: multiagent 0.81 and 0.41 after "
        "1 M, rware 35 and 14 after 4 M, trash_pickup 1.00 and 0.95 after 3 M. Layers: cartpole 0.34 after 0.6 M, 0.23 "
        "by one of 128; squared 0.26 after 1 M, 0.20; pong -15 and -21. After as many steps as their ini has or fewer: "
        "pong 12.4 after 6 M, squared 0.68 after 5 M, password 0.99 after 3 M",
        of_full_vectors=True,
    ),
    # Choices keep the rewards as they are: squared 0.57 after 1 M steps, and 0.16 by normalised ones.
    Line(
        "a full vector and numbers as actions",
        lambda facts: facts.acts_by_numbers,
        {"train.normalize_rewards": True},
        "puffer_pendulum 0.92 after 2 M steps, 0.40 by rewards as they are; drone 0.32 and 0.16 after 1.2 M",
        of_full_vectors=True,
    ),
    Line(
        f"a full vector that shows one of at most {_FEW_OBSERVATIONS} things",
        lambda facts: facts.num_observations <= _FEW_OBSERVATIONS,
        {"base.rnn_name": "LSTM", "policy.hidden_size": 128, "policy.num_layers": 1},
        "puffer_memory 1.00 after 1 M steps from three seeds; 0.26, which is chance, without memory, and 0.25 by "
        "MinGRU at this rate. template 1.00 after 2 M, 0.84 to 0.92 by a layer of 64; stochastic 0.85 after 1 M, with "
        "and without",
        of_full_vectors=True,
    ),
    Line(
        "less than a full vector",
        lambda facts: True,
        {
            "train.batch_size": SMALL_BATCH_SIZE,
            "train.lr_schedule": "linear",
            "train.shuffle": "steps",
            "train.normalize_rewards": True,
            "train.clip_vloss": False,
        },
        "a batch of 32,768 in four minibatches: CartPole-v1 34 after 200 k steps, LunarLander-v3 -125 after 500 k",
    ),
    Line(
        "choices as actions",
        lambda facts: not facts.acts_by_numbers,
        {"train.learning_rate": 1e-3, "train.update_epochs": 6.0, "train.minibatch_size": 128},
        "by the likeliest actions, at an annealed rate: CartPole-v1 500 after 200 k steps from six seeds; "
        "LunarLander-v3 208 to 277 after 500 k from nine, 56 from a tenth; Acrobot-v1 -78 to -93 after 300 k; "
        "MountainCar-v0 -103 to -119 after 1 M. At a constant rate FrozenLake-v1 stays at 0 after 100 k from 14 of 146 "
        "seeds, and annealed from none of 29",
    ),
    Line(
        "choices as actions, and no pictures",
        lambda facts: not facts.acts_by_numbers and not facts.sees_images,
        {"base.policy_name": "Default", "policy.hidden_size": 64, "policy.num_layers": 2, "policy.activation": "tanh"},
        "in the same runs",
    ),
    Line(
        "more than 64 choices in a part of an action",
        lambda facts: not facts.acts_by_numbers and not facts.sees_images and facts.most_choices > 64,
        {"policy.hidden_size": 128},
        "200 actions of odd_envs.py at a constant rate 16.7 and 16.7 of 20 from two seeds, 14.8 and 15.4 by 64, 16.8 "
        "by 256; annealed 14.9",
    ),
    Line(
        "names of states as observations, and choices as actions",
        lambda facts: not facts.acts_by_numbers and facts.sees_names,
        {"train.ent_coef": 0.05},
        "at a constant rate Taxi-v4 5.0 and 5.4 after 500 k steps from two seeds, by the likeliest actions -38 and 8; "
        "5.7 and -38 if 0.03; -56 and -55 if 0.01. Annealed, 7.7 and 7.8 by the likeliest actions from six seeds",
    ),
    Line(
        "numbers as actions",
        lambda facts: facts.acts_by_numbers,
        {
            "train.learning_rate": 3e-4,
            "train.update_epochs": 10.0,
            "train.minibatch_size": 64,
            "train.target_kl": 0.02,
            "train.ent_coef": 0.0,
            "train.clip_vloss": True,
        },
        "Pendulum-v1 -168 after 300 k steps; HalfCheetah-v5 2,980 and Hopper-v5 2,770 after 300 k",
    ),
    Line(
        "numbers as actions, and no pictures",
        lambda facts: facts.acts_by_numbers and not facts.sees_images,
        {"base.policy_name": "Continuous", "policy.log_std": -0.5},
        "by drawn actions after 1 M, annealed, from a deviation of 0.6 half ranges: HalfCheetah-v5 3,560, 4,600 and "
        "3,710; Walker2d-v5 2,040, 2,890 and 5,950; Hopper-v5 2,780, 2,660 and 2,770. At a constant rate 0.6: "
        "BipedalWalker-v3 282 and 258, Hopper-v5 1,350 and 2,140; 0.37: 41 and 77 (260 from another seed), 3,020, "
        "2,530 and 2,660; 1: 274 and 232",
    ),
    Line(
        "pictures as observations",
        lambda facts: facts.sees_images,
        {
            "train.learning_rate": 2.5e-4,
            "train.update_epochs": 4.0,
            "train.minibatch_size": 256,
            "train.precision": "auto",
            "base.policy_name": "Convolutional",
        },
        "what was published for Atari, and families/atari.ini has. In bfloat16 a pass over Atari's frames takes half "
        "the time, and pictures of 32 x 32 return 1.00 from three seeds. Those of odd_envs.py in 36 x 36 pixels 0.96 "
        "after 100 k steps, and 0.76 by two layers of 64 as for no pictures. Below 16 pixels those stay: "
        "MiniGrid-DoorKey-5x5's 7 x 7 0.97 after 100 k",
    ),
    Line(
        "pictures of less than 36 pixels along an edge",
        lambda facts: facts.sees_images and facts.image_edge < _PIXELS_OF_MNIH,
        {"policy.hidden_size": 128, "policy.filters": [16, 32], "policy.sizes": [4, 3], "policy.strides": [2, 2]},
        "the pictures of odd_envs.py 1.00 and 0.92 after 100 k steps from two seeds, 0.88 by two layers of 64 as for "
        "no pictures; in 30 x 30 pixels 0.96 after 60 k, 0.84 by those layers, 0.16 by filters of 4 and 4 in strides "
        "of 4 and 2",
    ),
    Line(
        "pictures of less than 36 pixels along an edge, and choices as actions",
        lambda facts: facts.sees_images and facts.image_edge < _PIXELS_OF_MNIH and not facts.acts_by_numbers,
        {"train.learning_rate": 1e-3},
        "in the same runs",
    ),
    Line(
        "pictures of more than 100 pixels along an edge",
        # In strides of 4 a core trains on 30 steps a second of 160 x 160 pixels.
        lambda facts: facts.image_edge > 100,
        {"policy.strides": [8, 2, 2]},
        "those of odd_envs.py in 160 x 160 pixels 1.00 after 30 k steps, in half the time that 10 k take by strides "
        "of 4, 2 and 1, which return -0.2; -0.76 by observations that are not normalised",
    ),
    Line(
        "pictures whose channels are their last dimension",
        lambda facts: facts.sees_images and has_channels_last(facts.observation_space),
        {"policy.channels_last": True},
        "in the same runs",
    ),
    Line(
        "integers of few values as observations",
        lambda facts: (
            facts.sees_categories and not facts.is_own_policy and (facts.is_full_vector or not facts.acts_by_numbers)
        ),
        {"policy.one_hot": True},
        "puffer_squared 0.39 after 1 M steps, 0.20 as amounts",
        of_full_vectors=None,
    ),
    # The statistics would be lost to a policy that its user takes into another program.
    Line(
        "observations of amounts and numbers as actions",
        lambda facts: not facts.is_own_policy and facts.sees_amounts and facts.acts_by_numbers,
        {"train.normalize_observations": True},
        "in the same runs",
    ),
    Line(
        "observations that may be above 100",
        lambda facts: not facts.is_own_policy and facts.sees_large_amounts,
        {"train.normalize_observations": True},
        "CartPole-v1 500 with and without; LunarLander-v3, whose bounds are small, 218 with and 260 without",
    ),
    Line(
        "a policy that remembers",
        lambda facts: facts.is_recurrent,
        {"train.shuffle": "segments"},
        "single steps have no order",
    ),
)
