"""Which of the ways to compute the same a trainer takes, and why: the one place where that is decided.

    acting                       learning                                                   where
    Actor                        Gradients, Learner            plain torch, ppo/            anywhere
    Actor                        GatheringGradients            reused memory                observations on the CPU
    Actor                        ShardedGradients              a thread for each share      CPU, unless compiled
    NetworkActor                 NetworkGradients              one C kernel                 CPU, small policies
    GraphActor                   CapturedLearner               CUDA graphs                  CUDA, unless compiled
    GraphActor, DeviceCollector  CapturedLearner               environments on the GPU, too Device vectors
    the same, by a RolloutKernel CapturedLearner               and acting in one kernel     small policies there
    any of them                  DistributedLearner            averaged gradients           several processes

Results are those of ppo/, as far as sums of floats in another order are the same; tests hold them together.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from pufferlib.config import ResolvedTrainConfig
from pufferlib.distributed import Ranks
from pufferlib.extensions import Layers, Network
from pufferlib.extensions.network import has_bfloat16, observation_dtypes
from pufferlib.extensions.optimizers import make_optimizer
from pufferlib.fast.captured_learner import CapturedLearner
from pufferlib.fast.device_collector import DeviceCollector, can_be_on_the_device
from pufferlib.fast.device_network import DeviceNetwork, can_be_in_a_rollout
from pufferlib.fast.distributed_learner import DistributedLearner
from pufferlib.fast.followed import edited_files
from pufferlib.fast.gathering_gradients import GatheringGradients
from pufferlib.fast.graph_actor import GraphActor
from pufferlib.fast.network_actor import NetworkActor
from pufferlib.fast.network_gradients import NetworkGradients
from pufferlib.fast.optimizers import KernelAdam, take_over
from pufferlib.fast.policy_layers import find_layers
from pufferlib.fast.policy_watch import PolicyWatch
from pufferlib.fast.row_wise import RowWise
from pufferlib.fast.sharded_gradients import ShardedGradients
from pufferlib.metrics.phases import Phases
from pufferlib.ppo.actor import Actor
from pufferlib.ppo.collector import Collector
from pufferlib.ppo.gradients import Gradients, Loss
from pufferlib.ppo.learner import Learner
from pufferlib.ppo.losses import ppo_loss
from pufferlib.ppo.rollout import Rollout


@dataclass(frozen=True)
class Choice:
    """What was chosen for one policy, and makes the parts of a trainer for it.

    Attributes:
        config: of the training.
        policy: as it is now.
        loss: what is minimised.
        device: of the policy.
        network: the kernel that computes the policy; None for torch.
        is_captured: whether torch's operations are replayed as CUDA graphs.
        reason: why it is torch; None for the kernel.
        watch: remembers what the policy was.
        row_wise: whether threads may share the rows of a minibatch; None where torch does not compute it on a CPU.
    """

    config: ResolvedTrainConfig
    policy: nn.Module
    loss: Loss
    device: torch.device
    network: Network | None
    is_captured: bool
    reason: str | None
    watch: PolicyWatch
    row_wise: RowWise | None

    @property
    def name(self) -> str:
        """`C kernel`, `CUDA graphs` or `torch`."""
        if self.network is not None:
            return "C kernel"
        return "CUDA graphs" if self.is_captured else "torch"

    def __str__(self) -> str:
        is_rounded = self.network is not None and self.network.products == "bfloat16"
        remark = "products of bfloat16" if is_rounded else self.reason
        if self.row_wise is not None and self.row_wise.reason is not None:
            remark = f"{remark}; in one call, as {self.row_wise.reason}"
        return self.name if remark is None else f"{self.name} ({remark})"

    def describe(self) -> dict[str, str | None]:
        """What computes the policy, and why it is nothing faster, as `config.json` has it."""
        return {"by": self.name, "because": self.reason}

    def is_outdated(self) -> bool:
        """Whether the policy is not what it was: parts were replaced, frozen, moved, or given a hook."""
        return self.watch.has_changed() or (self.row_wise is not None and self.row_wise.has_changed())

    def take_over(self, collector: Collector, learner: Learner, generator: torch.Generator) -> None:
        """Has a trainer's parts go on with what was chosen; of parameters that stayed the optimizer knows all.

        Args:
            collector: gets an actor, which goes on where its own one was.
            learner: gets gradients and an optimizer.
            generator: of the actor.
        """
        earlier = collector.actor
        collector.actor = self.actor(collector.rollout, collector.vecenv.num_agents, generator)
        collector.actor.load_state_dict(earlier.state_dict())
        earlier.close()
        learner.gradients.close()
        gradients = self.gradients(learner.gradients.rollout)
        optimizer = self.optimizer(gradients)
        take_over(optimizer, learner.optimizer)
        learner.follow(gradients, optimizer)

    def autocast(self) -> AbstractContextManager:
        """What torch computes the policy in."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16")

    def actor(self, rollout: Rollout, num_agents: int, generator: torch.Generator) -> Actor:
        """What acts for `num_agents` agents and fills the rollout."""
        if self.network is not None:
            return NetworkActor(self.network, self.policy, rollout, num_agents, generator)
        settings = self.policy, rollout, num_agents, generator, self.autocast
        if not self.is_captured:
            return Actor(*settings)
        return GraphActor(*settings, network=self._device_network(rollout.observations.dtype))

    def _device_network(self, observations: torch.dtype) -> DeviceNetwork | None:
        """The policy as a kernel for rollouts computes it; None where it does not."""
        if not self.config.fused or "ppo/sampling.py" in edited_files():
            return None
        layers = find_layers(self.policy)
        rounds = self.config.precision == "bfloat16"
        return DeviceNetwork(layers, rounds) if can_be_in_a_rollout(layers, observations) else None

    def collector(self, vecenv: Any, actor: Actor, *settings: Any) -> Collector:
        """What fills the actor's rollout; the settings are those of Collector."""
        is_on_device = can_be_on_the_device(vecenv, actor, self.config.skip_nonfinite)
        return (DeviceCollector if is_on_device else Collector)(vecenv, actor, *settings)

    def gradients(self, rollout: Rollout) -> Gradients:
        """What differentiates the policy over the rows of a rollout."""
        if self.network is not None:
            return NetworkGradients(self.network, self.policy, rollout, self.config)
        parts = self.policy, rollout, self.config, self.autocast, self.loss
        if self.row_wise is not None:
            is_known_loss = self.loss is ppo_loss and not edited_files()  # any other may keep something, or mix rows
            return ShardedGradients(*parts, are_rows_apart=is_known_loss and self.row_wise.reason is None)
        kind = Gradients if rollout.observations.device.type != "cpu" else GatheringGradients
        return kind(*parts)

    def optimizer(self, gradients: Gradients) -> Optimizer:
        """What steps the parameters."""
        config = self.config
        betas = config.adam_beta1, config.adam_beta2
        settings = config.learning_rate, betas, config.adam_eps, config.weight_decay
        return make_optimizer(config.optimizer, gradients.all_parameters, *settings, KernelAdam)

    def learner(
        self, rollout: Rollout, gradients: Gradients, generator: torch.Generator, phases: Phases, ranks: Ranks
    ) -> Learner:
        """What trains the policy on the rollout, together with other processes where there are any."""
        parts = rollout, gradients, self.optimizer(gradients), generator, phases
        if ranks.world_size > 1:
            return DistributedLearner(*parts, ranks=ranks)
        config = self.config
        # Of single steps the host keeps the order, what is skipped it decides; torch's SGD and offloaded observations
        # cannot be recorded.
        is_recordable = config.optimizer != "sgd" and not config.cpu_offload
        can_be_captured = is_recordable and config.shuffle == "segments" and not config.skip_nonfinite
        return (CapturedLearner if self.is_captured and can_be_captured else Learner)(*parts)


