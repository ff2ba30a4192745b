"""Checkpoints on disk: written whole or not at all, loaded without running code from them."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import nn

from pufferlib.errors import CheckpointError
from pufferlib.families.catalog import slug
from pufferlib.machine import usable_memory_bytes
from pufferlib.reading import UnreadableFile, open_regular
from pufferlib.runs import checkpoint_pattern as pattern
from pufferlib.runs.archive import Refused, outline
from pufferlib.runs.files import NAMED, TRAINER_STATE, read_note
from pufferlib.runs.whole_files import write_atomically

FORMAT = 2
"""Of what a trainer saves beside weights; it grows when an older file can no longer be read."""

_TWINS = ("_train_forward.", "_act_forward.")  # where files of before have weights of a normalised policy once more


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed process was writing into a folder; nobody else may be writing there."""
    for leftover in folder.glob("*.tmp"):
        leftover.unlink(missing_ok=True)


def save(path: Path, content: Any) -> None:
    """Saves tensors, numbers, strings and containers of them.

    In memory first: torch goes on to write after an interrupt, and ends the process where it cannot, as to a file that
    is closed.
    """
    written = io.BytesIO()
    torch.save(content, written)
    write_atomically(path, written.getbuffer())


def load(path: Path, device: torch.device | str = "cpu") -> Any:
    """Loads what `save` wrote; `read_outline` tells before what it is.

    Raises:
        CheckpointError: if the file is missing, damaged, no checkpoint, or larger than memory.
    """
    with _opened(path) as file:
        outline(file)
        if os.fstat(file.fileno()).st_size > usable_memory_bytes():
            raise CheckpointError(f"{path} is larger than the memory of this machine; use one that is smaller")
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"its part {pattern.describe(damaged)} fails the checksum")
        file.seek(0)
        return torch.load(file, map_location=device, weights_only=True)


def read_outline(path: Path) -> Any:
    """The content of a file with tensors on torch's `meta` device, which takes no memory for them.

    Raises:
        CheckpointError: as for `load`.
    """
    with _opened(path) as file:
        return outline(file)


