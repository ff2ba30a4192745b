"""A rollout in one kernel: environments on a GPU, and the policy of their agents."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
"""At most, but for environments of more. 8,192 agents are then two blocks for each multiprocessor of an H100: one steps
environments while the other computes its policy."""

BLOCKS_PER_SM = 2
"""A multiprocessor sets shared memory aside for them; the rest is the cache that weights are read through."""

THREADS_PER_BLOCK = 128
"""NETWORK_THREADS of device_network.h."""


class RolloutKernel:
    """Plays whole rollouts of environments and a network, all steps in one launch.

    It writes what BatchStep and DeviceEnvs write in as many steps, and draws actions by the same random numbers.
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
            envs: are stepped.
            network: the policy of all their agents.
            step: the rows of the agents, at column 0 when a rollout begins.
            rollout: is filled.
            generator: draws the actions.
            final_values: `(T + 1, S)`, takes the values of final observations of truncated episodes; None where the
                environments do not keep them.

        Raises:
            PufferError: if the agents of an environment do not fit into a block of threads, or it does not compile.
        """
        self._network = network
        self._generator = generator
        device = rollout.values.device
        self._noise = torch.zeros(rollout.horizon, len(step.episode_starts), network.num_parts, device=device)
        self._launches = [self._prepare(part, step, rollout, final_values) for part in envs.parts]

    def __call__(self) -> None:
        """Fills a rollout; it may be captured."""
        self._network.pack()
        for column in self._noise:  # each by itself: a GPU's generator draws others for all at once
            self._network.draw(column, self._generator)
        for launch_part in self._launches:
            launch_part()

    def _prepare(
        self, part: DevicePart, step: BatchStep, rollout: Rollout, final_values: Tensor | None
    ) -> Callable[[], None]:
        # The launch for the environments of one PufferEnv.
        device, rows, noise = rollout.values.device, part.rows, self._noise
        blocks = Blocks.deal(part.agents_per_env, step.observations, self._network, shared_memory(device))
        program = play_program(part.binding, self._network.macros() | blocks.macros(part.finals is not None))
        reserve_shared(program, KERNEL, device, blocks.shared_bytes, BLOCKS_PER_SM)
        states = [state[rows].data_ptr() for state in step.states.values()]
        arguments = (
            *(part.structs, len(part.structs), rollout.horizon, rollout.segments, self._network.weights),
            *(noise[0, rows], noise[0].numel(), step.column_index[rows], step.observations[rows], step.actions[rows]),
            *(step.episode_starts[rows], torch.tensor(states, device=device), rollout.by_column, rollout.actions),
            *(rollout.logprobs, rollout.values, rollout.rewards.T, rollout.terminals.T, rollout.truncations.T),
            *(part.finals, final_values),
        )
        grid, block = -(-len(part.structs) // blocks.envs), (THREADS_PER_BLOCK, 1)
        return functools.partial(launch, program, KERNEL, grid, block, arguments, blocks.shared_bytes)


@dataclass(frozen=True)
class Blocks:
    """The environments that a block of threads plays.

    Attributes:
        agents_per_env: of every environment.
        envs: of a block.
        agents: of a block, rounded up to a multiple of OUTPUTS_PER_THREAD.
        shared_bytes: of memory for a block.
        number: type of an observation's numbers, in C.
    """

    agents_per_env: int
    envs: int
    agents: int
    shared_bytes: int
    number: str

    @classmethod
    def deal(cls, agents_per_env: int, observations: Tensor, network: DeviceNetwork, limit: int) -> Blocks:
        """Gives a block as many environments as fit.

        Args:
            agents_per_env: of every environment.
            observations: rows, one for each agent.
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
        """The macros of puffer_play.h; `values_finals` says whether final observations are valued."""
        return {
            "PLAY_ENV_AGENTS": str(self.agents_per_env),
            "PLAY_ENVS": str(self.envs),
            "PLAY_NUMBER": self.number,
            "PLAY_BYTES": str(self.shared_bytes),
            "PLAY_FINALS": str(int(values_finals)),
            "NETWORK_AGENTS": str(self.agents),
        }
