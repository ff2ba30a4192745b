"""`export_policy`, for all formats."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pufferlib import vector
from pufferlib.config.flags import ExportOptions
from pufferlib.dashboard.output import printable
from pufferlib.errors import APIUsageError, ExportError, nearest, require_extra
from pufferlib.export.c_format import c_files, compile_command, compiler, write_folder
from pufferlib.export.one_step import OneStep, check_agreement, first_sentence, space_text
from pufferlib.export.web_format import web_page
from pufferlib.families import catalog
from pufferlib.fast.cpu import torch_threads
from pufferlib.play.player import Decision, Player
from pufferlib.policy import unchecked_distributions
from pufferlib.runs.folder import write_atomically
from pufferlib.runs.loaders import load_policy
from pufferlib.runs.making import environment_name, ready_env
from pufferlib.vector import Vector

PACKAGES = ("onnx", "onnxruntime", "onnxscript")


def _onnx_bytes(step: OneStep, notes: Mapping[str, str], observations: np.ndarray | None) -> bytes:
    # Of inputs OneStep.input_names and outputs OneStep.output_names; the first dimension of all is any number of rows.
    for package in PACKAGES:
        require_extra(package, "export")
    import onnxruntime

    model = _converted(step)
    (old,) = {value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == old:
                dimension.dim_param = "rows"
    model.producer_name = "pufferlib"
    for name, text in notes.items():
        key, value = (part.encode("utf-8", "backslashreplace").decode() for part in (name, text))  # paths hold anything
        model.metadata_props.add(key=key, value=value)
    content = model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class of their own in common
        raise ExportError(f"onnxruntime cannot load the policy as ONNX ({first_sentence(error)})") from error

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        return session.run(None, dict(zip(step.input_names, arrays, strict=True)))

    check_agreement(step, run, "onnxruntime", observations)
    return content


def _converted(step: OneStep) -> Any:  # onnx.ModelProto
    rows = {0: torch.export.Dim("rows", min=1)}
    others = (*step.initial_states(3), *step.random_masks(3, 0))
    shapes = {"observations": rows, **({"others": (rows,) * len(others)} if others else {})}
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), unchecked_distributions():
            warnings.simplefilter("ignore")
            program = torch.export.export(step, (step.random_observations(3, 0), *others), dynamic_shapes=shapes)
            names = {"input_names": list(step.input_names), "output_names": list(step.output_names)}
            converted = torch.onnx.export(program, dynamo=True, verbose=False, **names)
    except Exception as error:  # of any class: the exporter runs the policy's own code
        raise ExportError(
            f"ONNX cannot express this policy ({first_sentence(error)}); write its forward with torch operations "
            "alone, or try --format torchscript"
        ) from error
    finally:
        logging.disable(disabled)
    return converted.model_proto


NOTES = "notes.json"  # in the archive of TorchScript: the notes, and the names of arguments and results


def _torchscript_bytes(step: OneStep, notes: Mapping[str, str], observations: np.ndarray | None) -> bytes:
    named = {**notes, "arguments": list(step.input_names), "results": list(step.output_names)}
    traced = _traced(step)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*deprecated", DeprecationWarning)
        file = io.BytesIO()
        torch.jit.save(traced, file, _extra_files={NOTES: json.dumps(named, indent=2)})
        loaded = torch.jit.load(io.BytesIO(file.getvalue()))

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        return [each.numpy() for each in loaded(*map(torch.from_numpy, arrays))]

    check_agreement(step, run, "TorchScript", observations)
    return file.getvalue()


def _traced(step: OneStep) -> torch.jit.ScriptModule:
    inputs = (step.random_observations(3, 0), *step.initial_states(3), *step.random_masks(3, 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with unchecked_distributions():
                traced = torch.jit.trace(step, inputs, check_trace=False)
        except Exception as error:  # of any class: the policy's own code runs
            raise ExportError(f"TorchScript cannot express this policy ({error})") from error
    doubts = [
        first_sentence(warning.message)
        for warning in caught
        if warning.category is torch.jit.TracerWarning
        and not warning.filename.startswith(torch.__path__[0])  # as nn.GRU's of sizes
    ]
    if doubts:
        raise ExportError(
            f"TorchScript cannot express this policy ({doubts[0]}); decide by torch.where, and take sizes from .shape"
        )
    return traced


ENDINGS = {"onnx": ".onnx", "torchscript": ".pt", "c": "_c", "web": ".html"}
FORMATS = tuple(ENDINGS)


def export_policy(
    policy: nn.Module,
    env: object,
    path: str | Path,
    format: str = "onnx",
    notes: Mapping[str, str] | None = None,
    observations: np.ndarray | None = None,
) -> Path:
    """Writes a policy for programs without this package, after running the export and comparing its results.

    Args:
        policy: as pufferlib.models describes, of any device; it stays unchanged.
        env: the environment or vector that it plays, of PufferLib's, Gymnasium's or PettingZoo's, for the spaces; it is
            not stepped. A class, a function or a name is made and closed.
        path: of the file, or of the folder for C; an earlier export is replaced.
        format: `onnx`, `torchscript`, `c`, or `web` for a page in which one of Ocean's environments is played.
        notes: further notes for the file, such as the run of the weights.
        observations: of real play, to compare on besides random ones; `(steps, rows, *observation_shape)`.

    Returns:
        The path.

    Raises:
        APIUsageError: if there is no such format, the folder has other things in it, or the policy does not fit the
            environment.
        ExportError: if the format cannot express the policy; the message says why, and which one can.
        MissingExtraError: if the format needs packages that are not installed.
        StorageError: if it cannot be written.
    """
    if format not in FORMATS:
        raise APIUsageError(f"format must be {', '.join(FORMATS)}, got {format!r}{nearest(format, FORMATS)}")
    path = Path(path)
    with ready_env(env) as ready:
        env_name, driver = environment_name(ready), getattr(ready, "driver_env", ready)
    layout = getattr(driver, "emulated", None)
    if layout is not None and layout.is_bytes:
        raise ExportError(
            "no format can express observations whose parts have different types, which lie in rows of bytes; give all "
            f"parts one type, such as float32, got {layout.parts_text()}"
        )
    step = OneStep(policy, driver)
    rows = driver.single_observation_space, driver.single_action_space
    observation_space, action_space = getattr(driver, "own_spaces", None) or rows
    notes = {
        "environment": env_name,
        "observation_space": space_text(observation_space),
        "action_space": space_text(action_space),
        "pufferlib": metadata.version("pufferlib"),
        "torch": torch.__version__,
        **(notes or {}),
    }
    if format == "c":
        write_folder(path, c_files(step, policy, driver, c_name(env_name), notes, observations))
    elif format == "web":
        write_atomically(path, web_page(step, policy, driver, env_name, observations).encode())
    else:
        written = {"onnx": _onnx_bytes, "torchscript": _torchscript_bytes}[format](step, notes, observations)
        write_atomically(path, written)
    return path


def c_name(env_name: str) -> str:
    """Returns an environment's name in C: `puffer_breakout` -> `breakout`, `CartPole-v1` -> `cartpole_v1`."""
    short = re.sub(r"\W+", "_", env_name.removeprefix("puffer_"), flags=re.ASCII).strip("_").lower()
    return short if short[:1].isalpha() else f"env_{short}"


