"""Fuzzes for long: every environment's header and binding, the configuration, checkpoints.

    python bench/fuzz.py                                all targets: 10 million steps and a million calls each
    python bench/fuzz.py play calls/squared settings    kinds of targets, or single ones
    python bench/fuzz.py --keep --corpora               rows in results/fuzz.csv, and what was found as new corpora

`play/NAME` plays an environment under AddressSanitizer and UndefinedBehaviorSanitizer as libFuzzer's bytes say, with
snapshots damaged and forged; `calls/NAME` calls its binding with anything; `settings` and `checkpoint` read files in
Python, by Atheris. Targets begin with their committed inputs in tests/fuzz/corpora.json. An input that breaks something
is kept in the folder `fuzz-crashes`: `python bench/fuzz.py play/squared --input FILE` tries it again.

Needs clang, and `pip install -e '.[fuzz,test]'`; everything but those two targets does without Atheris.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import record

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "fuzz"), str(TESTS / "ocean")]  # where pytest finds these modules too

import fuzzers  # noqa: E402

CRASHES = Path("fuzz-crashes").absolute()
UNITS = {"play": "environment steps", "calls": "calls"}


@dataclass(frozen=True)
class FuzzRow:
    """One run of one target."""

    date: str  # UTC
    machine: str  # CPU model and the cores this process may use
    commit: str  # with a + when the tree had changes
    target: str
    executions: int  # inputs that were tried
    done: int
    unit: str  # of `done`
    served: int  # of the calls, those that were not refused
    edges: int  # reached of the instrumented code
    seconds: float  # of wall clock
    crashes: int
    command: str


def all_targets() -> list[str]:
    """The slow to fuzz last."""
    return [f"{mode}/{name}" for mode in UNITS for name in fuzzers.NAMES] + list(fuzzers.PYTHON_TARGETS)


def chosen_targets(words: list[str]) -> list[str]:
    targets = all_targets()
    chosen = [target for target in targets if not words or target in words or target.partition("/")[0] in words]
    unknown = [word for word in words if not any(word in (target, target.partition("/")[0]) for target in targets)]
    if unknown:
        raise SystemExit(f"there is no target {unknown[0]!r}; there are {', '.join(targets)}")
    return chosen


def command_of(target: str, folder: Path) -> list[str | Path]:
    """What runs a target; an environment's program is built in the folder once for both."""
    mode, _, name = target.partition("/")
    if not name:
        return fuzzers.python_command(target)
    program = folder / f"fuzz_{name}"
    if not program.exists():
        fuzzers.build(fuzzers.binding_of(name), fuzzers.facts_of(name), folder)
    return [program, f"--{mode}"]


def fuzz_one(target: str, folder: Path, options: argparse.Namespace) -> fuzzers.Outcome:
    """Fuzzes one target until its goal, or for as long as it may."""
    mode = target.partition("/")[0]
    goal = {"play": options.steps, "calls": options.calls}.get(mode)
    found = folder / "found" / target
    found.mkdir(parents=True)
    CRASHES.mkdir(exist_ok=True)
    seconds = 60 * (options.minutes if goal is not None else min(options.minutes, options.python_minutes))
    outcome = fuzzers.fuzz(
        command_of(target, folder),
        mode,
        None if goal is None else int(goal),
        corpora=[found, fuzzers.corpus_of(target, folder)],
        seconds=seconds,
        seed=options.seed,
        artifacts=CRASHES,
    )
    rate = outcome.done / max(outcome.seconds, 1e-9)
    print(
        f"{target}: {outcome.done:,} {UNITS.get(mode, 'executions')} of {outcome.executions:,} inputs in "
        f"{outcome.seconds:.0f} s ({rate:,.0f}/s), {outcome.edges} edges, {outcome.crash or 'nothing broke'}",
        flush=True,
    )
    return outcome


def row(target: str, outcome: fuzzers.Outcome) -> FuzzRow:
    return FuzzRow(
        date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        machine=record.machine(),
        commit=record.commit(),
        target=target,
        executions=outcome.executions,
        done=outcome.done,
        unit=UNITS.get(target.partition("/")[0], "executions"),
        served=outcome.served,
        edges=outcome.edges,
        seconds=round(outcome.seconds, 1),
        crashes=int(outcome.crash is not None),
        command=shlex.join(["python", "bench/fuzz.py", *sys.argv[1:]]),
    )


def renew_corpora(targets: list[str], folder: Path) -> None:
    """Puts the fewest inputs that reach as much in the place of the committed ones."""
    corpora = fuzzers.corpora()
    for name in {fuzzers.corpus_name(target) for target in targets}:
        target, *others = [target for target in targets if fuzzers.corpus_name(target) == name]
        merged = folder / "merged" / name
        merged.mkdir(parents=True)
        places = [folder / "corpus" / target, *(folder / "found" / each for each in (target, *others))]
        fuzzers.merge(command_of(target, folder), target.partition("/")[0], places, merged)
        corpora[name] = [file.read_bytes() for file in sorted(merged.iterdir())]
    fuzzers.save_corpora(corpora)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="all without one")
    parser.add_argument("--steps", type=float, default=10e6, help="environment steps of each play")
    parser.add_argument("--calls", type=float, default=1e6, help="calls of each binding")
    parser.add_argument("--minutes", type=float, default=10.0, help="after which a target ends short of its goal")
    parser.add_argument("--python-minutes", type=float, default=2.0, help="for each target in Python")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="targets side by side")
    parser.add_argument("--keep", action="store_true", help="append rows to results/fuzz.csv")
    parser.add_argument("--corpora", action="store_true", help="renew the committed corpora")
    parser.add_argument("--input", type=Path, help="a file to try on the one target that is named")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    targets = chosen_targets(options.targets)
    reasons = {target: fuzzers.missing(target) for target in targets}
    for target in [target for target in targets if reasons[target]]:
        print(f"{target}: left out, {reasons[target]}")
        targets.remove(target)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.input is not None:
            outcome = fuzzers.fuzz(command_of(targets[0], folder), "", corpora=[options.input])
            print(outcome.report)
            return int(outcome.crash is not None)
        with ThreadPoolExecutor(options.jobs) as pool:
            crashes = 0
            for target, outcome in zip(
                targets, pool.map(lambda each: fuzz_one(each, folder, options), targets), strict=True
            ):
                crashes += outcome.crash is not None
                if options.keep and outcome.executions > 0:  # what was killed from outside has told no numbers
                    record.append("fuzz", [row(target, outcome)])
        if options.corpora:
            renew_corpora(targets, folder)
    return int(crashes > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
