"""The recorded settings of a run, which count for commands that resume or play it, whatever the inis say today."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pufferlib import distributed
from pufferlib.errors import CheckpointError
from pufferlib.runs.checkpoint import resolve_model, resolve_run
from pufferlib.runs.description import find_description, own_policy_class, read_settings, saved_settings
from pufferlib.runs.files import CONFIG_FILE


def run_settings(env_name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of the run to resume, where `resume` is its folder; the first process looks for all.

    Raises:
        CheckpointError: if there is no such run, or its policy is of a class that no setting names.
    """

    def find() -> dict[str, Any]:
        folder = resolve_run(args["train"]["data_dir"], env_name, args["resume"])
        _require_named_policy(folder / CONFIG_FILE, "call trainer.load_checkpoint(folder) there to go on with it")
        return {**saved_settings(folder, env_name), "resume": str(folder)}

    return distributed.connect().from_first(find)


def model_settings(env_name: str, args: Mapping[str, Any], is_policy_named: bool) -> dict[str, Any]:
    """Returns the settings that a model was trained with, on the device of `args`, or `args` if no file has them.

    Where `args` name the policy's class (`is_policy_named`), the run does not have to.

    Returns:
        A dict of its own, whose `load_model_path` is the model's path.

    Raises:
        CheckpointError: if there is no such model, or its policy is of a class that no setting names.
    """
    path = resolve_model(args["train"]["data_dir"], env_name, args["load_model_path"])
    described = find_description(path)
    if described is None:
        return {**args, "load_model_path": str(path)}
    if not is_policy_named:
        _require_named_policy(described, "load the weights into it there, or name a class by --policy-name")
    saved = read_settings(described, env_name)
    train = {**saved["train"], "device": args["train"]["device"]}
    return {**saved, "train": train, "resume": None, "load_model_path": str(path)}


def _require_named_policy(described: Path, remedy: str) -> None:
    found = own_policy_class(described)
    if found is not None:
        folder = described.parent
        raise CheckpointError(f"{folder} was trained with the policy {found} of your own program; {remedy}")
