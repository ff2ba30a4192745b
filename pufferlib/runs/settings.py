"""The settings of a run that was started in Python, as the command line would have had them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import nn

from pufferlib.config import BaseConfig, LogConfig, TrainConfig, VecConfig, load_config
from pufferlib.errors import PufferError
from pufferlib.families import catalog
from pufferlib.runs.making import find_origin
from pufferlib.runs.policy_settings import policy_settings
from pufferlib.vector import Vector


def settings_of(
    env_name: str, config: Mapping[str, Any], vecenv: Vector, policy: nn.Module, args: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the nested dict of `load_config` that describes a trainer.

    What a ready environment or policy does not say is as in `args`, or else as in the environment's configuration.
    """
    origin = find_origin(vecenv)
    settings = dict(args) if args is not None else _configuration(env_name, origin.env_name if origin else env_name)
    if origin is not None and origin.env_name == settings["env_name"]:
        settings["env"], settings["vec"] = {**settings["env"], **origin.env}, {**settings["vec"], **origin.vec}
    if args is None:
        settings["env_name"] = env_name
    settings["train"] = asdict(TrainConfig.from_dict(config))
    return settings | (policy_settings(policy, settings["env_name"]) or {})


def _configuration(env_name: str, origin_name: str) -> dict[str, Any]:  # of the first that is an environment's
    for name in (env_name, origin_name):
        try:
            if catalog.lookup(name) is not None:
                return load_config(name)
        except PufferError:  # a name of the user's own that looks like a family's
            continue
    sections = {"vec": asdict(VecConfig()), "env": {}, "policy": {}, "rnn": {}, "log": asdict(LogConfig())}
    return {**asdict(BaseConfig()), **sections}
