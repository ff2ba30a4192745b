import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pufferlib.errors import APIUsageError
from pufferlib.loggers import logger as json_logger
from pufferlib.loggers.logger import JsonLogger, NoLogger, make_run_id


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "puffer_squared_run" / "metrics.jsonl"


def write(path, steps):
    logger = JsonLogger(path)
    for step in steps:
        logger.log({"sps": 2.0 * step}, step)
    logger.close()


def test_a_metric_named_step_is_not_the_step_of_the_line(path):
    JsonLogger(path).log({"step": 3, "sps": 1.0}, 100)
    assert lines_of(path) == [{"step": 100, "sps": 1.0}]


def test_each_log_is_one_whole_line_at_once(path):
    logger = JsonLogger(path)
    logger.log({"agent_steps": 64, "losses/entropy": np.float32(0.5), "epoch": np.int64(1), "name": "a\nb"}, 64)
    assert lines_of(path) == [{"step": 64, "agent_steps": 64, "losses/entropy": 0.5, "epoch": 1, "name": "a\nb"}]
    logger.close(path.parent / "model.pt")
    logger.close()
    assert logger.run_id == "puffer_squared_run"


@pytest.mark.parametrize("value", [math.nan, math.inf, np.float32("nan")])
def test_a_number_json_does_not_know_becomes_null(path, value):
    logger = JsonLogger(path)
    logger.log({"losses/policy_loss": value}, 1)
    logger.close()
    assert lines_of(path)[0]["losses/policy_loss"] is None


def test_a_closed_logger_says_what_to_do(path):
    logger = JsonLogger(path)
    logger.close()
    with pytest.raises(APIUsageError, match="make a new JsonLogger"):
        logger.log({}, 1)


def test_opening_again_appends(path):
    write(path, [1, 2])
    write(path, [3])
    assert [line["step"] for line in lines_of(path)] == [1, 2, 3]


def test_resuming_drops_what_will_be_written_again(path):
    write(path, [64, 128, 192, 256])
    logger = JsonLogger(path, resume_step=128)
    logger.log({}, 192)
    logger.close()
    assert [line["step"] for line in lines_of(path)] == [64, 128, 192]
    assert [file.name for file in path.parent.iterdir()] == ["metrics.jsonl"]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200))
def test_a_file_cut_anywhere_keeps_its_whole_lines(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    write(path, [1, 2, 3, 4])
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    write(path, [9])
    kept = [line["step"] for line in lines_of(path)]
    assert kept == [1, 2, 3, 4][: whole[:length].count(b"\n")] + [9]


@pytest.mark.parametrize("damage", ["{}\n", "[1]\n", "3\n", '{"step": null}\n', "\n", "{\n"])
def test_a_damaged_line_does_not_stop_the_run(path, damage):
    write(path, [1])
    path.write_text(path.read_text() + damage)
    write(path, [2])
    assert [line["step"] for line in lines_of(path)] == [1, 2]


def test_the_old_file_stays_until_the_new_one_is_complete(path, monkeypatch):
    write(path, [1, 2])
    before = path.read_text()

    def crash(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(json_logger.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        JsonLogger(path, resume_step=1).log({}, 2)
    assert path.read_text() == before


def test_no_logger_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger = NoLogger()
    logger.log({"sps": 1}, 1)
    logger.close(None)
    logger.close()
    assert logger.run_id and NoLogger("mine").run_id == "mine"
    assert not list(tmp_path.iterdir())


def test_run_ids_are_unique_and_begin_with_the_time():
    ids = [make_run_id() for _ in range(2000)]
    moments = [name.rpartition("_")[0] for name in ids]
    assert moments == sorted(moments) and len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\d{8}_\d{6}_\d{6}_[0-9a-f]{8}", name) for name in ids)
