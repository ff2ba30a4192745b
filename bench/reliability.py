"""Writes docs/reliability.md from the newest rows of each case in results/: what was tried, and what came of it.

    python bench/reliability.py

The commands that made the rows stand above each table.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from record import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
HOLDINGS = ("threads", "children", "files", "shared_files", "megabytes")

TOP = """# Reliability

A library that runs other people's code for days must not crash, hang, corrupt or lose. Here is what that was tried
by, and what came of it. `python bench/reliability.py` writes this page from rows in
[bench/results](../bench/results); each table has the command that made its rows, and the newest row of each case
counts. What comes from strangers, and what is code, is told in [SECURITY.md](../SECURITY.md).
"""

Row = dict[str, str]


def newest(name: str, *keys: str, where: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """The last row of each case that a results file has, in the order in which cases came first."""
    path = RESULTS / f"{name}.csv"
    found: dict[tuple[str, ...], Row] = {}
    if path.exists():
        with path.open(newline="") as file:
            for row in filter(where, csv.DictReader(file)):
                found[tuple(row[key] for key in keys)] = row
    return list(found.values())


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; what would end a cell is escaped."""
    cells = [[text.replace("|", "\\|").replace("<", "&lt;") for text in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *cells)]


def section(title: str, text: str, rows: list[Row], *parts: list[str]) -> list[str]:
    """A heading, what was done, its tables, and when and where."""
    if rows:
        dates = sorted(row["date"][:10] for row in rows)
        told = f"*{' to '.join(sorted({dates[0], dates[-1]}))}, {rows[-1]['machine']}.*"
    else:
        told = "*No rows.*"
    return [f"## {title}", "", text.strip(), "", told, *(line for part in parts for line in ("", *part)), ""]


def number(text: str) -> str:
    """`1234567.0` as `1,234,567`."""
    return f"{float(text):,.0f}"


def folded(title: str, lines: list[str]) -> list[str]:
    """A long table, of which first its title alone is shown; both GitHub and the site can open it."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def summary() -> list[str]:
    """What was done and found, a line for each section, counted in the rows."""

    def total(rows: list[Row], key: str) -> str:
        return number(str(sum(float(row[key]) for row in rows)))

    checked = newest("sanitizers", "sanitizers", "compiler", "suite")
    fuzzed = newest("fuzz", "target")
    whole = newest("faults", "case", where=lambda row: not row["broken_by"])
    broken = newest("faults", "case", "broken_by", where=lambda row: bool(row["broken_by"]))
    skipped = [row["case"] for row in whole if row["survived"].startswith("skipped")]
    versions = newest("versions", "case")
    return [
        f"- **Sanitizers**: {total(checked, 'passed')} tests under them; reports: {total(checked, 'reports')}.",
        f"- **Fuzzing**: {total(fuzzed, 'executions')} inputs to {len(fuzzed)} targets; crashes: "
        f"{total(fuzzed, 'crashes')}.",
        f"- **Faults**: {len(whole) - len(skipped)} of them, {total(whole, 'times')} times in all; not survived: "
        f"{sum(row['survived'] != 'yes' for row in whole) - len(skipped)}; something left behind: "
        f"{sum(row['left_behind'] not in ('nothing', '') for row in whole)}.",
        f"- **Broken on purpose**: of {len(broken)} mistakes put into the code for a fault to find "
        f"{sum(bool(row['noticed']) for row in broken)} were noticed.",
        f"- **Versions**: {len(versions)} combinations of Python, torch, numpy, Gymnasium and compiler; tests failed: "
        f"{total(versions, 'failed')}.",
        f"- **Not on this page**: a real GPU, macOS, Windows. Skipped: {', '.join(skipped) or 'nothing'}.",
        "",
    ]


def sanitizers() -> list[str]:
    rows = newest("sanitizers", "sanitizers", "compiler", "suite")
    columns = [
        (row["sanitizers"], row["compiler"], row["suite"], number(row["passed"]), row["failed"], row["reports"])
        for row in rows
    ]
    text = """
