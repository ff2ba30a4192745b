"""The verbs of the command line: what `puffer train`, `puffer eval` and the others do.

A verb is a row of VERBS and the function that it names, which imports what it runs when it runs, so that help and lists
never wait for torch. How command lines are read is in cli.py.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferlib.errors import APIUsageError
from pufferlib.metrics.output import printable_lines, say

if TYPE_CHECKING:
    from pufferlib.config.flags import Found


@dataclass(frozen=True)
class Verb:
    """One command.

    Attributes:
        summary: what it does, for the list of commands.
        run: does it: takes a Call, or for a command without an environment the words that follow it, and its options
            by name.
        options: the class in `pufferlib.config.options` of the flags that it has besides the settings; None for none.
        argument: for a command without an environment, the words that follow it, as its help writes them: `RUN` for
            one, `RUN...` for one or more, in brackets where they may be left out, empty for none.
    """

    summary: str
    run: Callable[..., None]
    options: str | None = None
    argument: str | None = None

    def takes(self, count: int) -> bool:
        """Whether so many words may follow a command without an environment."""
        argument = self.argument or ""
        least = 1 if argument and not argument.startswith("[") else 0
        return least <= count <= (math.inf if "..." in argument else bool(argument))


@dataclass(frozen=True)
class Call:
    """What is asked of a command that takes an environment.

    Attributes:
        env_name: the environment.
        args: its configuration as `load_config` returns it, with what the flags say.
        options: values of the command's own options, by name.
        flags: the settings that were named, with their values, in the order in which they count.
    """

    env_name: str
    args: dict[str, Any]
    options: dict[str, Any]
    flags: Found

    def flags_over(self, args: dict[str, Any], but: str) -> dict[str, Any]:
        """Has the flags, except that of one setting, count over other settings than those of the environment's inis.

        Args:
            args: a nested dict as `load_config` returns it, which is changed.
            but: the name of the setting whose flag does not count: the one that led to `args`.

        Returns:
            `args`.
        """
        from pufferlib.config.flags import apply_flags

        apply_flags([(setting, value) for setting, value in self.flags if setting.name != but], args, {})
        return args


def train(call: Call) -> None:
    """Trains a policy, or goes on with a run by the settings that it was begun with."""
    if os.environ.get("RANK", "0") == "0":  # of several processes the first
        say(f"preparing to train {call.env_name}")  # before torch is imported, which takes seconds
    from pufferlib.config import check_config
    from pufferlib.pufferl import train as train_policy
    from pufferlib.runs.recorded_settings import run_settings

    args = call.args
    if args["resume"] is not None:
        args = call.flags_over(run_settings(call.env_name, args), but="resume")
    check_config(args)
    train_policy(call.env_name, args)


def evaluate(call: Call) -> None:
    """Plays a policy by the settings that it was trained with, where its run tells them."""
    from pufferlib.config.options import EvalOptions
    from pufferlib.watch.evaluating import evaluate_command

    args = _settings_of_model(call)
    evaluate_command(call.env_name, args, EvalOptions(**call.options))


def play(call: Call) -> None:
    """Lets a person play."""
    from pufferlib.watch.playing import play_command

    play_command(call.env_name, call.args, **call.options)


def export(call: Call) -> None:
    """Writes a policy for programs that do not have this package."""
    from pufferlib.export.command import export_command

    export_command(call.env_name, _settings_of_model(call), **call.options)


def bench(call: Call) -> None:
    """Times the environment."""
    from pufferlib.play.benchmark import bench_command

    bench_command(call.env_name, call.args, **call.options)


def sweep(call: Call) -> None:
    """Searches for hyperparameters."""
    from pufferlib.config import check_config
    from pufferlib.sweep.command import sweep_command

    call.args["sweep"].update((name, value) for name, value in call.options.items() if value is not None)
    check_config(call.args)
    sweep_command(call.env_name, call.args)


def envs(family: str | None = None) -> None:
    """Prints the tables of environments, or the names of one family."""
    from pufferlib.play.listing import names_of, overview

    print(printable_lines(overview() if family is None else "\n".join(names_of(family))))


def new(name: str, **options: Any) -> None:
    """Makes an environment out of the template."""
    from pufferlib.scaffold import new_command

    new_command(name, **options)


def runs(**options: Any) -> None:
    """Lists the runs on disk."""
    from pufferlib.reports.listing import runs_command

    runs_command(**options)


def profile(call: Call) -> None:
    """Shows where the time of a training goes."""
    from pufferlib.reports.profiling import profile_command

    profile_command(call.env_name, _settings_of_model(call), **call.options)


def plot(*runs: str, **options: Any) -> None:
    """Draws the curves of runs."""
    from pufferlib.reports.plotting import plot_command

    plot_command(*runs, **options)


def report(run: str, **options: Any) -> None:
    """Writes a page about a run."""
    from pufferlib.reports.reporting import report_command

    report_command(run, **options)


def completion(shell: str) -> None:
    """Prints what has a shell complete command lines."""
    from pufferlib.completion.scripts import script

    print(script(shell))


def _settings_of_model(call: Call) -> dict[str, Any]:
    from pufferlib.config import check_config

    args = call.args
    if call.options.pop("pretrained", False):
        args["load_model_path"] = _pretrained_model(call)
    if args["load_model_path"] is not None:
        from pufferlib.runs.recorded_settings import model_settings

        is_policy_named = any(setting.name == "policy_name" for setting, _ in call.flags)
        args = call.flags_over(model_settings(call.env_name, args, is_policy_named), but="load_model_path")
    check_config(args)
    return args


def _pretrained_model(call: Call) -> str:
    from pufferlib.runs.pretrained import pretrained_path

    if call.args["load_model_path"] is not None:
        raise APIUsageError(f"--pretrained plays another policy than {call.args['load_model_path']}; pass one of them")
    return str(pretrained_path(call.env_name))


VERBS = {
    "train": Verb("train a policy and save it under experiments/", train, "TrainOptions"),
    "eval": Verb("play a policy in a window, or without one, and print how well it does", evaluate, "EvalOptions"),
    "play": Verb("play an environment yourself, in a window; high scores are kept", play, "PlayOptions"),
    "export": Verb("write a policy for other programs: ONNX, TorchScript or C", export, "ExportOptions"),
    "bench": Verb("time an environment: steps per second", bench, "BenchOptions"),
    "profile": Verb("show where the time of a training goes, and what would help", profile, "ProfileOptions"),
    "sweep": Verb("search for hyperparameters by many runs, and keep the best settings", sweep, "SweepOptions"),
    "envs": Verb("list the environments, or the names of one family", envs, argument="[FAMILY]"),
    "new": Verb("begin an environment of your own in C, a copy of the template", new, "NewOptions", argument="NAME"),
    "runs": Verb("list the runs: score, steps, state, and what they differ in", runs, "RunsOptions", argument=""),
    "plot": Verb("draw learning curves, losses and the time split of runs", plot, "PlotOptions", argument="RUN..."),
    "report": Verb(
        "write a page about a run: curves, scores, settings, video", report, "ReportOptions", argument="RUN"
    ),
    "completion": Verb("print the script that has bash, zsh or fish complete by TAB", completion, argument="SHELL"),
}
