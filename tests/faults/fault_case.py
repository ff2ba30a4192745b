"""Cases of faults: what is done to a run, and the judgement of what it says, leaves behind and goes on with."""

from __future__ import annotations

import atexit
import enum
import functools
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import command
import torch
from fault_run import PATIENCE_SECONDS, FaultRun, Plant

from pufferlib.errors import CheckpointError
from pufferlib.runs import checkpoint

EPOCHS = 12
NATIVE = (
    "train puffer_squared --env.num-envs 16 --train.bptt-horizon 16 --train.device cpu --train.update-epochs 1.25 "
    f"--train.minibatch-size 64 --train.log-interval 1 --train.checkpoint-interval 1 --train.num-iterations {EPOCHS}"
)
"""Environments in C on threads, which a checkpoint holds; every epoch is logged and saved."""

WORKERS = f"{NATIVE} --vec.backend Multiprocessing --vec.num-envs 2 --vec.num-workers 2"
"""The same in two processes."""

PYTHON = (
    "train faulty_env:Faulty-v0 --vec.num-envs 2 --train.bptt-horizon 16 --train.batch-size 64 "
    "--train.minibatch-size 64 --train.device cpu --train.log-interval 1 --train.checkpoint-interval 1 "
    f"--train.num-iterations {EPOCHS} --vec.backend"
)
"""Environments of `faulty_env`, by the backend that is named next; a resume begins new episodes."""

HANG_SECONDS = 8.0  # after which a run is known to hang that is expected to
LEFT_SECONDS = 60.0  # for processes to notice that what they belong to is gone

HELD = (("fault_plants", "hold"),)
BEGIN = ("fault_plants", "begin")


class Ending(enum.Enum):
    """How what was begun comes to its end after the fault."""

    EXACT = "to the same weights"  # bit for bit those of a run without the fault
    COMPLETE = "to the last epoch"
    ANEW = "to the last epoch, as nothing was saved yet"  # the same command runs
    NONE = "not at all"  # what was damaged is refused


class Fault(enum.Enum):
    """What a run can fall short of."""

    END = "it hangs"
    CODE = "exit code"
    MESSAGE = "message"
    TIME = "time to the message"
    LEFT = "left behind"
    FILES = "files"
    RESUME = "resume"
    WEIGHTS = "weights"
    METRICS = "metrics"


def nothing(*_: object) -> None:
    """What is done where nothing is to be done."""


