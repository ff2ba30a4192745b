"""The page is what the rows say, and says so when it is not."""

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def reliability(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    import reliability

    return reliability


def test_the_page_is_what_the_rows_say(reliability):
    assert reliability.PAGE.read_text() == reliability.page(), "run python bench/reliability.py"


@pytest.fixture
def results(reliability, tmp_path, monkeypatch):
    monkeypatch.setattr(reliability, "RESULTS", tmp_path)
    return tmp_path


def test_the_newest_row_of_a_case_counts(reliability, results):
    (results / "fuzz.csv").write_text(
        "date,machine,target,executions,done,unit,edges,crashes\n"
        "2026-01-01 10:00,one,play/a,5,10000000,environment steps,7,1\n"
        "2026-01-02 10:00,two,play/b,5,10000000,environment steps,7,0\n"
        "2026-01-03 10:00,two,play/a,6,10000001,environment steps,8,0\n"
    )
    lines = reliability.fuzzing()
    assert "*2026-01-02 to 2026-01-03, two.*" in lines
    assert "| play/a | 6 | 10,000,001 environment steps | 8 | 0 |" in lines
    assert len([line for line in lines if line.startswith("| play/")]) == 2


def test_the_first_lines_count_what_was_found(reliability, results):
    head = "date,machine,case,times,survived,message,seconds,left_behind,went_on,broken_by,noticed\n"
    (results / "faults.csv").write_text(
        head + "2026-01-01,m,a,2,yes,,1,nothing,,,\n2026-01-01,m,b,3,no: it hangs,,1,process 3,,,\n"
        "2026-01-01,m,c,0,skipped: no GPU,,,,,,\n2026-01-01,m,a,1,yes,,1,nothing,,x,it hangs\n"
        "2026-01-01,m,b,1,yes,,1,nothing,,x,\n"
    )
    lines = reliability.summary()
    assert "- **Faults**: 2 of them, 5 times in all; not survived: 1; something left behind: 1." in lines
    assert any("of 2 mistakes put into the code for a fault to find 1 were noticed" in line for line in lines)
    assert any(line.endswith("Skipped: c.") for line in lines)


def test_without_rows_it_says_so_and_cells_cannot_break_out(reliability, results):
    assert "*No rows.*" in reliability.faults()
    assert reliability.table(("a",), [("x | <b>",)])[-1] == "| x \\| &lt;b> |"
