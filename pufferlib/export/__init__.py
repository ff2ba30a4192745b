"""Weights that leave the project: a policy as ONNX, TorchScript or C."""

from pufferlib.export.exporting import FORMATS, export_policy

__all__ = ["FORMATS", "export_policy"]
