"""Fuzzers of the environments: builds libFuzzer's target of each (fuzz_binding.c), runs it, and reads what it found."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from contract import COMPILED, RANGE, Case, extreme_cases
from game import Game

from pufferlib import ocean

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "ocean/include"
CORPORA = HERE / "corpora.json"  # the inputs of each corpus in base64
NAMES = [name.removeprefix(ocean.PREFIX) for name in COMPILED]

SANITIZERS = "fuzzer,address,undefined,float-cast-overflow"
# As the modules are compiled, so that what is checked is what runs.
COMPILE_FLAGS = ["-std=gnu11", "-g1", "-O1", "-ffp-contract=off", "-fno-math-errno", f"-fsanitize={SANITIZERS}"]
# Comparisons are not traced: it takes most of the time, and there is no magic number to find.
COMPILE_FLAGS += [
    "-fno-sanitize-coverage=trace-cmp",
    "-fno-sanitize-recover=all",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
]

# An environment of terabytes is refused as on any machine; Python keeps what it likes at its end.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=256",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONHASHSEED": "0",
}
LONGEST_INPUT = {"play": 128, "calls": 256}  # bytes
MOST_IN_CORPUS, LARGEST_IN_CORPUS = 24, 400  # files; bytes of one
PYTHON_TARGETS = ("settings", "checkpoint")  # of python_targets.py


# How many times as long a step takes by each one more of a keyword argument; the least of it is then what is usual.
COSTS = {"bot_depth": 5.0, "strength": 4.0, "num_snakes": 1.02}


@dataclass(frozen=True)
class Facts:
    """What the target of an environment is told about it.

    Attributes:
        keywords: name, kind in fuzz_python.h, least, most and usual value, and cost of each keyword argument of its
            binding.
        choices: how many values a discrete action may have, at least 1.
        lows: least values of an observation with the usual arguments: one for all elements, or one each.
        highs: the largest ones, as many.
        any_low: least value with any arguments.
        any_high: the largest one.
    """

    keywords: Sequence[tuple[str, str, float, float, float, float]]
    choices: int
    lows: Sequence[float]
    highs: Sequence[float]
    any_low: float
    any_high: float

    def header(self) -> str:
        """The definitions that fuzz_binding.c is compiled with."""
        rows = (
            f'{{"{name}", {kind}, {", ".join(f"{number:g}" for number in numbers)}}}, '
            for name, kind, *numbers in self.keywords
        )
        definitions = {
            "KEYWORD_ROWS": "".join(rows),
            "NUM_CHOICES": str(self.choices),
            "OBSERVATION_LOWS": ", ".join(map(_c_float, self.lows)),
            "OBSERVATION_HIGHS": ", ".join(map(_c_float, self.highs)),
            "ANY_LOW": _c_float(self.any_low),
            "ANY_HIGH": _c_float(self.any_high),
        }
        return "".join(f"#define {name} {value}\n" for name, value in definitions.items())


@dataclass(frozen=True)
class Outcome:
    """What a run of a fuzzer came to.

    Attributes:
        executions: inputs that were tried.
        done: environment steps of `play`, calls of `calls`, executions of others.
        served: calls that were not refused.
        edges: of the instrumented code that were reached.
        seconds: of wall clock.
        crash: the first line that says what went wrong; None where nothing did.
        report: all that the fuzzer wrote.
    """

    executions: int
    done: int
    served: int
    edges: int
    seconds: float
    crash: str | None
    report: str = field(repr=False)


def missing(target: str = "play") -> str | None:
    """Why a target cannot run here; None where it can."""
    if sys.platform != "linux":
        return "the fuzzers are built on Linux alone"
    return _missing_atheris() if target in PYTHON_TARGETS else _missing_libfuzzer()


def _missing_atheris() -> str | None:
    found = importlib.util.find_spec("atheris")
    return None if found else "needs Atheris; install it by `pip install -e '.[fuzz]'`, on x86-64"


@functools.cache
def _missing_libfuzzer() -> str | None:
    if shutil.which("clang") is None:
        return "needs clang with libFuzzer; install it by `apt-get install clang libclang-rt-dev`"
    if not _embedding_flags():
        return "this Python has no library to embed; install libpython3-dev or build it with --enable-shared"
    with tempfile.TemporaryDirectory() as folder:
        source = "int LLVMFuzzerTestOneInput(const char* bytes, unsigned long size) { return 0; }"
        command = ["clang", f"-fsanitize={SANITIZERS}", "-x", "c", "-", "-o", f"{folder}/probe"]
        done = subprocess.run(command, input=source, text=True, capture_output=True)
    return None if done.returncode == 0 else "this clang has no libFuzzer; install its runtime, libclang-rt-dev"


def facts_of(name: str) -> Facts:
    """What an Ocean environment's class and binding tell of it."""
    full_name = ocean.PREFIX + name
    game = Game(full_name)
    usual = Case(full_name).make(1).single_observation_space
    extremes = [case.make(1).single_observation_space for case in extreme_cases() if case.name == full_name]
    discrete = getattr(game.action_space, "nvec", getattr(game.action_space, "n", 1))
    is_uniform = all(np.all(bound == bound.flat[0]) for bound in (usual.low, usual.high))
    return Facts(
        keywords=[_keyword(game, key) for key in game.kwargs],
        choices=int(np.max(discrete)),
        lows=usual.low.ravel()[:1].tolist() if is_uniform else usual.low.ravel().tolist(),
        highs=usual.high.ravel()[:1].tolist() if is_uniform else usual.high.ravel().tolist(),
        any_low=min(float(space.low.min()) for space in (usual, *extremes)),
        any_high=max(float(space.high.max()) for space in (usual, *extremes)),
    )