@dataclass(frozen=True)
class Case:
    """One fault, and what is asked of the run.

    Attributes:
        name: of the case, in words.
        says: pattern of all that is on stderr; empty for silence.
        codes: exit codes, one of which it must end with.
        command: what runs.
        plants: called in the process of the run first.
        prepare: changes the folder before the run begins.
        strike: makes the fault from outside; without it a plant does.
        mend: makes the folder good again before the run goes on.
        clean: undoes what would outlive the folder.
        ending: of the run, or of the one that goes on.
        has_report: whether the traceback of a user's own code follows the sentence.
        misses_logs: whether epochs may lack their metrics, as on a full disk.
        leaves_unfinished: whether a file may be left half written, until the run goes on: nobody survives SIGKILL.
        saboteurs: what the case must notice: functions of `saboteurs` by name, with what they make a run fall short of.
        obstacle: why the case cannot be had on this machine, None where it can.
        may_come_first: whether it may come before anything could be saved; then the same command runs.
        needs_interpreter: whether the run must be one of an interpreter of its own, whatever the others are.
        is_quick: whether it is among the few of the quick tests.
    """

    name: str
    says: str = ""
    codes: tuple[int, ...] = (2,)
    command: str = NATIVE
    plants: tuple[Plant, ...] = ()
    prepare: Callable[[Path], None] = nothing
    strike: Callable[[FaultRun], None] = nothing
    mend: Callable[[Path], None] = nothing
    clean: Callable[[Path], None] = nothing
    ending: Ending = Ending.EXACT
    has_report: bool = False
    misses_logs: bool = False
    leaves_unfinished: bool = False
    saboteurs: dict[str, Fault] = field(default_factory=dict)
    obstacle: Callable[[], str | None] = lambda: None
    may_come_first: bool = False
    needs_interpreter: bool = False
    is_quick: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        complaints: what fell short, with its description; empty where the fault was survived.
        message: what the run said.
        seconds: from the fault to the message, or to the end of a run that has none to give; None for one that goes on.
        left: what was left behind.
        resumed: how it went on.
        times: how often the fault was made.
    """

    complaints: tuple[tuple[Fault, str], ...]
    message: str
    seconds: float | None
    left: tuple[str, ...]
    resumed: str
    times: int = 1

    def __str__(self) -> str:
        return "\n".join(f"{fault.value}: {text}" for fault, text in self.complaints)


def survive(
    case: Case,
    folder: Path,
    saboteur: str | None = None,
    limit_seconds: float = PATIENCE_SECONDS,
    is_real: bool = False,
) -> Outcome:
    """Runs a case and judges it.

    Args:
        case: what goes wrong.
        folder: an empty one to run in.
        saboteur: a function of `saboteurs`, by which the library is broken in the process of the run.
        limit_seconds: that the message may take.
        is_real: whether an interpreter of its own runs the command; see FaultRun. What goes on with it is forked.
    """
    expected = case.saboteurs[saboteur] if saboteur else None
    broken: tuple[Plant, ...] = (("saboteurs", saboteur),) if saboteur else ()
    try:
        case.prepare(folder)
        run = FaultRun(folder, case.command, (*broken, *case.plants), is_real or case.needs_interpreter)
        complaints: list[tuple[Fault, str]] = []
        try:
            try:
                case.strike(run)
            except AssertionError as error:
                complaints.append((Fault.END, f"the fault could not be made: {error}"))
            told, ended = run.finish(PATIENCE_SECONDS if expected is not Fault.END else HANG_SECONDS)
        finally:  # what hangs is ended
            code = run.code
            left = run.leftovers(0.0 if code is None else 2.0 if expected is Fault.LEFT else LEFT_SECONDS)
        assert saboteur is None or run.is_planted, f"the saboteur {saboteur} failed: {run.said}"
        said = _without_advice(run.said)
        complaints += [*_judge_end(case, said, code), *((Fault.LEFT, text) for text in left)]
        seconds = told if case.says else ended if code != 0 else None
        if seconds is not None and seconds > limit_seconds:
            complaints.append((Fault.TIME, f"{seconds:.1f} s"))
        case.mend(folder)
        complaints += _judge_files(folder, case.leaves_unfinished)
        if expected is None or expected not in dict(complaints):
            complaints += _go_on(case, folder, code, broken)
    finally:
        case.clean(folder)
    return Outcome(tuple(complaints), said, seconds, tuple(left), _how_it_went_on(case, code))


def _how_it_went_on(case: Case, code: int | None) -> str:
    if case.ending is Ending.NONE:
        return case.ending.value
    how = "by itself" if code == 0 else "begun again" if case.ending is Ending.ANEW else "by --resume"
    return f"{how}, {case.ending.value}"


def _without_advice(said: str) -> str:
    """What was said, but for what a machine with few cores is told anyway."""
    return re.sub(r"^puffer: warning: num_workers .*\n", "", said, flags=re.MULTILINE).strip()


def _judge_end(case: Case, said: str, code: int | None) -> Iterator[tuple[Fault, str]]:
    if code is None:
        yield Fault.END, "it did not end"
    elif code not in case.codes:
        yield Fault.CODE, f"{code}, expected {' or '.join(map(str, case.codes))}: {said[-2000:]}"
    head = said.split("\n", 1)[0] if case.has_report else said
    if not re.fullmatch(case.says, head) or ("Traceback" in said and not case.has_report):
        yield Fault.MESSAGE, f"expected {case.says!r}, found {said[-3000:]!r}"
    if len(re.findall("^puffer: (?!warning)", said, re.MULTILINE)) > 1:
        yield Fault.MESSAGE, f"expected one sentence, found {said[-3000:]!r}"


def _judge_files(folder: Path, may_be_unfinished: bool) -> Iterator[tuple[Fault, str]]:
    """What no fault may do to the files of a run: leave half ones, or a checkpoint that is not whole."""
    for run in (folder / "experiments").glob("*"):
        if not (run / "config.json").exists():
            yield Fault.FILES, f"{run.name} has no config.json"
    for path in sorted((folder / "experiments").rglob("*")):
        try:
            if path.suffix == ".tmp" and not may_be_unfinished:
                yield Fault.FILES, f"{path.name} is left"
            elif path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".pt":
                checkpoint.load(path)
            elif path.suffix == ".jsonl":
                lines = path.read_text().splitlines(keepends=True)
                whole = lines if lines and lines[-1].endswith("\n") else lines[:-1] if may_be_unfinished else lines
                [json.loads(line) for line in whole]
        except (ValueError, CheckpointError) as error:
            yield Fault.FILES, f"{path.name}: {error}"


def _go_on(case: Case, folder: Path, code: int | None, broken: tuple[Plant, ...]) -> Iterator[tuple[Fault, str]]:
    """Brings the run to its end, and compares that with the end of a run without a fault."""
    if case.ending is Ending.NONE:
        return
    if code != 0:
        (folder / "mended").touch()
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        again = case.command
        if case.ending is Ending.ANEW or (case.may_come_first and not _has_checkpoint(folder)):
            shutil.rmtree(folder / "experiments", ignore_errors=True)
        elif _has_checkpoint(folder):
            again = f"{' '.join(case.command.split()[:2])} --resume latest"
        else:
            yield Fault.RESUME, "nothing was saved"
            return
        run = FaultRun(folder, again, broken)
        run.finish(PATIENCE_SECONDS if not broken else 3 * HANG_SECONDS)
        for text in run.leftovers(0.0 if run.code is None else LEFT_SECONDS):
            yield Fault.LEFT, text
        if run.code != 0 or _without_advice(run.said):
            yield Fault.RESUME, f"exit code {run.code}: {run.said[-2000:]!r}"
            return
        yield from _judge_files(folder, False)
    yield from _compare(case, folder)


def _has_checkpoint(folder: Path) -> bool:
    return any((folder / "experiments").glob(f"*/{checkpoint.TRAINER_STATE}"))


def _compare(case: Case, folder: Path) -> Iterator[tuple[Fault, str]]:
    if len(list((folder / "experiments").glob("*"))) != 1:
        yield Fault.RESUME, "there is no run, or there are several"
        return
    found = command.only_run(folder)
    lines = command.metrics(found)
    epochs = [line["epoch"] for line in lines]
    if case.misses_logs:
        if epochs != sorted(set(epochs)) or epochs[-1:] != [EPOCHS]:
            yield Fault.METRICS, f"of epochs {epochs}"
    elif epochs != list(range(1, EPOCHS + 1)):
        yield Fault.METRICS, f"of epochs {epochs}"
    if not list(found.glob(f"model_*_{EPOCHS:06d}.pt")):
        yield Fault.WEIGHTS, f"there are none of epoch {EPOCHS}"
        return
    if case.ending is Ending.COMPLETE or PYTHON.split()[1] in case.command:
        return
    expected, expected_lines = whole_run(re.sub(r" --log\.(?!interval)\S+ \S+", "", case.command))
    if not torch.equal(expected, final_weights(found)):
        yield Fault.WEIGHTS, "they are other ones than those of a run without the fault"
    if lines != expected_lines and not case.misses_logs:
        yield Fault.METRICS, "they are other ones than those of a run without the fault"


@functools.cache
def whole_run(arguments: str) -> tuple[torch.Tensor, list[dict]]:
    """The final weights and the metrics of a run without a fault."""
    folder = Path(tempfile.mkdtemp(prefix="puffer_whole_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = FaultRun(folder, arguments)
    run.finish()
    assert (run.code, run.said) == (0, "")
    return final_weights(run.run_folder), command.metrics(run.run_folder)


def final_weights(run_folder: Path) -> torch.Tensor:
    """The weights after the last epoch, as one vector."""
    (path,) = run_folder.glob(f"model_*_{EPOCHS:06d}.pt")
    return torch.cat([tensor.flatten() for tensor in checkpoint.load(path).values()])
