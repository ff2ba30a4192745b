"""Every fault that a run must survive: what it says and leaves, how soon, and how it goes on.

    python bench/faults.py                              all, into results/faults.csv
    python bench/faults.py --broken                     the same by code that is broken on purpose: it must be noticed
    python bench/faults.py "worker killed" damage       those whose names have one of these words

A row is a case; of signals at random moments, and of damaged checkpoints, it is all of one kind. The exit code is 1
where one was not survived, or, with --broken, not noticed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "faults"), str(TESTS / "pufferlib")]

import damage_cases  # noqa: E402
import disk_cases  # noqa: E402
import limit_cases  # noqa: E402
import output_cases  # noqa: E402
import signal_cases  # noqa: E402
import worker_cases  # noqa: E402
from fault_case import Case, Fault, Outcome, survive  # noqa: E402
from record import append, commit, machine  # noqa: E402

LIMIT_SECONDS = 5.0  # from the fault to the message
ROOMS = (worker_cases, disk_cases, signal_cases, limit_cases, output_cases)


@dataclass(frozen=True)
class Row:
    """One line of results/faults.csv."""

    date: str  # UTC
    machine: str
    commit: str
    case: str
    times: int  # how often it was tried
    survived: str  # `yes`, `no: ` with what fell short, or `skipped: ` with the reason
    message: str  # the sentence on stderr; of many the last one
    seconds: float | None  # from the fault to it, or to the end of a run that ends silently; of many the longest
    left_behind: str
    went_on: str
    broken_by: str  # with --broken: the saboteur
    noticed: str  # and what the case noticed it by; `no` where it did not
    command: str


@dataclass(frozen=True)
class Trial:
    """What is run for one row.

    Attributes:
        name: of the case, or of several.
        run: each part, in a folder, by a saboteur or by none.
        saboteurs: with what each must be noticed by.
        obstacle: why it cannot be run here, or None.
    """

    name: str
    run: list[Callable[[Path, str | None], Outcome]]
    saboteurs: dict[str, Fault]
    obstacle: str | None = None


def trials(moments: int) -> Iterator[Trial]:
    """All of them, with signals of each kind at so many random moments."""
    for case in (case for room in ROOMS for case in room.CASES):
        yield Trial(case.name, [_runner(case)], case.saboteurs, case.obstacle())
    for name, cases in _kinds((*signal_cases.random_cases(moments), *signal_cases.start_cases(moments))).items():
        yield Trial(name, [_runner(case, is_real=False) for case in cases], {})  # hundreds of runs
    for name in damage_cases.FILES:
        yield Trial(f"damage: {name}", [_damager(name)], damage_cases.SABOTEURS)


def _kinds(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases by their names without what is drawn at random."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        signal, _, moment = case.name.partition(" after ")
        found.setdefault(f"{signal.rsplit(' ', 2)[0]} at random moments after {moment}", []).append(case)
    return found


def _runner(case: Case, is_real: bool = True) -> Callable[[Path, str | None], Outcome]:
    return lambda folder, saboteur: survive(case, folder, saboteur, LIMIT_SECONDS, is_real and saboteur is None)


def _damager(name: str) -> Callable[[Path, str | None], Outcome]:
    sizes = damage_cases.CUTS, damage_cases.FLIPS
    return lambda folder, saboteur: damage_cases.survive_damage(folder, name, *sizes, saboteur)


def outcomes_of(trial: Trial, saboteur: str | None) -> list[Outcome]:
    """Runs all parts of a trial, each in a folder of its own."""
    found = []
    for run in trial.run:
        with tempfile.TemporaryDirectory(prefix="puffer_fault_") as folder:
            found.append(run(Path(folder), saboteur))
    return found


def judged(row: Row, trial: Trial, saboteur: str | None) -> Row:
    """The row with what became of the trial."""
    outcomes = outcomes_of(trial, saboteur)
    complaints = [complaint for outcome in outcomes for complaint in outcome.complaints]
    noticed = [_told(fault, text) for fault, text in complaints if fault is trial.saboteurs.get(saboteur or "")]
    seconds = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    return replace(
        row,
        times=sum(outcome.times for outcome in outcomes),
        survived="yes" if not complaints else f"no: {_short('; '.join(str(outcome) for outcome in outcomes))}",
        message=_short(next((outcome.message for outcome in reversed(outcomes) if outcome.message), "")),
        seconds=round(max(seconds), 2) if seconds else None,
        left_behind=_short(", ".join(text for outcome in outcomes for text in outcome.left)) or "nothing",
        went_on=", ".join(sorted({outcome.resumed for outcome in outcomes})),
        broken_by=saboteur or "",
        noticed="" if saboteur is None else noticed[0] if noticed else "no",
    )


def _told(fault: Fault, text: str) -> str:
    """What a case noticed, without all that was said."""
    if fault is Fault.MESSAGE:
        return "message: another one"
    return _short(f"{fault.value}: {text.partition(': ')[0] if fault in (Fault.CODE, Fault.FILES) else text}")


def _short(text: str) -> str:
    """One line of at most 300 characters, without tracebacks, places and the numbers of runs and processes."""
    text = text.partition("Traceback (most recent")[0]
    line = re.sub(r"_\d{8}_\d{6}_\d{6}_\w{8}", "_RUN", " ".join(text.split()))
    line = re.sub(r"(process) \d+", r"\1 N", line)
    line = re.sub(r"(?<![\w.])(?:/[\w.@-]+)+/", "", line)
    return line if len(line) <= 300 else f"{line[:297]}..."


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="run the cases whose names have one of them")
    parser.add_argument("--broken", action="store_true", help="by code that is broken on purpose")
    parser.add_argument("--moments", type=int, default=30, help="random moments for each kind of signal")
    options = parser.parse_args(arguments)
    words, found = options.words, trials(options.moments)
    chosen = [trial for trial in found if not words or any(word in trial.name for word in words)]
    command = shlex.join(["python", "bench/faults.py", *arguments])
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    empty = Row(date, machine(), commit(), "", 0, "", "", None, "", "", "", "", command)
    is_fine = True
    for trial in chosen:
        row = replace(empty, case=trial.name)
        if trial.obstacle is not None:
            rows = [replace(row, survived=f"skipped: {trial.obstacle}")] if not options.broken else []
        else:
            rows = [judged(row, trial, each) for each in (trial.saboteurs if options.broken else (None,))]
        for each in rows:
            is_fine &= each.noticed != "no" if options.broken else not each.survived.startswith("no")
            told = f"{each.survived}, after {each.seconds} s: {each.message}"
            told = f"({each.broken_by}) noticed: {each.noticed}" if options.broken else told
            print(f"{each.case}, {each.times} times: {told}", flush=True)
        if rows:
            append("faults", rows)
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
