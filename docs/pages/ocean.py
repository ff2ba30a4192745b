"""The chapter about Ocean: a page for each environment, made of its header, its class, its ini and its rows."""

from __future__ import annotations

import functools
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from pufferlib import ocean
from pufferlib.config import env_settings, load_config
from pufferlib.config.configuration import policy_classes, read_ini
from pufferlib.config.sections import SECTIONS
from pufferlib.environment import Keys, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.play.environments import space_text, what_it_is
from pufferlib.setting import Setting, class_settings, format_value

from . import games, manual, plots, rows
from .markdown import count, escaped, figure, measured, span, table
from .rows import Row

ROOT = Path(__file__).parents[2]
OCEAN = ROOT / "ocean"
TITLE = re.compile(r"(.+?)(?:: |, | against )")
RANGE = re.compile(r"(?:from (\S+) to (\S+?)|of (at least \S+?)), got")
GALLERY = re.compile(r"<!-- (?P<name>gallery|diagnostics|table) -->.*?<!-- end of (?P=name) -->", re.DOTALL)
DIAGNOSTIC = "; a test "  # in what every diagnostic is
CURVE = re.compile(r" at (\d+) steps$")
MOST_KEYS = 12  # a table of more is told in a sentence
LOGGED = {
    "perf": "how well an episode went, 0 to 1",
    "score": "the same in the game's own points",
    "episode_return": "the sum of an episode's rewards",
    "episode_length": "its steps",
}


@dataclass(frozen=True)
class Facts:
    """What a page tells of an environment that was made by its ini."""

    name: str
    title: str
    words: str
    observation: gymnasium.spaces.Space
    action: gymnasium.spaces.Space
    agents: int
    keys: Keys | None
    logged: tuple[str, ...]
    config: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """Its name without the prefix."""
        return self.name.removeprefix(ocean.PREFIX)

    @property
    def is_diagnostic(self) -> bool:
        """Whether it is there to test trainers."""
        return DIAGNOSTIC in self.words


def write(source: Path, has_pictures: bool, repository: str) -> None:
    """Writes the chapter into a copy of docs/.

    Args:
        source: the copy, in which `ocean/index.md` lies.
        has_pictures: whether environments are drawn.
        repository: the address of the repository, for links to its files.

    Raises:
        ValueError: if a header has no manual, or one that leaves out a part.
    """
    folder = source / "ocean"
    everything = [facts(name) for name in ocean.names()]
    if has_pictures:
        games.make_all(ocean.names())
    for one in everything:
        (folder / f"{one.folder}.md").write_text(page(one, folder, has_pictures, repository))
    if has_pictures:
        copy_stills(everything, folder)
    index = folder / "index.md"
    index.write_text(with_gallery(index.read_text(), everything, has_pictures))


@functools.cache
def facts(name: str) -> Facts:
    """What is true of an environment, asked of one that is made."""
    config = load_config(name)
    env = ocean.env_class(name)(**{**config["env"], "num_envs": 1})
    try:
        return Facts(
            name=name,
            title=title_of(name),
            words=what_it_is(name),
            observation=env.single_observation_space,
            action=env.single_action_space,
            agents=env.num_agents,
            keys=getattr(env, "keys", None),
            logged=logged_by(env),
            config=config,
        )
    finally:
        env.close()


def title_of(name: str) -> str:
    """What a person calls it: the beginning of its module's docstring."""
    module = ocean.env_class(name).__module__
    path = OCEAN / name.removeprefix(ocean.PREFIX) / f"{module.rpartition('.')[2]}.py"
    found = TITLE.match(path.read_text().removeprefix('"""'))
    if found is None:
        raise ValueError(f"{manual.place(path)}: expected a docstring like `Name: what it is.`, found none; write it")
    return found[1]


def logged_by(env: PufferEnv) -> tuple[str, ...]:
    """The numbers that it reports of episodes, beside how many they were."""
    if hasattr(env, "binding"):
        return tuple(name for name in env.binding.vec_log(env.handle) if name != "n")
    env.reset(0)
    env.action_space.seed(0)
    for _ in range(1000):
        *_, infos = env.step(env.action_space.sample())
        for info in infos:
            return tuple(name for name in info if name in LOGGED)
    raise ValueError(f"{type(env).__name__}: expected statistics of an episode within 1000 steps, found none")


