"""Worker processes that die, stop or hang, and environments that raise."""

from __future__ import annotations

import signal

from fault_case import HELD, PYTHON, WORKERS, Case, Ending, Fault
from fault_run import FaultRun

WORKER = r"worker 1 \(process \d+, environments 1 to 1\)"
CLOSED = r"so the vector is closed"


def kill(number: int):
    """Sends the second worker a signal while it waits for its next step."""

    def strike(run: FaultRun) -> None:
        run.wait_until_held()
        run.workers()[1].send_signal(number)
        run.let_go()

    return strike


def kill_all(run: FaultRun) -> None:
    """Kills the run itself; its workers have to notice."""
    run.wait_until_held()
    run.let_go()
    run.signal(signal.SIGKILL)


def interrupt_twice(run: FaultRun) -> None:
    """Waits until an environment hangs, and presses Ctrl-C as often as it takes."""
    run.wait_for((run.folder / "struck").exists)
    (run.folder / "struck").unlink()  # the time counts from the second one
    run.look()
    run.signal(signal.SIGINT)
    run.wait_for(lambda: True)
    import time

    time.sleep(0.3)
    run.struck = time.monotonic()
    run.signal(signal.SIGINT)


def faulty(place: str, what: str, backend: str = "Multiprocessing --vec.num-workers 2", more: str = "") -> str:
    """The command that trains in an environment which goes wrong."""
    return f"{PYTHON} {backend} --env.place {place} --env.what {what} {more}".strip()


TIMEOUT = "--vec.step-timeout-seconds 1"
OVERDUE = rf"worker .* took longer than step_timeout_seconds 1 and (was|were) killed, {CLOSED}; look for a deadlock .*"

CASES = [
    Case(
        "worker killed",
        rf"puffer: {WORKER} was killed by SIGKILL, {CLOSED}; its own output may say why",
        command=WORKERS,
        plants=HELD,
        strike=kill(signal.SIGKILL),
        saboteurs={"deaths_unseen": Fault.END, "checkpoints_dropped": Fault.RESUME, "workers_kept": Fault.LEFT},
        is_quick=True,
    ),
    Case(
        "worker crashed",
        rf"puffer: {WORKER} was killed by SIGSEGV, {CLOSED}; its own output may say why",
        command=WORKERS,
        plants=HELD,
        strike=kill(signal.SIGSEGV),
        saboteurs={"epoch_forgotten": Fault.METRICS},
    ),
    Case(
        "worker stopped for longer than its timeout",
        f"puffer: {OVERDUE}",
        command=f"{WORKERS} {TIMEOUT}",
        plants=HELD,
        strike=kill(signal.SIGSTOP),
        saboteurs={"timeouts_ignored": Fault.END},
    ),
    Case(
        "run with workers killed",
        codes=(-signal.SIGKILL,),
        command=WORKERS,
        plants=HELD,
        strike=kill_all,
        leaves_unfinished=True,
        saboteurs={"orphans_kept": Fault.LEFT, "shared_memory_named": Fault.LEFT},
    ),
    Case(
        "environment hangs in C for longer than its timeout",
        f"puffer: {OVERDUE}",
        command=faulty("step", "freeze", more=TIMEOUT),
        ending=Ending.COMPLETE,
        saboteurs={"timeouts_ignored": Fault.END},
    ),
    Case(
        "environment hangs without a timeout, Ctrl-C twice",
        codes=(130,),
        command=faulty("step", "freeze"),
        strike=interrupt_twice,
        ending=Ending.COMPLETE,
        saboteurs={"second_signal_ignored": Fault.END},
    ),
    *(
        Case(
            f"environment {what_happens} in a worker, in {place}",
            rf"puffer: worker \d .* {told}",
            command=faulty(place, what),
            ending=Ending.ANEW if place in ("init", "reset") else Ending.COMPLETE,
            has_report=what in ("raise", "exit"),
            saboteurs=saboteurs,
        )
        for place, what, what_happens, told, saboteurs in [
            ("init", "raise", "raises", f"raised, {CLOSED}:", {"errors_swallowed": Fault.CODE}),
            ("reset", "raise", "raises", f"raised, {CLOSED}:", {}),
            ("step", "raise", "raises", f"raised, {CLOSED}:", {"errors_raw": Fault.CODE}),
            ("step", "exit", "calls sys.exit", f"raised, {CLOSED}:", {}),
            ("step", "vanish", "ends its process", f"exited with code 3, {CLOSED}; .*", {"deaths_unseen": Fault.END}),
        ]
    ),
]
