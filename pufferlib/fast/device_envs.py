"""C environments in a GPU's memory: copied there, stepped by one thread each, and copied back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from pufferlib.errors import PufferError
from pufferlib.extensions.cuda_library import FOLDER, OPTIONS, Program, launch
from pufferlib.extensions.cuda_sources import STANDARD_HEADERS, read_headers
from pufferlib.fast.graph_actor import BatchStep
from pufferlib.ocean.environment import OceanEnv, means_of
from pufferlib.ppo.rollout import Rollout

BINDING = '#include "puffer_binding.h"'
DEVICE = '#include "puffer_device.h"'
PLAY = '#include "puffer_play.h"'
EXACT = (*OPTIONS, "--fmad=false")
"""Products and sums round as on a CPU, so that episodes are the same."""


@functools.cache
def device_program(binding: ModuleType) -> Program:
    """The kernels that step the environments of a compiled module."""
    folder = Path(binding.__file__).parent
    return Program(folder.name, device_code(folder).encode(), headers_of(folder) | STANDARD_HEADERS, EXACT)


@functools.cache  # trainers alike share what is loaded for it
def play_program(binding: ModuleType, **macros: str) -> Program:
    """The kernel that plays the environments of a compiled module with a policy; the macros are of puffer_play.h."""
    folder = Path(binding.__file__).parent
    defined = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    headers = read_headers(FOLDER) | headers_of(folder) | STANDARD_HEADERS
    return Program(f"{folder.name}-play", device_code(folder, f"{defined}{PLAY}").encode(), headers, EXACT)


def device_code(folder: Path, kernels: str = DEVICE) -> str:
    """The CUDA code of the environment in a folder, with these kernels behind it.

    Raises:
        PufferError: if its sources are not there.
    """
    try:
        beginning, _, _ = (folder / "binding.c").read_text().partition(BINDING)
    except OSError as error:
        raise PufferError(
            f"expected the source of the environment in {folder / 'binding.c'} to compile it for the GPU, found none; "
            "set [vec] backend to Native to step it on the CPU"
        ) from error
    return f"{beginning}{kernels}\n"


def headers_of(folder: Path) -> dict[str, bytes]:
    """The headers of the environment in a folder, and those that all environments share, by name."""
    places = (folder.parent / "include", folder)
    return {name: header for place in places for name, header in read_headers(place).items()}


ENVS_PER_BLOCK = 64
"""A thread for each. Few, so that some thousand environments reach every multiprocessor."""


class DeviceEnvs:
    """The environments of some PufferEnvs as structs on a GPU, which read and write the rows of a BatchStep.

    The memory stays where it is, so that CUDA graphs may record it. `upload` comes first.

    Attributes:
        steps: since the last `upload`.
        finals: rows like the step's observations, for final observations of episodes; or None.
        parts: one for each PufferEnv.
    """

    def __init__(self, envs: Sequence[OceanEnv], step: BatchStep, rollout: Rollout, finals: Tensor | None = None):
        # envs are in the order of their agents; the rollout's columns take rewards, terminals and truncations
        num_rows, device = len(step.episode_starts), step.actions.device
        self.steps = 0
        self.finals = finals
        self._step = step
        self._rewards = torch.zeros(num_rows, device=device)
        self._flags = torch.zeros(2, num_rows, dtype=torch.uint8, device=device)  # terminals, truncations
        self._columns = [columns.T for columns in (rollout.rewards, rollout.terminals, rollout.truncations)]
        self._fetched: list[list[Tensor]] = []
        self.parts: list[DevicePart] = []
        begin = 0
        for env in envs:
            rows = slice(begin, begin + env.num_agents)
            arrays = step.observations, step.actions, self._rewards, *self._flags
            part_finals = None if finals is None else finals[rows]
            self.parts.append(DevicePart(env, rows, [array[rows] for array in arrays], part_finals))
            begin += env.num_agents

    def upload(self) -> None:
        """Copies the environments, and the contents of their arrays, from the CPU's memory."""
        self.steps = 0
        for part in self.parts:
            part.upload()

    def step(self) -> None:
        """Steps all environments once; stores rewards and ends in the rollout at the step's `column_index`."""
        for part in self.parts:
            index, starts = self._step.column_index[part.rows], self._step.episode_starts[part.rows]
            part.run("puffer_env_step", part.structs, len(part.structs), index, *self._columns, starts)

    def fetch_logs(self) -> None:
        """Starts to copy the statistics of episodes that ended since the last call to the CPU's memory."""
        self._fetched.append([part.fetch_logs() for part in self.parts])

    def reports(self) -> list[dict]:
        """What `fetch_logs` has copied by now, as each OceanEnv reports it; each statistic once."""
        fetched, self._fetched = self._fetched, []
        pairs = [pair for logs in fetched for pair in zip(self.parts, logs, strict=True)]
        return [report for part, logs in pairs for report in part.means(logs)]

    def download(self) -> None:
        """Copies the environments back, and fills their arrays in the CPU's memory."""
        for part in self.parts:
            part.download(self.steps)
        self.steps = 0


