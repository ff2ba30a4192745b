import math
import shutil
import sys

import numpy as np
import pytest

from pufferlib import TensorBoardLogger
from pufferlib.errors import APIUsageError, MissingExtraError

event_accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard; pip install -e '.[test]'"
)


def read(folder):
    """What TensorBoard itself sees in a folder."""
    events = event_accumulator.EventAccumulator(str(folder))
    events.Reload()
    return events


def steps(folder, tag="sps"):
    return [event.step for event in read(folder).Scalars(tag)]


def write(folder, steps, **keywords):
    logger = TensorBoardLogger(folder, **keywords)
    for step in steps:
        logger.log({"sps": 2.0 * step}, step)
    logger.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "tensorboard"


def test_metrics_are_tags_and_agent_steps_are_steps(folder):
    logger = TensorBoardLogger(folder)
    for step in (64, 128):
        logger.log({"environment/score": np.float32(0.5), "losses/entropy": step / 64, "epoch": step // 64}, step)
    events = read(folder)  # nothing waits for the end of the run
    logger.close("experiments/run/model_000002.pt")
    logger.close()
    assert set(events.Tags()["scalars"]) == {"environment/score", "losses/entropy", "epoch"}
    found = [(event.step, event.value) for event in events.Scalars("losses/entropy")]
    assert found == [(64, 1.0), (128, 2.0)]


def test_the_settings_are_a_text(folder):
    logger = TensorBoardLogger(folder)
    logger.describe({"train": {"learning_rate": 0.015, "data_dir": folder}})
    logger.log({"sps": 1.0}, 64)
    logger.close()
    (event,) = read(folder).Tensors("settings/text_summary")
    text = event.tensor_proto.string_val[0].decode()
    assert '"learning_rate": 0.015' in text and str(folder) in text


def test_a_resumed_run_replaces_the_steps_that_it_repeats(folder):
    write(folder, [64, 128, 192, 256], run_id="mine")
    write(folder, [192, 320], run_id="mine", resume_step=128)
    assert steps(folder) == [64, 128, 192, 320]


def test_a_run_goes_on_from_the_first_step_logged(folder):
    write(folder, [64, 128, 192])
    write(folder, [128, 192, 256])
    assert steps(folder) == [64, 128, 192, 256]


def test_files_that_were_removed_come_back(folder):
    logger = TensorBoardLogger(folder)
    logger.log({"sps": 1.0}, 64)
    shutil.rmtree(folder.parent)
    logger.log({"sps": 2.0}, 128)
    logger.close()
    assert steps(folder) == [128]


def test_values_that_are_no_numbers_do_no_harm(folder):
    logger = TensorBoardLogger(folder)
    logger.log({"sps": math.nan, "note": "hello", "nothing": None, "is_new": True}, 1)
    logger.close()
    events = read(folder)
    assert math.isnan(events.Scalars("sps")[0].value) and events.Scalars("is_new")[0].value == 1.0
    assert events.Tensors("note/text_summary")[0].tensor_proto.string_val == [b"hello"]
    assert set(events.Tags()["scalars"]) == {"sps", "is_new"}


def test_a_closed_logger_says_what_to_do(folder):
    logger = TensorBoardLogger(folder, run_id="mine")
    logger.close()
    with pytest.raises(APIUsageError, match="run mine is closed; make a new TensorBoardLogger"):
        logger.log({"sps": 1.0}, 1)
    assert not folder.exists()


def test_without_the_package_it_names_the_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[tensorboard\]'"):
        TensorBoardLogger(folder)
