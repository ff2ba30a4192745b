"""Facts that processes that train together must share, by name, as `Ranks.require_same` compares them."""

from __future__ import annotations

from torch import nn

from pufferlib.config import TrainConfig
from pufferlib.distributed import Ranks
from pufferlib.vector import Vector

# Settings of [train] that may differ: where and how fast the same is computed, and what is drawn.
OWN_SETTINGS = frozenset(
    {
        *("seed", "data_dir", "dashboard_interval_seconds", "device", "torch_deterministic", "cpu_offload"),
        *("compile", "compile_mode", "compile_fullgraph", "cuda_graphs", "fused", "max_minibatch_size"),
    }
)


def facts_of_settings(config: TrainConfig) -> dict[str, str]:
    """Returns every setting that must be the same in all processes."""
    return {f"[train] {name}": repr(getattr(config, name)) for name in config.settings() if name not in OWN_SETTINGS}


def facts_of_environments(vecenv: Vector) -> dict[str, str]:
    """Returns the number of agents and their spaces."""
    return {
        "the number of agents": f"{vecenv.num_agents:,}",
        "single_observation_space": repr(vecenv.single_observation_space),
        "single_action_space": repr(vecenv.single_action_space),
    }


def facts_of_policy(policy: nn.Module) -> dict[str, str]:
    """Returns the class, and of every parameter and buffer the shape, the type and whether it is frozen."""
    facts = {"the policy's class": type(policy).__name__}
    for name, parameter in policy.named_parameters():
        frozen = "" if parameter.requires_grad else ", frozen"
        facts[f"the policy's parameter {name}"] = f"{tuple(parameter.shape)} {parameter.dtype}{frozen}"
    for name, buffer in policy.named_buffers():
        facts[f"the policy's buffer {name}"] = f"{tuple(buffer.shape)} {buffer.dtype}"
    return facts


class Agreement:
    """Compares between processes, at each call of a trainer, what may have changed since the last one."""

    def __init__(self, ranks: Ranks, policy: nn.Module):
        self._ranks = ranks
        self._of_policy = facts_of_policy(policy)
        self._changes = 0
        self._config: TrainConfig | None = None
        self._of_config: dict[str, str] = {}

    def start(self, call: str, config: TrainConfig, learning_rate: float, changed: nn.Module | None) -> None:
        """Starts to compare without waiting: the next message raises RankError if something differs.

        The policy is given as `changed` if it was changed since the last call.
        """
        if self._ranks.world_size == 1:
            return
        if changed is not None:
            self._changes += 1
            self._of_policy = facts_of_policy(changed)
        if config is not self._config:
            self._config, self._of_config = config, facts_of_settings(config)
        self._ranks.start_comparing(
            {
                "the call of the trainer": call,
                "learning_rate of the trainer": repr(learning_rate),
                **self._of_config,
                **self._of_policy,
                "the number of changes to the policy": str(self._changes),
            }
        )