def choose(
    policy: nn.Module, rollout: Rollout, config: ResolvedTrainConfig, device: torch.device, loss: Loss = ppo_loss
) -> Choice:
    """Chooses for a policy as it is now; after its parts were replaced, frozen or hooked, choose again.

    Args:
        policy: on `device`.
        rollout: what the policy acts in.
        config: of the training.
        device: of the policy.
        loss: what is minimised.
    """
    is_captured = device.type == "cuda" and config.cuda_graphs and not config.compile
    reason = _why_torch(config, device, loss)
    layers = find_layers(policy) if reason is None else None
    reason = reason or _why_not_these(layers, policy, rollout)
    network = None if reason else Network(layers, torch.get_num_threads(), _products(config))
    is_torch_on_cpu = network is None and device.type == "cpu" and not config.compile
    row_wise = RowWise(policy) if is_torch_on_cpu else None
    return Choice(config, policy, loss, device, network, is_captured, reason, PolicyWatch(policy), row_wise)


def _why_torch(config: ResolvedTrainConfig, device: torch.device, loss: Loss) -> str | None:
    """Why no policy can be one kernel in this training; None if some can."""
    if device.type != "cpu":
        return f"the kernel for whole policies is for CPUs, the device is {device.type}"
    if not config.fused:
        return "[train] fused is False"
    if config.compile:
        return "[train] compile is True"
    if loss is not ppo_loss:
        return f"the loss is {getattr(loss, '__name__', type(loss).__name__)}, one of your own"
    if edited_files():
        return f"{' and '.join(edited_files())} changed, and the kernel did not follow"
    return None


def _products(config: ResolvedTrainConfig) -> str:
    """What the kernel's products round to: bfloat16 where it is asked for and the processor multiplies it."""
    return "bfloat16" if config.precision in ("bfloat16", "auto") and has_bfloat16() else "float32"


def _why_not_these(layers: Layers | None, policy: nn.Module, rollout: Rollout) -> str | None:
    """Why the kernel does not take this policy, in which these layers were found; None if it does."""
    if layers is None:
        name = type(policy).__name__
        return f"the policy {name} has parts, hooks or methods that the kernel does not know, or is frozen"
    if not layers.fit():
        return "the policy's layers are not of the sizes and types that the kernel takes"
    if rollout.observations.dtype not in observation_dtypes(layers):
        return f"observations are {str(rollout.observations.dtype).removeprefix('torch.')}"
    return None
