"""The page about speed: docs/speed.md, with tables and plots of the newest rows in its marked places."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pufferlib import ocean
from pufferlib.config import load_config

from . import plots, rows
from .markdown import count, figure, measured, span, table, three_digits
from .ocean import Run, runs_by_seed, solve_rows, steps_rows, training_rows
from .rows import Row

PLACE = re.compile(r"<!-- rows: (?P<name>[a-z_]+) -->")
IN_BRACKETS = re.compile(r"\[(.+)\]")
POLICIES = {"None": "two MinGRU layers of 64, its own", "lstm": "an LSTM of 128", "feedforward": "one layer of 128"}
BY = {"torch": "by torch", "kernel": "the kernel", "bfloat16": "the kernel, bfloat16"}

SMALL_TASK = r"(?P<case>[^,]+), seed \d+, (?P<goal>.+): (?:not )?learnt, (?P<what>.+)"
WITHHELD = "ini withheld"
AS_FUNCTION = (
    rf"(?P<case>[^,]+), seed \d+, (?P<who>nothing set|{WITHHELD}|Stable-Baselines3 by its defaults): (?P<what>.+)"
)
TRAINERS = {"nothing set": "PufferLib", "Stable-Baselines3 by its defaults": "Stable-Baselines3"}


def write(source: Path) -> None:
    """Fills the page in a copy of docs/.

    Raises:
        ValueError: if rows are missing, or the page has a place that nothing is known for, or lacks one.
    """
    page = source / "speed.md"
    text = page.read_text()
    found = [match["name"] for match in PLACE.finditer(text)]
    if sorted(found) != sorted(PARTS):
        wrong = sorted(set(found) ^ set(PARTS)) or "some twice"
        raise ValueError(f"docs/speed.md: expected a place for each of {sorted(PARTS)}, found other ones: {wrong}")
    page.write_text(PLACE.sub(lambda match: PARTS[match["name"]](source), text))


def stepping(folder: Path) -> str:
    """Steps of the environments alone."""
    found = {name: steps_rows(name) for name in ocean.names()}
    found = {name: steps for name, steps in found.items() if steps}
    lines = [(short(name), *(count(row.value) for row in steps.values())) for name, steps in found.items()]
    ordered = sorted(found, key=lambda name: -first(found[name]).value)
    words = "steps a second of every environment, one thread beside two"
    drawn = plots.points(
        folder / "plots" / "stepping",
        [short(name) for name in ordered],
        {
            "env.step, one thread": [first(found[name]).value for name in ordered],
            "the Native backend, two threads": [list(found[name].values())[-1].value for name in ordered],
        },
        "steps/s",
    )
    heads = ("environment", "`env.step`", "Native, 1 thread", "Native, 2 threads")
    every = [row for steps in found.values() for row in steps.values()]
    return f"{figure(*drawn, folder, words)}\n{table(heads, lines)}\n{measured(every)}"


def training(folder: Path) -> str:
    """Environment, policy and update together, by each environment's settings."""
    timed = {row.case for row in rows.read("train")}
    found = {name: training_rows(name) for name in ocean.names()}
    found = {name: own for name, own in found.items() if own}
    lines = [
        (
            short(name),
            count(statistics.median(row.value for row in own)),
            f"{'iterations' if own[0].case in timed else 'whole runs'}, {machine_of(own[0])}",
        )
        for name, own in found.items()
    ]
    every = [row for own in found.values() for row in own]
    return f"{table(('environment', 'steps/s', 'timed'), lines)}\n{measured(every)}"


def policies(folder: Path) -> str:
    """Breakout by three kinds of policy, computed in three ways."""
    found = {row.case: row for row in newest("train") if row.unit == "steps/s"}
    own = {(by, policy): found[f"test_by[{by}-{policy}]"] for by in BY for policy in POLICIES}
    lines = [(words, *(count(own[by, policy].value) for by in BY)) for policy, words in POLICIES.items()]
    ratios = [three_digits(own[by, "None"].value / own[by, "lstm"].value) for by in BY]
    lines.append(("MinGRU over LSTM", *(f"{ratio} x" for ratio in ratios)))
    drawn = plots.bars(
        folder / "plots" / "policies",
        list(POLICIES.values()),
        {words: [own[by, policy].value for policy in POLICIES] for by, words in BY.items()},
        "steps/s",
    )
    words = "steps of training a second by policy and by what computes it"
    heads = ("policy, steps/s", *BY.values())
    return f"{table(heads, lines)}\n{figure(*drawn, folder, words)}\n{measured(own.values())}"