`make sanitize` builds C, C++ and Cython under each sanitizer in a copy of the tree, and runs the suites of Python and
C that drive them. A report is what a sanitizer found; each sanitizer is also shown code that is wrong on purpose, and
must report it (`tests/bench/test_sanitize.py`).
"""
    heads = ("sanitizers", "compiler", "suite", "tests passed", "failed", "reports")
    return section("Sanitizers", text, rows, table(heads, columns))


def fuzzing() -> list[str]:
    rows = sorted(newest("fuzz", "target"), key=lambda row: row["target"])
    columns = [
        (row["target"], number(row["executions"]), f"{number(row['done'])} {row['unit']}", row["edges"], row["crashes"])
        for row in rows
    ]
    text = """
`python bench/fuzz.py --keep` (`make fuzz`) gives coverage-guided inputs to every environment under AddressSanitizer
and UndefinedBehaviorSanitizer (`play/`: arguments in and out of range, any bytes as actions, snapshots that are
damaged or forged), to every function of its binding (`calls/`), to the configuration and to the loading of
checkpoints. Beside crashes they look for observations outside their space, flags that are neither or both, rewards
that are not finite, snapshots that do not come back as they were, and errors that are no sentence. The inputs that
reached most are kept in `tests/fuzz/corpora.json`, and code that is broken on purpose must be found by them
(`tests/fuzz/test_broken_code_is_found.py`).
"""
    lines = table(("target", "inputs", "done", "edges reached", "crashes"), columns)
    return section("Fuzzing", text, rows, folded(f"{len(rows)} targets", lines))


def faults() -> list[str]:
    whole = newest("faults", "case", where=lambda row: not row["broken_by"])
    broken = newest("faults", "case", "broken_by", where=lambda row: bool(row["broken_by"]))
    columns = [
        (
            row["case"],
            number(row["times"]),
            row["survived"],
            row["seconds"],
            row["left_behind"],
            row["went_on"],
            row["message"],
        )
        for row in whole
    ]
    saboteurs = [(row["case"], row["broken_by"], row["noticed"]) for row in broken]
    text = """
`python bench/faults.py` starts the command line, does one thing to it, and looks at the exit code, the sentence on
stderr, the seconds until it came (5 are allowed), what is left behind (processes, shared memory, half files, locks),
and whether the run goes on to its end with the very weights of a run to which nothing happened.
"""
    heads = ("fault", "times", "survived", "seconds", "left behind", "went on", "what was said")
    broken_heads = ("fault", "broken by", "noticed by")
    broken_text = "The same with code that is broken on purpose, `python bench/faults.py --broken`: the case must fail."
    return [
        *section("Faults", text, whole, folded(f"{len(whole)} faults", table(heads, columns))),
        *section(
            "Faults, noticed in broken code",
            broken_text,
            broken,
            folded(f"{len(broken)} ways to break it", table(broken_heads, saboteurs)),
        ),
    ]


def versions() -> list[str]:
    rows = newest("versions", "case")
    names = ("case", "python", "torch", "numpy", "gymnasium", "compiler")
    columns = [(*(row[name] for name in names), number(row["passed"]), row["skipped"], row["failed"]) for row in rows]
    text = """
`python bench/versions.py` builds each case in a virtual environment of its own, with warnings as errors, and runs the
tests.
"""
    heads = (*names, "passed", "skipped", "failed")
    return section("Versions", text, rows, table(heads, columns))


def endurance() -> list[str]:
    rows = newest("soak", "case", where=lambda row: row["case"].endswith((" once caches are full", " at the end")))
    values: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        case, _, rest = row["case"].removeprefix("soak, ").partition(": ")
        name, _, moment = rest.partition(" ")
        values.setdefault(case, {}).setdefault(moment, {})[name] = f"{float(row['value']):g}"
    columns = [
        (case, moment, *(found.get(name, "") for name in HOLDINGS))
        for case, moments in values.items()
        for moment, found in moments.items()
    ]
    text = """
`python bench/soak.py --one-run --epochs 10_000` is one run; `--trainers 2016 --epochs 3` makes a trainer for every
five minutes of a week in one process, a quarter of them forgotten without being closed.
"""
    heads = ("what", "when", "threads", "children", "open files", "files in shared memory", "resident MB")
    return section("Endurance", text, rows, table(heads, columns))


def page() -> str:
    parts = (sanitizers(), fuzzing(), faults(), versions(), endurance())
    return "\n".join([TOP, *summary(), *(line for part in parts for line in part)]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
