"""A copy of this checkout, for what makes environments in one."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("ocean", "vector", "extensions")  # mapped to pufferlib.<folder>
FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE", ".clang-format")
BUILT_ELSEWHERE = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".*", "experiments")


def copy_checkout(copy: Path) -> None:
    """Fills a folder with what a checkout needs, and with what was built here."""
    for path in ("pufferlib", *FOLDERS, "tests"):
        shutil.copytree(ROOT / path, copy / path, ignore=BUILT_ELSEWHERE, symlinks=True)
    for path in FILES:
        shutil.copy(ROOT / path, copy)
    for name in FOLDERS:
        link = copy / "pufferlib" / name
        if not link.is_symlink():
            link.symlink_to(Path("..", name), target_is_directory=True)
