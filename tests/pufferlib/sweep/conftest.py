"""Databases of tests need not outlive a loss of power."""

from sqlalchemy import Engine, event


@event.listens_for(Engine, "connect")
def write_without_waiting(connection, record):
    """Leaves out the waits for the disk, which are most of the time of trials that take none."""
    connection.execute("PRAGMA synchronous = OFF")
