"""Checkpoints on disk: written whole or not at all, loaded without running code from them.

A file that cannot be written raises StorageError. One that is missing, damaged or larger than memory, or does not fit
the policy, the environment or the trainer, raises CheckpointError.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pufferlib.distributed import Ranks
from pufferlib.errors import CheckpointError
from pufferlib.families.catalog import slug
from pufferlib.machine import usable_memory_bytes
from pufferlib.metrics.finite import find_weight
from pufferlib.policy import load_weights, weights_of
from pufferlib.reading import UnreadableFile, open_regular
from pufferlib.runs.folder import NAMED, TRAINER_STATE, find_folder, read_facts, write_atomically, write_json
from pufferlib.runs.state_check import (
    PROGRESS,
    Mismatch,
    check_trainer_state,
    compare,
    describe,
    expected_learning,
    read_archive,
)
from pufferlib.runs.trainer_state import Progress, TrainerParts, learning_state, load_learning_state

FORMAT = 3  # of what a trainer saves beside weights; it grows when an older file can no longer be read


def save(path: Path, content: object) -> None:
    """Saves tensors, numbers, strings and containers of them.

    In memory first: after an interrupt torch continues to write, and ends the process where it cannot.
    """
    written = io.BytesIO()
    torch.save(content, written)
    write_atomically(path, written.getbuffer())


def load(path: Path, has_numbers: bool = True) -> Any:
    """Loads what `save` wrote, without running code; without numbers, tensors are on `meta`, and take no memory."""
    try:
        with open_regular(path) as file:
            if has_numbers and os.fstat(file.fileno()).st_size > usable_memory_bytes():
                raise CheckpointError(f"{path} is larger than the memory of this machine; use one that is smaller")
            return read_archive(file, has_numbers)
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        remedy = "check the path or pass 'latest' on the command line"
        raise CheckpointError(f"there is no checkpoint {path}; {remedy}") from error
    except Exception as error:  # a hostile file can fail in any way
        found = f" ({error.strerror or error})" if isinstance(error, UnreadableFile) else ""
        raise CheckpointError(f"{path} is damaged or no checkpoint{found}; use an earlier one") from error


def load_policy_weights(policy: nn.Module, path: Path) -> None:
    """Loads weights into a policy from a file of weights alone or of `save_checkpoint(path)`; NaN is refused."""
    found = require_weights(load(path), path)
    check_policy_weights(policy, found, path)
    load_weights(policy, found)
    broken = find_weight(policy)
    if broken is not None:
        raise CheckpointError(f"{path} must hold finite weights, but {broken}; take an earlier model")


def require_weights(found: object, path: Path) -> dict[str, Tensor]:
    """Returns the weights in a file's content: all of it, or a part of what `save_checkpoint(path)` wrote."""
    weights = found["policy"] if isinstance(found, dict) and isinstance(found.get("policy"), dict) else found
    if not isinstance(weights, dict) or not all(
        type(name) is str and isinstance(tensor, Tensor) for name, tensor in weights.items()
    ):
        raise CheckpointError(f"{path} does not hold the weights of a policy; pass a model_*.pt file")
    return weights


def check_policy_weights(policy: nn.Module, found: Mapping[str, Tensor], path: Path) -> None:
    """Checks that weights, or the outline of a file with them, fit a policy."""
    expected = weights_of(policy)
    for name, tensor in expected.items():
        if name not in found:
            raise CheckpointError(f"{path} lacks the tensor {name!r}; it was made with another policy or rnn_name")
        if found[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: tensor {name!r} must have shape {tuple(tensor.shape)}, got {tuple(found[name].shape)}; "
                "use the policy and environment settings that it was trained with"
            )
        if not torch.can_cast(found[name].dtype, tensor.dtype):
            raise CheckpointError(
                f"{path}: tensor {name!r} must be {describe(tensor)}, got {describe(found[name])}; "
                "use an earlier checkpoint"
            )
    for name in found.keys() - expected.keys():
        raise CheckpointError(
            f"{path} has a tensor {describe(name)} that the policy lacks; check policy_name and rnn_name"
        )


def _require_format(path: Path, found: object, *names: str) -> None:
    if not isinstance(found, dict) or type(found.get("format")) is not int or not found.keys() >= {*names}:
        raise CheckpointError(
            f"{path} holds no state of a trainer; pass a run's folder or a file of save_checkpoint(path), and load "
            "weights alone by [base] load_model_path"
        )
    saved = found["format"]
    if saved != FORMAT:
        raise CheckpointError(
            f"{path} was saved by another version of PufferLib (format {describe(saved)}, this one reads {FORMAT}); "
            "load its weights alone by [base] load_model_path"
        )


