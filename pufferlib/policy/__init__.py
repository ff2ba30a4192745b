"""What all policies have in common, whoever wrote them; those of the library are in pufferlib.models."""

from pufferlib.policy.forms import (
    Forward,
    Logits,
    Remembering,
    acting_forward,
    make_module,
    settings_noted,
    training_forward,
)
from pufferlib.policy.one_hot import OneHot, OneHotPlanes

__all__ = [
    "Forward",
    "Logits",
    "OneHot",
    "OneHotPlanes",
    "Remembering",
    "acting_forward",
    "make_module",
    "settings_noted",
    "training_forward",
]
