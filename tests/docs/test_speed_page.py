"""The page about speed says what the newest rows say."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="plots need pip install -e '.[plot]'")

from docs.pages import markdown, ocean, rows, speed  # noqa: E402

ROOT = Path(__file__).parents[2]
COLUMNS = "date,machine,commit,calibration,case,value,unit,command\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    source = tmp_path_factory.mktemp("source")
    shutil.copy(ROOT / "docs" / "speed.md", source)
    speed.write(source)
    for light in (source / "plots").glob("*-light.svg"):
        assert light.with_name(light.name.replace("light", "dark")).exists()
    return (source / "speed.md").read_text()


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of rows of one's own."""
    folder = tmp_path / "bench" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(rows, "RESULTS", folder)
    ocean.solve_rows.cache_clear()
    yield folder
    ocean.solve_rows.cache_clear()


def lines(page: str, beginning: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(f"| {beginning} |")]


@pytest.mark.slow
def test_every_place_is_filled(page):
    assert "<!-- rows:" not in page
    assert page.count("*Measured on ") == len(speed.PARTS)


@pytest.mark.slow
def test_stepping_is_what_the_newest_rows_say(page):
    last = {}
    with (rows.RESULTS / "env.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            last[row["case"]] = float(row["value"])
    cases = ("test_one_thread[{}]", "test_native[1-{}]", "test_native[2-{}]")
    for name in ("breakout", "snake", "tetris"):
        values = [markdown.count(last[case.format(f"puffer_{name}")]) for case in cases]
        assert f"| {name} | {' | '.join(values)} |" in page


@pytest.mark.slow
def test_solving_tells_every_seed_of_the_newest_commit(page):
    found = ocean.runs_by_seed(ocean.solve_rows("puffer_breakout"))
    seconds = markdown.span(run.seconds for run in found)
    (line,) = (line for line in lines(page, "breakout") if "score 800" in line)
    assert f"| {sum(run.is_solved for run in found)} of {len(found)} | {seconds} |" in line


@pytest.mark.parametrize("place", ["README.md", "docs/index.md"])
def test_the_short_tables_say_what_the_page_says(page, place):
    short = {
        "Breakout": "breakout",
        "Target, 8 agents": "target",
        "Drone": "drone",
        "Go on 7 x 7, with its opponent": "go",
    }
    text = (ROOT / place).read_text()
    for words, name in short.items():
        stepping, training, solving = ([cell.strip() for cell in line.split("|")[2:]] for line in lines(page, name)[:3])
        assert training[1].endswith("AMD") and solving[1].partition(" of ")[0] == solving[1].partition(" of ")[2]
        assert f"| {words} | {stepping[0]} | {training[0]} | {solving[2]} |" in text


def test_readme_says_how_fast_an_lstm_is(page):
    (line,) = lines(page, "an LSTM of 128")
    assert f", one pass over each batch | | {line.split('|')[-2].strip()} | |" in (ROOT / "README.md").read_text()


def test_policies_and_exports_are_what_the_newest_rows_say(page):
    values = {row.case: row.value for row in rows.newest(rows.read("train")) if row.unit == "steps/s"}
    lstm = " | ".join(markdown.count(values[f"test_by[{by}-lstm]"]) for by in speed.BY)
    assert f"| an LSTM of 128 | {lstm} |" in page
    (export,) = rows.newest(rows.read("export"))
    assert f"| exported agent: {export.case} | {markdown.count(export.value)} steps/s |" in page


def test_environments_with_nothing_set_are_told_by_seed(results, tmp_path):
    case = "Own-v1, seed {}, {}: {}"
    ours, theirs = "nothing set", "Stable-Baselines3 by its defaults"
    values = [
        (case.format(seed, who, what), value, unit)
        for seed, who, sampled in ((2, ours, 30), (1, ours, 20), (1, theirs, 10))
        for what, value, unit in (
            ("50 sampled episodes, mean", sampled, "return"),
            ("50 greedy episodes, mean", sampled + 1, "return"),
            ("steps", 1e5, "steps"),
            ("time", 7, "s"),
        )
    ]
    own = case.format(1, "ini withheld", "{}").replace("Own-v1", "puffer_own")
    values += [
        (own.format("1000 sampled episodes, mean"), 0.8, "perf"),
        (own.format("1000 greedy episodes, mean"), 0.9, "perf"),
        (own.format("threshold of its ini"), 0.95, "perf"),
        (own.format("steps"), 2e6, "steps"),
    ]
    values.append(("small, seed 1, perf >= 0.95: learnt, last mean", 0.99, "perf"))
    text = "".join(f'2030-01-01 00:00,m,c,1,"{case}",{value},{unit},c\n' for case, value, unit in values)
    (results / "defaults.csv").write_text(COLUMNS + text)
    told = speed.nothing_set(tmp_path)
    assert "| Own-v1 | PufferLib | 1, 2 | 100 k | 20.0, 30.0 | 21.0, 31.0 | 7.00 |" in told
    assert "| Own-v1 | Stable-Baselines3 | 1 | 100 k | 10.0 | 11.0 | 7.00 |" in told
    assert "| own | perf 0.95 | 1 | 2.00 M | 0.800 | 0.900 |" in speed.ini_withheld(tmp_path)
    assert "small" not in told and "puffer_own" not in told and "Own" not in speed.defaults(tmp_path)


def test_a_row_of_no_known_table_is_an_error(results, tmp_path):
    (results / "defaults.csv").write_text(f'{COLUMNS}2030-01-01 00:00,m,c,1,"other, seed 1: time",1,s,c\n')
    with pytest.raises(ValueError, match="found 'other, seed 1: time'"):
        speed.defaults(tmp_path)


def test_a_row_that_is_added_changes_the_page(results, tmp_path):
    shutil.copytree(ROOT / "bench" / "results", results, dirs_exist_ok=True)
    with (results / "interop.csv").open("a") as file:
        file.write('2030-01-01 00:00,"Machine, 2 cores",abc,20,test_steps[ours-64],123456789,steps/s,a new command\n')
    text = speed.interop(tmp_path)
    assert "| `make_gymnasium_vec` | 64 | steps alone | 123 M |" in text and "a new command" in text


def test_what_the_prose_says_of_machines_is_true_of_every_row():
    """The page says: no GPU, no more than two cores. A row that says otherwise is to be told on the page."""
    for path in rows.RESULTS.glob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                assert re.search(r", [12] cores$", row["machine"]), f"{path.name}: {row['machine']}"
                assert "cuda" not in row.get("case", "").lower(), f"{path.name}: {row['case']}"


def test_the_version_before_a_change_is_not_the_newest_though_it_was_measured_later(results):
    (results / "one.csv").write_text(
        f"{COLUMNS}2026-01-01 10:00,m,old,1,case,1,s,c\n2026-01-01 10:01,m,new,1,case,2,s,c\n"
        "2026-01-01 10:02,m,new+,1,case,3,s,c\n2026-01-01 10:03,m,old+,1,case,4,s,c\n"
    )
    (row,) = rows.newest(rows.read("one"))
    assert (row.commit, row.value) == ("new+", 3.0)
    assert [row.value for row in rows.of_the_newest_commit(rows.read("one"))] == [3.0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "bench/results/one.csv: expected a file of rows, found none"),
        ("", "bench/results/one.csv: expected rows, found none"),
        (COLUMNS, "bench/results/one.csv: expected rows, found none"),
        ("date,value\n2026-01-01,1\n", "bench/results/one.csv: expected the columns of bench/record.py"),
        (f"{COLUMNS}2026-01-01 10:00,m,c,1,case,fast,s,c\n", "expected the columns of bench/record.py"),
    ],
)
def test_missing_or_other_rows_are_an_error_of_one_sentence(results, text, sentence):
    if text is not None:
        (results / "one.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence) as raised:
        rows.read("one")
    assert "\n" not in str(raised.value)


def test_a_page_without_a_place_is_refused(tmp_path):
    text = (ROOT / "docs" / "speed.md").read_text()
    (tmp_path / "speed.md").write_text(text.replace("<!-- rows: drawing -->", ""))
    with pytest.raises(ValueError, match="drawing"):
        speed.write(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"),
    [(61060000, "61.1 M"), (429600, "430 k"), (999900, "1.00 M"), (1410, "1.41 k"), (0.0297, "0.0297"), (350, "350")],
)
def test_numbers_have_three_digits(value, text):
    assert markdown.count(value) == text


def test_a_span_names_its_unit_once():
    assert markdown.span([655e3, 721e3]) == "655 to 721 k"
    assert markdown.span([721e3, 1.18e6]) == "721 k to 1.18 M"
    assert markdown.span([2.0, 2.001]) == "2.00"
