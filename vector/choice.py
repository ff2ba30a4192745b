"""Which backend suits an environment."""

from __future__ import annotations

from typing import Any

from pufferlib.vector.gymnasium_vector import GymnasiumVector
from pufferlib.vector.local import LocalVector
from pufferlib.vector.native import Native
from pufferlib.vector.serial import Serial


def fitting_backend(env: Any) -> type[LocalVector]:
    """The backend that steps an environment best in this process; Serial steps every one."""
    return next((backend for backend in (Native, GymnasiumVector) if backend.can_step(env)), Serial)
