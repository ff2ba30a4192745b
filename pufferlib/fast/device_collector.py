"""Rollouts on a GPU: environments and policy in one kernel, or in CUDA graphs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from pufferlib.config import TrainConfig
from pufferlib.errors import PufferError, PufferWarning
from pufferlib.extensions.cuda_library import launch, prepare, reserve_shared, shared_memory
from pufferlib.fast.cuda_graphs import CapturedCall
from pufferlib.fast.device_envs import DeviceEnvs, device_program, play_program
from pufferlib.fast.device_network import NUMBERS, OUTPUTS_PER_THREAD, DeviceNetwork
from pufferlib.fast.graph_actor import ActorBatch, GraphActor
from pufferlib.metrics.measures import FinishedEpisodes, Phases
from pufferlib.ocean.environment import OceanEnv
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.collector import BOUNDARY_COLUMNS, Collector
from pufferlib.ppo.rollout import FinalValues, RewardNormalizer, Rollout
from pufferlib.vector.base import Vector
from pufferlib.vector.native import Device

KERNEL = "puffer_env_play"
AGENTS_PER_BLOCK = 32
"""At most, but for environments of more. 8,192 agents are then two blocks for each multiprocessor of an H100: one steps
environments while the other computes its policy."""

BLOCKS_PER_SM = 2
"""A multiprocessor sets shared memory aside for them; the rest is the cache that weights are read through."""

RESERVED_BYTES = 1024
"""Shared memory that CUDA takes of a multiprocessor for each block."""

THREADS_PER_BLOCK = 128
"""NETWORK_THREADS of device_network.h."""


class RolloutKernel:
    """Plays whole rollouts of environments and a network, all steps in one launch.

    It writes what ActorBatch and DeviceEnvs write in as many steps, and draws actions by the same random numbers.

    Raises:
        PufferError: if the agents of an environment do not fit into a block of threads, or it does not compile.
    """

    def __init__(
        self,
        envs: Sequence[DeviceEnvs],
        network: DeviceNetwork,
        batch: ActorBatch,  # at column 0 when a rollout begins
        rollout: Rollout,
        final_values: Tensor | None,  # (T + 1, S), of truncated episodes; None where the environments do not keep them
    ):
        self._network = network
        self._generator = batch.generator
        self._noise = rollout.values.new_zeros(rollout.horizon, len(batch.episode_starts), network.num_parts)
        self._launches = [self._prepare(part, batch, rollout, final_values) for part in envs]

    def __call__(self) -> None:
        """Fills a rollout; it may be captured."""
        self._network.pack()
        for column in self._noise:  # each by itself: a GPU's generator draws others for all at once
            draw = column.normal_ if self._network.draws_numbers else column.uniform_
            draw(generator=self._generator)
        for launch_part in self._launches:
            launch_part()

    def _prepare(
        self, envs: DeviceEnvs, batch: ActorBatch, rollout: Rollout, final_values: Tensor | None
    ) -> Callable[[], None]:
        device, rows, noise = rollout.values.device, envs.rows, self._noise
        blocks = Blocks.deal(envs.env.agents_per_env, batch.observations, self._network, shared_memory(device))
        program = play_program(envs.env.binding, **self._network.macros(), **blocks.macros(envs.finals is not None))
        reserve_shared(program, KERNEL, device, blocks.shared_bytes, BLOCKS_PER_SM)
        states = [state[rows].data_ptr() for state in batch.states.values()]
        arguments = (
            *(envs.structs, len(envs.structs), rollout.horizon, rollout.segments, self._network.weights),
            *(noise[0, rows], noise[0].numel(), batch.column_index[rows], batch.observations[rows]),
            *(batch.actions[rows], batch.episode_starts[rows], torch.tensor(states, device=device)),
            *(rollout.by_column, rollout.actions),
            *(rollout.logprobs, rollout.values, rollout.rewards.T, rollout.terminals.T, rollout.truncations.T),
            *(envs.finals, final_values),
        )
        grid, block = -(-len(envs.structs) // blocks.envs), (THREADS_PER_BLOCK, 1)
        return functools.partial(launch, program, KERNEL, grid, block, arguments, blocks.shared_bytes)


@dataclass(frozen=True)
class Blocks:
    """The environments that a block of threads plays."""

    agents_per_env: int
    envs: int  # of a block
    agents: int  # of a block, rounded up to a multiple of OUTPUTS_PER_THREAD
    shared_bytes: int  # of a block
    number: str  # type of an observation's numbers, in C

    @classmethod
    def deal(cls, agents_per_env: int, observations: Tensor, network: DeviceNetwork, limit: int) -> Blocks:
        """Gives a block as many environments as let BLOCKS_PER_SM of them fit, or else as fit into one.

        `limit` is the bytes of shared memory that one block may have, RESERVED_BYTES less than a multiprocessor has.

        Raises:
            PufferError: if there is no room for one environment.
        """
        words = -(-agents_per_env * observations[0].nbytes // 4) | 1
        share = (limit + RESERVED_BYTES) // BLOCKS_PER_SM - RESERVED_BYTES
        for room in (share, limit):
            for envs in range(max(AGENTS_PER_BLOCK // agents_per_env, 1), 0, -1):
                agents = -(-envs * agents_per_env // OUTPUTS_PER_THREAD) * OUTPUTS_PER_THREAD
                size = network.shared_bytes(agents) + 4 * envs * words
                if agents <= THREADS_PER_BLOCK and size <= room:
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


COLUMNS = 64
"""At most, of a rollout in one CUDA graph: some thousand kernels, whose launch takes the time of one."""


class DeviceCollector(Collector):
    """Borrows the environments of a Device vector, and plays whole rollouts on the GPU.

    It collects what Collector does with the same vector, bit for bit where environments round as on a CPU; values of
    final observations may round differently.
    """

    vecenv: Device
    actor: GraphActor
    follows_later = True

    def __init__(
        self,
        vecenv: Device,
        actor: GraphActor,
        phases: Phases,
        reward_clip: float = 0.0,
        reward_normalizer: RewardNormalizer | None = None,
        skips_nonfinite: bool = False,
    ):
        super().__init__(vecenv, actor, phases, reward_clip, reward_normalizer, skips_nonfinite)
        changed = {"rewards"} if reward_clip or reward_normalizer is not None else set()
        self._columns_missing = dict.fromkeys({*BOUNDARY_COLUMNS} - changed, 1)  # which came with a reset, or before
        self._rows = slice(0, vecenv.num_agents)
        self._envs: list[DeviceEnvs] = []
        self._steps_away = 0  # of the environments on the GPU, since they were borrowed
        self._fetched: list[tuple[DeviceEnvs, Tensor]] = []  # statistics of ended episodes, not reported yet
        self._calls: list[CapturedCall] = []  # that play a rollout, and the bootstrap
        self._player: GraphActor | None = None  # whose memory both know
        self._final_values: torch.Tensor | None = None  # (T + 1, S), see RolloutKernel
        # Of each group of segments whose episodes are to be followed: rewards and ends, (T, agents).
        self._unfollowed: list[tuple[np.ndarray, np.ndarray]] = []

    @override
    def forget(self) -> None:
        self._unfollowed.clear()
        super().forget()

    @override
    def follow_episodes(self) -> None:
        with self._phases.phase("store"):
            are_there = np.ones(self.vecenv.num_agents, bool)  # no agent of a C environment is ever absent
            for rewards, ended in self._unfollowed:
                for column in range(len(rewards)):
                    self.tracker.step(self._rows, rewards[column], ended[column], are_there)
            if self._unfollowed:
                reports = [report for envs, logs in self._fetched for report in envs.means(logs)]
                self._reports.setdefault(0, FinishedEpisodes()).add(reports)
                self._fetched.clear()
            self._unfollowed.clear()
        super().follow_episodes()

    @property
    def place(self) -> str:
        """Says that environments are on the GPU, and whether one kernel plays the rollout."""
        one = "" if self.actor.network is None else ", a rollout in one kernel"
        return f"environments on the GPU{one}"

    @override
    def _collect_group(self) -> None:
        with self._phases.phase("environment"):
            self._borrow()
        with self._phases.phase("forward"):  # and the steps between, which are the smaller part
            self.actor.start_rollout(self._offset)
            for call in self._calls:
                call()
            self._steps_away += self.rollout.horizon
            self.actor.finish()
        with self._phases.phase("store"):
            self._fetch()

    @property
    def _columns_at_once(self) -> int:
        return max(count for count in range(1, COLUMNS + 1) if self.rollout.horizon % count == 0)

    def _borrow(self) -> None:
        if self._player is not self.actor:  # the actor was replaced
            self.vecenv.take_back()
        if self.vecenv.is_lent:
            return
        envs = self.vecenv.lend(self._bring_back)
        if self._player is not self.actor:
            self._set_up(envs)
        for each in self._envs:
            each.upload()
        self._steps_away = 0

    def _set_up(self, envs: list[OceanEnv]) -> None:  # in the order of their agents
        batch = self.actor.batch(self._rows)
        tells_finals = self.vecenv.tells_final_observations and any(env.has_truncations for env in envs)
        finals = torch.zeros_like(batch.observations) if tells_finals else None
        self._final_values = torch.zeros_like(self.rollout.rewards.T) if tells_finals else None
        self._envs, begin = [], 0
        for env in envs:
            rows = slice(begin, begin + env.num_agents)
            self._envs.append(DeviceEnvs(env, rows, batch, self.rollout, None if finals is None else finals[rows]))
            begin = rows.stop
        kernel = self._kernel(batch)
        columns = self._columns_at_once if kernel is None else self.rollout.horizon

        @torch.no_grad()
        def play() -> None:
            for _ in range(columns):
                batch.act()
                for each in self._envs:
                    each.step()
                if finals is not None:  # which of them count is known only when the rollout is over, so all are valued
                    values = self._player.value(self._rows, finals).float().view(-1)
                    self._final_values.view(-1).index_copy_(0, batch.column_index, values)

        @torch.no_grad()
        def bootstrap() -> None:
            batch.clear_states()
            values = self._player.value(self._rows, batch.observations)
            batch.store_values(values, 0 if kernel is None else columns)  # which does not advance the step

        plays = [batch.captured(kernel or play)] * (self.rollout.horizon // columns)
        self._calls = [*plays, batch.captured(bootstrap)]
        self._player = self.actor

    def _kernel(self, batch: ActorBatch) -> RolloutKernel | None:
        network = self.actor.network
        if network is None:
            return None
        try:
            return RolloutKernel(self._envs, network, batch, self.rollout, self._final_values)
        except PufferError as error:
            warnings.warn(
                f"a rollout cannot be one kernel, so it is many: {error}; set [train] fused to False to not try",
                PufferWarning,
                stacklevel=2,
            )
            return None

    def _bring_back(self) -> None:
        self._player.finish()
        for envs in self._envs:
            envs.download(self._steps_away)

    def _fetch(self) -> None:
        group = slice(self._offset, self._offset + self.vecenv.num_agents)
        for name in ("rewards", "terminals", "truncations"):
            self.host_buffers[name][1:, group].copy_(getattr(self.rollout, name).T[1:, group], non_blocking=True)
        self._fetched += [(envs, envs.fetch_logs()) for envs in self._envs]
        if self.rollout.rewards.is_cuda:
            torch.cuda.current_stream(self.rollout.rewards.device).synchronize()
        rewards, terminals, truncations, masks, pending = (array[1:, group] for array in self._arrays.values())
        masks[...], pending[...] = True, False
        self._unfollowed.append((rewards.copy(), terminals | truncations))
        self._columns[:] = self.rollout.horizon
        is_cut = truncations & ~terminals
        if self._final_values is not None and is_cut.any():
            device = self._final_values.device
            columns, agents = (torch.from_numpy(place).to(device) for place in is_cut.nonzero())
            columns, segments = columns + 1, agents + self._offset
            self._finals.append(FinalValues(segments, columns, self._final_values[columns, segments]))


def can_be_on_the_device(vecenv: Vector, actor: Actor, skips_nonfinite: bool) -> bool:
    """Whether whole rollouts can be played on the policy's GPU.

    This needs environments without turns or action masks that can be lent, all in one batch, a policy that is captured,
    observations that stay on the GPU, and no filter between two steps. A warning says if the environments do not
    compile.
    """
    is_captured = isinstance(actor, GraphActor) and not actor.is_offloaded
    can_be_lent = isinstance(vecenv, Device) and vecenv.agents_per_batch == vecenv.num_agents
    can_be_lent = can_be_lent and not any(env.has_turns or env.has_action_masks for env in vecenv.envs)
    if not can_be_lent or not is_captured or skips_nonfinite:
        return False
    try:
        for binding in {env.binding for env in vecenv.envs}:
            prepare(device_program(binding), actor.rollout.actions.device)
    except PufferError as error:
        warnings.warn(
            f"the environments cannot be stepped on the GPU, so the CPU does: {error}; set [vec] backend to Native to "
            "not try",
            PufferWarning,
            stacklevel=2,
        )
        return False
    return True


def suits(config: TrainConfig) -> bool:
    """Whether the settings of a training on a GPU let its environments be there."""
    is_captured = config.cuda_graphs and not config.compile
    return is_captured and not config.cpu_offload and not config.skip_nonfinite
