"""`puffer completion`: the script that has a shell ask for words."""

from __future__ import annotations

from importlib import resources

from pufferlib.errors import APIUsageError, nearest

SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """The script of a shell, whose first lines say how to install it.

    Raises:
        APIUsageError: if there is none for it.
    """
    if shell not in SHELLS:
        remedy = nearest(shell, SHELLS) or f"; there are {', '.join(SHELLS)}"
        raise APIUsageError(f"there is no completion for the shell {shell!r}{remedy}")
    return resources.files(__package__).joinpath(f"puffer.{shell}").read_text(encoding="utf-8").rstrip()
