"""The words that complete a command line: `puffer --complete LINE` prints them for the shells' scripts.

Nothing here imports torch, and nothing runs a user's module.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pufferlib.config import env_settings, load_config
from pufferlib.config.flags import CONFIG_FILE, FIXED, options_of
from pufferlib.config.schema import TrainConfig
from pufferlib.config.sections import ARGUMENTS, SECTIONS
from pufferlib.errors import APIUsageError, PufferError, nearest
from pufferlib.families.catalog import families
from pufferlib.families.entry import slug
from pufferlib.reports.recorded_run import LATEST, is_run, run_folders
from pufferlib.setting import Setting, choices, fits

SHELLS = ("bash", "zsh", "fish")


def completion_command(shell: str) -> None:
    """Prints the script of a shell, whose first lines say how to install it."""
    if shell not in SHELLS:
        remedy = nearest(shell, SHELLS) or f"; there are {', '.join(SHELLS)}"
        raise APIUsageError(f"there is no completion for the shell {shell!r}{remedy}")
    print(resources.files(__package__).joinpath(f"puffer.{shell}").read_text(encoding="utf-8").rstrip())


Word = tuple[str, str]  # and its meaning


_TEXTS = {
    "device": ("auto", "cpu", "cuda", "mps"),
    "rnn_name": ("MinGRU", "LSTM", "None"),
    "load_model_path": (LATEST, "last", "best"),
    "resume": (LATEST,),
}
"""Values of some settings that take any text."""


def candidates(line: str, verbs: Mapping[str, tuple[str, str | None]]) -> list[Word]:
    """Returns the words that complete a line up to the cursor, none where the shell should offer files.

    `verbs` are the commands' summaries and arguments; None for the argument where it is an environment.
    """
    *words, typed = re.split(r"\s+", line.lstrip())
    try:
        found = list(_words_at(words[1:], typed, verbs))
    except PufferError:  # such as an environment that does not exist, or whose package is missing
        return []
    return [(word, meaning) for word, meaning in found if word.startswith(typed)]


def _words_at(before: Sequence[str], typed: str, verbs: Mapping[str, tuple[str, str | None]]) -> Iterator[Word]:
    if not before:
        yield from ((name, summary) for name, (summary, _) in verbs.items())
        yield from (("--help", "every command"), ("--version", "of the package"))
    if not before or before[0] not in verbs:
        return
    _, argument = verbs[before[0]]
    known = {setting.flag: setting for setting in options_of(before[0]).settings().values()}
    env_name = before[1] if argument is None and before[1:] and not before[1].startswith("-") else None
    if argument is None:
        known |= _settings(env_name)
    elif before[0] == "match":
        runs = [f"{Path(word).name}_" for word in before[1:]]  # whose names begin with their environment's
        begun = (name for name in _environments("") if any(run.startswith(f"{name}_") for run in runs))
        env_name = dict(itertools.pairwise(before)).get("--env") or next(begun, None)
        known |= {flag: one for flag, one in _settings(env_name).items() if one.section == "env"}
    flag, has_value, _ = typed.partition("=")
    if has_value and flag.startswith("--"):
        yield from ((f"{flag}={value}", "") for value in _values(known.get(flag.replace("_", "-")), env_name))
    elif before[-1].startswith("--") and not typed.startswith("--"):
        yield from ((value, "") for value in _values(known.get(before[-1].replace("_", "-")), env_name))
    elif typed.startswith("-"):  # the flags of a section only where its name is typed
        for flag, one in known.items():
            if ("." in flag) == ("." in typed):
                yield flag, re.split(r"[.:] ", one.meaning)[0].rstrip(".")  # the beginning of what it means
        if "." not in typed:
            sections = dict.fromkeys(flag[2:].split(".")[0] for flag in known if "." in flag)
            yield from ((f"--{name}.", f"settings of [{name}]") for name in sections)
            yield "--help", "every flag"
    elif argument is not None:
        yield from ((word, "") for word in _arguments(argument, before[1:]))
    elif env_name is None:
        yield from ((name, "") for name in _environments(typed))


def _settings(env_name: str | None) -> dict[str, Setting]:
    sections = [section for name, section in SECTIONS.items() if name != "solve"]
    settings = [CONFIG_FILE, *(one for section in sections for one in section.settings().values())]
    found = {one.flag: one for one in settings if one.name not in FIXED}
    # A user's own module has no flags of classes here: pressing TAB must not run it.
    if env_name is None or (":" in env_name and not env_name.startswith("pettingzoo:")):
        return found
    with contextlib.suppress(PufferError):  # there is no such environment, or its package is missing
        args = load_config(env_name)
        for section in ARGUMENTS:
            for name, value in args[section].items():  # of which only the value is known
                setting = Setting(section, name, bool if isinstance(value, bool) else Any, value)
                found[setting.flag] = setting
        found |= {setting.flag: setting for setting in env_settings(env_name).values()}
    return found


def _values(setting: Setting | None, env_name: str | None) -> list[str]:
    if setting is None:
        return []
    if setting.name == "resume" and env_name is not None:
        return [LATEST, *(name for name in _runs() if name.startswith(f"{slug(env_name)}_"))]
    found = [*choices(setting.kind)]
    if setting.kind is not Any:
        found += [str(value) for value in (True, False) if fits(value, setting.kind)]
        found += ["None"] if found and fits(None, setting.kind) else []
    return [*found, *_TEXTS.get(setting.name, ())]


def _environments(typed: str) -> list[str]:
    # Ocean's, and once something is typed those of other families. A family that has to be imported to be listed shows
    # an example until the beginning of that is typed.
    found: list[str] = []
    for family in families():
        if family.is_installed and (typed or family.name == "ocean"):
            is_asked = len(typed) > 2 and family.example.startswith(typed[:3])
            found += family.names() if family.is_listed_freely or is_asked else [family.example]
    return found


def _arguments(argument: str, given: Sequence[str]) -> list[str]:
    is_taken = "..." not in argument and any(not word.startswith("-") for word in given)
    if is_taken:
        return []
    name = argument.strip("[].")
    if name == "FAMILY":
        return [family.name for family in families()]
    return _runs() if name == "RUN" else [*SHELLS] if name == "SHELL" else []


def _runs() -> list[str]:
    folders = [folder.name for folder in run_folders(Path(TrainConfig.data_dir)) if is_run(folder)]
    return [LATEST, *folders] if folders else []