# ------------------------------------------------------------------------------------------------------------ a page


def page(one: Facts, folder: Path, has_pictures: bool, repository: str) -> str:
    """One environment, as Markdown."""
    words, rules = manual_of(one)
    place = f"{repository}/blob/main/ocean/{one.folder}/{one.folder}"
    source = ".h" if (OCEAN / one.folder / f"{one.folder}.h").exists() else ".py"
    parts = [
        f"# {one.title}\n",
        f"{words}\n",
        moving_picture(one, folder) + games.place(one.name, folder.parent, "../") if has_pictures else "",
        f"`{one.name}`: [its rules]({place}{source}), [its class]({place}.py), [its settings]({place}.ini).\n",
        "## Train, watch, play\n",
        commands(one),
        "## Rules\n",
        f"{rules}\n",
        "## What it sees and does\n",
        spaces(one),
        "## Arguments\n",
        arguments(one),
        "## What it logs\n",
        logs(one),
        "## Settings of its own\n",
        settings(one),
        "## Speed\n",
        speed(one),
        "## Learning\n",
        curve(one, folder),
        learning(one, folder),
    ]
    return "\n".join(parts)


def manual_of(one: Facts) -> tuple[str, str]:
    """Its manual, from its header or, in Python, its module."""
    header = OCEAN / one.folder / f"{one.folder}.h"
    return manual.of_header(header) if header.exists() else manual.of_docstring(header.with_suffix(".py"))


def moving_picture(one: Facts, folder: Path) -> str:
    """A clip of its agent, or of actions by chance where it has none, laid beside the page."""
    from .clips import clip

    shutil.copyfile(clip(one.name).moving, folder / f"{one.folder}-moving.webp")
    player = "its trained agent plays" if pretrained_file(one.name) else "moves by chance in"
    return f"```{{image}} {one.folder}-moving.webp\n:alt: {player} {one.title}\n```\n"


def commands(one: Facts) -> str:
    """What to type."""
    window = "<!-- not run: it opens a window -->"
    play = f"It is played by {keys_told(one)}.\n\n{window}\n```bash\npuffer play {one.name}\n```\n" if one.keys else ""
    return f"""```bash
puffer train {one.name}
```

trains an agent and leaves it in `experiments/`. {watching(one)}

{play}"""


def watching(one: Facts) -> str:
    """How to see an agent play, the one that comes with the package where there is one."""
    window = "<!-- not run: it opens a window -->"
    if pretrained_file(one.name) is None:
        return f"""No trained agent comes with it yet; the newest of your own plays in a window:

<!-- not run: it needs a training, and opens a window -->
```bash
puffer eval {one.name} --load-model-path latest
```"""
    return f"""The one that comes with the package plays in a window, or without one
prints its scores alone:

{window}
```bash
puffer eval {one.name} --pretrained
```

```bash
puffer eval {one.name} --pretrained --headless --episodes 20
```

{trained_agent(one)}"""


def keys_told(one: Facts) -> str:
    """The keys for a person, with what they do."""
    keys = {chord: action for chord, action in one.keys.actions.items() if "+" not in chord}
    if not keys or len(one.keys.actions) > MOST_KEYS:
        told = "keys that its window names"
    else:
        told = ", ".join(f"{key} ({action_text(action)})" for key, action in keys.items())
    return f"{told}, a step for each key" if one.keys.waits else told


def action_text(action: Any) -> str:
    """An action's numbers."""
    return ", ".join(f"{number:g}" for number in np.ravel(action))


def trained_agent(one: Facts) -> str:
    """How good the one of the package is."""
    found = json.loads(pretrained_file(one.name).read_text())
    metric = one.config["solve"]["metric"]
    parts = []
    for kind, words in (("greedy", "likeliest actions"), ("sampled", "drawn actions")):
        score = found["score"][kind][metric]
        parts.append(
            f"{metric} {score['mean']:.4g} with the {words} (standard error {score['standard_error']:.2g}, "
            f"{score['episodes']:,} episodes)"
        )
    return f"It was trained for {count(found['steps'])} steps from seed {found['seed']} and reaches {', '.join(parts)}."


