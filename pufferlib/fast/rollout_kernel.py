"""A rollout in one kernel: environments on a GPU, and the policy of their agents."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pufferlib.errors import PufferError
from pufferlib.extensions.cuda_library import launch, reserve_shared, shared_memory
from pufferlib.fast.device_envs import DeviceEnvs, DevicePart
from pufferlib.fast.device_network import NUMBERS, OUTPUTS_PER_THREAD, DeviceNetwork
from pufferlib.fast.device_programs import play_program
from pufferlib.fast.graph_actor import BatchStep
from pufferlib.ppo.rollout import Rollout

KERNEL = "puffer_env_play"
AGENTS_PER_BLOCK = 32
"""Of a block of threads, where an environment has no more and they fit: so 8,192 agents are two blocks for each
multiprocessor of an H100, of which one steps environments while the other computes its policy."""

BLOCKS_PER_SM = 2
"""For which a multiprocessor sets shared memory aside; the rest is the cache that weights are read through."""

THREADS_PER_BLOCK = 128
"""Of a block: NETWORK_THREADS of device_network.h."""


class RolloutKernel:
    """Plays whole rollouts of environments and a network, one step after the other without a word to the CPU.

    What it writes is what BatchStep and DeviceEnvs write in as many steps, and actions are drawn by the same numbers.
    """

    def __init__(
        self,
        envs: DeviceEnvs,
        network: DeviceNetwork,
        step: BatchStep,
        rollout: Rollout,
        generator: torch.Generator,
        final_values: Tensor | None,
    ):
        """Allocates and compiles.

        Args:
            envs: that are stepped.
            network: the policy of all their agents.
            step: the rows of the agents, at column 0 when a rollout begins.
            rollout: that is filled.
            generator: what actions are drawn by.
            final_values: `(T + 1, S)`, for what final observations of truncated episodes are worth; None where the
                environments do not keep them.

        Raises:
            PufferError: if the agents of an environment do not fit into a block of threads, or it does not compile.
        """
        self._network = network
        self._generator = generator
        device = rollout.values.device
        self._noise = torch.zeros(rollout.horizon, len(step.episode_starts), network.num_parts, device=device)
        self._plays = [
            _Play(part, network, step, rollout, self._noise, envs.finals_of(part), final_values) for part in envs.parts
        ]

    def __call__(self) -> None:
        """Fills the columns of a rollout; it may be captured."""
        self._network.pack()
        for column in self._noise:  # each by itself: a GPU's generator draws others for all at once
            self._network.draw(column, self._generator)
        for play in self._plays:
            play.run()


class _Play:
    def __init__(
        self,
        part: DevicePart,
        network: DeviceNetwork,
        step: BatchStep,
        rollout: Rollout,
        noise: Tensor,
        finals: Tensor | None,
        final_values: Tensor | None,
    ):
        device, rows = rollout.values.device, part.rows
        self._blocks = Blocks.deal(part.agents_per_env, step.observations, network, shared_memory(device))
        self._program = play_program(part.binding, network.macros() | self._blocks.macros(finals is not None))
        reserve_shared(self._program, KERNEL, device, self._blocks.shared_bytes, BLOCKS_PER_SM)
        self._grid = -(-len(part.structs) // self._blocks.envs)
        states = [state[rows].data_ptr() for state in step.states.values()]
        self._arguments = (
            *(part.structs, len(part.structs), rollout.horizon, rollout.segments, network.weights),
            *(noise[0, rows], noise[0].numel(), step.column_index[rows], step.observations[rows], step.actions[rows]),
            *(step.episode_starts[rows], torch.tensor(states, device=device), rollout.by_column, rollout.actions),
            *(rollout.logprobs, rollout.values, rollout.rewards.T, rollout.terminals.T, rollout.truncations.T),
            *(finals, final_values),
        )

    def run(self) -> None:
        launch(self._program, KERNEL, self._grid, (THREADS_PER_BLOCK, 1), self._arguments, self._blocks.shared_bytes)


@dataclass(frozen=True)
class Blocks:
    """How environments are dealt out to blocks of threads.

    Attributes:
        agents_per_env: of every environment.
        envs: of a block.
        agents: that there is room for in a block: those of its environments, or as they come in fours a few more.
        shared_bytes: of memory for a block.
        number: what observations are made of, in C.
    """

    agents_per_env: int
    envs: int
    agents: int
    shared_bytes: int
    number: str

    @classmethod
    def deal(cls, agents_per_env: int, observations: Tensor, network: DeviceNetwork, limit: int) -> Blocks:
        """As many environments for a block as fit.

        Args:
            agents_per_env: of every environment.
            observations: rows of them.
            network: the agents' policy.
            limit: bytes of shared memory.

        Raises:
            PufferError: if there is no room for one environment.
        """
        words = -(-agents_per_env * observations[0].nbytes // 4) | 1
        for envs in range(max(AGENTS_PER_BLOCK // agents_per_env, 1), 0, -1):
            agents = -(-envs * agents_per_env // OUTPUTS_PER_THREAD) * OUTPUTS_PER_THREAD
            size = network.shared_bytes(agents) + 4 * envs * words
            if agents <= THREADS_PER_BLOCK and size <= limit:
                return cls(agents_per_env, envs, agents, size, NUMBERS[observations.dtype])
        raise PufferError(
            f"an environment's agents must be at most {THREADS_PER_BLOCK} and fit into {limit} bytes of shared memory, "
            f"it has {agents_per_env}, which take {size}"
        )

    def macros(self, values_finals: bool) -> dict[str, str]:
        """What puffer_play.h wants to be told, also whether final observations are valued."""
        return {
            "PLAY_ENV_AGENTS": str(self.agents_per_env),
            "PLAY_ENVS": str(self.envs),
            "PLAY_NUMBER": self.number,
            "PLAY_BYTES": str(self.shared_bytes),
            "PLAY_FINALS": str(int(values_finals)),
            "NETWORK_AGENTS": str(self.agents),
        }
