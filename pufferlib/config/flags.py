"""The flags of the command line: options of single commands, settings, and the help text."""

from __future__ import annotations

import difflib
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pufferlib.config.schema import ARGUMENTS, NAMES, BaseConfig, SweepConfig
from pufferlib.config.sections import DEFAULT_DIMENSIONS, PREFIX, dimension_keys, dimensions_of, section_settings
from pufferlib.errors import ConfigError, nearest
from pufferlib.families.catalog import Entry, find
from pufferlib.setting import Section, Setting, fits, format_value, parse_value, setting

PRETRAINED = "Take the trained agent that comes with the package."


@dataclass(frozen=True)
class EvalOptions(Section):
    """How `puffer eval` plays."""

    pretrained: bool = setting(False, PRETRAINED)
    opponent: str | None = setting(
        None,
        "The player of the other side, named as for puffer match; None leaves it to [env] opponent. Against any but "
        "bot, scores are of the policy's side, with its points of each game: 1, 0.5 or 0.",
    )
    episodes: int = setting(
        100,
        "Games to play until the command ends; each of several agents counts in the scores. Where agents begin and end "
        "apart, as in snake, an agent's episode is a game.",
        "[1, inf)",
    )
    deterministic: bool | None = setting(
        None, "True takes the policy's likeliest actions, as does None without --sample; False draws them."
    )
    sample: bool = setting(False, "Draw actions from the policy instead of taking the likeliest.")
    max_steps: int = setting(20_000, "Steps per episode, on average, after which the play is given up.", "[1, inf)")
    seed: int | None = setting(None, "Seed of environments and drawn actions; None is that of [train].", "[0, inf)")
    headless: bool = setting(False, "Play without a window.")
    video: str | None = setting(None, "Record into this file, .mp4 or .gif, instead of a window; needs no display.")
    window: bool = setting(False, "Show a window as well while a video is recorded.")
    grid: int = setting(1, "Environments in one picture, side by side.", "[1, 64]")
    panel: bool = setting(False, "Show what the agent sees and thinks beside the picture; in a window TAB does.")
    speed: float = setting(1.0, "Seconds of the game in one second of the window or video.", "[0.125, 64]")
    fps: float | None = setting(
        None,
        "Pictures a second; None is 60, or one for each step if the environment draws only its steps.",
        "[1, 240]",
    )

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest actions are taken; else they are drawn."""
        return not self.sample if self.deterministic is None else self.deterministic


@dataclass(frozen=True)
class PlayOptions(Section):
    """How a person plays."""

    speed: float = setting(1.0, "Seconds of the game in one second; each speed has its own high scores.", "[0.1, 10]")
    seed: int | None = setting(None, "Seed of the first game; None is a different game every time.", "[0, inf)")
    opponent: str | None = setting(
        None, "The player of the other side, named as for puffer match; None leaves it to [env] opponent."
    )
    side: Literal["first", "second"] = setting(
        "first", "Which of the agents you are, against an opponent; in Ocean's games chance decides who begins."
    )


@dataclass(frozen=True)
class SweepOptions(Section):
    """Short names of what `puffer sweep` takes from [sweep]; None is what that says."""

    storage: str | None = setting(None, "Where studies are kept; short for --sweep.storage.")
    study: str | None = setting(None, "The study's name; short for --sweep.study.")
    workers: int | None = setting(None, "Trials side by side; short for --sweep.workers.", "[1, 1024]")


@dataclass(frozen=True)
class BenchOptions(Section):
    """How `puffer bench` measures."""

    seconds: float = setting(2.0, "How long to time each row of the table.", "(0, inf)")


@dataclass(frozen=True)
class ExportOptions(Section):
    """The files that `puffer export` writes."""

    pretrained: bool = setting(False, PRETRAINED)
    format: Literal["onnx", "torchscript", "c", "web"] = setting(
        "onnx", "A file for ONNX or TorchScript, a folder of C, or a page that plays in a browser."
    )
    output: str | None = setting(None, "The file, or the folder; None is one here, named after the environment.")


@dataclass(frozen=True)
class RunsOptions(Section):
    """How `puffer runs` lists.

    The score is that of the final policy, over whole episodes; of an unfinished run it is the mean of the last log. Its
    metric is the one by which the environment counts as solved, such as perf, or else the return. The last column names
    the settings in which runs of one environment differ. `puffer plot RUN...` and `puffer report RUN` take the first.

    A run is running while a process writes to its folder, finished when it took all its steps and was saved, stopped
    when it ended early and what it learned was saved, and failed when it ended without saving that.
    """

    data_dir: str = setting("experiments", "The folder of the runs.")
    env: str | None = setting(None, "List only the runs of this environment.")
    sort: Literal["date", "score", "steps", "time"] = setting(
        "date", "What comes first: the newest, the best of each environment, the one with most steps, or the longest."
    )
    limit: int | None = setting(None, "How many to list at most.", "[1, inf)")


@dataclass(frozen=True)
class PlotOptions(Section):
    """How `puffer plot` draws.

    RUN is a path to the run's folder, its name, its id or the end of that as `puffer runs` shows it, `latest`, an
    environment for its latest run, or a pattern such as 'puffer_pong_*' for several.
    """

    metric: str | None = setting(
        None,
        "Names or patterns with commas between, such as environment/score,'losses/*'; performance is the time split. "
        "None takes score, returns, speed, losses and the time split.",
    )
    x: Literal["agent_steps", "uptime"] = setting("agent_steps", "What the curves are drawn over.")
    output: str | None = setting(
        None, "The picture, a .png, .svg or .pdf; None is one here, named after the run. Needs the extra plot."
    )
    terminal: bool = setting(False, "Draw on the terminal instead, which needs no extra.")
    data_dir: str = setting("experiments", "The folder of the runs.")


@dataclass(frozen=True)
class ProfileOptions(Section):
    """How `puffer profile` measures."""

    seconds: float = setting(10.0, "How long to measure, after a warm-up; the profiler comes after that.", "(0, inf)")
    output: str | None = setting(None, "The trace, a .json; None is one here, named after the environment.")


@dataclass(frozen=True)
class ReportOptions(Section):
    """The content of the page that `puffer report` writes.

    RUN is named as for `puffer plot`. The page is one file that loads nothing from the network. Curves need the extra
    plot, a video in mp4 the extra video.
    """

    output: str | None = setting(None, "The page, an .html; None is report.html in the run's folder.")
    episodes: int = setting(100, "Episodes to evaluate the newest and the best weights over; 0 for none.", "[0, inf)")
    video: bool = setting(True, "Show an episode; --no-video leaves it out.")
    data_dir: str = setting("experiments", "The folder of the runs.")


@dataclass(frozen=True)
class MatchOptions(Section):
    """How `puffer match` plays.

    PLAYER is a run's folder, a file of weights, an environment for the agent that comes with the package, `latest` or a
    run's id, `pretrained`, `bot` for the environment's own, or `random`. Agents draw their actions. Ratings are Elo's,
    those that explain all games best (Bradley and Terry), with intervals of 95 %; each pair counts one draw more.
    The game has the settings of the first file or run; `--env.NAME VALUE` sets another, as in `puffer eval`.
    """

    games: int = setting(200, "Games of each pair, half of them from each side.", "[1, 1e6]")
    env: str | None = setting(None, "The environment; None is that of the first file, or else of the first run.")
    output: str | None = setting(None, "A picture of the tables, a .png, .svg or .pdf. Needs the extra plot.")
    seed: int = setting(42, "Seed of the environments and of the actions.", "[0, inf)")
    data_dir: str = setting("experiments", "The folder of the runs.")


@dataclass(frozen=True)
class NewOptions(Section):
    """How `puffer new` copies the template.

    NAME is lower-case letters, digits and underscores: my_game makes ocean/my_game, the environment puffer_my_game.
    """

    build: bool = setting(True, "Compile it; --no-build leaves that to you.")


def options_of(command: str) -> type[Section]:
    """Returns the class of the flags that a command has besides the settings; Section where it has none."""
    return globals().get(f"{command.capitalize()}Options", Section)


_LABEL = re.compile(r"\[(\w+)\] (\w+)")  # of a setting, such as `[train] gamma`
FIXED = frozenset({"package", "env_name"})  # the environment's name on the command line says both

CONFIG_FILE = Setting(
    "",
    "config",
    str,
    None,
    "An ini of further settings, such as a sweep's best, or the config.json of a run: they come after those of the "
    "environment, before all flags.",
)

Found = list[tuple[Setting, Any]]
"""Settings and their checked values, in the order of the command line."""


class FlagTable:
    """The flags that a command takes: its own options, and the settings of its environment, where it has one.

    `--train.learning-rate`, `--train.learning_rate` and `--train.learning-rate=0.1` are the same; the keys of `[base]`
    go without a section: `--rnn-name LSTM`. Raises UnknownEnvironmentError if there is no such environment.
    """

    def __init__(self, env: str | Entry | None, command: str = "train"):
        self._command, self._entry = command, None if env is None else find(env)
        self._known = [*options_of(command).settings().values()]
        if self._entry is not None:
            self._known += [CONFIG_FILE, *(one for name, one in BaseConfig.settings().items() if name not in FIXED)]
            for section in ("vec", "train", "selfplay", "log", "env", "sweep"):
                self._known += section_settings(section, self._entry).values()
        self._settings = {_key(one.flag): one for one in self._known}
        self._settings |= {f"base.{one.name}": one for one in self._known if one.section == BaseConfig.section}

    def parse(self, tokens: Iterable[str], words: list[str] | None = None) -> Found:
        """Returns the settings and checked values that a command line holds, in its order.

        What is no flag is added to `words`; None allows none. With words a yes-or-no option takes no word that is
        neither: `--terminal latest` is an option and a word; and `--no-video` is `--video False`. Raises ConfigError if
        a flag is unknown, its value is missing or does not fit, or a word is not allowed.
        """
        waiting, found = list(tokens), []
        if words is not None:
            switches = [one.flag for one in self._known if _is_switch(one)]
            refusals = {f"--no-{flag.removeprefix('--')}": f"{flag}=False" for flag in switches}
            waiting = [refusals.get(token, token) for token in waiting]
        while waiting:
            token = waiting.pop(0)
            if words is None and not token.startswith("--"):
                raise ConfigError(f"expected a flag such as --train.seed 1, got {token!r}; the environment comes first")
            if not token.startswith("-"):
                words.append(token)
                continue
            flag, has_value, text = token.partition("=")
            setting = self._setting(flag)
            if not has_value:
                text = _take_value(setting, flag, waiting, words is not None)
            found.append((setting, setting.parse(text)))
        return found

    def _setting(self, flag: str) -> Setting:
        key = _key(flag)
        if key in self._settings:
            return self._settings[key]
        section, _, name = key.partition(".")
        if self._entry is None and self._command == "match" and section == "env" and name:
            return Setting(section, name)  # checked once the players say in what game
        if self._entry is not None and name:
            if section == SweepConfig.section and "." in name:
                return self._dimension_setting(flag, name)
            if section in ("policy", "rnn") or (section == "env" and self._entry.takes_any_setting):
                return Setting(section, name)  # checked when its class is loaded, or by the environment
        raise ConfigError(f"there is no flag {flag}{self._remedy(key)}")

    def _dimension_setting(self, flag: str, name: str) -> Setting:
        name, _, which = name.rpartition(".")
        try:
            settings = section_settings(f"{PREFIX}{name}", self._entry)
        except ConfigError as error:
            raise ConfigError(f"there is no flag {flag}: {error}") from error
        if which not in settings:
            raise ConfigError(f"there is no flag {flag}; --sweep.{name} has {', '.join(settings)}".replace("_", "-"))
        return settings[which]

    def _remedy(self, key: str) -> str:
        flag, flags = f"--{key}".replace("_", "-"), [one.flag for one in self._known]
        if self._entry is None:
            return nearest(flag, flags) or f"; there are {', '.join(sorted(flags)) or 'none'}"
        section, _, name = key.rpartition(".")
        if section not in ARGUMENTS and name in NAMES:
            return "; " + _LABEL.sub(lambda match: Setting(match[1], match[2]).flag, NAMES[name])
        same = [one.flag for one in self._known if one.name == name and one.section != SweepConfig.section]
        near = sorted(same, key=lambda flag: not flag.startswith("--train."))
        near = near or difflib.get_close_matches(flag, flags, n=1, cutoff=0.8)
        listed = f"; `puffer {self._command} {self._entry.name} --help` lists them all"
        found = f"; did you mean {' or '.join(map(repr, near))}?" if near else listed
        is_own = section == "env" and self._entry.family == "callable"
        return f"{found} (an argument without a default has no flag)" if is_own else found


def _is_switch(setting: Setting) -> bool:
    return setting.kind in (bool, bool | None)


def apply_flags(found: Iterable[tuple[Setting, Any]], args: dict[str, Any]) -> None:
    """Writes what `FlagTable.parse` found into the configuration, but for a command's own options.

    What would count in place of a setting is taken out by it: `num_iterations` by `[train] total_timesteps`, and by
    `num_minibatches` a `minibatch_size` that does not stand beside it. A recurrent layer takes minibatches of whole
    segments, unless `[train] shuffle` stands beside it: single steps have no order.
    """
    found = sorted(found, key=lambda pair: pair[0].name != "rnn_name")
    instead = {"total_timesteps": {"num_iterations": None}}
    if not any((flag.section, flag.name) == ("train", "minibatch_size") for flag, _ in found):
        instead["num_minibatches"] = {"minibatch_size": "auto"}
    for flag, value in found:
        if flag.section:
            taken_out = instead.get(flag.name, {}) if flag.section == "train" else {}
            merge(args, flag.section, {**taken_out, flag.name: value})
            if flag.name == "rnn_name" and value is not None:
                merge(args, "train", {"shuffle": "segments"})


def merge(args: dict[str, Any], section: str, values: Mapping[str, Any]) -> None:
    """Writes values of a section, such as `train` or `sweep.train.learning_rate`, into the configuration."""
    if section != BaseConfig.section:
        for name in section.split("."):
            args = args.setdefault(name, {})
    args.update(values)


def _key(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _take_value(setting: Setting, flag: str, waiting: list[str], may_be_word: bool) -> str:
    # A bare flag of a yes-or-no setting means yes, also before a word that is neither.
    if waiting and not waiting[0].startswith("--"):
        is_word = may_be_word and _is_switch(setting) and not fits(parse_value(waiting[0]), bool)
        if not is_word:
            return waiting.pop(0)
    if _is_switch(setting) or setting.kind is Any:
        return "True"
    raise ConfigError(f"{flag} needs a value: {setting.allowed}")


_INDENT = " " * 6
_NO_ENVIRONMENT = "name an environment to see its own settings and values"
_NO_CLASS = "keyword arguments of the class in pufferlib.models; its own defaults hold for those not named here"


def settings_text(env_name: str | None, args: Mapping[str, Any]) -> str:
    """Returns every setting by section: its flag, its value for this environment, and what it means.

    Without an environment they are those that all of them share; `args` is what `load_config` returned, or an empty
    dict for the defaults.
    """
    entry = None if env_name is None else find(env_name)
    return "\n".join(
        _section_text(section, entry, args)
        for section in ("base", "vec", *ARGUMENTS, "train", "selfplay", "log", "sweep")
    )


def options_text(settings: Iterable[Setting]) -> str:
    """Returns the lines of some settings, each with its default."""
    return "".join(_setting_text(one, one.default) for one in settings)


def _section_text(section: str, entry: Entry | None, args: Mapping[str, Any]) -> str:
    values = args if section == BaseConfig.section else args.get(section, {})
    known, heading = section_settings(section, entry), f"[{section}]"
    if known is None:
        known = {name: Setting(section, name, Any, value) for name, value in values.items()}
        heading += f" {_NO_ENVIRONMENT if entry is None else _NO_CLASS}"
    shown = [one for one in known.values() if one.name not in FIXED]
    text = f"{heading}\n" + "".join(_setting_text(one, values.get(one.name, one.default)) for one in shown)
    if section != SweepConfig.section:
        return text
    ranges = (dimensions_of(values) or DEFAULT_DIMENSIONS).items()
    lines = "".join(f"  {name} {' '.join(str(value) for value in given.values())}\n" for name, given in ranges)
    flags = options_text(dimension_keys("SECTION.SETTING").values())
    return f"{text}\n[sweep.SECTION.SETTING] what a sweep varies\n{lines}{flags}"


def _setting_text(setting: Setting, value: object) -> str:
    meaning = setting.meaning if setting.kind is Any else f"{setting.meaning} Takes {setting.allowed}.".strip()
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    wrapped = textwrap.fill(meaning, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)
    return f"  {setting.flag} {format_value(value)}\n" + (f"{wrapped}\n" if meaning else "")