def pretrained_file(name: str) -> Path | None:
    """Where it is said what is known of the agent that comes with it; None where none does."""
    path = OCEAN / name.removeprefix(ocean.PREFIX) / "pretrained.json"
    return path if path.exists() else None


def spaces(one: Facts) -> str:
    """Agents, observation, action and goal as a table."""
    solve = one.config["solve"]
    return table(
        ("", ""),
        [
            ("agents in one environment", str(one.agents)),
            ("observation", f"`{space_text(one.observation)}`{bounds(one.observation)}"),
            ("action", f"`{space_text(one.action)}`{bounds(one.action)}"),
            ("counts as solved at", f"a mean {solve['metric']} of {solve['threshold']:g}"),
        ],
    )


def bounds(space: gymnasium.spaces.Space) -> str:
    """What a Box lies within, behind a comma."""
    if not isinstance(space, gymnasium.spaces.Box):
        return ""
    low, high = float(space.low.min()), float(space.high.max())
    return f", {number(low)} to {number(high)}"


def number(value: float) -> str:
    """A bound; the largest float is as good as none."""
    if abs(value) >= np.finfo(np.float32).max:
        return "-∞" if value < 0 else "∞"
    return f"{value:.6g}"


def arguments(one: Facts) -> str:
    """`[env]`: what its class takes."""
    lines = [
        (
            f"`{name}`",
            f"`{format_value(one.config['env'].get(name, setting.default))}`; {range_of(one, setting)}",
            escaped(meaning_of(one, setting)),
        )
        for name, setting in env_settings(one.name).items()
    ]
    own = next((name for name in env_settings(one.name) if name not in ("num_envs", "report_interval")), "num_envs")
    example = f"{env_settings(one.name)[own].flag} {format_value(one.config['env'].get(own, 8))}"
    if own == "num_envs":
        example = "--env.num-envs 256"
    return f"As `{example}` on the command line, or in `[env]` of an ini.\n\n" + table(
        ("argument", "default; range", "meaning"), lines
    )


def meaning_of(one: Facts, setting: Setting) -> str:
    """What an argument means, without the range that stands beside it."""
    found = range_of(one, setting)
    return setting.meaning.removesuffix(".").removesuffix(f", {found}") + "."


def range_of(one: Facts, setting: Setting) -> str:
    """The values that an argument takes, asked of the environment: what it says of one that it refuses."""
    if setting.kind is bool:
        return "True, False"
    try:
        ocean.env_class(one.name)(**{**one.config["env"], "num_envs": 1, setting.name: -1}).close()
    except APIUsageError as error:
        found = RANGE.search(str(error))
        if setting.kind is str:
            return re.search(r"must be (.+), got", str(error))[1].replace("'", "`")
        if found:
            return found[3] or f"{found[1]} to {found[2]}"
        if "at least 1" in str(error):
            return "at least 1"
    raise ValueError(f"{one.name}: expected -1 to be refused for {setting.name} with its range, found it was not")


def logs(one: Facts) -> str:
    """The numbers that it reports of episodes."""
    unknown = set(one.logged) - set(LOGGED)
    meanings = {**LOGGED, **dict.fromkeys(unknown, "see the rules")}
    return (
        "Means over the episodes that ended, with `n`, how many those were. The rules say what its perf and score "
        "are.\n\n" + table(("name", "meaning"), [(f"`{name}`", meanings[name]) for name in one.logged])
    )


def settings(one: Facts) -> str:
    """What its ini changes of the defaults."""
    changed = [
        (f"`[{section}] {key}`", f"`{format_value(value)}`", f"`{format_value(default)}`")
        for section, key, value, default in differences(one)
    ]
    return table(("setting", "here", "default"), changed)


