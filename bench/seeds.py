"""What the benches share that train from several seeds: the command line, trainers, the loop over seeds, the rows."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from calibrate import calibration
from record import keep
from torch import nn

from pufferlib import PufferEnv, distributed, pufferl

Rows = list[tuple[str, float, str]]  # case, value, unit


def parse(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """The bench's own options, `--seeds` among them, and the settings that follow `--`."""
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    own, settings = sys.argv[1:], []
    if "--" in own:
        own, settings = own[: own.index("--")], own[own.index("--") + 1 :]
    return parser.parse_args(own), settings


def make_trainer(
    env: str | Callable, args: dict[str, Any], make_policy: Callable[[PufferEnv], nn.Module] | None = None
) -> pufferl.PuffeRL:
    """Makes the trainer of a configuration, with the policy that it names or another."""
    vecenv = pufferl.load_env(env, args)
    policy = pufferl.load_policy(args, vecenv, env) if make_policy is None else make_policy(vecenv)
    settings = {**args["train"], "env": args["env_name"], "selfplay": args["selfplay"]}
    return pufferl.PuffeRL(settings, vecenv, policy)


def measure(
    bench: str, names: Iterable[str], seeds: Iterable[int], run: Callable[[str, int, str], Rows], is_kept: bool = True
) -> None:
    """Runs every name from every seed, prints the rows, and appends them to the results of the bench.

    Args:
        bench: its name, that of its file and of the results.
        names: of what is trained.
        seeds: of each.
        run: trains a name from a seed, its files in a folder that is gone afterwards, and gives what to record.
        is_kept: whether the rows are recorded; otherwise they are only printed.
    """
    ranks = distributed.connect()
    count = ranks.world_size
    launcher = ["python"] if count == 1 else ["torchrun", "--standalone", f"--nproc-per-node={count}"]
    command = shlex.join([*launcher, f"bench/{bench}.py", *sys.argv[1:]])
    for name in names:
        for seed in seeds:
            calibration_before = calibration()
            with tempfile.TemporaryDirectory() as folder:
                rows = run(name, seed, folder)
            if not ranks.is_first:
                continue
            for case, value, unit in rows:
                print(f"{case}  {value:.4g} {unit}", flush=True)
            if is_kept and rows:
                keep(bench, rows, command, calibration_before)