def solving(folder: Path) -> str:
    """Seconds and steps until every environment is solved."""
    found: dict[str, list[Row]] = {name: solve_rows(name) for name in ocean.names()}
    runs: dict[str, list[Run]] = {name: runs_by_seed(own) for name, own in found.items() if own}
    lines = []
    for name, own in runs.items():
        solve, solved = load_config(name)["solve"], [run for run in own if run.is_solved]
        lines.append(
            (
                short(name),
                f"{solve['metric']} {solve['threshold']:g}",
                f"{len(solved)} of {len(own)}",
                span(run.seconds for run in solved or own),
                span(run.steps for run in solved or own),
            )
        )
    ordered = sorted(runs, key=lambda name: statistics.median(run.seconds for run in runs[name]))
    drawn = plots.dots(
        folder / "plots" / "solving",
        {short(name): [(run.seconds, run.is_solved) for run in runs[name]] for name in ordered},
        "seconds, a dot for each seed",
    )
    words = "seconds until each environment is solved, by seed"
    heads = ("environment", "mean", "seeds", "seconds", "steps")
    every = [row for own in found.values() for row in own]
    return f"{figure(*drawn, folder, words)}\n{table(heads, lines)}\n{measured(every)}"


def defaults(folder: Path) -> str:
    """Small tasks by the defaults alone."""
    cases = by_case("defaults", SMALL_TASK, AS_FUNCTION)
    lines = []
    for task, own in cases.items():
        learnt = {row.seed for row in own if ": learnt, " in row.case}
        reached = [row.value for row in own if "first reached" in row.case]
        last = [row.value for row in own if "last mean" in row.case]
        goal = re.search(r"seed \d+, (.+?): ", own[0].case)[1].replace("episode/return_mean", "return")
        lines.append(
            (
                task,
                goal.replace(">=", "≥"),
                f"{len(learnt)} of {len({row.seed for row in own})}",
                span(reached) if reached else "-",
                span(last),
            )
        )
    every = [row for own in cases.values() for row in own]
    return f"{table(('task', 'goal', 'seeds', 'reached after, steps', 'last mean'), lines)}\n{measured(every)}"


def nothing_set(folder: Path) -> str:
    """Environments that are given as functions, trained with nothing set."""
    lines, every = by_trainer(TRAINERS)
    names = list(dict.fromkeys(name for name, _ in lines))
    cells = [
        (
            name,
            TRAINERS[who],
            ", ".join(str(row.seed) for row in own["steps"]),
            span(row.value for row in own["steps"]),
            *(", ".join(three_digits(row.value) for row in of(own, kind)) for kind in ("sampled", "greedy")),
            span(row.value for row in own["time"]) if "time" in own else "-",
        )
        for (name, who), own in sorted(lines.items(), key=lambda item: names.index(item[0][0]))
    ]
    heads = ("environment", "trainer", "seeds", "steps", "return, drawn", "return, likeliest", "seconds")
    return f"{table(heads, cells)}\n{measured(every)}"


def ini_withheld(folder: Path) -> str:
    """Games of Ocean by their class, beside what their ini reaches."""
    lines, every = by_trainer([WITHHELD])
    cells = []
    for (name, _), own in sorted(lines.items()):
        sampled, threshold = of(own, "sampled"), own["threshold of its ini"][0]
        cells.append(
            (
                short(name),
                f"{sampled[0].unit} {threshold.value:g}",
                ", ".join(str(row.seed) for row in sampled),
                span(row.value for row in own["steps"]),
                *(", ".join(three_digits(row.value) for row in of(own, kind)) for kind in ("sampled", "greedy")),
            )
        )
    heads = ("environment", "its ini", "seeds", "steps", "nothing set, drawn", "nothing set, likeliest")
    return f"{table(heads, cells)}\n{measured(every)}"


