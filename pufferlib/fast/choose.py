"""Chooses how a trainer computes its policy, and says why.

    acting                       learning                                                   where
    Actor                        Gradients, Learner            plain torch, ppo/            anywhere
    Actor                        ThreadedGradients             a thread for each chunk      CPU, unless compiled, and
                                                                                            by PPO's own loss
    NetworkActor                 NetworkGradients              one C kernel                 CPU, small policies
    GraphActor                   CapturedLearner               CUDA graphs                  CUDA, unless compiled,
                                                                                            with action masks, or
                                                                                            with calls that keep
                                                                                            something
    the same                     DeviceGradients,              the draw and the loss by     CUDA, by PPO's own loss
                                 DeviceMinibatches             kernels
    GraphActor, DeviceCollector  CapturedLearner               environments on the GPU, too Device vectors
    the same, by a RolloutKernel CapturedLearner               and acting in one kernel     small policies there
    any of them                  DistributedLearner            averaged gradients           several processes
    GraphActor                   CapturedDistributedLearner    graphs around each message   the same, on CUDA

Advantages, the MinGRU scan and Muon find their kernels themselves (extensions/), and the Device vector is chosen where
environments are made (runs/).

Results are those of ppo/, as far as sums of floats in another order are the same; tests hold them together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn
from torch.optim import Optimizer

from pufferlib.config import ResolvedTrainConfig
from pufferlib.distributed import Ranks
from pufferlib.extensions import cuda_library
from pufferlib.extensions.network import OBSERVATION_DTYPES, Network, has_bfloat16, is_faster_in_bfloat16
from pufferlib.extensions.network_layers import Layers
from pufferlib.extensions.optimizers import make_optimizer
from pufferlib.extensions.ppo import has_kernels
from pufferlib.fast import learners
from pufferlib.fast.cpu import NetworkActor, NetworkGradients, ThreadedGradients
from pufferlib.fast.device_collector import DeviceCollector, can_be_on_the_device
from pufferlib.fast.device_network import DeviceNetwork, can_be_in_a_rollout
from pufferlib.fast.device_update import DeviceGradients
from pufferlib.fast.followed import stale_files
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.fast.policy_watch import copy_structure, find_change, find_kept, has_own_code, watch_changes
from pufferlib.fast.traced_layers import trace
from pufferlib.fast.traced_values import UntracedError
from pufferlib.metrics.measures import Phases
from pufferlib.policy import acting_forward, initial_state, training_forward
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.learner import Gradients, Learner, Loss
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.opponents import OpponentPool
from pufferlib.ppo.rollout import RewardNormalizer, Rollout
from pufferlib.vector.base import Vector

_FEW_SEGMENTS = 4


@dataclass(frozen=True)
class Backend:
    """How the policy of one trainer is computed; makes the parts of the trainer that compute it."""

    config: ResolvedTrainConfig
    policy: nn.Module  # as it is now, on `device`
    loss: Loss
    device: torch.device
    network: Network | None  # the kernel that computes the policy; None for torch
    is_captured: bool  # whether torch's operations are replayed as CUDA graphs
    reason: str | None  # why it is torch; None for the kernel
    is_outdated: Callable[[], bool]  # whether the policy changed since: parts were replaced, frozen, moved, or hooked

    @property
    def name(self) -> str:
        """`C kernel`, `CUDA graphs` or `torch`."""
        if self.network is not None:
            return "C kernel"
        return "CUDA graphs" if self.is_captured else "torch"

    def __str__(self) -> str:
        is_rounded = self.network is not None and self.network.products == "bfloat16"
        remark = "products of bfloat16" if is_rounded else self.reason
        return self.name if remark is None else f"{self.name} ({remark})"

    def describe(self) -> dict[str, str | None]:
        """The name and the reason, as `config.json` has them."""
        return {"by": self.name, "because": self.reason}

    def autocast(self) -> AbstractContextManager:
        """The precision that torch computes the policy in."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16")

    def make_actor(self, rollout: Rollout, num_agents: int, generator: torch.Generator) -> Actor:
        """Makes what acts for `num_agents` agents and fills the rollout."""
        if self.network is not None:
            return NetworkActor(self.network, self.policy, rollout, num_agents, generator)
        if not self.is_captured:
            return Actor(self.policy, rollout, num_agents, generator, self.autocast)
        network = self._device_network(rollout)
        return GraphActor(self.policy, rollout, num_agents, generator, self.autocast, network=network)

    def _device_network(self, rollout: Rollout) -> DeviceNetwork | None:
        # The policy as a rollout's kernel computes it; None where it does not.
        if not self.config.fused or "ppo/sampling.py" in stale_files() or has_own_code(self.policy):
            return None
        layers, _ = _try_to_trace(self.policy, rollout)
        if layers is None or not can_be_in_a_rollout(layers, rollout.observations.dtype):
            return None
        return DeviceNetwork(layers, rounds=self.config.precision == "bfloat16")

    def make_opponent(self, vecenv: Vector, policy: nn.Module, generator: torch.Generator) -> Actor:
        """Makes what acts for a policy that is not trained, in a rollout of its own that has a single step."""
        rollout = Rollout.allocate(
            vecenv.single_observation_space,
            vecenv.single_action_space,
            segments=vecenv.num_agents,
            horizon=1,
            states=initial_state(policy, vecenv.num_agents, self.device),
            device=self.device,
            observation_device=self.device,
            has_action_masks=vecenv.has_action_masks,
        )
        backend = choose_backend(policy, rollout, replace(self.config, cuda_graphs=False), self.device)
        return backend.make_actor(rollout, vecenv.num_agents, generator)

    def make_collector(
        self, vecenv: Vector, actor: Actor, phases: Phases, ranks: Ranks, pool: OpponentPool | None
    ) -> Collector:
        """Makes what steps the environments with the actor, and with the pool of opponents if there is one."""
        config, normalizer = self.config, None
        if config.normalize_rewards:
            normalizer = RewardNormalizer(vecenv.num_agents, config.gamma, config.normalization_clip, ranks)
        is_on_device = pool is None and can_be_on_the_device(vecenv, actor, config.skip_nonfinite)
        kind = DeviceCollector if is_on_device else partial(Collector, pool=pool)
        return kind(
            vecenv,
            actor,
            phases=phases,
            reward_clip=config.reward_clip,
            reward_normalizer=normalizer,
            skips_nonfinite=config.skip_nonfinite,
        )

    def make_gradients(self, rollout: Rollout) -> Gradients:
        """Makes what differentiates the policy over rows of a rollout."""
        if self.network is not None:
            return NetworkGradients(self.network, self.policy, rollout, self.config)
        # Any other loss may keep something, or mix rows.
        kind, is_known_loss = Gradients, self.loss is ppo_loss and not _changed_files()
        if is_known_loss and self.device.type == "cpu" and not self.config.compile:
            kind = ThreadedGradients
        elif is_known_loss and self.is_captured and not self.config.cpu_offload and has_kernels(self.device):
            kind = DeviceGradients
        return kind(self.policy, rollout, self.config, self.autocast, self.loss)

    def make_optimizer(self, gradients: Gradients) -> Optimizer:
        """Makes what steps the parameters."""
        config = self.config
        return make_optimizer(
            config.optimizer,
            gradients.all_parameters,
            learning_rate=config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            adamw=learners.KernelAdam,
        )

    def make_learner(self, rollout: Rollout, generator: torch.Generator, phases: Phases, ranks: Ranks) -> Learner:
        """Makes what trains the policy on the rollout, together with the other processes if there are any."""
        config = self.config
        gradients = self.make_gradients(rollout.single_steps() if config.shuffle == "steps" else rollout)
        optimizer = self.make_optimizer(gradients)
        # The host keeps the order of single steps and decides what is skipped; torch's SGD and offloaded observations
        # cannot be recorded.
        is_recordable = config.optimizer != "sgd" and not config.cpu_offload
        can_be_captured = is_recordable and config.shuffle == "segments" and not config.skip_nonfinite
        is_captured = self.is_captured and can_be_captured
        if ranks.world_size > 1:
            kind = learners.CapturedDistributedLearner if is_captured else learners.DistributedLearner
        elif config.shuffle == "steps" and not config.skip_nonfinite:
            kind = learners.StepsLearner
        else:
            kind = learners.CapturedLearner if is_captured else Learner
        return kind(rollout, gradients, optimizer, generator, phases, ranks)

    def take_over(self, collector: Collector, learner: Learner, generator: torch.Generator) -> None:
        """Replaces the actor, the gradients and the optimizer of a trainer by those of this backend.

        They continue where the earlier ones were; the optimizer keeps what it knew of parameters that stayed.
        """
        actor = self.make_actor(collector.rollout, collector.vecenv.num_agents, generator)
        actor.load_state_dict(collector.actor.state_dict())
        collector.actor.close()
        collector.actor = actor
        learner.gradients.close()
        gradients = self.make_gradients(learner.gradients.rollout)
        optimizer = self.make_optimizer(gradients)
        learners.take_over(optimizer, learner.optimizer)
        learner.follow(gradients, optimizer)