def read_policy_outline(path: Path) -> dict[str, torch.Tensor]:
    """The weights in a file on torch's `meta` device: alone in it, or with all else that a trainer saved in one.

    Raises:
        CheckpointError: as for `load`, and if it holds none.
    """
    return _require_weights(weights_in(read_outline(path)), path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_regular(path) as file:
            yield file
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {path}; check the path or pass 'latest'") from error
    except UnreadableFile as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint ({error.strerror}); use an earlier one") from error
    except zipfile.BadZipFile as error:
        reason = f" ({error})" if "fails the checksum" in str(error) else " or no checkpoint"
        raise CheckpointError(f"{path} is damaged{reason}; use an earlier one") from error
    except Refused as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint ({error}); use an earlier one") from error
    except Exception as error:  # a file made to do harm can fail in unpickling in any way
        raise CheckpointError(f"{path} is damaged or no checkpoint; use an earlier one") from error


def load_policy_weights(policy: nn.Module, path: Path) -> None:
    """Loads weights into a policy of the same shape.

    Raises:
        CheckpointError: if the file cannot be read, or names a tensor that the policy lacks or shapes otherwise.
    """
    policy.load_state_dict(read_policy_weights(policy, path))


def read_policy_weights(
    policy: nn.Module, path: Path, select: Callable[[Any], Any] = lambda found: found
) -> dict[str, torch.Tensor]:
    """Loads weights that fit a policy, which stays as it is.

    Args:
        policy: that they are for.
        path: of the file.
        select: takes the weights from what the file holds.

    Raises:
        CheckpointError: as for `load_policy_weights`.
    """
    check_policy_weights(policy, select(read_outline(path)), path)
    found = select(load(path))
    check_policy_weights(policy, found, path)
    return found


def weights_in(found: Any) -> Any:
    """The weights in what a file holds: them alone, or with all else that a trainer saved in one."""
    return found["policy"] if isinstance(found, dict) and isinstance(found.get("policy"), dict) else found


def check_policy_weights(policy: nn.Module, found: Any, path: Path) -> None:
    """Checks that what was loaded from a path fits a policy, and takes out what older files have twice.

    Raises:
        CheckpointError: if it does not; as for `load_policy_weights`.
    """
    expected, found = policy.state_dict(), _require_weights(found, path)
    for name, tensor in expected.items():
        if name not in found:
            raise CheckpointError(f"{path} lacks the tensor {name!r}; it was made with another policy or rnn_name")
        if found[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: tensor {name!r} must have shape {tuple(tensor.shape)}, got {tuple(found[name].shape)}; "
                "use the policy and environment settings that it was trained with"
            )
        if not _can_be_copied(found[name], tensor):
            raise CheckpointError(
                f"{path}: tensor {name!r} must be {pattern.describe(tensor)}, got {pattern.describe(found[name])}; "
                "use an earlier checkpoint"
            )
    for name in [name for name in found if name not in expected]:
        if name.startswith(_TWINS):
            del found[name]
        else:
            raise CheckpointError(
                f"{path} has a tensor {pattern.describe(name)} that the policy lacks; check policy_name and rnn_name"
            )


def _require_weights(found: Any, path: Path) -> dict[str, torch.Tensor]:
    if not isinstance(found, dict) or not all(
        type(name) is str and isinstance(tensor, torch.Tensor) for name, tensor in found.items()
    ):
        raise CheckpointError(f"{path} does not hold the weights of a policy; pass a model_*.pt file")
    return found


def _can_be_copied(found: torch.Tensor, target: torch.Tensor) -> bool:
    is_dense = found.layout is torch.strided and found.device.type in ("cpu", "meta") and not found.is_quantized
    return is_dense and torch.can_cast(found.dtype, target.dtype)


def require_format(path: Path, found: Any) -> None:
    """Refuses what another version of a trainer saved.

    Raises:
        CheckpointError: if it is of another format, or no state of a trainer at all.
    """
    saved = found.get("format", 1) if isinstance(found, dict) else None
    if type(saved) is not int or saved < 1:
        raise CheckpointError(f"{path} holds no state of a trainer; pass a run folder or a file of save_checkpoint")
    if saved != FORMAT:
        raise CheckpointError(
            f"{path} was saved by {'an older' if saved < FORMAT else 'a newer'} version of PufferLib (format {saved}, "
            f"this one has {FORMAT}) and cannot be gone on from; load its weights alone by [base] load_model_path"
        )


def models(data_dir: str | Path, env_name: str) -> list[Path]:
    """The weights of an environment in all its runs.

    Folders are not enough to go by: `puffer_pong_*` are also the runs of an environment `puffer_pong_hard`.
    """
    name = re.compile(rf"model_{re.escape(slug(env_name))}_\d+\.pt")
    found = Path(data_dir).glob(f"{slug(env_name)}_*/model_*.pt")
    return [path for path in found if name.fullmatch(path.name)]


def save_named(folder: Path, name: str, weights: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Writes weights into a run's folder under one of the names in NAMED, in place of those that had it.

    Args:
        folder: of the run.
        name: `best`, those of the evaluation with the highest mean return, or `last`, the newest.
        weights: of the policy.
        facts: numbers and text for the note beside them; `env` is the environment's name.
    """
    save(folder / f"{name}.pt", dict(weights))
    _write_note(folder, name, facts)


def keep_best(folder: Path, metric: str, weights: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Saves weights as the `best` of a run's folder if none there were as good.

    Args:
        folder: of the run.
        metric: what they are compared by, the higher the better. Weights that were the best by another are replaced.
        weights: of the policy.
        facts: as for `save_named`, the metric among them; where it is missing or NaN, nothing is saved.
    """
    if facts.get(metric, math.nan) > read_note(folder, "best").get(metric, -math.inf):
        save_named(folder, "best", weights, facts)


def name_last(model: Path, facts: Mapping[str, Any]) -> None:
    """Makes `last` the name of weights that were just saved: a second link to the file, or a copy where links fail.

    Args:
        model: the file, in its run's folder.
        facts: as for `save_named`.
    """
    target, temporary = model.with_name("last.pt"), model.with_name(f".last.pt.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(model, temporary)
        os.replace(temporary, target)
    except OSError:  # the file system has no links
        write_atomically(target, model.read_bytes())
    temporary.unlink(missing_ok=True)  # where it was a link to the same file already, nothing was replaced
    _write_note(model.parent, "last", facts)


def _write_note(folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    text = json.dumps(dict(facts), indent=2) + "\n"
    write_atomically(folder / f"{name}.json", text.encode())


def resolve_model(data_dir: str | Path, env_name: str, model: str | Path) -> Path:
    """The weights at a path, or those of an environment that one of three words names.

    Args:
        data_dir: the folder of the runs.
        env_name: the environment.
        model: a path; `latest` or `last` for the newest weights of all its runs; or `best` for the newest of those that
            evaluations found the best of their run.

    Raises:
        CheckpointError: if there are none of that name; a path is not looked at.
    """
    if model in NAMED:
        return _resolve_named(data_dir, env_name, str(model))
    if model != "latest":
        return Path(model)
    found = models(data_dir, env_name)
    if not found:
        raise CheckpointError(f"there is no checkpoint of {env_name} in {data_dir}; train it first or pass a path")
    return max(found, key=_age_key)


def _resolve_named(data_dir: str | Path, env_name: str, name: str) -> Path:
    notes = Path(data_dir).glob(f"*/{name}.json")
    found = [note.with_suffix(".pt") for note in notes if read_note(note.parent, name).get("env") == env_name]
    found = [path for path in found if path.exists()]
    if not found:
        remedy = "train it with --train.evaluations" if name == "best" else "train it first"
        raise CheckpointError(f"there are no {name} weights of {env_name} in {data_dir}; {remedy} or pass a path")
    return max(found, key=_age_key)


def resolve_run(data_dir: str | Path, env_name: str, run: str) -> Path:
    """The folder of a run to resume, given as a path, a run id or the end of one, a folder name, or `latest`.

    Raises:
        CheckpointError: if there is no such run with a checkpoint, or there are several.
    """
    if run == "latest":
        folders = {path.parent for path in models(data_dir, env_name)}
        states = [folder / TRAINER_STATE for folder in folders if (folder / TRAINER_STATE).exists()]
        if states:
            return max(states, key=_age_key).parent
        raise CheckpointError(f"there is no run of {env_name} to resume in {data_dir}; train it first")
    for folder in (Path(run), Path(data_dir) / run, Path(data_dir) / slug(f"{env_name}_{run}")):
        if (folder / TRAINER_STATE).exists():
            return folder
    states = Path(data_dir).glob(f"{slug(env_name)}_*/{TRAINER_STATE}")
    ending = sorted(state.parent for state in states if state.parent.name.endswith(f"_{run}"))
    if len(ending) > 1:
        names = " and ".join(folder.name for folder in ending[:3])
        raise CheckpointError(f"{len(ending)} runs of {env_name} end with {run!r}, such as {names}; write more of it")
    if ending:
        return ending[0]
    raise CheckpointError(f"there is no run {run!r} of {env_name} with a checkpoint; pass a run folder or 'latest'")


def _age_key(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name