def by_trainer(trainers: Iterable[str]) -> tuple[dict[tuple[str, str], dict[str, list[Row]]], list[Row]]:
    """The newest rows of some trainers: by environment and trainer, then by what is said, by seed; and all of them."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    every = []
    for row in sorted(newest("defaults"), key=lambda row: row.seed):
        match = re.fullmatch(AS_FUNCTION, row.case)
        if match and match["who"] in trainers and " -- " not in row.command:
            groups.setdefault((match["case"], match["who"]), {}).setdefault(match["what"], []).append(row)
            every.append(row)
    return groups, every


def of(own: Mapping[str, list[Row]], kind: str) -> list[Row]:
    """The rows of the final policy's episodes of a kind, `sampled` or `greedy`."""
    return next(found for what, found in own.items() if f" {kind} episodes" in what)


def others(folder: Path) -> str:
    """Environments of Gymnasium and others, trained by the published configuration of their family."""
    cases = by_case("learn", r"(?P<case>[^,]+), seed \d+(?:, [^:]+)?: (?P<what>.+)")
    lines = []
    for name, own in cases.items():
        values = {
            what: [row.value for row in own if row.case.endswith(f": {what}")] for what in ("steps", "throughput")
        }
        final = [row.value for row in own if "final policy" in row.case and row.case.endswith(", mean")]
        steps, speed = values["steps"], values["throughput"]
        lines.append((f"`{name}`", str(len(final)), span(final), span(steps), span(speed) if speed else "-"))
    every = [row for own in cases.values() for row in own]
    heads = ("environment", "seeds", "return of the final policy", "steps", "steps/s")
    return f"{table(heads, lines)}\n{measured(every)}"


def envpool(folder: Path) -> str:
    """EnvPool alone, and our vectors beside it."""
    ways = ("EnvPool", "ours", "ours, two batches", "without EnvPool", "trained")
    pattern = re.compile(rf"(?P<case>.+): (?P<way>{'|'.join(ways)})")
    found = [row for row in newest("envpool_vector") if row.unit == "steps/s"]
    rates: dict[str, dict[str, float]] = {}
    for row in found:
        if match := pattern.fullmatch(row.case):
            rates.setdefault(match["case"], {})[match["way"]] = row.value
    lines = []
    for case, own in rates.items():
        shares = (f"{count(own[way])} ({own[way] / own['EnvPool']:.2f})" if way in own else "-" for way in ways[1:])
        lines.append((case, count(own["EnvPool"]), *shares))
    heads = ("environment", "EnvPool alone", "our vector", "in two batches", "without EnvPool", "trained")
    return f"{table(heads, lines)}\n{measured(found)}"


def stable_baselines(folder: Path) -> str:
    """Stable-Baselines3's PPO and ours."""
    pattern = re.compile(r"(?P<env>[^,]+), (?P<who>.+), seed \d+, \d+ thread\(s\): (?P<what>.+)")
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    found = newest("stable_baselines")
    for row in found:
        match = pattern.fullmatch(row.case)
        if match is None:
            raise ValueError(
                f"bench/results/stable_baselines.csv: expected `environment, who, seed`, found {row.case!r}"
            )
        groups.setdefault((match["env"], match["who"]), {}).setdefault(match["what"], []).append(row.value)
    lines = []
    for (env, who), own in sorted(groups.items()):
        final = next(values for what, values in own.items() if what.startswith("final") and what.endswith("mean"))
        lines.append(
            (
                env,
                who.replace("pufferlib", "PufferLib"),
                str(len(final)),
                span(own["throughput"]),
                span(own["throughput by processor time"]),
                span(final),
            )
        )
    heads = ("environment", "trainer", "seeds", "steps/s", "steps/s of a processor", "return")
    return f"{table(heads, lines)}\n{highest_returns(groups)}\n\n{measured(found)}"


