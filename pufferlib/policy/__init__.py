"""What all policies have in common; those of the library are in pufferlib.models."""

from pufferlib.policy.forms import (
    EnvSpaces,
    Forward,
    Logits,
    RecordsInitArgs,
    acting_forward,
    init_args,
    make_module,
    training_forward,
)
from pufferlib.policy.one_hot import OneHot, OneHotPlanes

__all__ = [
    "EnvSpaces",
    "Forward",
    "Logits",
    "OneHot",
    "OneHotPlanes",
    "RecordsInitArgs",
    "acting_forward",
    "make_module",
    "init_args",
    "training_forward",
]
