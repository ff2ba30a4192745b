"""C environments in a GPU's memory: copied there, stepped by one thread each, and copied back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pufferlib.extensions.cuda_library import launch
from pufferlib.fast.device_programs import device_program
from pufferlib.fast.graph_actor import BatchStep
from pufferlib.ocean.environment import OceanEnv, means_of
from pufferlib.ppo.rollout import Rollout

ENVS_PER_BLOCK = 64
"""Of a block: few, so that some thousand environments reach every multiprocessor."""


class DeviceEnvs:
    """The environments of some PufferEnvs as structs on a GPU, with rows that a policy reads and writes.

    The memory stays where it is, so that a CUDA graph may know it. `upload` and `download` may follow each other any
    number of times.

    Attributes:
        steps: since the last `upload`.
        finals: see `__init__`.
        parts: one for each PufferEnv.
    """

    def __init__(self, envs: Sequence[OceanEnv], step: BatchStep, rollout: Rollout, finals: Tensor | None = None):
        """Allocates; `upload` comes next.

        Args:
            envs: whose environments to step, in the order of their agents.
            step: the rows of all agents that the environments read and write.
            rollout: whose columns take rewards, terminals and truncations.
            finals: rows like the step's observations, for those that episodes end with; None where nobody wants them.
        """
        rows, device = len(step.episode_starts), step.actions.device
        self.steps = 0
        self.finals = finals
        self._step = step
        self._rewards = torch.zeros(rows, device=device)
        self._terminals, self._truncations = torch.zeros(2, rows, dtype=torch.uint8, device=device)
        self._columns = [columns.T for columns in (rollout.rewards, rollout.terminals, rollout.truncations)]
        self.parts: list[DevicePart] = []
        begin = 0
        for env in envs:
            self.parts.append(DevicePart(env, slice(begin, begin + env.num_agents), device))
            begin += env.num_agents

    @property
    def num_bytes(self) -> int:
        """Of the GPU's memory, but for observations and actions, which the trainer has anyway."""
        parts = sum(part.num_bytes for part in self.parts)
        return parts + sum(rows.nbytes for rows in (self._rewards, self._terminals, self._truncations))

    def upload(self) -> None:
        """Takes the environments as they are in the CPU's memory, and what their arrays hold."""
        self.steps = 0
        for part in self.parts:
            part.upload(self.finals_of(part), *self._rows(part))

    def finals_of(self, part: DevicePart) -> Tensor | None:
        """The rows of final observations of a part, None where nobody wants them."""
        return None if self.finals is None else self.finals[part.rows]

    def step(self) -> None:
        """Steps all environments once, and stores what they gave where the step's `place` says."""
        for part in self.parts:
            place, episode_starts = self._step.column_index[part.rows], self._step.episode_starts[part.rows]
            part.run("puffer_env_step", part.structs, len(part.structs), place, *self._columns, episode_starts)

    def reports(self) -> list[dict]:
        """What each PufferEnv has to tell of the episodes that ended since the last call, as OceanEnv does."""
        return [report for part in self.parts for report in part.report()]

    def download(self) -> None:
        """Has the environments in the CPU's memory go on from where these are, and fills their arrays."""
        for part in self.parts:
            part.download(self.steps, *self._rows(part))
        self.steps = 0

    def _rows(self, part: DevicePart) -> list[Tensor]:
        arrays = self._step.observations, self._step.actions, self._rewards, self._terminals, self._truncations
        return [array[part.rows] for array in arrays]


class DevicePart:
    """The environments of one PufferEnv.

    Attributes:
        rows: of their agents, among those of all PufferEnvs.
        binding: their compiled module.
        agents_per_env: in each of them.
        structs: `(environments, bytes)` uint8, in the GPU's memory.
    """

    def __init__(self, env: OceanEnv, rows: slice, device: torch.device):
        self.rows = rows
        self.binding = env.binding
        self.agents_per_env = env.agents_per_env
        self._env = env
        self._program = device_program(env.binding)
        structs = env.structs()
        self.structs = torch.zeros(structs.shape, dtype=torch.uint8, device=device)
        shared = np.frombuffer(env.binding.vec_shared(env.handle), np.uint8)
        self._shared = torch.tensor(shared, device=device) if len(shared) else None
        self._names: list[str] = []
        self._logs = torch.zeros(0, device=device)

    @property
    def num_bytes(self) -> int:
        """Of the GPU's memory."""
        shared = 0 if self._shared is None else self._shared.nbytes
        return self.structs.nbytes + self._logs.nbytes + shared

    def run(self, function: str, *arguments: Tensor | int | None) -> None:
        """Launches a kernel with a thread for every environment."""
        launch(self._program, function, -(-len(self.structs) // ENVS_PER_BLOCK), (ENVS_PER_BLOCK, 1), arguments)

    def upload(self, finals: Tensor | None, *rows: Tensor) -> None:
        """Takes the environments from the CPU's memory.

        The rows are of final observations, of observations, of actions and of what a step gives.
        """
        env = self._env
        self.structs.copy_(torch.tensor(env.structs()))
        for array, source in zip(rows, self._arrays(), strict=True):
            array.copy_(torch.from_numpy(source))
        sizes = [array.nbytes // max(len(array), 1) for array in rows[:2]]
        self.run("puffer_env_attach", self.structs, *rows, finals, self._shared, len(self.structs), *sizes)
        self._names = list(env.binding.vec_log(env.handle))  # their numbers went with the structs
        if not len(self._logs):
            self._logs = torch.zeros(len(self.structs), len(self._names), device=self.structs.device)

    def download(self, steps: int, *rows: Tensor) -> None:
        """Puts them back, that many steps later."""
        self._env.put_structs(self.structs.cpu().numpy(), steps)
        for array, target in zip(rows, self._arrays(), strict=True):
            target[...] = array.cpu().numpy()

    def report(self) -> list[dict]:
        """What there is to tell of episodes that ended since the last call."""
        self.run("puffer_env_take_logs", self.structs, self._logs, len(self.structs))
        logs = self._logs.cpu().numpy().astype(np.float64)
        sums = logs.cumsum(0)[-1].astype(np.float32)  # one after the other, as on a CPU
        return means_of(dict(zip(self._names, sums.tolist(), strict=True)))

    def _arrays(self) -> list[np.ndarray]:
        env = self._env
        return [env.observations, env.actions, env.rewards, env.terminals, env.truncations]