STEPS, ENVIRONMENTS = 1_000, 4  # of real play, on whose observations the result is compared
ROWS = 16  # that are compared at each step, at most


def export_command(env_name: str, args: dict[str, Any], options: ExportOptions) -> None:
    """Loads the policy that `args['load_model_path']` names, writes it, and prints its path and use."""
    if args["load_model_path"] is None:
        raise APIUsageError(
            f"puffer export needs trained weights, found none; say --pretrained, or --load-model-path latest after "
            f"puffer train {env_name}"
        )
    entry = catalog.find(env_name)
    count = max(1, min(ENVIRONMENTS, ROWS // entry.agents_per_env))
    many = {"num_envs": count} if "num_envs" in entry.settings else {}
    env_kwargs, seed = {**args["env"], **many}, args["train"]["seed"]
    format, output = options.format, options.output
    name = c_name(env_name) + ENDINGS[format]
    path = Path(output or name)
    if output is not None and format != "c" and (output.endswith("/") or path.is_dir()):
        path /= name
    with vector.make(entry.creator, env_kwargs=env_kwargs, backend="Serial", seed=seed) as vecenv:
        policy = load_policy({**args, "train": {**args["train"], "device": "cpu"}}, vecenv, env_name).eval()
        notes = {"model": str(args["load_model_path"]), "settings": json.dumps(args, default=str)}
        with torch_threads(1):
            export_policy(policy, vecenv, path, format, notes, _observations_of_play(vecenv, policy))
        print(f"wrote {printable(str(path))}, {_use(path, format, OneStep(policy, vecenv.driver_env))}")


def _use(path: Path, format: str, step: OneStep) -> str:
    if format == "web":
        return f"which plays in a browser and needs nothing else ({path.stat().st_size / 1000:.0f} kB)"
    if format != "c":
        takes, returns = ", ".join(step.input_names), ", ".join(step.output_names)
        return f"which takes {takes} and returns {returns}"
    unseen = "" if compiler() else "which no compiler has seen, as this machine has none; "
    programs = list(path.glob("*_play.c"))
    if not programs:
        (header,) = path.glob("*_policy.h")
        return f"{unseen}a header to include, {header.name}; puffernet.h beside it tells how"
    name = programs[0].stem.removesuffix("_play")
    return f"{unseen}a program that plays; there:\n\n    {compile_command(name)} && ./{name}_play\n"


def _observations_of_play(vecenv: Vector, policy: nn.Module) -> np.ndarray:
    # (steps, rows, *observation_shape) of the first agents
    seen = []

    def decide(decision: Decision) -> np.ndarray:
        seen.append(decision.observations[:ROWS].copy())
        return decision.actions

    player = Player(vecenv, policy, torch.Generator().manual_seed(0))
    quotas = np.full(vecenv.num_agents, STEPS)  # more than they can play in as many steps
    for _ in player.play(quotas, STEPS, seed=0, decide=decide):
        pass
    return np.stack(seen)