def choose_backend(
    policy: nn.Module, rollout: Rollout, config: ResolvedTrainConfig, device: torch.device, loss: Loss = ppo_loss
) -> Backend:
    """Chooses for a policy as it is now, on `device`; choose again once `is_outdated` says so."""
    reason = _why_torch(config, device, loss)
    is_captured = cuda_library.is_nvidia(device) and config.cuda_graphs and not config.compile
    obstacle = _why_uncaptured(policy, rollout) if is_captured else None
    if obstacle is not None:
        is_captured, reason = False, obstacle
    layers = None
    if reason is None:
        layers, reason = _try_to_trace(policy, rollout)
    can_round = {"bfloat16": has_bfloat16, "auto": is_faster_in_bfloat16, "float32": lambda: False}
    is_rounded = can_round[config.precision]()
    network = None if reason else Network(layers, torch.get_num_threads(), "bfloat16" if is_rounded else "float32")
    return Backend(
        config=config,
        policy=policy,
        loss=loss,
        device=device,
        network=network,
        is_captured=is_captured,
        reason=reason,
        is_outdated=watch_changes(policy, runs_no_code=network is not None or is_captured),
    )


def _why_uncaptured(policy: nn.Module, rollout: Rollout) -> str | None:
    # Why a training would be another by CUDA graphs, which run no Python code.
    if rollout.action_masks is not None:
        return "CUDA graphs do not take the action masks that the environment has"
    device = rollout.values.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        try:
            copied = copy_structure(policy)
            _call(copied, rollout)  # which may make what later ones read
            kept = find_kept(copied, with_numbers=False)
            _call(copied, rollout)
            name = find_change(kept, find_kept(copied, with_numbers=False))
        except Exception:  # noqa: BLE001 - whatever a user's code raises: training raises it again
            return None
    return None if name is None else f"the policy {type(policy).__name__} keeps something in a call: {name}"