def differences(one: Facts) -> list[tuple[str, str, Any, Any]]:
    """Section, key, value and default of all settings that its ini changes."""
    found = []
    policy, recurrent = policy_classes(one.config)
    for section, texts in read_ini(ocean.config_path(one.name)).items():
        if section in ("env", "solve") or section.startswith("sweep"):
            continue
        if section in ("policy", "rnn"):
            known = class_settings(section, policy if section == "policy" else recurrent)
            values = one.config[section]
        else:
            known = SECTIONS[section].settings()
            values = one.config if section == "base" else one.config[section]
        found += [(section, key, values[key], known[key].default) for key in texts if values[key] != known[key].default]
    return found


# ------------------------------------------------------------------------------------------------------------ figures


def speed(one: Facts) -> str:
    """The newest rows of steps alone, and of training."""
    steps, training = steps_rows(one.name), training_rows(one.name)
    lines = [(words, f"{count(row.value)}") for words, row in steps.items()]
    text = ""
    if lines:
        text += "Steps of all agents a second, 4,096 agents together, with random actions:\n\n"
        text += table(("stepped by", "steps/s"), lines) + "\n" + measured(steps.values()) + "\n"
    else:
        text += "It is written in Python, so there is no row of its steps alone.\n\n"
    if training:
        text += (
            f"Training, environment, policy and updates together: {span(row.value for row in training)} steps/s.\n\n"
        )
        text += measured(training) + "\n"
    return text + "[How fast](../speed.md) says what was timed, and compares all of them.\n"


def steps_rows(name: str) -> dict[str, Row]:
    """The newest rows of bench/env.py, by what stepped."""
    found = {row.case: row for row in rows.newest(rows.read("env"))}
    cases = {
        "`env.step`, one thread": f"test_one_thread[{name}]",
        "the Native backend, one thread": f"test_native[1-{name}]",
        "the Native backend, two threads": f"test_native[2-{name}]",
    }
    return {words: found[case] for words, case in cases.items() if case in found}


def training_rows(name: str) -> list[Row]:
    """The newest row of bench/train.py, or where there is none what the runs until it was solved came to."""
    case = f"test_train[{name}-cpu]"
    found = [row for row in rows.newest(rows.read("train")) if row.case == case and row.unit == "steps/s"]
    return found or [row for row in solve_rows(name) if row.unit == "steps/s"]


def learning(one: Facts, folder: Path) -> str:
    """How long until it is solved, by seed."""
    found = solve_rows(one.name)
    solve = one.config["solve"]
    goal = f"{solve['metric']} {solve['threshold']:g}"
    if not found:
        return f"No row says yet how long it takes to reach a mean {goal}.\n"
    seeds = runs_by_seed(found)
    number_solved = sum(run.is_solved for run in seeds)
    solved = [run for run in seeds if run.is_solved] or seeds
    words = f"the seconds and steps that each seed took until a mean {goal}"
    light, dark = plots.scatter(
        folder / "plots" / one.folder, [(run.seconds, run.steps, run.is_solved) for run in seeds], "seconds", "steps"
    )
    seconds = summary("seconds", [run.seconds for run in solved])
    steps = summary("steps", [run.steps for run in solved])
    arrived = f"from {number_solved} of {len(seeds)} seeds"
    return f"""Trained by its settings, it reached a mean {goal} over 1,000 episodes {arrived}:

{table(("", "fastest", "median", "slowest"), [seconds, steps])}
A dot for each seed, a cross for one that did not get there:

{figure(light, dark, folder, words)}
{measured(found)}"""


def curve(one: Facts, folder: Path) -> str:
    """The way to it, by seed."""
    found = curve_rows(one.name)
    if not found:
        return ""
    metric, goal = one.config["solve"]["metric"], one.config["solve"]["threshold"]
    runs: dict[int, list[tuple[float, float]]] = {}
    for row in found:
        runs.setdefault(row.seed, []).append((float(CURVE.search(row.case)[1]), row.value))
    light, dark = plots.curves(folder / "plots" / f"{one.folder}-curve", list(runs.values()), goal, "steps", metric)
    words = f"the mean {metric} over the steps of a training"
    lines = "A line for each seed" if len(runs) > 1 else "One seed"
    return f"""{lines}, the mean {metric} of the episodes that ended meanwhile; dashed, what counts as solved:

{figure(light, dark, folder, words)}
{measured(found)}"""


