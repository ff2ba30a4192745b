"""The environments of a Device vector stepped by their kernels, with tensors such as an actor and a rollout have.

bench/device.py plays with it on a GPU, and the tests where kernels are emulated on a CPU.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from pufferlib.fast.device_envs import DeviceEnvs

NAMES = ("observations", "rewards", "terminals", "truncations", "masks")


class DevicePlayer:
    """Steps all environments of a vector with actions from NumPy.

    Attributes:
        first: the arrays of the reset, in the order of NAMES.
        step: the rows that a policy would read and write.
        envs: what is stepped, in the order of their agents.
    """

    def __init__(self, vecenv, device="cpu"):
        """Resets and borrows the environments."""
        vecenv.async_reset()
        observations, rewards, terminals, truncations, _, _, masks = vecenv.recv()
        self.first = [array.copy() for array in (observations, rewards, terminals, truncations, masks)]
        agents, actions = vecenv.num_agents, vecenv.driver_env.actions
        shape, kind = (agents, *actions.shape[1:]), torch.from_numpy(actions).dtype
        self.step = SimpleNamespace(
            observations=torch.zeros_like(torch.from_numpy(observations), device=device),
            actions=torch.zeros(shape, dtype=kind, device=device),
            episode_starts=torch.zeros(agents, dtype=torch.bool, device=device),
            column_index=torch.arange(agents, device=device) + agents,  # column 1
        )
        columns = [torch.full((2, agents), 7.0, device=device)]
        columns += [torch.ones(2, agents, dtype=torch.bool, device=device) for _ in range(2)]
        self._columns = dict(zip(NAMES[1:4], columns, strict=True))
        rollout = SimpleNamespace(**{name: column.T for name, column in self._columns.items()})
        self._steps = begin = 0
        self.envs = []
        for env in vecenv.lend(self._bring_back):
            self.envs.append(DeviceEnvs(env, slice(begin, begin + env.num_agents), self.step, rollout))
            begin += env.num_agents
        for envs in self.envs:
            envs.upload()

    def _bring_back(self) -> None:
        for envs in self.envs:
            envs.download(self._steps)

    def play(self, actions: np.ndarray) -> None:
        """One step of every environment."""
        self.step.actions.copy_(torch.from_numpy(np.asarray(actions)))
        self.launch()
        self._steps += 1

    def launch(self) -> None:
        """The kernels of a step alone."""
        for envs in self.envs:
            envs.step()

    def arrays(self) -> list[np.ndarray]:
        """What the last step gave, in the order of NAMES; column 0 must be as it was."""
        rewards, terminals, truncations = (self._columns[name].cpu().numpy() for name in NAMES[1:4])
        assert (rewards[0] == 7.0).all() and terminals[0].all() and truncations[0].all()
        assert np.array_equal(self.step.episode_starts.cpu().numpy(), terminals[1] | truncations[1])
        observations = self.step.observations.cpu().numpy().copy()
        return [
            observations,
            rewards[1].copy(),
            terminals[1].copy(),
            truncations[1].copy(),
            np.ones(len(observations), bool),
        ]
