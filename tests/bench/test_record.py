import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def record(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCH))
    import record

    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "calibration", iter([10.0, 14.0] * 2).__next__)
    monkeypatch.setattr(record, "commit", lambda: "0123456789ab")
    return record


def rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_number_is_kept_with_machine_commit_calibration_and_command(record, tmp_path, capsys):
    for value in ("1234567", "2.5"):
        record.main(["train", "--case", "a, b", "--value", value, "--unit", "steps/s", "puffer", "train", "it's"])
    first, second = rows(tmp_path / "train.csv")
    assert first["value"] == "1235000.0" and second["value"] == "2.5"  # four digits: more would be noise
    assert first["case"] == "a, b" and first["unit"] == "steps/s" and first["commit"] == "0123456789ab"
    assert float(first["calibration"]) == 12.0  # the mean of before and after
    assert first["command"] == "puffer train 'it'\"'\"'s'"
    assert first["machine"].endswith("cores") and first["date"][:2] == "20"
    assert "1 row(s) added" in capsys.readouterr().out


def test_a_suite_becomes_a_row_per_benchmark(record):
    slow = {"name": "a", "stats": {"median": 0.5}, "extra_info": {}}
    steps = {"name": "b", "stats": {"median": 0.5}, "extra_info": {"steps": 100}}
    assert record.measured(slow) == [("a", 0.5, "s")]
    assert record.measured(steps) == [("b", 200.0, "steps/s")]


def test_a_benchmark_may_say_what_part_of_the_machine_it_uses_and_other_values(record):
    extra = {"steps": 100, "operations": 30, "operations_per_second": 24000.0, "values": {"MB": 7.0}}
    results = record.measured({"name": "a", "stats": {"median": 0.5}, "extra_info": extra})
    assert results == [("a", 200.0, "steps/s"), ("a", 0.25, "of matmul rate"), ("a", 7.0, "MB")]


def test_half_a_result_is_refused(record, capsys):
    with pytest.raises(SystemExit):
        record.main(["train", "--case", "a", "true"])
    assert "expected all of --case, --value and --unit" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_yardstick_measures_something():
    done = subprocess.run([sys.executable, BENCH / "calibrate.py"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.removesuffix(" M visits/s\n")) > 0
