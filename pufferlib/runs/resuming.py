"""What a run may change when it is resumed, and what it may not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pufferlib.errors import ConfigError

_LENGTH = ("total_timesteps", "num_iterations")
_RATE = ("learning_rate", "anneal_lr", "lr_schedule", "min_learning_rate", "anneal_timesteps")
_COEFFICIENTS = (
    *("gamma", "gae_lambda", "vtrace_rho_clip", "vtrace_c_clip", "truncation_bootstrap", "reward_clip"),
    *("clip_coef", "norm_adv", "vf_coef", "clip_vloss", "vf_clip_coef", "ent_coef", "max_grad_norm", "skip_nonfinite"),
    *("update_epochs", "target_kl", "prio_alpha", "prio_beta0"),
)
_REPORTS = (
    *("log_interval", "checkpoint_interval", "dashboard_interval_seconds", "weights_check_interval"),
    *("evaluations", "evaluation_envs", "evaluation_max_steps"),
)
_MACHINE = (
    *("device", "torch_deterministic", "cpu_offload", "precision", "fused"),
    *("compile", "compile_mode", "compile_fullgraph", "cuda_graphs"),
)
CHANGEABLE = {
    # Read anew in every epoch or by every process. All else has a part of the saved state made for it: seeds and
    # environments their streams and snapshots, sizes the rollout, the optimizer its moments, policies their weights.
    "train": frozenset((*_LENGTH, *_RATE, *_COEFFICIENTS, *_REPORTS, *_MACHINE)),
    "vec": frozenset({"num_workers"}),
}
"""Settings that another value may be given to, by section; those of `log` all may be."""

_NOT_COMPARED = {"resume", "env_name", "log", "solve", "sweep"}


class Change(NamedTuple):
    """A setting that is another one than when the run was begun."""

    section: str  # empty for the keys at the top
    name: str
    before: Any
    now: Any

    @property
    def flag(self) -> str:
        """The setting as the command line has it."""
        return "--" + (f"{self.section}.{self.name}" if self.section else self.name).replace("_", "-")


def find_changes(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Change]:
    """The settings in which two configurations differ; those that only one of them has do not count."""
    saved, settings = json.loads(json.dumps([saved, settings], default=str))
    found = []
    for key in saved.keys() & settings.keys() - _NOT_COMPARED:
        before, now = saved[key], settings[key]
        if not isinstance(before, dict):
            before, now, key = {key: before}, {key: now}, ""
        found += [Change(key, name, before[name], now[name]) for name in now if name in before]
    return sorted(change for change in found if change.before != change.now)


def allowed_changes(saved: Mapping[str, Any], settings: Mapping[str, Any], run: str) -> list[Change]:
    """The settings in which a run and those who want to go on with it differ, all of which may change.

    Args:
        saved: the settings that the run was begun with.
        settings: those to go on with.
        run: what to call it.

    Raises:
        ConfigError: if one may not change.
    """
    changes = find_changes(saved, settings)
    for change in changes:
        if change.name not in CHANGEABLE.get(change.section, ()):
            raise ConfigError(
                f"{run} was begun with {change.flag} {change.before} and cannot go on with {change.now}; leave it as "
                "it was, or begin a new run from its weights by --load-model-path"
            )
    return changes


def with_new_length(settings: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """The settings, in which a changed `total_timesteps` counts although the run was begun with `num_iterations`."""
    changed = {change.name for change in changes if change.section == "train"}
    if "total_timesteps" in changed and "num_iterations" not in changed:
        return {**settings, "train": {**settings["train"], "num_iterations": None}}
    return settings
