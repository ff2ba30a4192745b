"""The rules of a game are tested quickly where they are news."""

from pathlib import Path

import pytest
from checked_headers import STANDING, compiled_names, is_changed

from pufferlib import ocean

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Marks the tests of games whose headers are as they were noted as slow, but for one game of every kind."""
    unchanged = {name for name in compiled_names() if name not in STANDING and not is_changed(name)}
    for item in items:
        name = ocean.PREFIX + item.path.stem.removeprefix("test_")
        if item.path.parent == FOLDER and name in unchanged:
            item.add_marker(pytest.mark.slow)
