"""Reads what W&B wrote offline: a log of protobuf records in the framing of LevelDB."""

from __future__ import annotations

import contextlib
import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

_BLOCK = 32 * 1024
_FILE_HEADER = 7  # bytes
_HEADER = struct.Struct("<IHB")  # checksum, length, which part of a record
_WHOLE, _LAST = 1, 4


@contextlib.contextmanager
def offline(home):
    """W&B without network, with a home of its own, and with no process left at the end."""
    import wandb

    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
            patch.setenv(name, str(home))
        for name, value in {
            "MODE": "offline",
            "ERROR_REPORTING": "false",
            "X_DISABLE_STATS": "true",
            "SILENT": "true",
        }.items():
            patch.setenv(f"WANDB_{name}", value)
        yield
        wandb.teardown()
    assert not [child for child in psutil.Process().children(recursive=True) if "wandb" in child.name()]


def runs(folder):
    """What every start wrote into a folder, in order."""
    return [read(path) for path in sorted(Path(folder).glob("wandb/offline-run-*/run-*.wandb"))]


@dataclass
class WandbFile:
    """One start of a run."""

    run: object = None  # the protobuf RunRecord
    config: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)  # of metrics, with W&B's own `_step`
    artifacts: list = field(default_factory=list)  # protobuf ArtifactRecords
    exit_code: int | None = None


def read(path, seconds=600):
    """The content of a `run-*.wandb` file, once W&B's process has written all of it: some time after the run ended."""
    end = time.monotonic() + seconds
    while (found := _read(path)).exit_code is None:
        assert time.monotonic() < end, f"{path} has no end"
        time.sleep(0.05)
    return found


def _read(path):
    found = WandbFile()
    for record in _records(Path(path).read_bytes()):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found.run = record.run
            found.config |= _values(record.run.config.update)
        elif kind == "config":
            found.config |= _values(record.config.update)
        elif kind == "history":
            found.rows.append(_values(record.history.item))
        elif kind == "artifact":
            found.artifacts.append(record.artifact)
        elif kind == "exit":
            found.exit_code = record.exit.exit_code
    return found


def _values(items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(data):
    from wandb.proto.wandb_internal_pb2 import Record

    at, content = _FILE_HEADER, b""
    while at + _HEADER.size <= len(data):
        rest = _BLOCK - at % _BLOCK
        if rest < _HEADER.size:  # a header does not cross blocks
            at += rest
            continue
        _, length, part = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        content += data[at : at + length]
        at += length
        if part in (_WHOLE, _LAST):
            yield Record.FromString(content)
            content = b""
