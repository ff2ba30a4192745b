"""Hints for unknown settings: names of PufferLib 3.0 and of other trainers, and the settings that replace them.

They answer for the sections of `schema`; a key of `[env]`, `[policy]` or `[rnn]` means what the class behind it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pufferlib.errors import nearest

_RECURRENT = "the recurrent layer is [base] rnn_name: MinGRU, LSTM or None"
_ENVIRONMENTS = "environments are counted by [env] num_envs, and the PufferEnvs that hold them by [vec] num_envs"
_PROJECT = "the project at W&B and Neptune is [log] project"
_SERVICE = "metrics go to services by [log] wandb, [log] neptune and [log] tensorboard"
_RESUME = "[base] resume goes on with a run, [base] load_model_path starts from its weights"

NAMES = {  # every setting with its section, for `with_flags`
    # PufferLib 3.0 and before
    "use_rnn": _RECURRENT,
    "rnn": _RECURRENT,
    "policy": "the policy's class is [base] policy_name",
    "name": "the run's name at W&B and Neptune is [log] name",
    "project": _PROJECT,
    "wandb": _SERVICE,
    "neptune": _SERVICE,
    "track": _SERVICE,
    "wandb_project": _PROJECT,
    "neptune_project": _PROJECT,
    "neptune_name": _PROJECT,
    "wandb_group": "a run's groups are [log] tags",
    "tag": "a run's tags are [log] tags",
    "no_model_upload": "the final model goes to W&B and Neptune with the run",
    "load_id": _RESUME,
    "exp_id": _RESUME,
    "mode": "the command comes first, as in `puffer train puffer_breakout`",
    "render_mode": "`puffer eval` opens a window where there is a display, and none with --headless",
    "local_rank": "torchrun tells each process its rank",
    "num_threads": "threads and processes that step environments are [vec] num_workers",
    "env_batch_size": "PufferEnvs in a batch of observations are [vec] batch_size",
    "total_agents": _ENVIRONMENTS,
    "num_buffers": "PufferEnvs that are stepped in turn are [vec] num_envs",
    "horizon": "steps in a segment are [train] bptt_horizon",
    "replay_ratio": "passes over each batch are [train] update_epochs",
    "use_p3o": "there is PPO alone",
    # Other trainers
    "lr": "it is [train] learning_rate",
    "n_steps": "steps in a segment are [train] bptt_horizon",
    "num_steps": "steps in a segment are [train] bptt_horizon",
    "n_epochs": "passes over each batch are [train] update_epochs",
    "n_envs": _ENVIRONMENTS,
    "entropy_coef": "it is [train] ent_coef",
    "value_coef": "it is [train] vf_coef",
    "clip_range": "it is [train] clip_coef",
    "total_steps": "it is [train] total_timesteps",
}


def hint_for(name: str) -> str:
    """The hint for a setting that is unknown here, empty where there is none."""
    return NAMES.get(name, "")


def remedy(name: str, known: Iterable[str]) -> str:
    """Ends an error message about an unknown setting: with its hint, the nearest settings, or nothing."""
    found = hint_for(name)
    return f"; {found}" if found else nearest(name, known)


def with_flags(text: str) -> str:
    """A hint as the command line has it: `--train.gamma` in place of `[train] gamma`."""

    def flag(match: re.Match) -> str:
        prefix = "" if match[1] == "base" else f"{match[1]}."
        return f"--{prefix}{match[2]}".replace("_", "-")

    return re.sub(r"\[(\w+)\] (\w+)", flag, text)
