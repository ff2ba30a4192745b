"""The command line: `puffer VERB [ENV] [--section.key value ...]`.

Each verb is a row of VERBS and imports what it runs when it runs, so that help and lists never wait for torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import select
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pufferlib.errors import APIUsageError, CheckpointError, ConfigError, PufferError, StorageError, nearest
from pufferlib.output import Output, discard, say

if TYPE_CHECKING:
    from pufferlib.config.flags import FlagTable
    from pufferlib.settings.setting import Setting

# Exit codes; 130 and 141 are what a shell reports for a program that SIGINT or SIGPIPE ended.
OK, MISTAKE, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141


@dataclass(frozen=True)
class Verb:
    """One command."""

    summary: str
    run: Callable[..., Any]  # (env_name, args, **options), or up to one word for a verb without an environment
    options: str | None = None  # the class in pufferlib.config.options; None for a verb that takes no environment
    argument: str = ""  # what that word is; empty for none


def train(env_name: str, args: dict[str, Any]) -> None:
    """Trains a policy."""
    from pufferlib.config import check_config

    check_config(args)
    importlib.import_module("pufferlib.pufferl").train(env_name, args)


def evaluate(env_name: str, args: dict[str, Any], **options: Any) -> None:
    """Plays a policy."""
    from pufferlib.config import check_config

    check_config(args)
    print(_playing(env_name, args, options["episodes"], options["headless"]), flush=True)
    importlib.import_module("pufferlib.play.evaluation").evaluate_command(env_name, args, **options)


def bench(env_name: str, args: dict[str, Any], **options: Any) -> None:
    """Times the environment."""
    from pufferlib.play.benchmark import bench_command

    bench_command(env_name, args, **options)


def envs(family: str | None = None) -> None:
    """Prints the tables of environments, or the names of one family."""
    from pufferlib.play.listing import names_of, overview

    print(overview() if family is None else "\n".join(names_of(family)))


VERBS = {
    "train": Verb("train a policy and save it under experiments/", train, "TrainOptions"),
    "eval": Verb("play a policy in a window, or without one, and print how well it does", evaluate, "EvalOptions"),
    "bench": Verb("time an environment: steps per second", bench, "BenchOptions"),
    "envs": Verb("list the environments, or the names of one family", envs, argument="FAMILY"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    A user's mistake is one sentence on stderr; an error of ours keeps its traceback.

    Args:
        argv: the arguments after the program's name; None takes those of this process.

    Returns:
        The exit code: 0, 2 for a mistake, 130 after Ctrl-C, 141 when the reader of the output went away.
    """
    try:
        if argv is None:
            _find_modules_here()
        _require_install()
        run(sys.argv[1:] if argv is None else list(argv))
        _flush_output()
    except PufferError as error:
        Output(sys.stderr).write(f"puffer{_rank_text()}: {error}\n")
        return MISTAKE
    except (MemoryError, RuntimeError, ValueError) as error:
        if not _is_lack_of_memory(error):
            raise
        found = " ".join(str(error).split()) or "Python had none left"
        print(
            f"puffer{_rank_text()}: there is not enough memory ({found}); "
            "have fewer or smaller environments, batches or layers",
            file=sys.stderr,
        )
        return MISTAKE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        if not _is_output_closed():
            raise
        return PIPE_CLOSED
    except OSError:
        try:
            _flush_output("\n")  # if that is what failed, it fails again
        except StorageError as error:
            Output(sys.stderr).write(f"puffer: {error}\n")
            return MISTAKE
        raise
    return OK


def _flush_output(more: str = "") -> None:
    """Writes what stdout still holds, and `more`.

    Raises:
        StorageError: if it cannot, as on a full disk; where the reader is gone, a BrokenPipeError.
    """
    try:
        if sys.stdout is not None:
            if more:  # /dev/full refuses even nothing
                sys.stdout.write(more)
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        raise StorageError(f"the output cannot be written ({error.strerror}); direct it elsewhere") from error


