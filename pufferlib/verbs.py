"""The verbs of the command line: `puffer train`, `puffer eval` and the others.

A verb is a row of VERBS with a function, which imports its code when it runs, so that help and lists never wait for
torch. cli.py reads the command lines.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pufferlib.dashboard.output import printable_lines, say
from pufferlib.errors import APIUsageError

if TYPE_CHECKING:
    from pufferlib.config.flags import Found

Option = str | int | float | bool | None  # the value of a command's own option


@dataclass(frozen=True)
class Verb:
    """One command."""

    summary: str  # for the list of commands
    run: Callable[..., None]  # takes a VerbCall; without an environment the words of the command line, and its options
    options: str | None = None  # the class in `pufferlib.config.flags` of its flags besides the settings; None for none
    # of a command without an environment, its words as its help writes them: `RUN` for one, `RUN...` for one or more,
    # in brackets where it is optional, empty for none
    argument: str | None = None

    def takes(self, count: int) -> bool:
        """Whether a command without an environment takes `count` words."""
        argument = self.argument or ""
        least = 1 if argument and not argument.startswith("[") else 0
        return least <= count <= (math.inf if "..." in argument else bool(argument))


@dataclass(frozen=True)
class VerbCall:
    """A command line for an environment."""

    env_name: str
    args: dict[str, Any]  # its configuration as `load_config` returns it, with the flags applied
    options: dict[str, Option]  # values of the command's own options, by name
    flags: Found  # the settings on the command line with their values; later ones replace earlier ones

    def flags_over(self, args: dict[str, Any], but: str) -> dict[str, Any]:
        """Applies the flags, except that of the setting `but`, to other settings; returns these."""
        from pufferlib.config.flags import apply_flags

        apply_flags([(setting, value) for setting, value in self.flags if setting.name != but], args, {})
        return args


def _train(call: VerbCall) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes the first
        say(f"preparing to train {call.env_name}")  # before torch is imported, which takes seconds
    from pufferlib.config import check_config
    from pufferlib.pufferl import train as train_policy
    from pufferlib.runs.description import run_settings

    args = call.args
    if args["resume"] is not None:
        args = call.flags_over(run_settings(call.env_name, args), but="resume")
    check_config(args)
    train_policy(call.env_name, args)


def _evaluate(call: VerbCall) -> None:
    from pufferlib.config.flags import EvalOptions
    from pufferlib.watch.evaluating import evaluate_command

    args = _settings_of_model(call)
    evaluate_command(call.env_name, args, EvalOptions(**call.options))


def _play(call: VerbCall) -> None:
    from pufferlib.watch.playing import play_command

    play_command(call.env_name, call.args, **call.options)


def _export(call: VerbCall) -> None:
    from pufferlib.export.exporting import export_command

    export_command(call.env_name, _settings_of_model(call), **call.options)


def _bench(call: VerbCall) -> None:
    from pufferlib.play.environments import bench_command

    bench_command(call.env_name, call.args, **call.options)


def _sweep(call: VerbCall) -> None:
    from pufferlib.config import check_config
    from pufferlib.sweep.command import sweep_command

    call.args["sweep"].update((name, value) for name, value in call.options.items() if value is not None)
    check_config(call.args)
    sweep_command(call.env_name, call.args)


def _envs(family: str | None = None) -> None:
    from pufferlib.play.environments import names_of, overview

    print(printable_lines(overview() if family is None else "\n".join(names_of(family))))


def _new(name: str, **options: Option) -> None:
    from pufferlib.scaffold import new_command

    new_command(name, **options)


def _runs(**options: Option) -> None:
    from pufferlib.reports.listing import runs_command

    runs_command(**options)


def _profile(call: VerbCall) -> None:
    from pufferlib.reports.profiling import profile_command

    profile_command(call.env_name, _settings_of_model(call), **call.options)


def _plot(*runs: str, **options: Option) -> None:
    from pufferlib.reports.figures import plot_command

    plot_command(*runs, **options)


def _report(run: str, **options: Option) -> None:
    from pufferlib.reports.page import report_command

    report_command(run, **options)


def _completion(shell: str) -> None:
    from pufferlib.completion.candidates import script

    print(script(shell))


def _settings_of_model(call: VerbCall) -> dict[str, Any]:
    from pufferlib.config import check_config

    args = call.args
    if call.options.pop("pretrained", False):
        args["load_model_path"] = _pretrained_model(call)
    if args["load_model_path"] is not None:
        from pufferlib.runs.description import model_settings

        is_policy_named = any(setting.name == "policy_name" for setting, _ in call.flags)
        args = call.flags_over(model_settings(call.env_name, args, is_policy_named), but="load_model_path")
    check_config(args)
    return args


def _pretrained_model(call: VerbCall) -> str:
    from pufferlib.runs.description import pretrained_path

    if call.args["load_model_path"] is not None:
        raise APIUsageError(f"--pretrained plays another policy than {call.args['load_model_path']}; pass one of them")
    return str(pretrained_path(call.env_name))


VERBS = {
    "train": Verb("train a policy and save it under experiments/", _train, "TrainOptions"),
    "eval": Verb("play a policy in a window, or without one, and print how well it does", _evaluate, "EvalOptions"),
    "play": Verb("play an environment yourself, in a window; high scores are kept", _play, "PlayOptions"),
    "export": Verb("write a policy for other programs: ONNX, TorchScript or C", _export, "ExportOptions"),
    "bench": Verb("time an environment: steps per second", _bench, "BenchOptions"),
    "profile": Verb("show where the time of a training goes, and what would help", _profile, "ProfileOptions"),
    "sweep": Verb("search for hyperparameters by many runs, and keep the best settings", _sweep, "SweepOptions"),
    "envs": Verb("list the environments, or the names of one family", _envs, argument="[FAMILY]"),
    "new": Verb("begin an environment of your own in C, a copy of the template", _new, "NewOptions", argument="NAME"),
    "runs": Verb("list the runs: score, steps, state, and what they differ in", _runs, "RunsOptions", argument=""),
    "plot": Verb("draw learning curves, losses and the time split of runs", _plot, "PlotOptions", argument="RUN..."),
    "report": Verb(
        "write a page about a run: curves, scores, settings, video", _report, "ReportOptions", argument="RUN"
    ),
    "completion": Verb("print the script that has bash, zsh or fish complete by TAB", _completion, argument="SHELL"),
}
