"""Appends results to bench/results/<name>.csv: what was measured, where, when, and by which command.

    python bench/record.py env -- python -m pytest -n0 bench/env.py --benchmark-enable
    python bench/record.py train --case "breakout, cpu" --value 450000 --unit steps/s -- puffer train puffer_breakout

The first form runs the command, a pytest-benchmark suite, and writes a row per benchmark; the second writes down a
number that somebody read off the command's output. The calibration is the mean of one before and one after.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from calibrate import calibration

from pufferlib.machine import usable_cores

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One line of a results file."""

    date: str  # UTC
    machine: str  # CPU model and the cores this process may use
    commit: str  # with a + when the tree had changes
    calibration: float  # million visits per second, see calibrate.py
    case: str
    value: float
    unit: str
    command: str


def machine() -> str:
    """CPU model and usable cores, such as `AMD EPYC 9654, 2 cores`."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {usable_cores()} cores"


def commit() -> str:
    """The commit that is checked out; `unknown` in a copy without its history."""
    folder = Path(__file__).parent
    if not (folder.parent / ".git").exists():
        return "unknown"
    revision = subprocess.check_output(["git", "rev-parse", "--short=12", "HEAD"], cwd=folder, text=True).strip()
    changed = subprocess.check_output(["git", "status", "--porcelain", "--untracked-files=no"], cwd=folder, text=True)
    return revision + ("+" if changed.strip() else "")


def benchmark(command: list[str]) -> list[tuple[str, float, str]]:
    """Runs a pytest-benchmark suite; case, value and unit of every benchmark, from its median time."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([*command, f"--benchmark-json={report}"], check=True)
        benchmarks = json.loads(report.read_text())["benchmarks"]
    return [result for entry in benchmarks for result in measured(entry)]


def measured(entry: dict) -> list[tuple[str, float, str]]:
    """Steps a second where the benchmark says how many steps one round is, else seconds a round.

    Where it also says how many `operations` one step is and how many `operations_per_second` the machine does, their
    fraction is a second result; `values`, each with a unit, are results of their own.
    """
    name, median, extra = entry["name"], entry["stats"]["median"], entry["extra_info"]
    steps = extra.get("steps")
    results = [(name, steps / median, "steps/s") if steps else (name, median, "s")]
    if "operations" in extra:
        fraction = extra["operations"] * steps / median / extra["operations_per_second"]
        results.append((name, fraction, "of matmul rate"))
    return results + [(name, value, unit) for unit, value in extra.get("values", {}).items()]


def append(name: str, rows: Sequence[Any]) -> Path:
    """Adds rows, dataclasses of one class, to a results file, which begins with the names of its fields."""
    path = RESULTS / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    return path


def keep(
    name: str,
    results: list[tuple[str, float, str]],
    command: str,
    calibration_before: float,
    accelerator: str = "",
) -> None:
    """Appends a row for every case, value and unit that the command gave just now, with the accelerator it used."""
    where = (
        time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        ", ".join(filter(None, (machine(), accelerator))),
        commit(),
        round((calibration_before + calibration()) / 2, 2),
    )
    rows = [Row(*where, case, float(f"{value:.4g}"), unit, command) for case, value, unit in results]
    print(f"{len(rows)} row(s) added to {append(name, rows)} at calibration {where[3]}")


def tell(bench: str, results: list[tuple[str, float, str]], calibration_before: float, is_kept: bool) -> None:
    """Prints what a bench found that is run by itself, and keeps it with the command of this process if asked to."""
    for case, value, unit in results:
        print(f"{case}: {value:.4g} {unit}", flush=True)
    if is_kept:
        keep(bench, results, shlex.join(["python", f"bench/{bench}.py", *sys.argv[1:]]), calibration_before)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the results file, without .csv")
    parser.add_argument("--case", help="what was measured, when the command is no benchmark suite")
    parser.add_argument("--value", type=float)
    parser.add_argument("--unit")
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args(arguments)
    given = [option is not None for option in (options.case, options.value, options.unit)]
    if any(given) and not all(given):
        parser.error("expected all of --case, --value and --unit, or none of them")
    before = calibration()
    results = [(options.case, options.value, options.unit)] if all(given) else benchmark(options.command)
    keep(options.name, results, shlex.join(options.command), before)


if __name__ == "__main__":
    main(sys.argv[1:])
