"""Databases of tests need not outlive a loss of power, and are all of today's version."""

import functools

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event


@event.listens_for(Engine, "connect")
def write_without_waiting(connection, record):
    """Leaves out the waits for the disk, which are most of the time of trials that take none."""
    connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(autouse=True, scope="session")
def _migrations_are_read_once():
    """Optuna asks its scripts for the newest version of a database whenever it opens one; that takes a fifth second."""
    read = functools.cache(ScriptDirectory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", lambda config: read(config.get_main_option("script_location")))
        yield