def highest_returns(groups: Mapping[tuple[str, str], Mapping[str, list[float]]]) -> str:
    """A sentence for each environment: whose final policies return most."""
    means: dict[str, dict[str, float]] = {}
    for (env, who), own in groups.items():
        final = next(values for what, values in own.items() if what.startswith("final") and what.endswith("mean"))
        means.setdefault(env, {})[who.replace("pufferlib", "PufferLib")] = statistics.mean(final)
    told = []
    for env, by in sorted(means.items()):
        best = [who for who, mean in by.items() if mean == max(by.values())]
        told.append(f"{env}: {'all return the same' if len(best) == len(by) else ' and '.join(best)}")
    return f"The highest mean return of the final policies: {'; '.join(told)}."


def other_trainers(folder: Path) -> str:
    """Trainers of others and ours, each in its own virtual environment."""
    pattern = r"(?P<case>[^,]+, [^,]+), seed \d+: (?P<what>.+)"
    cases = by_case("others", pattern)
    lines = []
    for name, own in sorted(cases.items()):
        values: dict[str, list[float]] = {}
        for row in own:
            what = re.fullmatch(pattern, row.case)["what"]
            values.setdefault("score" if what.startswith("score") else what, []).append(row.value)
        task, trainer = name.split(", ")
        columns = (span(values[what]) for what in ("throughput", "training", "start", "score"))
        lines.append((task, trainer, str(len(values["score"])), *columns))
    every = [row for own in cases.values() for row in own]
    heads = ("task", "trainer", "seeds", "steps/s", "training, s", "start, s", "score")
    return f"{table(heads, lines)}\n{measured(every)}"


def interop(folder: Path) -> str:
    """Cartpole through Gymnasium's interfaces."""
    found = newest("interop")
    names = {
        "ours": "`make_gymnasium_vec`",
        "ours, next step": "`make_gymnasium_vec`, reset in the next step",
        "Gymnasium's, NumPy": "Gymnasium's CartPole-v1, its vector in NumPy",
        "Gymnasium's, single": "Gymnasium's CartPole-v1, one by one",
    }
    lines = []
    for row in found:
        inner = IN_BRACKETS.search(row.case)[1]
        if row.case.startswith("test_steps"):
            kind, _, number = inner.rpartition("-")
            lines.append((names.get(kind, kind), number, "steps alone", count(row.value)))
        else:
            lines.append((names.get(inner, inner), "64", "a rollout of Stable-Baselines3's PPO", count(row.value)))
    heads = ("environment", "copies", "what is timed", "steps/s")
    return f"{table(heads, lines)}\n{measured(found)}"


def emulation(folder: Path) -> str:
    """What wrapping a Gymnasium environment adds."""
    found = newest("emulation")
    units = ("us a raw step", "us an emulated step", "us added by emulation")
    cases = list(dict.fromkeys(row.case for row in found))
    names = {"cart_pole": "CartPole-v1", "ThreeLevels": "observations of six parts in nested dicts, no work"}
    lines = []
    for case in cases:
        values = {row.unit: row.value for row in found if row.case == case}
        name = IN_BRACKETS.search(case)[1]
        lines.append((names.get(name, name), *(three_digits(values[unit]) for unit in units)))
    heads = ("environment", "alone, µs", "emulated, µs", "added, µs")
    return f"{table(heads, lines)}\n{measured(row for row in found if row.unit in units)}"


