"""Optional packages: whether they are there, and what to do where they are not."""

from __future__ import annotations

import importlib.util

from pufferlib.errors import MissingExtraError


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # without origin: a mere folder of that name


def require_extra(package: str, extra: str) -> None:
    """Checks that an optional package is installed, without importing it.

    Raises:
        MissingExtraError: naming the extra to install.
    """
    if not is_installed(package):
        raise MissingExtraError(f"the package {package} is not installed; run `pip install 'pufferlib[{extra}]'`")
