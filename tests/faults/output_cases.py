"""Loggers that fail, streams that are closed, a clock that jumps, and numbers that are none."""

from __future__ import annotations

import shutil
from pathlib import Path

from fault_case import BEGIN, HELD, NATIVE, PYTHON, Case, Ending, Fault
from fault_run import FaultRun

TENSORBOARD = f"{NATIVE} --log.tensorboard True"
LATER = r"failed and may miss metrics, training goes on \(.*\)"


def remove_tensorboard(run: FaultRun) -> None:
    """Removes the folder of TensorBoard's files while the run waits."""
    run.wait_until_held()
    shutil.rmtree(run.run_folder / "tensorboard")
    run.let_go()


def go(run: FaultRun) -> None:
    """Lets the run go on; the fault is one that its process makes."""
    run.wait_until_held()
    run.let_go()


def file_in_the_place(folder: Path) -> None:
    """Puts a file where loggers want a folder."""
    (folder / "mended").touch()


OUTPUT = r"puffer: warning: the output cannot be written \({}\); the run goes on without it"

CASES = [
    Case(
        "TensorBoard's folder removed",
        codes=(0,),
        command=TENSORBOARD,
        plants=HELD,
        strike=remove_tensorboard,
        saboteurs={"tensorboard_not_made_again": Fault.MESSAGE},
    ),
    *(
        Case(
            f"{service} fails in {method.strip('_')}",
            rf"puffer: warning: {service}Logger {LATER}",
            codes=(0,),
            command=f"{NATIVE} {flags}",
            plants=(("fault_plants", "break_logger", service, method),),
            saboteurs={"loggers_trusted": Fault.CODE},
        )
        for service, flags in (
            ("Wandb", "--log.wandb True"),
            ("Neptune", "--log.neptune True --log.project a/b"),
        )
        for method in ("_open", "_log", "_close")
    ),
    *(
        Case(
            f"{what}",
            OUTPUT.format(reason) if reason else "",
            codes=(0,),
            plants=(BEGIN, ("fault_plants", plant, *arguments)),
            saboteurs=saboteurs,
        )
        for what, plant, arguments, reason, saboteurs in [
            ("stdin closed", "close_streams", (0,), "", {}),
            ("stdout closed", "close_streams", (1,), "", {}),
            ("stdout and stderr closed", "close_streams", (1, 2), "", {}),
            ("all streams closed", "close_streams", (0, 1, 2), "", {}),
            ("stdout on a full disk", "full_stdout", (), "No space left on device", {"output_trusted": Fault.CODE}),
            ("reader of stdout gone", "pipe_stdout", (1,), "Broken pipe", {"output_trusted": Fault.CODE}),
        ]
    ),
    Case(
        "clock turned back by a day",
        codes=(0,),
        plants=(*HELD, ("fault_plants", "turn_back_the_clock", 86_400.0)),
        strike=go,
    ),
    Case(
        "NaN as a reward",
        r"puffer: .*reward.*nan.*; the last good checkpoint, experiments/.*\.pt, is kept",
        command=f"{PYTHON} Serial --env.place nowhere --env.what no_number",
        ending=Ending.COMPLETE,
        saboteurs={"errors_swallowed": Fault.CODE},
    ),
    *(
        Case(
            f"environment raises in this process, in {place}",
            "puffer: an environment raised, so the run ended:",
            command=f"{PYTHON} Serial --env.place {place} --env.what raise",
            ending=Ending.COMPLETE if place == "step" else Ending.ANEW,
            has_report=True,
            saboteurs={"errors_raw": Fault.CODE} if place == "step" else {},
        )
        for place in ("reset", "step", "close")
    ),
]
