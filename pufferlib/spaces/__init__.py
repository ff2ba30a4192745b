"""Spaces as rows of numbers: those of actions, those of observations, and the joint ones of many agents."""

from pufferlib.spaces.rows import (
    MAX_MIXED_CHOICES,
    ActionPart,
    MixedRows,
    action_dtype,
    action_parts,
    action_shape,
    check_action_space,
    joint_space,
)

__all__ = [
    "MAX_MIXED_CHOICES",
    "ActionPart",
    "MixedRows",
    "action_dtype",
    "action_parts",
    "action_shape",
    "check_action_space",
    "joint_space",
]