class DevicePart:
    """The environments of one PufferEnv, as `structs`, `(environments, bytes)` uint8, in the GPU's memory."""

    def __init__(self, env: OceanEnv, rows: slice, arrays: list[Tensor], finals: Tensor | None):
        # arrays: these rows of observations, actions, rewards, terminals and truncations, on the GPU
        self.rows = rows
        self.binding = env.binding
        self.agents_per_env = env.agents_per_env
        self.finals = finals
        self._env = env
        self._arrays = arrays
        self._program = device_program(env.binding)
        structs, device = env.structs(), arrays[0].device
        self.structs = torch.zeros(structs.shape, dtype=torch.uint8, device=device)
        shared = np.frombuffer(env.binding.vec_shared(env.handle), np.uint8)
        self._shared = torch.tensor(shared, device=device) if len(shared) else None
        has_masks = {"action_masks": env.has_action_masks, "masks": env.has_turns}
        self._masks = {
            name: torch.from_numpy(getattr(env, name)).to(device) if has else None for name, has in has_masks.items()
        }
        self._names: list[str] = []
        self._logs = torch.zeros(0, device=device)

    def run(self, function: str, *arguments: Tensor | int | None) -> None:
        """Launches a kernel with a thread for every environment."""
        launch(self._program, function, -(-len(self.structs) // ENVS_PER_BLOCK), (ENVS_PER_BLOCK, 1), arguments)

    def upload(self) -> None:
        """As of DeviceEnvs."""
        env = self._env
        self.structs.copy_(torch.tensor(env.structs()))
        for array, source in zip(self._all_arrays(), self._env.arrays_for_c(), strict=True):
            array.copy_(torch.from_numpy(source))
        sizes = [array.nbytes // max(len(array), 1) for array in self._arrays[:2]]
        pointers = *self._arrays, self.finals, *self._masks.values(), self._shared
        self.run("puffer_env_attach", self.structs, *pointers, len(self.structs), *sizes)
        self._names = list(env.binding.vec_log(env.handle))  # their numbers went with the structs
        if not len(self._logs):
            self._logs = torch.zeros(len(self.structs), len(self._names), device=self.structs.device)

    def download(self, steps: int) -> None:
        """As of DeviceEnvs, that many steps after `upload`."""
        self._env.put_structs(self.structs.cpu().numpy(), steps)
        for array, target in zip(self._all_arrays(), self._env.arrays_for_c(), strict=True):
            target[...] = array.cpu().numpy()

    def fetch_logs(self) -> Tensor:
        """As DeviceEnvs.fetch_logs."""
        self.run("puffer_env_take_logs", self.structs, self._logs, len(self.structs))
        copied = torch.empty_like(self._logs, device="cpu", pin_memory=self._logs.is_cuda)
        return copied.copy_(self._logs, non_blocking=True)

    def means(self, logs: Tensor) -> list[dict]:
        """As DeviceEnvs.reports, from what `fetch_logs` returned."""
        sums = logs.numpy().astype(np.float64).cumsum(0)[-1].astype(np.float32)  # one after the other, as on a CPU
        return means_of(dict(zip(self._names, sums.tolist(), strict=True)))

    def _all_arrays(self) -> list[Tensor]:
        return [*self._arrays, *(array for array in self._masks.values() if array is not None)]
