"""Reads the command line: `puffer VERB [ENV] [--section.key value ...]`; the verbs are in verbs.py."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import inspect
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pufferlib.dashboard.output import Output, flush_stdout, is_stdout_gone, printable, printable_lines
from pufferlib.errors import (
    APIUsageError,
    ConfigError,
    PufferError,
    PufferWarning,
    StorageError,
    describe_lack,
    nearest,
)
from pufferlib.verbs import VERBS, Verb, VerbCall

if TYPE_CHECKING:
    from pufferlib.config.flags import FlagTable, Found
    from pufferlib.setting import Section

# Exit codes; 130 and 141 are what a shell reports for a program that SIGINT or SIGPIPE ended.
OK, MISTAKE, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141

_CALLERS_OF_ENVIRONMENTS = ("pufferlib.vector.group", "pufferlib.vector.recipe")

COMPLETE = "--complete"  # before a line that a shell wants to complete; see pufferlib/completion


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    A user's mistake, or a lack of memory and the like, becomes one sentence on stderr, with the traceback of an
    environment that raised; an error of ours keeps its traceback.

    Args:
        argv: the arguments after the program's name; None takes those of this process.

    Returns:
        The exit code: 0, 2 for a mistake, 130 after Ctrl-C, 141 when the reader of the output went away.
    """
    try:
        if argv is None and sys.argv[1:2] != [COMPLETE]:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # where stderr is no file
                faulthandler.enable()  # a crash in C prints a traceback
            _find_modules_here()
        _require_install()
        with _short_warnings():
            run(sys.argv[1:] if argv is None else list(argv))
        flush_stdout()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and is_stdout_gone():
            return PIPE_CLOSED
        sentence = _sentence(error)
        if sentence is None:
            raise
        Output(sys.stderr).write(f"puffer{_rank_text()}: {printable_lines(sentence)}\n")
        return MISTAKE
    return OK


def _sentence(error: Exception) -> str | None:
    if isinstance(error, PufferError):
        return str(error)
    lack = describe_lack(error)
    if lack is not None:
        return lack
    if isinstance(error, OSError):
        try:
            flush_stdout("\n")  # if that is what failed, it fails again
        except StorageError as failed:
            return str(failed)
    if _is_of_environment(error):
        return f"an environment raised, so the run ended:\n{''.join(traceback.format_exception(error)).rstrip()}"
    return None


def _is_of_environment(error: Exception) -> bool:
    # Whether an error was raised by an environment in this process; that of a worker is a WorkerError.
    callers = {getattr(sys.modules.get(name), "__file__", None) for name in _CALLERS_OF_ENVIRONMENTS}
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and not callers.isdisjoint(frames[:-1])


def run(tokens: list[str]) -> None:
    """Runs one command; a PufferError if it is wrong or impossible."""
    name, rest = (tokens[0], tokens[1:]) if tokens else ("--help", [])
    if name in ("--help", "-h"):
        print(_overview())
    elif name == "--version":
        print(_version())
    elif name == COMPLETE:
        _print_candidates(" ".join(rest))
    elif name not in VERBS:
        raise APIUsageError(f"there is no command {name!r}{nearest(name, VERBS) or '; puffer --help lists them all'}")
    elif "--help" in rest or "-h" in rest:
        print(printable_lines(_verb_help(name, [token for token in rest if token not in ("--help", "-h")])))
    elif VERBS[name].argument is not None:
        _run_alone(name, rest)
    else:
        _run_for_environment(name, rest)


def _print_candidates(line: str) -> None:
    # One word a line, so a name with line ends or control codes is left out.
    from pufferlib.completion.candidates import candidates

    options = {name: _options_class(name) for name, verb in VERBS.items() if verb.options is not None}
    for word, meaning in candidates(line, VERBS, options):
        if word == printable(word):
            print(f"{word}\t{printable(meaning)}" if meaning else word)


def _run_alone(name: str, rest: list[str]) -> None:
    verb = VERBS[name]
    if verb.options is None:
        words, options = rest, {}
        flags = [token for token in rest if token.startswith("-")]
    else:
        from pufferlib.config.flags import parse_options

        words, options = parse_options(rest, _options_class(name))
        flags = []
    if flags or not verb.takes(len(words)):
        raise APIUsageError(f"puffer {name} takes {_takes_text(verb)}, got {' '.join(words)!r}")
    verb.run(*words, **options)


