"""`puffer export`: writes the policy of a run or of the package for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import vector
from pufferlib.errors import APIUsageError
from pufferlib.export.c_format import compile_command, compiler
from pufferlib.export.exporting import export_policy, file_name
from pufferlib.export.one_step import OneStep
from pufferlib.families import catalog
from pufferlib.metrics.output import printable
from pufferlib.policy import acting_forward
from pufferlib.ppo.sampling import sample_logits
from pufferlib.runs.loaders import load_policy

STEPS, ENVIRONMENTS = 1_000, 4  # of real play, on whose observations the result is compared


def export_command(env_name: str, args: dict[str, Any], format: str = "onnx", output: str | None = None) -> None:
    """Loads the policy that `args['load_model_path']` names, writes it, and prints its path and use.

    Args:
        env_name: any name that `pufferlib.families.catalog.find` knows.
        args: settings from `load_config`, as the policy was trained with them.
        format: as for `export_policy`.
        output: the file or folder; None is one in the working directory that is named for the environment.

    Raises:
        APIUsageError: if no model is named.
        PufferError: as for `export_policy`.
    """
    if args["load_model_path"] is None:
        raise APIUsageError(
            f"puffer export needs trained weights, found none; say --pretrained, or --load-model-path latest after "
            f"puffer train {env_name}"
        )
    vecenv = _make_environments(env_name, args)
    try:
        policy = load_policy({**args, "train": {**args["train"], "device": "cpu"}}, vecenv, env_name).eval()
        path = output_path(env_name, format, output)
        notes = {"model": str(args["load_model_path"]), "settings": json.dumps(args, default=str)}
        export_policy(policy, vecenv, path, format, notes, observations_of_play(vecenv, policy))
        print(f"wrote {printable(str(path))}, {_use(path, format, OneStep(policy, vecenv.driver_env))}")
    finally:
        vecenv.close()


def _use(path: Path, format: str, step: OneStep) -> str:
    if format != "c":
        takes, returns = ", ".join(("observations", *step.state_names)), ", ".join(step.output_names)
        return f"which takes {takes} and returns {returns}"
    unseen = "" if compiler() else "which no compiler has seen, as this machine has none; "
    programs = list(path.glob("*_play.c"))
    if not programs:
        return f"{unseen}a header to include: puffernet.h beside it tells how"
    name = programs[0].stem.removesuffix("_play")
    return f"{unseen}a program that plays; there:\n\n    {compile_command(name)} && ./{name}_play\n"


def output_path(env_name: str, format: str, output: str | None) -> Path:
    """The path to write: `output`, or a file in it where that is a folder and the format a file."""
    name = file_name(env_name, format)
    if output is None:
        return Path(name)
    is_folder = output.endswith("/") or Path(output).is_dir()
    return Path(output) / name if is_folder and format != "c" else Path(output)


@torch.no_grad()
def observations_of_play(vecenv: vector.Vector, policy: nn.Module) -> np.ndarray:
    """The observations of the policy's play, `(steps, rows, *observation_shape)`."""
    forward, generator = acting_forward(policy), torch.Generator().manual_seed(0)
    rows = vecenv.num_agents
    state = dict(policy.initial_state(rows, torch.device("cpu"))) if hasattr(policy, "initial_state") else {}
    observations, _ = vecenv.reset(0)
    seen = []
    for _ in range(STEPS):
        seen.append(np.array(observations))
        logits, _ = forward(torch.from_numpy(seen[-1]), state)
        actions, _, _ = sample_logits(logits, generator=generator)
        observations, *_ = vecenv.step(actions.numpy())
    return np.stack(seen)


def _make_environments(env_name: str, args: dict[str, Any]) -> vector.Vector:
    entry = catalog.find(env_name)
    many = {"num_envs": ENVIRONMENTS} if "num_envs" in entry.settings else {}
    return vector.make(entry.creator, env_kwargs={**args["env"], **many}, backend="Serial", seed=args["train"]["seed"])