def run(tokens: list[str]) -> None:
    """Does what the arguments ask for.

    Raises:
        PufferError: if they are wrong, or what they ask for cannot be done.
    """
    name, rest = (tokens[0], tokens[1:]) if tokens else ("--help", [])
    if name in ("--help", "-h"):
        print(_overview())
    elif name == "--version":
        print(_version())
    elif name not in VERBS:
        raise APIUsageError(f"there is no command {name!r}{nearest(name, VERBS) or '; puffer --help lists them all'}")
    elif "--help" in rest or "-h" in rest:
        print(_verb_help(name, [token for token in rest if token not in ("--help", "-h")]))
    elif VERBS[name].options is None:
        _run_alone(name, rest)
    else:
        _run_for_environment(name, rest)


def _run_alone(name: str, rest: list[str]) -> None:
    verb = VERBS[name]
    if len(rest) > bool(verb.argument) or any(token.startswith("-") for token in rest):
        allowed = f"one {verb.argument} at most" if verb.argument else "no arguments"
        raise APIUsageError(f"puffer {name} takes {allowed}, got {' '.join(rest)!r}")
    verb.run(*rest)


def _run_for_environment(name: str, rest: list[str]) -> None:
    if not rest or rest[0].startswith("-"):
        found = f"found {rest[0]}" if rest else "found nothing"
        raise APIUsageError(
            f"puffer {name} needs an environment right after {name!r}, {found}; "
            f"try `puffer {name} puffer_squared`, and `puffer envs` lists them all"
        )
    from pufferlib.config import flags, load_config

    args, options_class = load_config(rest[0]), _options_class(name)
    env_name = args["env_name"]
    options = {option: setting.default for option, setting in options_class.settings().items()}
    table = flags.FlagTable(env_name, options_class)
    found = [*_flags_of_the_shell(table), *table.parse(rest[1:])]
    flags.apply_flags(found, args, options)
    if name == "train" and os.environ.get("RANK", "0") == "0":  # of several processes the first
        say(_beginning(env_name, args))  # at once: importing torch takes seconds
    if name == "train" and args["resume"] is not None:
        args = _settings_of_run(env_name, args)
        flags.apply_flags([pair for pair in found if pair[0].name != "resume"], args, options)
    elif name == "eval" and args["load_model_path"] is not None:
        args = _settings_of_model(env_name, args, is_policy_named=any(pair[0].name == "policy_name" for pair in found))
        flags.apply_flags([pair for pair in found if pair[0].name != "load_model_path"], args, options)
    VERBS[name].run(env_name, args, **options)


def _flags_of_the_shell(table: FlagTable) -> list[tuple[Setting, Any]]:
    """What PUFFER_FLAGS says, which those of the command line come after."""
    try:
        return table.parse(shlex.split(os.environ.get("PUFFER_FLAGS", "")))
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"in PUFFER_FLAGS, {error}") from error


def _beginning(env_name: str, args: dict[str, Any]) -> str:
    """What `puffer train` is about to do."""
    train = args["train"]
    if args["resume"] is not None:
        return f"going on with the run {args['resume']} of {env_name}"
    iterations = train["num_iterations"]
    length = f"{train['total_timesteps']:,} steps" if iterations is None else f"{iterations:,} iterations"
    return f"training {env_name} for {length}, in {train['data_dir']}"


def _playing(env_name: str, args: dict[str, Any], episodes: int, is_headless: bool) -> str:
    """What `puffer eval` is about to play, which may take minutes, and why nobody sees it."""
    from pufferlib.ocean import rendering

    unseen = "without a window" if is_headless else "without a window, as there is no display"
    seen = f", {unseen}" if is_headless or not rendering.has_display() else ""
    playing = f"playing {episodes} episode{'s' * (episodes != 1)} of {env_name}{seen}, by"
    if args["load_model_path"] is None:
        return f"{playing} an untrained policy; --load-model-path latest takes the last that was trained"
    return f"{playing} {args['load_model_path']}"


