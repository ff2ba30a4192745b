"""What a run may change when it is resumed, and what it may not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pufferlib.config import TrainConfig
from pufferlib.errors import ConfigError

LENGTH = ("total_timesteps", "num_iterations")

# What a part of the saved state was made for. All other settings of a training are read anew in every epoch, or by
# every process; so are those that a checkout has added, such as a coefficient for a loss of its own.
_STREAMS = ("seed", "data_dir")
_SIZES = ("batch_size", "bptt_horizon", "minibatch_size", "num_minibatches", "max_minibatch_size", "shuffle")
_MOMENTS = ("optimizer", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay")
_STATISTICS = ("normalize_rewards", "normalize_observations", "normalization_clip")
CHANGEABLE = {
    "train": frozenset(TrainConfig.settings()) - {*_STREAMS, *_SIZES, *_MOMENTS, *_STATISTICS},
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
