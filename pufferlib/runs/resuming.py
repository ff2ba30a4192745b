"""The settings that a run may change when it is resumed."""

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
CHANGEABLE = {  # by section; those of `log` all are
    "train": frozenset(TrainConfig.settings()) - {*_STREAMS, *_SIZES, *_MOMENTS, *_STATISTICS},
    "vec": frozenset({"num_workers"}),
}

_NOT_COMPARED = {"resume", "env_name", "log", "solve", "sweep"}


class Change(NamedTuple):
    """A setting that differs from that of the run."""

    section: str  # empty for the keys at the top
    name: str
    before: Any
    now: Any

    @property
    def flag(self) -> str:
        """Returns the flag of the command line."""
        return "--" + (f"{self.section}.{self.name}" if self.section else self.name).replace("_", "-")


def find_changes(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Change]:
    """Returns the settings in which two configurations differ; those that only one of them has do not count."""
    saved, settings = json.loads(json.dumps([saved, settings], default=str))
    found = []
    for key in saved.keys() & settings.keys() - _NOT_COMPARED:
        before, now = saved[key], settings[key]
        if not isinstance(before, dict):
            before, now, key = {key: before}, {key: now}, ""
        found += [Change(key, name, before[name], now[name]) for name in now if name in before]
    return sorted(change for change in found if change.before != change.now)


def allowed_changes(saved: Mapping[str, Any], settings: Mapping[str, Any], run: str) -> list[Change]:
    """Returns the settings that change when a run is resumed.

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
    """Returns the settings, without `num_iterations` of the run if `total_timesteps` is changed."""
    changed = {change.name for change in changes if change.section == "train"}
    if "total_timesteps" in changed and "num_iterations" not in changed:
        return {**settings, "train": {**settings["train"], "num_iterations": None}}
    return settings
