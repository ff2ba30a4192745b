"""Signals at every moment of a run: it saves what it has and leaves, and a second one makes it leave at once."""

from __future__ import annotations

import random
import signal
import time

from fault_case import NATIVE, WORKERS, Case, Ending, Fault
from fault_run import FaultRun

EVALUATED = f"{NATIVE} --train.evaluations 4 --train.evaluation-envs 2"
MOMENTS = ("rollout", "step", "update", "saving", "flushing", "renaming", "evaluation", "logging", "end", "release")
ONCE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def name(*numbers: int) -> str:
    """The names of signals."""
    return " and ".join(signal.Signals(number).name for number in numbers)


COUNTS = {"step": 100, "flushing": 40, "renaming": 20}  # of moments that come more than once in an epoch


def at(moment: str, *numbers: int) -> Case:
    """Signals at a moment of the run that is known by a function."""
    is_late = moment in ("end", "release")
    return Case(
        f"{name(*numbers)} at {moment}",
        codes=(0, 130) if is_late else (130,),
        command=EVALUATED,
        plants=(("fault_plants", "send", moment, 1 if is_late else COUNTS.get(moment, 3), *map(int, numbers)),),
        saboteurs={"signals_ignored": Fault.CODE} if not is_late and len(numbers) == 1 else {},
        is_quick=(moment, *numbers) == ("update", signal.SIGINT),
    )


def after(seconds: float, command: str, *numbers: int):
    """Signals some time after the first file of the run, wherever it may be then."""

    def strike(run: FaultRun) -> None:
        run.wait_for(lambda: any((run.folder / "experiments").glob("*/config.json")))
        time.sleep(seconds)
        run.look()
        run.struck = time.monotonic()
        for number in numbers:
            run.signal(number)
            time.sleep(0.002)

    # A second one may come when all is saved and the run is over: it then does what it does to any program.
    fatal = [number for number in numbers if number == signal.SIGKILL or len(numbers) > 1]
    return Case(
        f"{name(*numbers)} {1000 * seconds:.0f} ms after the first file",
        codes=(0, 130, *(-number for number in fatal)),
        command=command,
        strike=strike,
        leaves_unfinished=signal.SIGKILL in numbers,
        may_come_first=len(numbers) > 1 or signal.SIGKILL in numbers,
    )


def during_the_start(seconds: float, number: int) -> Case:
    """A signal before there is anything to save, in an interpreter of its own."""

    def strike(run: FaultRun) -> None:
        time.sleep(seconds)
        run.look()
        run.struck = time.monotonic()
        run.signal(number)

    return Case(
        f"{name(number)} {1000 * seconds:.0f} ms after the start",
        codes=(0, 130, -number),
        strike=strike,
        ending=Ending.ANEW,
        leaves_unfinished=True,
        needs_interpreter=True,
    )


CASES = [
    *(at(moment, number) for moment in MOMENTS for number in ONCE[: 3 if moment == "rollout" else 1]),
    *(at(moment, signal.SIGTERM, signal.SIGINT) for moment in ("step", "update", "flushing", "logging", "end")),
]


def random_cases(count: int, seed: int = 0) -> list[Case]:
    """Every signal, alone and twice, at random moments of a run."""
    rng = random.Random(seed)
    found = []
    for number in (*ONCE, signal.SIGKILL):
        for index in range(count):
            command = WORKERS if index % 3 == 0 else NATIVE
            found.append(after(rng.uniform(0, 0.4), command, number))
            if number != signal.SIGKILL:
                found.append(after(rng.uniform(0, 0.4), command, number, number))
    return found


def start_cases(count: int, seed: int = 0) -> list[Case]:
    """Signals while the program is still starting; these are run by interpreters of their own."""
    rng = random.Random(seed)
    return [during_the_start(rng.uniform(0, 3), number) for number in ONCE for _ in range(count)]
