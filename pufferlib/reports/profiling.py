"""`puffer profile`: where the time of a training goes."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function

from pufferlib.config.flags import ProfileOptions
from pufferlib.dashboard.output import plain_table, printable, printable_lines
from pufferlib.dashboard.panel import count_text, group, percent_text
from pufferlib.errors import StorageError
from pufferlib.families.catalog import slug
from pufferlib.loggers.logger import NoLogger
from pufferlib.machine import usable_cores
from pufferlib.pufferl import PuffeRL
from pufferlib.runs.folder import storing, write_atomically
from pufferlib.runs.loaders import load_env, load_policy

DOMINATES = 0.5  # the share of the time from which a part dominates

_PARTS = {
    "environment": ("environment",),
    "acting": ("forward", "store"),
    "learning": ("learn", "advantage"),
    "evaluation": ("evaluation",),
    "communication": ("communicate",),
}
_REMEDIES = {
    "environment": "step it by all cores (--vec.num-workers), have more environments for each call (--env.num-envs), "
    "or write it in C; `puffer bench` times it alone",
    "acting": "have more environments for each call (--env.num-envs), or a smaller policy (--policy.hidden-size)",
    "learning": "have fewer passes (--train.update-epochs), larger minibatches (--train.minibatch-size), or a smaller "
    "policy (--policy.hidden-size)",
    "evaluation": "evaluate less often (--train.evaluations)",
    "communication": "exchange gradients less often, by more environments (--env.num-envs) or longer segments "
    "(--train.bptt-horizon)",
    "the rest": "log less often (--train.log-interval), and look at what callbacks and loggers do",
}


def advice(shares: Mapping[str, float], why_torch: str | None = None) -> str:
    """Returns one sentence on how to make a training faster, or that no part of it dominates.

    The shares are of the wall time by phase, together 1; `why_torch` says why no C kernel computes the policy on a CPU.
    """
    found = {part: sum(shares.get(phase, 0.0) for phase in phases) for part, phases in _PARTS.items()}
    found["the rest"] = 1.0 - sum(found.values())
    found = dict(sorted(found.items(), key=lambda item: -item[1]))
    part = next(iter(found))
    if found[part] < DOMINATES:
        split = ", ".join(f"{name} {share:.0%}" for name, share in found.items() if share > 0.0)
        return f"No part dominates ({split}): only making all of them cheaper, or more cores, would help much."
    remedy = _REMEDIES[part]
    if part in ("acting", "learning") and why_torch is not None:
        remedy = f"torch computes the policy, as {why_torch}; change that for the C kernel, or {remedy}"
    return f"{part.capitalize()} takes {found[part]:.0%} of the time: {remedy}."


WARM_UP = 2  # iterations that are not measured: threads start, memory is touched, kernels are chosen
TRACED = 2  # iterations that the profiler follows, which slows them down
_OPERATORS = 12  # rows of the table
_NAME_COLUMNS = 32  # of an operation
_ENDLESS = 10**15  # steps


def profile_command(env_name: str, args: dict[str, Any], options: ProfileOptions) -> None:
    """Trains for a while, keeps nothing of it but a trace, and prints where the time went."""
    path, seconds = Path(options.output or f"profile_{slug(env_name)}.json"), options.seconds
    if not path.absolute().parent.is_dir():
        raise StorageError(f"{path} cannot be written, there is no folder {path.parent}; make it first")
    print(printable(f"training {env_name} for {seconds:g} seconds to see where the time goes"), flush=True)
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="puffer_profile_"))
        endless = {"total_timesteps": _ENDLESS, "num_iterations": None, "evaluations": 0, "data_dir": folder}
        never = {"log_interval": _ENDLESS, "checkpoint_interval": _ENDLESS}
        train = {**args["train"], **endless, **never, "env": env_name}
        vecenv = undo.enter_context(contextlib.closing(load_env(env_name, args)))
        trainer = PuffeRL(train, vecenv, load_policy(args, vecenv, env_name), NoLogger())
        undo.callback(trainer.release)
        for _ in range(WARM_UP):
            _iterate(trainer)
        trainer.mean_and_log()  # begins an interval
        begin, first_epoch = time.perf_counter(), trainer.epoch
        while trainer.epoch == first_epoch or time.perf_counter() - begin < seconds:
            _iterate(trainer)
        iterations = trainer.epoch - first_epoch
        metrics = trainer.mean_and_log()
        operators = trace(trainer, path)
        device, computed_by = trainer.device.type, trainer.computed_by
        described = trainer.run.describe()["computation"]
    why_torch = described["because"] if device == "cpu" and described["by"] != "C kernel" else None
    lines = [
        f"{env_name}: {count_text(metrics['sps'])} steps/s over {iterations} iterations on {device}, "
        f"{vecenv.agents_per_batch:,} agents at a time, stepped by {type(vecenv).__name__} with "
        f"{vecenv.num_workers} workers on {usable_cores()} cores",
        f"computed by {computed_by}",
        "",
        _phases_text(metrics),
        "",
        operators,
        "",
        advice(group(metrics, "performance"), why_torch),
    ]
    print(printable_lines("\n".join(lines)))
    print(printable(f"the trace of {TRACED} iterations is {path}; open it in chrome://tracing or ui.perfetto.dev"))


def trace(trainer: PuffeRL, path: Path) -> str:
    """Follows TRACED iterations with torch's profiler, writes a trace, and returns the table of what took most."""
    is_cuda = trainer.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_cuda else [])]
    threads = _ExperimentalConfig(profile_all_threads=True)  # else those that share minibatches are not seen
    profiling = profile(activities=activities, experimental_config=threads)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when a profiler is made for the first time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.phases.label = record_function
        with profiling as profiler:
            for _ in range(TRACED):
                _iterate(trainer)
    with storing(path), tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(whole))  # it leaves no file on a full disk, and says nothing
        write_atomically(path, whole.read_bytes())
    sort_by = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
    table = profiler.key_averages().table(sort_by, row_limit=_OPERATORS, max_name_column_width=_NAME_COLUMNS)
    return table.strip()


def _phases_text(metrics: Mapping[str, float]) -> str:
    shares = sorted(group(metrics, "performance").items(), key=lambda item: (item[0] == "other", -item[1]))
    device = group(metrics, "device")
    header = ("phase", "share", "seconds an iteration", *(["on the GPU"] if device else []))
    each = metrics["iteration_seconds"]
    rows = [
        (name, percent_text(share), f"{share * each:.4f}", *([percent_text(device.get(name, 0.0))] if device else []))
        for name, share in shares
    ]
    return plain_table(header, rows)


def _iterate(trainer: PuffeRL) -> None:
    trainer.evaluate()
    trainer.train()
