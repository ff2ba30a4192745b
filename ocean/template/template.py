"""Template: the shortest complete environment, to be copied."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from typing_extensions import override

from pufferlib.errors import APIUsageError
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.template import binding


class Template(OceanEnv):
    """A quiz of four questions with two answers each; see template.h for the rules.

    Args:
        num_envs: quizzes stepped together, at least 1.
        rounds: right answers that complete an episode, 1 to 1000.
        traced: makes the C environments one by one and then joins them, which is what an environment needs whose
            instances differ in their arguments. The rollout after `reset(seed)` is the same either way.
    """

    binding = binding

    def __init__(self, num_envs: int = 1024, rounds: int = 16, traced: bool = False, **kwargs):
        if not isinstance(traced, bool):
            raise APIUsageError(f"template: traced must be True or False, got {traced!r}")
        self.single_observation_space = gymnasium.spaces.Box(0, 3, (1,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(2)
        self.traced = traced
        super().__init__(num_envs, {"rounds": rounds}, **kwargs)

    @override
    def make_handle(self, arguments: dict[str, Any], seed: int) -> object:
        if not self.traced:
            return super().make_handle(arguments, seed)
        arrays = (self.observations, self.actions, self.rewards, self.terminals, self.truncations)
        shared = binding.shared()
        handles = []
        for i in range(self.num_envs):
            rows = (array[i : i + 1] for array in arrays)
            handles.append(binding.env_init(*rows, seed, shared=shared, **arguments))
        handle = binding.vectorize(*handles)
        binding.vec_reset(handle, seed)  # env_init knows no index: this gives every environment its own stream
        return handle