@functools.cache
def curve_rows(name: str) -> list[Row]:
    """Rows of bench/curves.py by the environment's own settings, of the newest commit that has some."""
    if not (rows.RESULTS / "curves.csv").exists():
        return []
    case = re.compile(rf"{name}, seed \d+, {load_config(name)['solve']['metric']} at \d+ steps$")
    return rows.of_the_newest_commit(
        row for row in rows.read("curves") if case.match(row.case) and " -- " not in row.command
    )


@dataclass(frozen=True)
class Run:
    """One training until the threshold, or until its minutes were over."""

    seed: int
    is_solved: bool
    seconds: float
    steps: float


def runs_by_seed(found: Iterable[Row]) -> list[Run]:
    """The runs that rows of bench/solve.py tell of."""
    values: dict[int, dict[str, float]] = {}
    is_solved: dict[int, bool] = {}
    for row in found:
        values.setdefault(row.seed, {})[row.unit] = row.value
        is_solved[row.seed] = ": not solved" not in row.case
    return [Run(seed, is_solved[seed], own["s"], own["steps"]) for seed, own in sorted(values.items())]


@functools.cache
def solve_rows(name: str) -> list[Row]:
    """Rows of bench/solve.py by the environment's own settings and threshold, of the newest commit that has some."""
    solve = load_config(name)["solve"]
    case = re.compile(rf"{name}, seed \d+, {solve['metric']} >= {solve['threshold']:g}: (?:not )?solved, ")
    return rows.of_the_newest_commit(
        row for row in rows.read("solve") if case.match(row.case) and " -- " not in row.command
    )


def summary(words: str, values: list[float]) -> tuple[str, ...]:
    """A line of a table: the least, the median, the most."""
    return (words, count(min(values)), count(float(np.median(values))), count(max(values)))


# ------------------------------------------------------------------------------------------------------------ gallery


def with_gallery(index: str, everything: list[Facts], has_pictures: bool) -> str:
    """The chapter's first page, with cards in the places that are marked for them.

    Raises:
        ValueError: if a place is missing.
    """
    games = [one for one in everything if not one.is_diagnostic]
    parts = {
        "gallery": "### One agent\n\n"
        + cards([one for one in games if one.agents == 1], has_pictures)
        + "\n### Several agents in one environment\n\n"
        + cards([one for one in games if one.agents > 1], has_pictures),
        "diagnostics": cards([one for one in everything if one.is_diagnostic], has_pictures),
        "table": overview(everything),
    }
    found = [match["name"] for match in GALLERY.finditer(index)]
    if sorted(found) != sorted(parts):
        raise ValueError(f"docs/ocean/index.md: expected the marked places {sorted(parts)}, found {sorted(found)}")
    names = "\n".join(one.folder for one in everything)
    return GALLERY.sub(lambda match: parts[match["name"]], index) + f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def cards(some: list[Facts], has_pictures: bool) -> str:
    """A grid of cards that lead to the pages."""
    found = []
    for one in some:
        image = f":img-top: {one.folder}.webp\n:img-alt: {one.title}\n" if has_pictures else ""
        found.append(
            f"```{{grid-item-card}} {one.title}\n:link: {one.folder}\n:link-type: doc\n{image}\n"
            f"{escaped(one.words.removeprefix(f'{one.title}: '))}\n```\n"
        )
    return "````{grid} 2 2 3 3\n:gutter: 2\n\n" + "\n".join(found) + "````\n"


def copy_stills(everything: Iterable[Facts], folder: Path) -> None:
    """Lays the pictures of the cards beside the pages."""
    from .clips import clip

    for one in everything:
        shutil.copyfile(clip(one.name).still, folder / f"{one.folder}.webp")


def overview(everything: Iterable[Facts]) -> str:
    """A table of all, as `puffer envs` prints it."""
    lines = [
        (
            f"[{one.folder}]({one.folder}.md)",
            f"`{space_text(one.observation)}`",
            f"`{space_text(one.action)}`",
            str(one.agents),
            f"{one.config['solve']['metric']} {one.config['solve']['threshold']:g}",
        )
        for one in everything
    ]
    return table(("environment", "observation", "action", "agents", "solved at"), lines)
