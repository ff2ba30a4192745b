"""What a folder tells of its run."""

import json
from datetime import datetime, timezone

import pytest
from made_runs import STEPS, made_log, made_run

from pufferlib.errors import CheckpointError
from pufferlib.reports.recorded_run import read_run
from pufferlib.runs.folder import RunFolder

RUN_ID = "20260101_120000_000000_aaaa0001"


def test_a_run_tells_its_newest_numbers(tmp_path):
    run = read_run(made_run(tmp_path, RUN_ID, logs=4))
    assert (run.env_name, run.run_id, run.steps, run.seconds) == ("puffer_cartpole", RUN_ID, 400, 8.0)
    assert (run.score_metric, run.score_name, run.score) == ("environment/perf", "perf", pytest.approx(0.4))
    assert run.begun == datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    assert [log["epoch"] for log in run.logs] == [1, 2, 3, 4]


def test_the_score_is_that_of_the_final_policy_until_it_is_trained_further(tmp_path):
    folder = made_run(tmp_path, RUN_ID, logs=4)
    assert read_run(folder).score_episodes == 5
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**made_log(5), "final/perf": 0.1, "final/n": 1000}) + "\n")
    run = read_run(folder)
    assert (run.score, run.score_episodes, run.score_name) == (0.1, 1000, "perf")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(made_log(6)) + "\n")
    run = read_run(folder)
    assert (run.score, run.score_episodes) == (pytest.approx(0.6), 5)


def test_the_tail_of_a_long_file_is_enough(tmp_path):
    folder = made_run(tmp_path, RUN_ID, logs=5000)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"agent_steps": 10**6, "environment/perf": None}) + "\n" + '{"agent_steps": 2')
    run = read_run(folder)
    assert (run.steps, run.score, len(run.logs)) == (10**6, pytest.approx(500.0), 5001)


def test_the_score_is_the_return_where_nothing_says_when_it_is_solved(tmp_path):
    folder = made_run(tmp_path, "mine")
    config = json.loads((folder / "config.json").read_text())
    del config["settings"]["solve"]
    (folder / "config.json").write_text(json.dumps(config))
    run = read_run(folder)
    assert (run.score_name, run.score) == ("return", 200.0)
    assert run.begun is not None  # by the files, as the id tells nothing


def test_a_score_may_be_a_metric_of_any_group(tmp_path):
    folder = made_run(tmp_path, "mine")
    text = (folder / "config.json").read_text().replace('"metric": "perf"', '"metric": "episode/return_mean"')
    (folder / "config.json").write_text(text)
    run = read_run(folder)
    assert (run.score_name, run.score) == ("return", 200.0)


@pytest.mark.parametrize(
    ("made", "state"),
    [
        ({"logs": 10}, "finished"),
        ({"logs": 10, "saved": False}, "failed"),
        ({"logs": 4}, "stopped"),
        ({"logs": 4, "saved": False}, "failed"),
        ({"logs": 4, "num_iterations": 4}, "finished"),
        ({"logs": 4, "num_iterations": 5}, "stopped"),
    ],
)
def test_the_state_of_a_run_that_ended(tmp_path, made, state):
    assert read_run(made_run(tmp_path, RUN_ID, **made)).state == state


def test_a_run_with_absent_agents_is_finished_after_its_last_epoch(tmp_path):
    assert read_run(made_run(tmp_path, RUN_ID, logs=10, total_timesteps=2 * STEPS)).state == "finished"


def test_a_run_that_went_on_after_its_checkpoint_failed(tmp_path):
    folder = made_run(tmp_path, RUN_ID, logs=4)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(made_log(5)) + "\n")
    assert read_run(folder).state == "failed"


def test_a_run_that_is_written_to_is_running(tmp_path):
    folder = made_run(tmp_path, RUN_ID, logs=STEPS // 100)
    lock = RunFolder(folder, dict)
    lock.lock()
    assert read_run(folder).state == "running"
    lock.close()
    assert read_run(folder).state == "finished"


def test_a_run_without_a_description_has_metrics_alone(tmp_path):
    folder = made_run(tmp_path, RUN_ID, logs=3)
    (folder / "config.json").unlink()
    run = read_run(folder)
    assert (run.env_name, run.steps, run.score, run.settings) == (None, 300, 150.0, {})


@pytest.mark.parametrize("text", ['{"settings"', "[]", '{"a": 1}', '{"settings": 3}'])
def test_a_damaged_description_is_told(tmp_path, text):
    folder = made_run(tmp_path, RUN_ID)
    (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config.json (is damaged|must hold the settings of a run)"):
        read_run(folder)


def test_a_folder_without_a_run_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="holds no run"):
        read_run(tmp_path)
