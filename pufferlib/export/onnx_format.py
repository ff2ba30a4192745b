"""A policy as an ONNX file, for onnxruntime in any language and everything else that reads ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pufferlib.errors import ExportError
from pufferlib.export.comparison import check_agreement
from pufferlib.export.one_step import OneStep, first_sentence, unchecked_distributions
from pufferlib.extras import require_extra

PACKAGES = ("onnx", "onnxruntime", "onnxscript")


def onnx_bytes(step: OneStep, notes: Mapping[str, str], observations: np.ndarray | None = None) -> bytes:
    """The file's content, which onnxruntime has run: its results are those of the policy to 1e-4.

    Its inputs are `observations` and the states by name, its outputs `OneStep.output_names`; the first dimension of all
    is `rows`, any number of agents.

    Args:
        step: of the policy.
        notes: for the file's metadata.
        observations: of real play, to compare on besides random ones; `(steps, rows, *observation_shape)`.

    Raises:
        MissingExtraError: if a package of the extra `export` is missing.
        ExportError: if ONNX cannot express the policy, or the results differ.
    """
    for package in PACKAGES:
        require_extra(package, "export")
    import onnxruntime

    model = _converted(step)
    _name_rows(model)
    model.producer_name = "pufferlib"
    for name, text in notes.items():
        model.metadata_props.add(key=_utf8(name), value=_utf8(text))
    content = model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no class of their own in common
        raise ExportError(f"onnxruntime cannot load the policy as ONNX ({first_sentence(error)})") from error
    names = ("observations", *step.state_names)
    check_agreement(
        step, lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True))), "onnxruntime", observations
    )
    return content


def _utf8(text: str) -> str:
    # A path may hold what UTF-8 cannot.
    return text.encode("utf-8", "backslashreplace").decode()


def _converted(step: OneStep) -> Any:
    rows = torch.export.Dim("rows", min=1)
    states = step.initial_states(3)
    shapes: dict[str, Any] = {"observations": {0: rows}}
    if states:
        shapes["states"] = tuple({0: rows} for _ in states)
    try:
        with _without_talk(), unchecked_distributions():
            program = torch.export.export(step, (step.random_observations(3, 0), *states), dynamic_shapes=shapes)
            converted = torch.onnx.export(
                program,
                dynamo=True,
                input_names=["observations", *step.state_names],
                output_names=list(step.output_names),
                verbose=False,
            )
    except Exception as error:  # of any class: the exporter runs the policy's own code
        raise ExportError(
            f"ONNX cannot express this policy ({first_sentence(error)}); write its forward with torch operations "
            "alone, or try --format torchscript"
        ) from error
    return converted.model_proto


def _name_rows(model: Any) -> None:
    (old,) = {value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == old:
                dimension.dim_param = "rows"


@contextmanager
def _without_talk() -> Iterator[None]:
    logs = [logging.getLogger(package) for package in ("torch.onnx", "onnxscript")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