def build(
    binding: Path, facts: Facts, folder: Path, include: Path = INCLUDE, more_flags: Sequence[str] = (), name: str = ""
) -> Path:
    """Compiles the target of one environment.

    Args:
        binding: its binding.c.
        facts: about it.
        folder: for the program and the header of the facts.
        include: the folder of the common headers, or of a changed copy.
        more_flags: for the compiler.
        name: of the program; that of the binding's folder where none is given.

    Returns:
        The program.

    Raises:
        CalledProcessError: if the compiler refuses.
    """
    program = folder / f"fuzz_{name or binding.parent.name}"
    header = program.with_suffix(".h")
    header.write_text(facts.header())
    defines = [f'-DBINDING="{binding}"', f'-DPYTHON_HOME="{sys.base_prefix}"', "-include", str(header)]
    folders = [f"-I{include}", f"-I{binding.parent}", f"-I{sysconfig.get_paths()['include']}"]
    command = [
        "clang",
        *COMPILE_FLAGS,
        *more_flags,
        *defines,
        *folders,
        str(HERE / "fuzz_binding.c"),
        "-o",
        str(program),
    ]
    done = subprocess.run([*command, *_embedding_flags()], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return program


def run(
    command: Sequence[str | Path],
    corpora: Iterable[Path] = (),
    seconds: float = 60.0,
    executions: int = -1,
    seed: int = 1,
    more_flags: Sequence[str] = (),
    artifacts: Path | None = None,
) -> Outcome:
    """Runs a fuzzer until its time, its number of inputs or a goal of its own is reached, or something breaks.

    Args:
        command: the program and its first words.
        corpora: folders of inputs to begin with; the first one takes new ones.
        seconds: of fuzzing; an input may take a minute.
        executions: inputs at most; -1 for no limit, 0 to try the corpora alone.
        seed: of libFuzzer; one seed and one corpus give one run, where a number of inputs is its limit.
        more_flags: of libFuzzer or of the target.
        artifacts: the folder for an input that breaks something; a temporary one where none is given.
    """
    with tempfile.TemporaryDirectory() as scratch:
        flags = [f"-seed={seed}", f"-max_total_time={int(seconds)}", f"-runs={executions}", "-print_final_stats=1"]
        flags += ["-timeout=60", "-rss_limit_mb=4096", f"-artifact_prefix={artifacts or scratch}/", *more_flags]
        words = [str(word) for word in (*command, *corpora, *flags)]
        began = time.perf_counter()
        done = subprocess.run(
            words, env={**os.environ, **OPTIONS}, capture_output=True, timeout=seconds + 600, errors="replace"
        )
        taken = time.perf_counter() - began
    report = done.stdout + done.stderr  # Atheris tells of exceptions on the former
    steps, calls, served = (_last_number(report, rf"fuzz: .*?(\d+) {unit}") for unit in ("steps", "calls", "served"))
    tried = _last_number(report, r"stat::number_of_executed_units: +(\d+)")
    return Outcome(
        executions=tried,
        done=steps + calls or tried,
        served=served,
        edges=_last_number(report, r"cov: (\d+)"),
        seconds=taken,
        crash=None if done.returncode == 0 else _reason(report, done.returncode),
        report=report,
    )


def fuzz(command: Sequence[str | Path], mode: str, goal: int | None = None, **options) -> Outcome:
    """Runs a target.

    Args:
        command: that runs it: what `build` made and a flag such as `--play`, or `python_command`.
        mode: `play`, `calls`, or the name of a target in Python.
        goal: environment steps or calls after which it ends.
        options: of `run`.
    """
    flags = [
        f"-max_len={LONGEST_INPUT.get(mode, 4096)}",
        "-len_control=0",
        *([] if goal is None else [f"--goal={goal}"]),
    ]
    return run(command, **{**options, "more_flags": [*flags, *options.get("more_flags", ())]})


def merge(command: Sequence[str | Path], mode: str, found: Iterable[Path], corpus: Path) -> None:
    """Writes into an empty corpus the fewest of the found inputs that reach all that they do.

    Where these are too many, they are thinned out evenly from the smallest to the largest; so are those of Atheris,
    which libFuzzer cannot start to merge.
    """
    if mode not in PYTHON_TARGETS:
        flags = ["-set_cover_merge=1", f"-max_len={LONGEST_INPUT[mode]}"]
        words = [str(word) for word in (*command, *flags, corpus, *found)]
        subprocess.run(words, env={**os.environ, **OPTIONS}, capture_output=True, timeout=3600, check=True)
        found = [corpus]
    files = sorted((file for folder in found for file in folder.iterdir()), key=lambda file: file.stat().st_size)
    small = [file for file in files if file.stat().st_size <= LARGEST_IN_CORPUS]
    kept = {file.name: file.read_bytes() for file in small[:: -(-len(small) // MOST_IN_CORPUS) or 1]}
    for file in corpus.iterdir():
        file.unlink()
    for name, content in kept.items():
        (corpus / name).write_bytes(content)


def corpora() -> dict[str, list[bytes]]:
    """The committed inputs by the names of their corpora."""
    return {name: [*map(base64.b64decode, inputs)] for name, inputs in json.loads(CORPORA.read_text()).items()}


def save_corpora(found: Mapping[str, Iterable[bytes]]) -> None:
    """Writes all corpora anew."""
    texts = {name: [base64.b64encode(content).decode() for content in found[name]] for name in sorted(found)}
    CORPORA.write_text(json.dumps(texts, indent=0) + "\n")


def corpus_name(target: str) -> str:
    """The name of a target's corpus; the calls of all environments share one."""
    mode, _, name = target.partition("/")
    return name if mode == "play" else mode


def corpus_of(target: str, folder: Path) -> Path:
    """Writes the committed inputs of a target into files of a new folder below `folder`, which it returns."""
    corpus = folder / "corpus" / target
    corpus.mkdir(parents=True)
    for content in corpora().get(corpus_name(target), []):
        (corpus / hashlib.sha1(content).hexdigest()).write_bytes(content)
    return corpus


def binding_of(name: str) -> Path:
    """The binding of an Ocean environment."""
    return ROOT / "ocean" / name / "binding.c"


def python_command(target: str, *flags: str) -> list[str | Path]:
    """What runs a target in Python."""
    return [sys.executable, HERE / "python_targets.py", target, *flags]


@functools.cache
def _embedding_flags() -> tuple[str, ...]:
    """What links a program with this Python; empty where it has no library."""
    folder, library = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY")
    for place in (folder, sysconfig.get_config_var("LIBPL")):
        if place and library and Path(place, library).exists():
            system = f"{sysconfig.get_config_var('LIBS') or ''} {sysconfig.get_config_var('SYSLIBS') or ''}".split()
            return (str(Path(place, library)), f"-Wl,-rpath,{place}", "-rdynamic", *system, "-lm")
    return ()


def _keyword(game: Game, key: str) -> tuple[str, str, float, float, float, float]:
    usual = game.kwargs[key]
    if isinstance(usual, bool):
        return key, "SWITCH", 0.0, 1.0, float(usual), 1.0
    try:
        game.vec(1, **{key: "text"})
    except (TypeError, ValueError) as error:
        found = RANGE.search(str(error))
    assert found is not None, f"expected the binding of {game.name} to tell the range of {key}"
    kind = "INTEGER" if found[1] == "an integer" else "NUMBER"
    low, high = float(found[2]), float(found[3])
    return key, kind, low, high, low if key in COSTS else float(usual), COSTS.get(key, 1.0)


def _c_float(value: float) -> str:
    return {np.inf: "INFINITY", -np.inf: "-INFINITY"}.get(value, repr(float(value)))


def _last_number(report: str, pattern: str) -> int:
    found = re.findall(pattern, report)
    return int(found[-1]) if found else 0


def _reason(report: str, status: int) -> str:
    for pattern in (
        r"^fuzz: .+: .+",
        r"^.*runtime error: .+",
        r"ERROR: AddressSanitizer: \S+.*",
        r"ERROR: libFuzzer: .+",
    ):
        found = re.search(pattern, report, re.MULTILINE)
        if found:
            return found[0].strip()
    return f"the fuzzer ended with status {status}"
