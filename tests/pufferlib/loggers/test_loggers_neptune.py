import math
import sqlite3
import sys

import numpy as np
import pytest

from pufferlib import NeptuneLogger
from pufferlib.errors import APIUsageError, MissingExtraError
from pufferlib.loggers.logger import Loggers

neptune_scale = pytest.importorskip("neptune_scale", reason="needs neptune-scale; pip install -e '.[test]'")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    for name in ("NEPTUNE_PROJECT", "NEPTUNE_API_TOKEN", "NEPTUNE_MODE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "neptune"


class OfflineFile:
    """What one start of a run wrote."""

    def __init__(self, path):
        from neptune_scale.sync.operations_repository import OperationsRepository

        repository = OperationsRepository(db_path=path)
        metadata = repository.get_metadata()
        self.project, self.run_id = metadata.project, metadata.run_id
        self.config, self.series, self.tags, self.texts = {}, {}, [], {}
        for operation in repository.get_operations(up_to_bytes=2**24):
            snapshot = operation.operation
            if not hasattr(snapshot, "assign"):
                self.name = snapshot.experiment_id
                continue
            self.config |= {name: _value(value) for name, value in snapshot.assign.items()}
            for name, value in snapshot.append.items():
                series = self.texts if value.WhichOneof("value") == "string" else self.series
                series.setdefault(name, []).append((snapshot.step.whole, _value(value)))
            for edit in snapshot.modify_sets.values():
                self.tags += edit.string.values
        self.files = [request.source_path for request in repository.get_file_upload_requests(10)]
        repository.close(cleanup_files=False)


def _value(value):
    return getattr(value, value.WhichOneof("value"))


def read(folder):
    return [OfflineFile(path) for path in sorted(folder.glob("*/run_operations.sqlite3"))]


def test_an_offline_run_holds_settings_metrics_and_the_model(folder, tmp_path):
    model = tmp_path / "model_puffer_squared_000002.pt"
    model.write_bytes(b"weights")
    logger = NeptuneLogger(
        project="team/ours", name="first", run_id="mine", tags="one, two", mode="offline", folder=folder
    )
    logger.describe({"train": {"learning_rate": 0.015, "max_grad_norm": math.inf, "data_dir": folder}, "seed": None})
    for step in (64, 128):
        metrics = {"environment/score": np.float32(0.5), "losses/entropy": step / 64, "losses/policy_loss": math.nan}
        logger.log({**metrics, "note": "hello"}, step)
    logger.close(model)
    logger.close()
    (found,) = read(folder)
    assert (found.project, found.run_id, found.name) == ("team/ours", "mine", "first")
    assert sorted(found.tags) == ["one", "two"]
    assert found.config["config/train/learning_rate"] == 0.015
    assert found.config["config/train/max_grad_norm"] == "inf"
    assert found.config["config/train/data_dir"] == str(folder)
    assert found.series == {"environment/score": [(64, 0.5), (128, 0.5)], "losses/entropy": [(64, 1.0), (128, 2.0)]}
    assert found.texts == {"note": [(64, "hello"), (128, "hello")]}
    assert found.files == [str(model)]


def test_a_run_id_goes_on_with_its_run(folder):
    for steps in ([64, 128], [192]):
        logger = NeptuneLogger("ours", run_id="mine", mode="offline", folder=folder)
        for step in steps:
            logger.log({"sps": 1.0}, step)
        logger.close()
    first, second = read(folder)
    assert (first.project, first.run_id) == (second.project, second.run_id) == ("offline/ours", "mine")
    assert [step for step, _ in first.series["sps"] + second.series["sps"]] == [64, 128, 192]


def test_told_nothing_it_leaves_no_trace(folder):
    logger = NeptuneLogger("team/ours", folder=folder)  # nor does it ask for a token
    logger.close(None)
    assert logger.run is None and not folder.exists()
    with pytest.raises(APIUsageError, match="make a new NeptuneLogger"):
        logger.log({}, 1)


def test_the_environment_names_project_and_mode(folder, monkeypatch):
    monkeypatch.setenv("NEPTUNE_PROJECT", "team/ours")
    monkeypatch.setenv("NEPTUNE_MODE", "offline")
    logger = NeptuneLogger(folder=folder)
    logger.log({"sps": 1.0}, 1)
    logger.close()
    assert read(folder)[0].project == "team/ours"


@pytest.mark.parametrize("project", ["ours", None])
def test_online_a_project_has_a_workspace(project):
    with pytest.raises(APIUsageError, match="must be 'workspace/project', got .*; name both"):
        NeptuneLogger(project, api_token="token", mode="online")


def test_what_neptune_reports_later_is_warned_about_once(folder, monkeypatch):
    """Errors of the server reach the process that trains through callbacks, in a thread, after the log."""
    keywords = {}

    class Run(neptune_scale.Run):
        def __init__(self, **given):
            keywords.update(given)
            super().__init__(**given)

    monkeypatch.setattr(neptune_scale, "Run", Run)
    logger = NeptuneLogger("ours", mode="offline", folder=folder)
    both = Loggers([logger])
    both.log({"sps": 1.0}, 64)
    callback = keywords["on_network_error_callback"]
    callback(ConnectionError("no route"), None)
    with pytest.warns(RuntimeWarning, match="NeptuneLogger failed .*ConnectionError: no route"):
        both.log({"sps": 1.0}, 128)
    callback(ConnectionError("no route"), 1.0)
    both.log({"sps": 1.0}, 192)
    both.close(None)
    assert [step for step, _ in read(folder)[0].series["sps"]] == [64, 128, 192]


def test_the_file_is_whole_at_every_moment(folder):
    logger = NeptuneLogger("ours", mode="offline", folder=folder)
    logger.log({"sps": 1.0}, 64)
    (path,) = folder.glob("*/run_operations.sqlite3")
    connection = sqlite3.connect(path)
    assert connection.execute("select count(*) from run_operations").fetchone()[0] >= 2
    connection.close()
    logger.close()


def test_without_the_package_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "neptune_scale", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[neptune\]'"):
        NeptuneLogger("team/ours")
