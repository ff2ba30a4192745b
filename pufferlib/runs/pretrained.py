"""The trained agents that come with the package: one for each environment of Ocean, in its folder.

`pretrained.pt` holds the weights, float32, and `pretrained.json` what made them: the settings as a run's `config.json`
has them, the command, steps, seed, scores and versions. `python bench/pretrain.py NAME` makes both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pufferlib import ocean
from pufferlib.errors import CheckpointError, nearest
from pufferlib.families import catalog

WEIGHTS = "pretrained.pt"


def pretrained_names() -> list[str]:
    """Returns the environments that have a trained agent, in alphabetical order."""
    return [name for name in ocean.names() if _place(name).exists()]


def pretrained_path(env_name: str) -> Path:
    """Returns the path of the weights of an environment's trained agent.

    Args:
        env_name: such as `puffer_breakout`.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name.
        CheckpointError: if it has no trained agent; the message says which ones have.
    """
    if env_name not in pretrained_names():
        catalog.find(env_name)
        known = pretrained_names()
        remedy = nearest(env_name, known) or f"; {', '.join(known)} have one"
        raise CheckpointError(f"no trained agent of {env_name} comes with the package{remedy}")
    return _place(env_name)


def pretrained_facts(env_name: str) -> dict[str, Any]:
    """Describes the trained agent of an environment.

    Returns:
        `settings`, the nested dict of `load_config` that it was trained with; `command`, which makes it; `steps` of
        training; `seed`; `score`, by `greedy` and `sampled` and there by statistic, each with `mean`, `standard_error`
        and `episodes`; and `versions` of the packages.

    Raises:
        UnknownEnvironmentError, CheckpointError: as for `pretrained_path`.
    """
    return json.loads(pretrained_path(env_name).with_suffix(".json").read_text())


def _place(env_name: str) -> Path:
    return ocean.config_path(env_name).with_name(WEIGHTS)