def _models(data_dir: str | Path, env_name: str) -> list[Path]:
    # By the names of files: folders `puffer_pong_*` are also the runs of an environment `puffer_pong_hard`.
    name = re.compile(rf"model_{re.escape(slug(env_name))}_\d+\.pt")
    return [path for path in Path(data_dir).glob(f"{slug(env_name)}_*/model_*.pt") if name.fullmatch(path.name)]


def keep_best(folder: Path, metric: str, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Saves weights as the `best` of a run's folder, with a note of the facts, if their metric is the highest so far.

    Without the metric, or where it is NaN, nothing is saved; weights that were best by another metric are replaced.
    """
    if facts.get(metric, math.nan) > read_facts(folder / "best.json").get(metric, -math.inf):
        save(folder / "best.pt", dict(weights))
        write_json(folder / "best.json", facts)


def resolve_model(data_dir: str | Path, env_name: str, model: str | Path) -> Path:
    """Returns a path as it is, the newest weights in the folder of a run, or the path of the weights that a word means.

    `latest` and `last` are the newest weights of all runs, `best` the newest that evaluations found the best of a run.
    """
    if model in NAMED:  # by the notes: the names of files and folders do not tell the environment
        weights = Path(data_dir).glob(f"*/{model}.pt")
        found = [path for path in weights if read_facts(path.with_suffix(".json")).get("env") == env_name]
        remedy = "train it with --train.evaluations" if model == "best" else "train it first"
        message = f"there are no {model} weights of {env_name} in {data_dir}; {remedy} or pass a path"
    elif model == "latest":
        found = _models(data_dir, env_name)
        message = f"there is no checkpoint of {env_name} in {data_dir}; train it first or pass a path"
    else:
        newest = Path(model, "last.pt")
        return newest if newest.exists() else Path(model)
    if not found:
        raise CheckpointError(message)
    return max(found, key=age_key)


def resolve_run(data_dir: str | Path, env_name: str, run: str) -> Path:
    """Returns the folder of a run to resume: `latest`, or a word that `find_folder` takes."""
    if run == "latest":
        found = next(iter(saved_runs(data_dir, env_name)), None)
        message = f"there is no run of {env_name} to resume in {data_dir}; train it first"
    else:
        prefix, kind = f"{slug(env_name)}_", f"runs of {env_name}"
        found = find_folder(run, Path(data_dir), lambda folder: (folder / TRAINER_STATE).exists(), prefix, kind)
        message = f"there is no run {run!r} of {env_name} with a checkpoint; pass a run folder or 'latest'"
    if found is None:
        raise CheckpointError(message)
    return found


def saved_runs(data_dir: str | Path, env_name: str) -> list[Path]:
    """Returns the folders of an environment's runs that have a checkpoint to resume, the one that saved last first."""
    folders = {path.parent for path in _models(data_dir, env_name)}
    states = [folder / TRAINER_STATE for folder in folders if (folder / TRAINER_STATE).exists()]
    return [state.parent for state in sorted(states, key=age_key, reverse=True)]


def age_key(path: Path) -> tuple[int, str]:
    """Returns what sorts files by their age, the newest last."""
    return path.stat().st_mtime_ns, path.name


def model_path(folder: Path, env_name: str, epoch: int) -> Path:
    """Returns the path of the weights after a number of epochs."""
    return folder / f"model_{slug(env_name)}_{epoch:06d}.pt"


def note(env_name: str, progress: Progress) -> dict[str, Any]:
    """Returns the facts beside the weights `best` and `last`; `end` is the epoch at which the run is to end."""
    return {"env": env_name, "agent_steps": progress.global_step, "epoch": progress.epoch, "end": progress.end}


def save_checkpoint_folder(
    folder: Path,
    env_name: str,
    parts: TrainerParts,
    progress: Progress,
    ranks: list[dict[str, Any]],
    metadata: Mapping[str, Any],
) -> None:
    """Writes the weights to `model_path`, then the rest; a kill leaves the checkpoint before it whole."""
    model = model_path(folder, env_name, progress.epoch)
    save(model, weights_of(parts.policy))
    own = {"format": FORMAT, "env": env_name, "model": model.name}
    learning = {"learning": learning_state(parts), "ranks": ranks, "metadata": metadata}
    save(folder / TRAINER_STATE, {**own, **asdict(progress), **learning})
    write_atomically(folder / "last.pt", model.read_bytes())
    write_json(folder / "last.json", note(env_name, progress))


def read_checkpoint_folder(
    folder: Path, env_name: str, parts: TrainerParts, ranks: Ranks
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Reads the weights and the state in a folder, and checks them; the first process reads for all."""
    path, model = folder / TRAINER_STATE, ranks.from_first(lambda: find_weights(folder, env_name))
    weights, state = ranks.from_first(lambda: (_read(model, env_name), _read(path, env_name)))
    weights = require_weights(weights, model)
    check_policy_weights(parts.policy, weights, model)
    check_trainer_state(path, state, parts, ranks.world_size)
    return weights, state


def find_weights(folder: Path, env_name: str) -> Path:
    """Returns the file with the weights of the checkpoint in a folder, which is not read."""
    path = folder / TRAINER_STATE
    state = _read(path, env_name, has_numbers=False)
    _require_format(path, state)
    saved_env, name = state.get("env"), state.get("model")
    if saved_env != env_name:
        found = describe(saved_env).strip("'")
        raise CheckpointError(f"{path} must be of a run of {env_name}, got one of {found}")
    if type(name) is not str or Path(name).name != name:  # a path would lead out of the folder
        raise CheckpointError(f"{path} must name the weights beside it, got {describe(name)}; use another checkpoint")
    return folder / name


def _read(path: Path, env_name: str, has_numbers: bool = True) -> Any:
    try:
        return load(path, has_numbers)
    except CheckpointError as error:
        whole = _newest_whole(path, env_name) if path.exists() else None
        if whole is None:
            raise
        remedy = f"such as {whole}, from whose weights --load-model-path begins a new run"
        raise CheckpointError(f"{error}, {remedy}") from error


def _newest_whole(damaged: Path, env_name: str) -> Path | None:  # weights beside a damaged file
    for path in sorted(damaged.parent.glob(f"model_{slug(env_name)}_*.pt"), reverse=True):
        with contextlib.suppress(CheckpointError):
            load(path)
            return path
    return None


def save_checkpoint_file(
    path: Path, parts: TrainerParts, progress: Progress, metadata: Mapping[str, Any], description: Mapping[str, Any]
) -> None:
    """Writes a checkpoint without the environments into one file; its folders are made.

    Untrained steps do not count. An agent can be made from the description, that of `config.json`.
    """
    if path.is_dir():
        raise CheckpointError(f"a checkpoint must be a file, and {path} is a folder; name one in it")
    trained = replace(progress, global_step=progress.global_step - progress.untrained_steps)
    content = {
        "format": FORMAT,
        "policy": weights_of(parts.policy),
        "parts": learning_state(parts),
        "progress": {name: getattr(trained, name) for name in PROGRESS},
        "batch_size": parts.learner.config.batch_size,
        "metadata": dict(metadata),
        "description": json.loads(json.dumps(description, default=str)),
    }
    save(path, content)


def load_checkpoint_file(path: Path, parts: TrainerParts, ranks: Ranks) -> tuple[Progress, dict[str, Any]]:
    """Restores what `save_checkpoint_file` wrote, and returns progress and metadata; environments stay as they are.

    Epochs are counted in batches of this trainer: a batch of twice the size makes 100 of them 50.
    """
    found = ranks.from_first(lambda: load(path))
    _require_format(path, found, "policy", "parts", "progress", "metadata")
    check_policy_weights(parts.policy, require_weights(found, path), path)
    own_size = parts.learner.config.batch_size
    size = found.get("batch_size", own_size)  # earlier files do not tell
    try:
        compare(size, int, "batch_size")
        compare(found["parts"], expected_learning(parts), "parts")
        compare(found["progress"], PROGRESS, "progress")
        compare(found["metadata"], dict, "metadata")
    except Mismatch as error:
        raise CheckpointError(
            f"{path} was saved with other settings than these, or is damaged: {error}; make the trainer as it was "
            "then, with the same optimizer and normalize_rewards"
        ) from error
    load_learning_state(parts, found["parts"])
    load_weights(parts.policy, found["policy"])
    parts.report.end_interval()
    progress = dict(found["progress"])
    for name in ("epoch", "anneal_start", "end"):
        progress[name] = -(-progress[name] * size // own_size)  # rounded up
    logged = [progress["epoch"], progress["global_step"]]
    return Progress(**progress, untrained_steps=0, logged=logged, losses={}), found["metadata"]