def workers(folder: Path) -> str:
    """Environments in Python, in worker processes."""
    found = newest("python_envs")
    busy = {row.case: row for row in found if row.unit == "of Serial's rate" and re.search(r"-\d+-\d+\]", row.case)}
    lines = []
    for row in busy.values():
        _, number, microseconds = IN_BRACKETS.search(row.case)[1].rsplit("-", 2)
        lines.append((f"{number} that wait {microseconds} µs a step", f"{three_digits(row.value)} x"))
    atari = [row for row in found if row.case.startswith("test_atari")]
    games = []
    for number in dict.fromkeys(IN_BRACKETS.search(row.case)[1].rpartition("-")[2] for row in atari):
        values = {IN_BRACKETS.search(row.case)[1].rpartition("-")[0]: row.value for row in atari
                  if row.case.endswith(f"-{number}]")}  # fmt: skip
        games.append((number, *(count(values[kind]) for kind in ("Serial", "Multiprocessing", "ale-py"))))
    return (
        table(("environments, two workers", "over Serial"), lines)
        + "\nPong by ale-py with the usual preprocessing, steps/s:\n\n"
        + table(("games", "Serial", "two workers", "ale-py's own vector"), games)
        + f"\n{measured([*busy.values(), *atari])}"
    )


def drawing(folder: Path) -> str:
    """Pictures a second."""
    found = newest("render")
    values: dict[str, dict[str, float]] = {}
    for row in found:
        name, _, kind = row.case.partition(", ")
        values.setdefault(name, {})[kind] = row.value
    lines = [(name, count(own["drawn"]), count(own["read"])) for name, own in sorted(values.items())]
    heads = ("environment", "drawn, pictures/s", "drawn and read back")
    read = [own["read"] for own in values.values()]
    return (
        f"Drawn and read back it is {count(min(read))} to {count(max(read))} pictures a second, "
        f"{count(statistics.median(read))} in the median of {len(read)} environments.\n\n"
        f"````{{dropdown}} Every environment\n{table(heads, lines)}````\n\n{measured(found)}"
    )


def small_things(folder: Path) -> str:
    """Exports, the start, memory, and several processes."""
    parts = (
        ("export", "", lambda row: (f"exported agent: {row.case}", f"{count(row.value)} {row.unit}")),
        ("start", "", lambda row: (row.case, f"{three_digits(row.value)} {row.unit}")),
        (
            "memory",
            "MB",
            lambda row: (f"memory, {short(IN_BRACKETS.search(row.case)[1])}", f"{row.value:g} {row.unit}"),
        ),
        ("distributed", "of ", lambda row: (f"training, {row.case}", f"{three_digits(row.value)} {row.unit}")),
    )
    lines, every = [], []
    for name, unit, line in parts:
        own = [row for row in newest(name) if row.unit.startswith(unit)]
        lines += [line(row) for row in own]
        every += own
    return f"{table(('what', 'value'), lines)}\n{measured(every)}"


PARTS: Mapping[str, Callable[[Path], str]] = {
    part.__name__: part
    for part in (
        stepping,
        training,
        policies,
        solving,
        defaults,
        nothing_set,
        ini_withheld,
        others,
        envpool,
        stable_baselines,
        other_trainers,
        interop,
        emulation,
        workers,
        drawing,
        small_things,
    )
}


def newest(name: str) -> list[Row]:
    """The newest row of each case of a file."""
    return rows.newest(rows.read(name))


def by_case(name: str, pattern: str, of_another_table: str = "(?!)") -> dict[str, list[Row]]:
    """The rows of a file by what a pattern finds as `case`, each by the newest commit that measured it.

    Args:
        name: of the file.
        pattern: of a case in full.
        of_another_table: of the cases that are left out; any other one is an error.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows.read(name):
        match = re.fullmatch(pattern, row.case)
        if match is None and re.fullmatch(of_another_table, row.case):
            continue
        if match is None:
            raise ValueError(f"bench/results/{name}.csv: expected a case like {pattern}, found {row.case!r}")
        if " -- " not in row.command:  # by settings of its own
            groups.setdefault(match["case"], []).append(row)
    return {case: rows.of_the_newest_commit(own) for case, own in groups.items()}


def first(found: Mapping[str, Row] | Iterable[Row]) -> Row:
    """The first one."""
    return next(iter(found.values() if isinstance(found, Mapping) else found))


def short(name: str) -> str:
    """An environment's name without the prefix."""
    return name.removeprefix(ocean.PREFIX)


def machine_of(row: Row) -> str:
    """The processor in two words."""
    return "AMD" if "AMD" in row.machine else "Intel" if "Intel" in row.machine else row.machine.split(",")[0]
