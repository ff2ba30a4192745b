"""From the command to the first step: `python bench/start.py [--keep] [--rounds 7]`.

A round is `puffer train puffer_breakout` in a process and a folder of its own, until the environments get their first
actions; the process then ends itself. The value is the median of the seconds that passed since it was started, after
one round that is not counted, so that the disk is warm; beside it stand the processor's seconds of the process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from calibrate import calibration
from record import tell

ENVIRONMENT = "puffer_breakout"


def train_until_first_step(begin: float) -> None:
    """The process of a round: prints both times and ends."""
    from pufferlib.cli import main
    from pufferlib.vector.base import Vector

    def send(*_):
        print(time.monotonic() - begin, time.process_time(), file=sys.stderr, flush=True)
        os._exit(0)

    Vector.send = send
    main(["train", ENVIRONMENT])


def measure() -> tuple[float, float]:
    """Seconds of a round, by the clock and of the processor."""
    command = [sys.executable, str(Path(__file__).resolve()), "--from", str(time.monotonic())]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    elapsed, busy = done.stderr.split()[-2:]
    return float(elapsed), float(busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help="append the rows to results/start.csv")
    parser.add_argument("--from", type=float, dest="begin", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.begin is not None:
        train_until_first_step(options.begin)
        return
    before = calibration()
    measure()
    elapsed, busy = zip(*(measure() for _ in range(options.rounds)), strict=True)
    case = f"puffer train {ENVIRONMENT}, until the first step"
    results = [(case, statistics.median(elapsed), "s"), (case, statistics.median(busy), "s of a processor")]
    tell("start", results, before, options.keep)


if __name__ == "__main__":
    main()
