"""C environments in a GPU's memory: copied there, stepped by one thread each, and copied back."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from pufferlib.errors import PufferError
from pufferlib.extensions.cuda_library import FOLDER, OPTIONS, Program, launch
from pufferlib.extensions.cuda_sources import STANDARD_HEADERS, read_headers
from pufferlib.fast.graph_actor import ActorBatch
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
    """The environments of one PufferEnv as structs on a GPU, which read and write rows of an ActorBatch.

    The memory stays where it is, so that CUDA graphs may record it. `upload` comes first.

    Attributes:
        env: the PufferEnv.
        rows: of the batch.
        structs: `(environments, bytes)` uint8.
        finals: `(agents, *observation_shape)`, for final observations of episodes; or None.
    """

    def __init__(self, env: OceanEnv, rows: slice, batch: ActorBatch, rollout: Rollout, finals: Tensor | None = None):
        # the rollout's columns take rewards, terminals and truncations
        device = batch.actions.device
        self.env, self.rows, self.finals = env, rows, finals
        flags = torch.zeros(2, env.num_agents, dtype=torch.uint8, device=device)  # terminals, truncations
        rewards = rollout.rewards.new_zeros(env.num_agents)
        self._arrays = [batch.observations[rows], batch.actions[rows], rewards, *flags]
        columns = [columns.T for columns in (rollout.rewards, rollout.terminals, rollout.truncations)]
        self._stored = batch.column_index[rows], *columns, batch.episode_starts[rows]
        self._program = device_program(env.binding)
        self.structs = torch.zeros(env.structs().shape, dtype=torch.uint8, device=device)
        shared = np.frombuffer(env.binding.vec_shared(env.handle), np.uint8)
        self._shared = torch.tensor(shared, device=device) if len(shared) else None
        masks = env.action_masks if env.has_action_masks else None, env.masks if env.has_turns else None
        self._masks = [None if each is None else torch.from_numpy(each).to(device) for each in masks]
        self._names: list[str] = []
        self._logs = rewards.new_zeros(0)

    def upload(self) -> None:
        """Copies the environments, and the contents of their arrays, from the CPU's memory."""
        env = self.env
        self.structs.copy_(torch.tensor(env.structs()))
        for array, source in zip(self._all_arrays(), env.arrays_for_c(), strict=True):
            array.copy_(torch.from_numpy(source))
        sizes = [array.nbytes // max(len(array), 1) for array in self._arrays[:2]]
        pointers = *self._arrays, self.finals, *self._masks, self._shared
        self._run("puffer_env_attach", *pointers, len(self.structs), *sizes)
        self._names = list(env.binding.vec_log(env.handle))  # their numbers went with the structs
        if not len(self._logs):
            self._logs = self._logs.new_zeros(len(self.structs), len(self._names))

    def step(self) -> None:
        """Steps all environments once; stores rewards and ends in the rollout at the batch's `column_index`."""
        self._run("puffer_env_step", len(self.structs), *self._stored)

    def fetch_logs(self) -> Tensor:
        """Starts to copy the statistics of episodes that ended since the last call to the CPU's memory."""
        self._run("puffer_env_take_logs", self._logs, len(self.structs))
        copied = torch.empty_like(self._logs, device="cpu", pin_memory=self._logs.is_cuda)
        return copied.copy_(self._logs, non_blocking=True)

    def means(self, logs: Tensor) -> list[dict]:
        """What `fetch_logs` returned, as the PufferEnv reports it."""
        sums = logs.numpy().astype(np.float64).cumsum(0)[-1].astype(np.float32)  # one after the other, as on a CPU
        return means_of(dict(zip(self._names, sums.tolist(), strict=True)))

    def download(self, steps: int) -> None:
        """Copies the environments back, that many steps after `upload`, and fills their arrays in the CPU's memory."""
        self.env.put_structs(self.structs.cpu().numpy(), steps)
        for array, target in zip(self._all_arrays(), self.env.arrays_for_c(), strict=True):
            target[...] = array.cpu().numpy()

    def _run(self, function: str, *arguments: Tensor | int | None) -> None:
        # With a thread for every environment.
        blocks = -(-len(self.structs) // ENVS_PER_BLOCK)
        launch(self._program, function, blocks, (ENVS_PER_BLOCK, 1), (self.structs, *arguments))

    def _all_arrays(self) -> list[Tensor]:
        return [*self._arrays, *(array for array in self._masks if array is not None)]