def _takes_text(verb: Verb) -> str:
    if not verb.argument:
        return "no words" if verb.options else "no arguments"
    word = verb.argument.strip("[].")
    if verb.argument.startswith("["):
        return f"one {word} at most"
    return f"one {word} or more" if "..." in verb.argument else f"one {word}"


def _run_for_environment(name: str, rest: list[str]) -> None:
    from pufferlib.config import load_config
    from pufferlib.config.configuration import with_files
    from pufferlib.config.flags import FlagTable, apply_flags

    wanted, flags = _split_environment(name, rest)
    args, options_class = load_config(wanted), _options_class(name)
    env_name = args["env_name"]
    options = {option: setting.default for option, setting in options_class.settings().items()}
    table = FlagTable(env_name, options_class)
    found = with_files(env_name, [*_flags_of_the_shell(table), *table.parse(flags)])
    apply_flags(found, args, options)
    VERBS[name].run(VerbCall(env_name, args, options, found))


def _split_environment(name: str, rest: list[str]) -> tuple[str, list[str]]:
    if rest and not rest[0].startswith("-"):
        if rest[0].endswith((".ini", ".json")):
            remedy = f"`puffer {name} --config {rest[0]}`"
            raise APIUsageError(f"a file of settings comes after --config, got {rest[0]!r} alone; {remedy}")
        return rest[0], rest[1:]
    from pufferlib.config.configuration import environment_in_files

    named = environment_in_files(rest)
    if named is None:
        found = f"found {rest[0]}" if rest else "found nothing"
        raise APIUsageError(
            f"puffer {name} needs an environment right after {name!r}, or the file of a --config that names one under "
            f"[base] env_name, {found}; try `puffer {name} puffer_squared`, and `puffer envs` lists them all"
        )
    return named, rest


def _flags_of_the_shell(table: FlagTable) -> Found:
    try:
        return table.parse(shlex.split(os.environ.get("PUFFER_FLAGS", "")))
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"in PUFFER_FLAGS, {error}") from error


def _options_class(name: str) -> type[Section]:
    return getattr(importlib.import_module("pufferlib.config.flags"), VERBS[name].options)


def _overview() -> str:
    commands = "\n".join(f"  {name:<12}{verb.summary}" for name, verb in VERBS.items())
    return (
        "usage: puffer COMMAND [ENV] [--section.key value ...]\n\n"
        f"{commands}\n\n"
        "  puffer COMMAND --help        every setting\n"
        "  puffer COMMAND ENV --help    every setting, with the values of that environment\n"
        "  puffer --version"
    )


def _verb_help(name: str, rest: list[str]) -> str:
    verb = VERBS[name]
    if verb.argument is not None:
        usage = " ".join(filter(None, ["usage: puffer", name, verb.argument, verb.options and "[--option value ...]"]))
        if verb.options is None:
            return f"{usage}\n\n{verb.summary}"
        from pufferlib.config.flags import options_text

        options = _options_class(name)
        about = f"{verb.summary}\n\n{inspect.cleandoc(options.__doc__)}"
        return f"{usage}\n\n{about}\n\n{options_text(options.settings().values()).rstrip()}"
    from pufferlib.config import load_config
    from pufferlib.config.flags import CONFIG_FILE, options_text, settings_text

    env_name = rest[0] if rest and not rest[0].startswith("-") else None
    args = load_config(env_name) if env_name else {}
    own_options = options_text([CONFIG_FILE, *_options_class(name).settings().values()])
    usage = f"usage: puffer {name} {env_name or 'ENV'} [--section.key value ...]\n\n{verb.summary}\n\n"
    return f"{usage}{own_options}\n" + settings_text(env_name, args).rstrip()


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    formatted = warnings.formatwarning

    def one_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if issubclass(category, PufferWarning):
            return f"puffer{_rank_text()}: warning: {printable_lines(str(message))}\n"
        return formatted(message, category, filename, lineno, line)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = formatted


def _rank_text() -> str:
    return f" (rank {os.environ.get('RANK', '?')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""


def _version() -> str:
    from importlib import metadata

    return f"pufferlib {metadata.version('pufferlib')}"


def _require_install() -> None:
    # The checkout's folders are packages only once installed: without that, imports fail one by one.
    needed = ("pufferlib.ocean", "numpy", "gymnasium")  # an install for another Python leaves the first here
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise APIUsageError("pufferlib is not installed for this Python; run `pip install -e .` in the checkout")


def _find_modules_here() -> None:
    # So that `my_module:MyEnv-v0` may lie in the working directory: `python -m` has it on its path, a script not.
    if not getattr(sys.flags, "safe_path", False) and not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())
