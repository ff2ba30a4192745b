"""The command line: `puffer VERB [ENV] [--section.key value ...]`.

A verb is a row of VERBS with a function, which imports its code when it runs, so that help and lists never wait for
torch.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.util
import inspect
import math
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferlib import errors
from pufferlib.dashboard.output import Output, flush_stdout, is_stdout_gone, printable, printable_lines, say

if TYPE_CHECKING:
    from pufferlib.config.flags import Found
    from pufferlib.setting import Section


def _settings_of_run(args: dict[str, Any], options: Section, flags: Found) -> dict[str, Any]:
    env_name = args["env_name"]
    if os.environ.get("RANK", "0") == "0":  # of several processes the first
        say(f"preparing to train {env_name}")  # before torch is imported, which takes seconds
    from pufferlib.config import check_config
    from pufferlib.config.configuration import is_policy_named
    from pufferlib.runs.description import run_settings

    if args["resume"] is not None:
        if args["load_model_path"] is not None:
            both = f"--resume {args['resume']} and --load-model-path {args['load_model_path']}"
            raise errors.APIUsageError(f"a resumed run goes on from its own weights, got {both}; pass one of them")
        args = flags_over(run_settings(env_name, args, is_policy_named(flags)), flags, but="resume")
    check_config(args)
    return args


def _settings_of_model(args: dict[str, Any], options: Section, flags: Found) -> dict[str, Any]:
    from pufferlib.config import check_config
    from pufferlib.config.configuration import is_policy_named
    from pufferlib.runs.description import model_settings, pretrained_path

    env_name = args["env_name"]
    if args["resume"] is not None:
        remedy = "--load-model-path latest takes the weights of the newest run"
        raise errors.APIUsageError(f"--resume is of puffer train alone, got --resume {args['resume']}; {remedy}")
    if getattr(options, "pretrained", False):
        other = args["load_model_path"]
        if other is not None:
            raise errors.APIUsageError(f"--pretrained plays another policy than {other}; pass one of them")
        args["load_model_path"] = str(pretrained_path(env_name))
    if args["load_model_path"] is not None:
        args = flags_over(model_settings(env_name, args, is_policy_named(flags)), flags, but="load_model_path")
    check_config(args)
    return args


def _settings_without_policy(args: dict[str, Any], options: Section, flags: Found) -> dict[str, Any]:
    for setting, value in flags:
        if setting.name in ("resume", "load_model_path"):
            flag = f"--{setting.name.replace('_', '-')} {value}"
            raise errors.APIUsageError(f"no policy plays here, got {flag}; leave it out, or use puffer eval")
    return args


def flags_over(args: dict[str, Any], flags: Found, but: str) -> dict[str, Any]:
    """Applies the flags of a command line, except that of the setting `but`, to other settings; returns these."""
    from pufferlib.config.flags import apply_flags

    apply_flags([(setting, value) for setting, value in flags if setting.name != but], args)
    return args


@dataclass(frozen=True)
class Verb:
    """One command."""

    summary: str  # for the list of commands
    # `module:function` in pufferlib; it takes an environment's name and its settings, or else the words of the command
    # line, and as the keyword `options` its flags besides the settings, see `options_of`, where it has some
    function: str
    # of a command without an environment, its words as its help writes them: `RUN` for one, `RUN...` for one or more,
    # in brackets where it is optional, empty for none
    argument: str | None = None
    # the settings that its function takes, by the configuration with all flags, its options and the flags
    settings: Callable[[dict[str, Any], Section, Found], dict[str, Any]] = lambda args, options, flags: args

    def call(self, *arguments: object, options: Section, **keywords: object) -> None:
        """Imports the function and calls it."""
        module, _, name = self.function.partition(":")
        function = getattr(importlib.import_module(f"pufferlib.{module}"), name)
        function(*arguments, **({"options": options} if options.settings() else {}), **keywords)

    def require_words(self, name: str, words: Sequence[str]) -> None:
        """Raises APIUsageError if a command without an environment takes more words, or fewer."""
        word = self.argument.strip("[].")
        least = int(word != "" and not self.argument.startswith("["))
        most = math.inf if "..." in self.argument else int(word != "")
        if not least <= len(words) <= most:
            taken = {(0, 0): "no words", (0, 1): f"one {word} at most", (1, 1): f"one {word}"}
            expected = taken.get((least, most), f"one {word} or more")
            raise errors.APIUsageError(f"puffer {name} takes {expected}, got {' '.join(words)!r}")


VERBS = {
    "train": Verb("train a policy and save it under experiments/", "pufferl:train", settings=_settings_of_run),
    "eval": Verb(
        "play a policy in a window, or without one, and print how well it does",
        "watch.evaluating:evaluate_command",
        settings=_settings_of_model,
    ),
    "play": Verb(
        "play an environment yourself, in a window; high scores are kept",
        "watch.playing:play_command",
        settings=_settings_without_policy,
    ),
    "export": Verb(
        "write a policy for other programs: ONNX, TorchScript, C, a web page that plays",
        "export.exporting:export_command",
        settings=_settings_of_model,
    ),
    "bench": Verb(
        "time an environment: steps per second",
        "play.environments:bench_command",
        settings=_settings_without_policy,
    ),
    "profile": Verb(
        "show where the time of a training goes, and what would help",
        "reports.profiling:profile_command",
        settings=_settings_of_model,
    ),
    "sweep": Verb("search for hyperparameters by many runs, and keep the best settings", "sweep.command:sweep_command"),
    "envs": Verb("list the environments, or the names of one family", "play.environments:envs_command", "[FAMILY]"),
    "new": Verb("begin an environment of your own in C, a copy of the template", "scaffold:new_command", "NAME"),
    "runs": Verb(
        "list the runs: score, steps, state, and what they differ in", "reports.recorded_run:runs_command", ""
    ),
    "plot": Verb("draw learning curves, losses and the time split of runs", "reports.figures:plot_command", "RUN..."),
    "match": Verb(
        "have agents play each other, with a cross-table and ratings", "reports.matching:match_command", "PLAYER..."
    ),
    "report": Verb("write a page about a run: curves, scores, settings, video", "reports.page:report_command", "RUN"),
    "completion": Verb(
        "print the script by which bash, zsh or fish complete words at TAB", "completion:completion_command", "SHELL"
    ),
}


# Exit codes; 130 and 141 are what a shell reports for a program that SIGINT or SIGPIPE ended.
OK, MISTAKE, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141

_CALLERS_OF_ENVIRONMENTS = ("pufferlib.vector.group", "pufferlib.vector.recipe")

COMPLETE = "--complete"  # before a line that a shell wants to complete; see pufferlib/completion


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    A user's mistake, or a lack of memory and the like, becomes one sentence on stderr, with the traceback of an
    environment that raised; an error of ours keeps its traceback. `argv` are the arguments after the program's name,
    None for those of this process. Returns the exit code: 0, 2 for a mistake, 130 after Ctrl-C, 141 when the reader of
    the output went away.
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
    if isinstance(error, errors.PufferError):
        return str(error)
    lack = errors.describe_lack(error)
    if lack is not None:
        return lack
    if isinstance(error, OSError):
        try:
            flush_stdout("\n")  # if that is what failed, it fails again
        except errors.StorageError as failed:
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
        from importlib import metadata

        print(f"pufferlib {metadata.version('pufferlib')}")
    elif name == COMPLETE:
        from pufferlib.completion import candidates

        verbs = {each: (verb.summary, verb.argument) for each, verb in VERBS.items()}
        for word, meaning in candidates(" ".join(rest), verbs):
            if word == printable(word):  # one word a line, so a name with line ends or control codes is left out
                print(f"{word}\t{printable(meaning)}" if meaning else word)
    elif name not in VERBS:
        remedy = errors.nearest(name, VERBS) or "; puffer --help lists them all"
        if name.startswith(("puffer_", "puffer-")):
            remedy = f"; try `puffer train {name}`"
        raise errors.APIUsageError(f"there is no command {name!r}{remedy}")
    elif "--help" in rest or "-h" in rest:
        print(printable_lines(_verb_help(name, [token for token in rest if token not in ("--help", "-h")])))
    elif VERBS[name].argument is not None:
        _run_with_words(name, rest)
    else:
        _run_for_environment(name, rest)


def _run_with_words(name: str, rest: list[str]) -> None:
    from pufferlib.config.flags import FlagTable, options_of

    words: list[str] = []
    found = FlagTable(None, name).parse(rest, words)
    VERBS[name].require_words(name, words)
    options = options_of(name)(**{setting.name: value for setting, value in found if not setting.section})
    env_kwargs = {setting.name: value for setting, value in found if setting.section}
    VERBS[name].call(*words, options=options, **({"env_kwargs": env_kwargs} if env_kwargs else {}))


def _run_for_environment(name: str, rest: list[str]) -> None:
    from pufferlib.config import load_config
    from pufferlib.config.configuration import followed_by, with_files
    from pufferlib.config.flags import FlagTable, apply_flags, options_of

    wanted, flags = _split_environment(name, rest)
    args, options_class, verb = load_config(wanted), options_of(name), VERBS[name]
    env_name = args["env_name"]
    table = FlagTable(env_name, name)
    try:
        given = table.parse(shlex.split(os.environ.get("PUFFER_FLAGS", "")))
    except (errors.ConfigError, ValueError) as error:
        raise errors.ConfigError(f"in PUFFER_FLAGS, {error}") from error
    given = followed_by(given, table.parse(flags))
    found = with_files(env_name, given)
    apply_flags(found, args)
    options = options_class(**{setting.name: value for setting, value in found if not setting.section})
    args = verb.settings(args, options, found)
    unused = next((setting.flag for setting, _ in given if setting.section == "rnn"), None)
    if unused is not None and args["rnn_name"] is None:
        raise errors.ConfigError(f"{unused} needs a recurrent layer, found --rnn-name None; add --rnn-name MinGRU")
    verb.call(env_name, args, options=options)


def _split_environment(name: str, rest: list[str]) -> tuple[str, list[str]]:
    if rest and not rest[0].startswith("-"):
        if os.path.exists(os.path.join(rest[0], "config.json")):
            flag = "--resume" if name == "train" else "--load-model-path"
            remedy = f"`puffer {name} ENV {flag} {rest[0]}`"
            raise errors.APIUsageError(f"the environment comes first, got the folder {rest[0]!r} of a run; {remedy}")
        if rest[0].endswith((".ini", ".json")):
            remedy = f"`puffer {name} --config {rest[0]}`"
            raise errors.APIUsageError(f"a file of settings comes after --config, got {rest[0]!r} alone; {remedy}")
        return rest[0], rest[1:]
    from pufferlib.config.configuration import environment_in_files

    named = environment_in_files(rest)
    if named is None:
        found = f"found {rest[0]}" if rest else "found nothing"
        raise errors.APIUsageError(
            f"puffer {name} needs an environment right after {name!r}, or the file of a --config that names one under "
            f"[base] env_name, {found}; try `puffer {name} puffer_squared`, and `puffer envs` lists them all"
        )
    return named, rest


def _overview() -> str:
    commands = "\n".join(f"  {name:<12}{verb.summary}" for name, verb in VERBS.items())
    return (
        "usage: puffer COMMAND [ENV] [--section.key value ...]\n\n"
        f"{commands}\n\n  ENV is a name that `puffer envs` lists, or module:MyEnv for one of your own\n\n"
        "  puffer COMMAND --help        every setting\n"
        "  puffer COMMAND ENV --help    every setting, with the values of that environment\n"
        "  puffer --version"
    )


def _verb_help(name: str, rest: list[str]) -> str:
    from pufferlib.config import load_config
    from pufferlib.config.flags import CONFIG_FILE, options_of, options_text, settings_text

    verb, options = VERBS[name], options_of(name)
    if verb.argument is not None:
        own = options.settings().values()
        usage = " ".join(filter(None, ["usage: puffer", name, verb.argument, own and "[--option value ...]"]))
        about = [inspect.cleandoc(options.__doc__).partition("\n\n")[2], options_text(own).rstrip()] if own else []
        return "\n\n".join([usage, verb.summary, *about])
    env_name = rest[0] if rest and not rest[0].startswith("-") else None
    args = load_config(env_name) if env_name else {}
    own_options = options_text([CONFIG_FILE, *options.settings().values()])
    usage = f"usage: puffer {name} {env_name or 'ENV'} [--section.key value ...]\n\n{verb.summary}\n\n"
    return f"{usage}{own_options}\n" + settings_text(env_name, args).rstrip()


@contextlib.contextmanager
def _short_warnings() -> Iterator[None]:
    formatted, shown = warnings.formatwarning, set()  # a sentence stands once, by however many objects it is said

    def one_line(message: Warning | str, category: type[Warning], *place: object) -> str:
        if issubclass(category, errors.PufferWarning):
            line = f"puffer{_rank_text()}: warning: {printable_lines(str(message))}\n"
            is_new = line not in shown
            shown.add(line)
            return line if is_new else ""
        return formatted(message, category, *place)

    warnings.formatwarning = one_line
    try:
        yield
    finally:
        warnings.formatwarning = formatted


def _rank_text() -> str:
    return f" (rank {os.environ.get('RANK', '?')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""


def _require_install() -> None:
    # The checkout's folders are packages only once installed: without that, imports fail one by one.
    needed = ("pufferlib.ocean", "numpy", "gymnasium")  # an install for another Python leaves the first here
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise errors.APIUsageError("pufferlib is not installed for this Python; run `pip install -e .` in the checkout")


def _find_modules_here() -> None:
    # So that `my_module:MyEnv-v0` may lie in the working directory: `python -m` has it on its path, a script not.
    if not getattr(sys.flags, "safe_path", False) and not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())