def _settings_of_run(env_name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The settings that the run to resume was started with, not what the inis say today."""
    from pufferlib import distributed
    from pufferlib.runs import checkpoint, description

    def find() -> dict[str, Any]:
        folder = checkpoint.resolve_run(args["train"]["data_dir"], env_name, args["resume"])
        _require_named_policy(folder, "call trainer.load_checkpoint(folder) there to go on with it")
        return {**description.saved_settings(folder, env_name), "resume": str(folder)}

    return distributed.connect().from_first(find)


def _settings_of_model(env_name: str, args: dict[str, Any], is_policy_named: bool) -> dict[str, Any]:
    """The settings that the model was trained with where its run's folder tells, on any device; else `args`."""
    from pufferlib.runs import checkpoint, description

    path = checkpoint.resolve_model(args["train"]["data_dir"], env_name, args["load_model_path"])
    args = {**args, "load_model_path": str(path)}
    if not (path.parent / description.CONFIG_FILE).exists():
        return args
    if not is_policy_named:
        _require_named_policy(path.parent, "load the weights into it there, or name a class by --policy-name")
    saved = description.saved_settings(path.parent, env_name)
    train = {**saved["train"], "device": args["train"]["device"]}
    return {**saved, "train": train, "resume": None, "load_model_path": str(path)}


def _require_named_policy(folder: Path, remedy: str) -> None:
    from pufferlib.runs import description

    found = description.own_policy_class(folder)
    if found is not None:
        raise CheckpointError(f"{folder} was trained with the policy {found} of your own program; {remedy}")


def _options_class(name: str) -> Any:
    return getattr(importlib.import_module("pufferlib.config.options"), VERBS[name].options)


def _overview() -> str:
    commands = "\n".join(f"  {name:<8}{verb.summary}" for name, verb in VERBS.items())
    return (
        "usage: puffer COMMAND [ENV] [--section.key value ...]\n\n"
        f"{commands}\n\n"
        "  puffer COMMAND --help        every setting\n"
        "  puffer COMMAND ENV --help    every setting, with the values of that environment\n"
        "  puffer --version"
    )


def _verb_help(name: str, rest: list[str]) -> str:
    verb = VERBS[name]
    if verb.options is None:
        argument = f" [{verb.argument}]" if verb.argument else ""
        return f"usage: puffer {name}{argument}\n\n{verb.summary}"
    from pufferlib.config import help_text, load_config

    env_name = rest[0] if rest and not rest[0].startswith("-") else None
    args = load_config(env_name) if env_name else {}
    options = help_text.options_text(_options_class(name).settings().values())
    usage = f"usage: puffer {name} {env_name or 'ENV'} [--section.key value ...]\n\n{verb.summary}\n\n"
    return usage + (f"{options}\n" if options else "") + help_text.settings_text(env_name, args).rstrip()


def _rank_text() -> str:
    """Which process speaks, where several train together."""
    return f" (rank {os.environ.get('RANK', '?')})" if os.environ.get("WORLD_SIZE", "1") != "1" else ""


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy or torch could not have the memory that the settings need."""
    told = (
        "can't allocate memory",
        "not enough memory",
        "out of memory",
        "Storage size calculation overflowed",
        "array is too big",
    )
    return isinstance(error, MemoryError) or any(text in str(error) for text in told)


def _version() -> str:
    from importlib import metadata

    return f"pufferlib {metadata.version('pufferlib')}"


def _require_install() -> None:
    """The checkout's folders are packages only once installed: without that, imports fail one by one.

    Raises:
        APIUsageError: if pufferlib is run from a checkout that was never installed.
    """
    needed = ("pufferlib.ocean", "numpy", "gymnasium")  # an install for another Python leaves the first here
    if any(importlib.util.find_spec(name) is None for name in needed):
        raise APIUsageError("pufferlib is not installed for this Python; run `pip install -e .` in the checkout")


def _find_modules_here() -> None:
    """Lets `my_module:MyEnv-v0` lie in the working directory, where `python -m` finds it and a console script not."""
    if not getattr(sys.flags, "safe_path", False) and not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())


def _is_output_closed() -> bool:
    """Whether the reader of stdout is gone; if so, stdout goes nowhere from now on, also when Python ends."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are always reported
    is_closed = bool(poll.poll(0))
    if is_closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return is_closed
