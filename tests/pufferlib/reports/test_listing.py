"""`puffer runs`, and what runs differ in."""

import json

import pytest
from made_runs import made_run
from terminal import run_on_terminal

from pufferlib import cli
from pufferlib.reports.recorded_run import differences, labels, read_run

IDS = [f"2026010{day}_120000_000000_aaaa000{day}" for day in (1, 2, 3)]


@pytest.fixture
def runs(in_tmp_path):
    made = [(IDS[0], 3, 0.01), (IDS[1], 9, 0.02), (IDS[2], 6, 0.02)]
    return [made_run("experiments", name, logs=logs, learning_rate=rate, seed=1) for name, logs, rate in made]


def table(capsys, *flags):
    """The rows that `puffer runs` prints, split at spaces, without the header."""
    capsys.readouterr()
    assert cli.main(["runs", *flags]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


def test_a_row_tells_of_a_run(runs, capsys):
    newest = table(capsys)[0]
    assert newest[:2] == ["aaaa0003", "puffer_cartpole"] and newest[2] == "2026-01-03"
    assert newest[4:] == ["600", "0.6", "perf", "stopped", "12s", "learning_rate=0.02"]


@pytest.mark.parametrize(
    ("flags", "order"),
    [([], [3, 2, 1]), (["--sort", "score"], [2, 3, 1]), (["--sort", "steps", "--limit", "2"], [2, 3])],
)
def test_the_order_is_chosen(runs, capsys, flags, order):
    assert [row[0] for row in table(capsys, *flags)] == [f"aaaa000{index}" for index in order]


def test_scores_are_compared_within_an_environment(runs, capsys):
    made_run("experiments", "mine", "puffer_squared", logs=1)
    assert [row[0] for row in table(capsys, "--sort", "score")] == ["aaaa0002", "aaaa0003", "aaaa0001", "mine"]
    assert [row[0] for row in table(capsys, "--env", "puffer_squared")] == ["mine"]


def test_damaged_and_foreign_folders_are_listed_as_such(runs, capsys):
    (runs[0] / "config.json").write_text('{"settings"')
    (runs[0].parent / "notes").mkdir()
    rows = table(capsys)
    assert [row[0] for row in rows[:2]] == ["aaaa0003", "aaaa0002"] and len(rows) == 4
    told = [" ".join(row) for row in rows[2:]]
    assert any("notes holds no run" in text for text in told)
    assert any("config.json is damaged" in text for text in told)


def test_runs_within_are_pointed_at(runs, capsys):
    made_run("experiments/sweeps/my_study", IDS[0])
    told = " ".join(table(capsys)[-1])
    assert told == "sweeps/my_study: 1 run, listed by `puffer runs --data-dir experiments/sweeps/my_study`"
    assert [row[0] for row in table(capsys, "--data-dir", "experiments/sweeps/my_study")] == ["aaaa0001"]


def test_mistakes_are_told(runs, capsys):
    for flags, message in (
        (["--data-dir", "gone"], "--data-dir must be a folder of runs, got 'gone'"),
        (["--env", "puffer_cartpol"], "there are no runs of 'puffer_cartpol' in experiments; did you mean"),
        (["--env", "xyz"], "there are no runs of 'xyz' in experiments; there are runs of puffer_cartpole"),
        (["--sort", "speed"], "sort must be"),
    ):
        assert cli.main(["runs", *flags]) == 2
        assert message in capsys.readouterr().err


def test_of_each_run_little_is_read(in_tmp_path, capsys, monkeypatch):
    """A thousand of them take half a second."""
    folder = made_run("experiments", "first", logs=300)
    config, metrics = (folder / "config.json").read_text(), (folder / "metrics.jsonl").read_text()
    for index in range(20):
        other = folder.with_name(f"puffer_cartpole_{index:04}")
        other.mkdir()
        (other / "config.json").write_text(config)
        (other / "metrics.jsonl").write_text(metrics)
    parsed, parse = [], json.loads
    monkeypatch.setattr(json, "loads", lambda *arguments, **keywords: parsed.append(1) or parse(*arguments, **keywords))
    assert len(table(capsys)) == 21
    assert 21 <= len(parsed) < 21 * 100  # of 300 lines each


def test_listing_needs_no_torch(runs):
    script = "import sys\nfrom pufferlib.cli import main\nassert main(['runs']) == 0\nassert 'torch' not in sys.modules"
    code, written = run_on_terminal(script)
    assert code == 0, written
    assert "aaaa0003" in written
    assert max(map(len, written.splitlines())) <= 80 and "..." in written


def test_only_what_is_not_the_same_is_told(runs):
    (runs[2] / "config.json").write_text((runs[2] / "config.json").read_text().replace('"seed": 1', '"seed": 7'))
    found = differences([read_run(folder) for folder in runs])
    assert found[runs[0]] == {"train.seed": 1, "train.learning_rate": 0.01}
    assert found[runs[2]] == {"train.seed": 7, "train.learning_rate": 0.02}


def test_runs_of_different_environments_are_not_compared(runs):
    squared = made_run("experiments", "mine", "puffer_squared", seed=3)
    found = differences([read_run(runs[0]), read_run(squared)])
    assert found == {runs[0]: {}, squared: {}}


def test_a_setting_that_a_run_lacks_is_no_difference(runs):
    config = json.loads((runs[0] / "config.json").read_text())
    del config["settings"]["train"]["gamma"]
    (runs[0] / "config.json").write_text(json.dumps(config))
    assert "train.gamma" not in differences([read_run(folder) for folder in runs])[runs[1]]


@pytest.mark.parametrize("section", ["env", "policy"])
def test_an_argument_that_only_one_run_was_given_is_a_difference(runs, section):
    config = json.loads((runs[1] / "config.json").read_text())
    config["settings"][section]["own"] = True
    (runs[1] / "config.json").write_text(json.dumps(config))
    found = differences([read_run(folder) for folder in runs])
    assert f"{section}.own" not in found[runs[0]] and found[runs[1]][f"{section}.own"] is True


def test_opponents_are_a_difference(runs):
    config = json.loads((runs[1] / "config.json").read_text())
    config["settings"]["selfplay"] = {"pool_size": 4}
    (runs[0] / "config.json").write_text(
        json.dumps({**config, "settings": {**config["settings"], "selfplay": {"pool_size": 0}}})
    )
    (runs[1] / "config.json").write_text(json.dumps(config))
    assert differences([read_run(folder) for folder in runs])[runs[1]]["selfplay.pool_size"] == 4


def test_a_run_whose_lines_are_long_is_listed_whole(runs):
    path = runs[0] / "metrics.jsonl"
    wide = {f"environment/statistic_{index:04}": 0.5 for index in range(2000)}
    lines = [json.dumps({**json.loads(line), **wide}) for line in path.read_text().splitlines()]
    assert len(lines[-1]) > 50_000
    newest = read_run(runs[0]).newest
    path.write_text("\n".join(lines) + "\n")
    assert {name: read_run(runs[0]).newest[name] for name in newest} == newest


def test_a_name_with_an_impossible_date_is_no_error(runs):
    folder = runs[0].with_name("puffer_cartpole_99999999_999999_000000_00000000")
    runs[0].rename(folder)
    assert read_run(folder).begun is not None


def test_labels_tell_runs_apart(runs):
    found = labels([read_run(folder) for folder in runs])
    assert list(found.values()) == ["learning_rate=0.01", "learning_rate=0.02 aaaa0002", "learning_rate=0.02 aaaa0003"]


def test_long_labels_are_cut_at_a_setting(runs):
    made_run("experiments", "mine", gamma=0.5, gae_lambda=0.5, clip_coef=0.5, vf_coef=0.125, ent_coef=0.25)
    found = labels([read_run(runs[0]), read_run(runs[0].with_name("puffer_cartpole_mine"))])
    text, _, end = found[runs[0].with_name("puffer_cartpole_mine")].partition(" ...")
    assert end == "" and 20 < len(text) <= 48 and all("=" in word for word in text.split())
