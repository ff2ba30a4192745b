import sys

import numpy as np
import pytest
import wandb_files

from pufferlib import WandbLogger
from pufferlib.errors import APIUsageError, MissingExtraError

wandb = pytest.importorskip("wandb", reason="needs wandb; pip install -e '.[test]'")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with wandb_files.offline(tmp_path_factory.mktemp("home")):
        yield


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def model(folder):
    folder.mkdir()
    path = folder / "model_puffer_squared_000002.pt"
    path.write_bytes(b"weights")
    return path


@pytest.mark.slow
def test_an_offline_run_holds_settings_metrics_and_the_model(folder, model):
    logger = WandbLogger(
        project="ours",
        entity="team",
        name="first",
        config={"note": "mine"},
        run_id="a:b",
        tags=["one", "two"],
        folder=folder,
    )
    logger.describe({"train": {"learning_rate": 0.015, "data_dir": folder}, "note": "the trainer's"})
    for step in (64, 128, 192):
        logger.log({"environment/score": np.float32(0.5), "losses/entropy": step / 64}, step)
    logger.close(model)
    logger.close()
    (found,) = wandb_files.runs(folder)
    run = found.run
    assert (run.project, run.entity, run.display_name, run.run_id) == ("ours", "team", "first", "a_b")
    assert list(run.tags) == ["one", "two"]
    assert found.config["train"] == {"learning_rate": 0.015, "data_dir": str(folder)}
    assert found.config["note"] == "mine"
    assert [row["_step"] for row in found.rows] == [64, 128, 192]
    assert [row["losses/entropy"] for row in found.rows] == [1, 2, 3]
    assert found.rows[0]["environment/score"] == 0.5
    (artifact,) = found.artifacts
    assert (artifact.type, artifact.name) == ("model", "model-a_b")
    assert [content.local_path for content in artifact.manifest.contents] == [str(model)]
    assert found.exit_code == 0


def test_metrics_of_one_step_are_one_row(folder):
    logger = WandbLogger(folder=folder)
    logger.log({"losses/entropy": 1.0}, 64)
    logger.log({"evaluation/score": 2.0}, 64)
    logger.close()
    (row,) = wandb_files.runs(folder)[0].rows
    assert row["losses/entropy"] == 1.0 and row["evaluation/score"] == 2.0


def test_a_run_id_goes_on_with_its_run(folder):
    for steps in ([64, 128], [192]):
        logger = WandbLogger(run_id="mine", folder=folder / str(steps[0]))  # W&B names folders by the second
        for step in steps:
            logger.log({"sps": 1.0}, step)
        logger.close()
    first, second = wandb_files.runs(folder / "64") + wandb_files.runs(folder / "192")
    assert first.run.run_id == second.run.run_id == "mine"
    assert [row["_step"] for row in first.rows + second.rows] == [64, 128, 192]


def test_a_run_that_an_error_ends_has_failed(folder):
    logger = WandbLogger(folder=folder)
    logger.log({"sps": 1.0}, 64)
    try:
        raise ValueError
    except ValueError:
        logger.close(None)
    assert wandb_files.runs(folder)[0].exit_code == 1


def test_a_run_of_the_users_own_stays_open(folder):
    own = wandb.init(dir=str(folder.parent))
    logger = WandbLogger(folder=folder)
    logger.log({"sps": 1.0}, 64)
    assert wandb.run is own and logger.run is not own
    logger.close()
    own.log({"still": "open"})
    own.finish()


def test_told_nothing_it_leaves_no_trace(folder):
    logger = WandbLogger(config={"a": 1}, folder=folder)
    logger.close(None)
    assert logger.run is None and not folder.exists()
    with pytest.raises(APIUsageError, match="make a new WandbLogger"):
        logger.log({}, 1)


def test_online_it_resumes_the_run_of_its_id(monkeypatch):
    calls = []
    monkeypatch.setattr(wandb, "init", lambda **keywords: calls.append(keywords) or pytest.fail("offline"))
    logger = WandbLogger("ours", run_id="mine", mode="online")
    with pytest.raises(pytest.fail.Exception):
        logger.log({}, 1)
    (keywords,) = calls
    assert (keywords["id"], keywords["resume"], keywords["mode"]) == ("mine", "allow", "online")


def test_a_server_that_did_not_answer_is_not_asked_again(monkeypatch):
    calls = []

    def init(**keywords):
        calls.append(keywords)
        raise wandb.errors.CommError("no route")

    monkeypatch.setattr(wandb, "init", init)
    logger = WandbLogger(mode="online")
    with pytest.raises(wandb.errors.CommError):
        logger.describe({})
    logger.log({"sps": 1.0}, 64)
    logger.close(None)
    assert len(calls) == 1


def test_a_wrong_mode_is_a_usage_error():
    with pytest.raises(APIUsageError, match="'online', 'offline' or None, got 'of'"):
        WandbLogger(mode="of")


def test_without_the_package_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[wandb\]'"):
        WandbLogger()


def test_a_folder_called_wandb_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()
    monkeypatch.delitem(sys.modules, "wandb")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingExtraError):
        WandbLogger()
