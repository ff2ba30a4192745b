"""The words that complete a command line: `puffer --complete LINE` prints them for the shells' scripts.

It has to be quick: nothing here imports torch, and the results of imports are cached.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pufferlib.config.flags import CONFIG_FILE, FIXED
from pufferlib.config.schema import BaseConfig, LogConfig, SelfplayConfig, SweepConfig, TrainConfig, VecConfig
from pufferlib.config.sections import ARGUMENTS
from pufferlib.errors import APIUsageError, PufferError, nearest
from pufferlib.families.catalog import families
from pufferlib.families.entry import Family, slug
from pufferlib.reports.recorded_run import LATEST, is_run, run_folders
from pufferlib.runs.folder import write_atomically
from pufferlib.setting import Section, Setting, choices, fits

_PACKAGE = Path(__file__).parents[1]


Found = TypeVar("Found", list[str], dict[str, Any])


def remembered(what: str, find: Callable[[], Found]) -> Found:
    """Returns the cached result of `find`, which is called again after a package or an environment changed."""
    path, stamp = _folder() / f"{slug(what)}.json", _stamp()
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return kept["words"]
    words = find()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"stamp": stamp, "words": words}).encode())
    return words


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pufferlib" / "completion"


def _stamp() -> list[str | int]:
    installed = sysconfig.get_path("purelib")
    own = [*_PACKAGE.glob("config/*.[pi]*"), *_PACKAGE.glob("families/*.[pi]*"), *_PACKAGE.glob("ocean/*/*.[pi]*")]
    return [installed, max(path.stat().st_mtime_ns for path in (Path(installed), _PACKAGE / "ocean", *own))]


SHELLS = ("bash", "zsh", "fish")


def script(shell: str) -> str:
    """Returns the script of a shell, whose first lines say how to install it; APIUsageError if there is none for it."""
    if shell not in SHELLS:
        remedy = nearest(shell, SHELLS) or f"; there are {', '.join(SHELLS)}"
        raise APIUsageError(f"there is no completion for the shell {shell!r}{remedy}")
    return resources.files(__package__).joinpath(f"puffer.{shell}").read_text(encoding="utf-8").rstrip()


Word = tuple[str, str]  # and its meaning


class VerbInfo(Protocol):
    """The part of a command that completion needs; `argument` is None where it takes an environment."""

    summary: str
    argument: str | None


Flags = dict[
    str, tuple[str, list[str]]
]  # by flag: its meaning and its values, none where it takes a number or any text

_SECTIONS = (BaseConfig, VecConfig, TrainConfig, SelfplayConfig, LogConfig, SweepConfig)
_TEXTS = {
    "device": ("auto", "cpu", "cuda", "mps"),
    "rnn_name": ("MinGRU", "LSTM", "None"),
    "load_model_path": (LATEST, "last", "best"),
    "resume": (LATEST,),
}
"""Values of some settings that take any text."""


def candidates(line: str, verbs: Mapping[str, VerbInfo], options: Mapping[str, type[Section]]) -> list[Word]:
    """Returns the words that complete the end of a line.

    Args:
        line: up to the cursor, with the program's name.
        verbs: the commands by name.
        options: classes of the options besides the settings, by command.

    Returns:
        Words and their meanings; none where the shell should offer files.
    """
    words = _split(line)
    typed = words[-1]
    try:
        found = list(_words_at(words[1:-1], typed, verbs, options))
    except PufferError:  # such as an environment that does not exist, or whose package is missing
        return []
    return [(word, meaning) for word, meaning in found if word.startswith(typed)]


def _split(line: str) -> list[str]:
    for ending in ("", "'", '"'):  # the cursor may stand within quotes
        try:
            words = shlex.split(line + ending)
        except ValueError:
            continue
        is_new = not ending and line[-1:].isspace()
        return [*words, ""] if is_new or len(words) < 2 else words
    return [*line.split(), ""]


def _words_at(
    before: Sequence[str], typed: str, verbs: Mapping[str, VerbInfo], options: Mapping[str, type[Section]]
) -> Iterator[Word]:
    if not before:
        yield from ((name, verb.summary) for name, verb in verbs.items())
        yield from (("--help", "every command"), ("--version", "of the package"))
        return
    verb = verbs.get(before[0])
    if verb is None:
        return
    own = list(options[before[0]].settings().values()) if before[0] in options else []
    takes_environment = verb.argument is None
    env_name = before[1] if takes_environment and before[1:] and not before[1].startswith("-") else None
    flags = _flags(own, env_name, takes_environment)
    flag, has_value, _ = typed.partition("=")
    if has_value and flag.startswith("--"):
        yield from ((f"{flag}={value}", "") for value in flags.get(_dashed(flag), ("", []))[1])
    elif before[-1].startswith("--") and not typed.startswith("--"):
        yield from ((value, "") for value in flags.get(_dashed(before[-1]), ("", []))[1])
    elif typed.startswith("-"):  # the flags of a section only where its name is typed
        yield from ((flag, meaning) for flag, (meaning, _) in flags.items() if ("." in flag) == ("." in typed))
        if "." not in typed:
            sections = dict.fromkeys([*(flag[2:].split(".")[0] for flag in flags if "." in flag), *ARGUMENTS])
            yield from ((f"--{name}.", f"settings of [{name}]") for name in sections if takes_environment)
            yield "--help", "every flag"
    elif takes_environment and env_name is None:
        yield from ((name, "") for name in _environments(typed))
    elif not takes_environment:
        yield from ((word, "") for word in _arguments(verb.argument, before[1:]))


def _flags(own: Iterable[Setting], env_name: str | None, takes_environment: bool) -> Flags:
    settings = [*own]
    if takes_environment:
        settings += [CONFIG_FILE, *(one for section in _SECTIONS for one in section.settings().values())]
    found = {one.flag: (_beginning(one.meaning), _values(one)) for one in settings if one.name not in FIXED}
    if "--resume" in found and env_name is not None:
        found["--resume"][1].extend(name for name in _runs() if name.startswith(f"{slug(env_name)}_"))
    # A user's own module has no flags of classes here: pressing TAB must not run it.
    if env_name is not None and (":" not in env_name or env_name.startswith("pettingzoo:")):
        with contextlib.suppress(PufferError):  # there is no such environment, or its package is missing
            found |= remembered(f"flags {env_name}", lambda: _class_flags(env_name))
    return found


def _class_flags(env_name: str) -> dict[str, Any]:
    from pufferlib.config import env_settings, load_config

    args = load_config(env_name)
    settings = {  # of which only the value is known
        f"{section}.{name}": Setting(section, name, bool if isinstance(value, bool) else Any, value)
        for section in ARGUMENTS
        for name, value in args[section].items()
    }
    settings |= {f"env.{name}": setting for name, setting in env_settings(env_name).items()}
    return {each.flag: (_beginning(each.meaning), _values(each)) for each in settings.values()}


def _values(setting: Setting) -> list[str]:
    kind = setting.kind
    found = [*choices(kind)]
    if kind is not Any:
        found += [str(value) for value in (True, False) if fits(value, kind)]
        found += ["None"] if found and fits(None, kind) else []
    return [*found, *_TEXTS.get(setting.name, ())]


def _environments(typed: str) -> list[str]:
    # Ocean's, and once something is typed those of other families. A family that has to be imported to be listed shows
    # an example until the beginning of that is typed.
    def names(family_name: str) -> list[str]:
        return next(family.names() for family in families() if family.name == family_name)

    def installed(is_listed_freely: bool) -> list[Family]:
        return [one for one in families() if one.is_installed and one.is_listed_freely == is_listed_freely]

    if not typed:
        return remembered("ocean", lambda: names("ocean"))
    found = remembered("environments", lambda: [name for family in installed(True) for name in family.names()])
    closed = remembered("closed families", lambda: {one.name: one.example for one in installed(False)})
    for family, example in closed.items():
        is_asked = len(typed) > 2 and example.startswith(typed[:3])
        found += remembered(f"family {family}", partial(names, family)) if is_asked else [example]
    return found


def _arguments(argument: str, given: Sequence[str]) -> list[str]:
    name = argument.strip("[].")
    is_taken = "..." not in argument and any(not word.startswith("-") for word in given)
    if is_taken or name not in ("RUN", "FAMILY", "SHELL"):
        return []
    if name == "FAMILY":
        return remembered("families", lambda: [family.name for family in families()])
    return _runs() if name == "RUN" else [*SHELLS]


def _runs() -> list[str]:
    folders = [folder.name for folder in run_folders(Path(TrainConfig.data_dir)) if is_run(folder)]
    return [LATEST, *folders] if folders else []


def _dashed(flag: str) -> str:
    return flag.replace("_", "-")


def _beginning(text: str) -> str:
    return re.split(r"[.:] ", text)[0].rstrip(".")
