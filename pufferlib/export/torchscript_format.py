"""A policy as TorchScript, for programs with libtorch, in C++ and elsewhere, and for Python without this package.

torch deprecates TorchScript in favour of torch.export, whose files C++ programs must compile before they can load them.
So TorchScript is still the format of libtorch, and torch's warning is not shown.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping

import numpy as np
import torch

from pufferlib.errors import ExportError
from pufferlib.export.comparison import check_agreement
from pufferlib.export.one_step import OneStep, first_sentence, unchecked_distributions

NOTES = "notes.json"
"""The extra file in the archive that holds the notes, and the names of arguments and results."""


def torchscript_bytes(step: OneStep, notes: Mapping[str, str], observations: np.ndarray | None = None) -> bytes:
    """The file's content, loaded back: its results are those of the policy.

    Called with observations and the states in the order of `step.state_names`, it returns a tuple in the order of
    `step.output_names`; both orders stand in the file's `notes.json`.

    Args:
        step: of the policy.
        notes: for that file.
        observations: of real play, to compare on besides random ones; `(steps, rows, *observation_shape)`.

    Raises:
        ExportError: if the policy cannot be traced, or the results differ.
    """
    named = {**notes, "arguments": ["observations", *step.state_names], "results": list(step.output_names)}
    traced = _traced(step)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*deprecated", DeprecationWarning)
        file = io.BytesIO()
        torch.jit.save(traced, file, _extra_files={NOTES: json.dumps(named, indent=2)})
        loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    check_agreement(
        step,
        lambda *arrays: [each.numpy() for each in loaded(*map(torch.from_numpy, arrays))],
        "TorchScript",
        observations,
    )
    return file.getvalue()


def _traced(step: OneStep) -> torch.jit.ScriptModule:
    inputs = (step.random_observations(3, 0), *step.initial_states(3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with unchecked_distributions():
                traced = torch.jit.trace(step, inputs, check_trace=False)
        except Exception as error:  # of any class: the policy's own code runs
            raise ExportError(f"TorchScript cannot express this policy ({error})") from error
    doubts = [first_sentence(warning.message) for warning in caught if warning.category is torch.jit.TracerWarning]
    if doubts:
        raise ExportError(
            f"TorchScript cannot express this policy ({doubts[0]}); decide by torch.where, and take sizes from .shape"
        )
    return traced
