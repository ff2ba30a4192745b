"""One environment's binding together with what a correct call of it looks like."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium
import numpy as np

from pufferlib import ocean

SNAPSHOT_HEADER_BYTES = 104  # of what env_get returns: SnapshotHeader in puffer_snapshot.h, then the struct
ARRAYS = ("observations", "actions", "rewards", "terminals", "truncations")  # of every environment


class Game:
    """What `vec_init` was given when the environment's own class made one environment."""

    def __init__(self, name: str, **kwargs):
        env_class = ocean.env_class(name)
        self.name = name.removeprefix(ocean.PREFIX)
        self.binding = env_class.binding
        calls = []

        def vec_init(*args, **kwargs):
            calls.append(kwargs)
            return self.binding.vec_init(*args, **kwargs)

        spy = SimpleNamespace(**{**vars(self.binding), "vec_init": vec_init})
        env = type("Spy", (env_class,), {"binding": spy})(num_envs=1, **kwargs)
        self.kwargs = {key: value for key, value in calls[0].items() if key != "shared"}
        self.shared = self.binding.shared()
        self.agents = env.num_agents
        self.action_space = env.single_action_space
        self._like = env.arrays_for_c()
        env.close()

    def arrays(self, num_envs: int = 1) -> list[np.ndarray]:
        """Fresh arrays for `num_envs` environments, in the order of the binding's arguments."""
        return [np.zeros((num_envs * self.agents, *like.shape[1:]), like.dtype) for like in self._like]

    def single(self, seed: int = 0, arrays: list[np.ndarray] | None = None, **kwargs):
        """An environment made by `env_init`."""
        arrays = self.arrays() if arrays is None else arrays
        return self.binding.env_init(*arrays, seed, shared=self.shared, **{**self.kwargs, **kwargs})

    def vec(self, num_envs: int = 3, seed: int = 0, arrays: list[np.ndarray] | None = None, **kwargs):
        """Environments made by `vec_init`."""
        arrays = self.arrays(num_envs) if arrays is None else arrays
        return self.binding.vec_init(*arrays, num_envs, seed, **{**self.kwargs, **kwargs})

    def fill_actions(self, actions: np.ndarray, generator: np.random.Generator) -> None:
        """Actions in and a little outside of the space."""
        space = self.action_space
        if isinstance(space, gymnasium.spaces.Box):
            margin = (space.high - space.low) / 4
            actions[:] = generator.uniform(space.low - margin, space.high + margin, actions.shape)
        else:
            count = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
            actions[:] = generator.integers(-1, count + 2, actions.shape)