def _call(policy: nn.Module, rollout: Rollout) -> None:
    # As an actor and a learner do.
    observations = rollout.observations[:_FEW_SEGMENTS].to(rollout.values.device)
    states = {name: each[:_FEW_SEGMENTS].clone() for name, each in rollout.states.items()}
    acting_forward(policy)(observations[:, 0], dict(states))
    if states:
        states["resets"] = torch.zeros(observations.shape[:2], dtype=torch.bool, device=observations.device)
    training_forward(policy, policy)(observations if states else observations.flatten(0, 1), states)


def _why_torch(config: ResolvedTrainConfig, device: torch.device, loss: Loss) -> str | None:
    # Why no policy can be one kernel in this training; None if some can.
    if device.type != "cpu":
        return f"the kernel for whole policies is for CPUs, the device is {device.type}"
    if not config.fused:
        return "[train] fused is False"
    if config.compile:
        return "[train] compile is True"
    if loss is not ppo_loss:
        return f"the loss is {getattr(loss, '__name__', type(loss).__name__)}, one of your own"
    if _changed_files():
        return f"{' and '.join(_changed_files())} changed, and the kernel did not follow"
    return None


def _changed_files() -> tuple[str, ...]:
    # Those that a policy's kernel follows; the draw of minibatches is not among them.
    return tuple(name for name in stale_files() if name != "ppo/advantages.py")


def _try_to_trace(policy: nn.Module, rollout: Rollout) -> tuple[Layers | None, str | None]:
    # The layers that the kernel computes, or why there are none.
    if rollout.observations.dtype not in OBSERVATION_DTYPES:
        return None, f"observations are {str(rollout.observations.dtype).removeprefix('torch.')}"
    try:
        layers = trace(policy, rollout)
    except UntracedError as error:
        return None, f"the policy {type(policy).__name__} {error}"
    if not layers.fit(rollout.values.device.type):
        return None, "the policy's layers are not of the sizes and types that the kernel takes"
    return layers, None
