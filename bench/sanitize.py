"""Runs the native suites on C and C++ built with sanitizers, in a copy of the tree, and counts what they report.

    python bench/sanitize.py                           all, and rows in bench/results/sanitizers.csv
    python bench/sanitize.py threads --print-only      one suite, and no rows
    SANITIZE_CC=clang python bench/sanitize.py         with clang and its runtime for memory

Modules that Python opens need the sanitizer's runtime in the interpreter before anything else: it is preloaded, and the
interpreter allocates by malloc, so that a step beyond a bytes object or a tensor is seen as well. The exit status is 0
only if every test passed and nothing was reported.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import record

ROOT = Path(__file__).parents[1]
MAPPED = ("ocean", "vector", "extensions")
MEMORY, THREADS = "address,undefined,float-cast-overflow", "thread"
RUNTIMES = {  # clang's for threads cannot be preloaded: no program starts with it
    "gcc": {MEMORY: "libasan.so", THREADS: "libtsan.so"},
    "clang": {MEMORY: "libclang_rt.asan-x86_64.so"},
}
REPORT = re.compile(
    r"ERROR: (?:Address|Leak)Sanitizer|Sanitizer: CHECK failed|WARNING: ThreadSanitizer|: runtime error: "
)
TIMEOUT_SECONDS = 1800
BUILT = shutil.ignore_patterns("*.so", "*.fatbin", "_native.c", "__pycache__")


@dataclass(frozen=True)
class Suite:
    """Tests that run in one process, or in as many as they start, on one build.

    Attributes:
        sanitizers: what the modules are built with; None where the tests build programs of their own.
        tests: files or single tests.
        left_out: of these the tests that cannot pass, whatever the library does, as the comments beside them say.
        macros: for the preprocessor.
    """

    sanitizers: str | None
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    macros: str = ""


OCEAN = ("binding", "binding_arguments", "binding_fuzz", "forged_snapshots", "shared", "final_observations", "contract")
VECTOR = ("native", "bells", "in_order", "vector_snapshots", "vector_rollouts")
KERNELS = (
    *("advantage_kernel", "mingru_kernel", "matmul", "network", "network_entities", "optimizers", "adam"),
    *("orthogonalize", "threads"),
)
PRODUCTS = tuple(f"tests/extensions/test_{name}.py" for name in ("matmul", "network", "orthogonalize"))
PROGRAMS = "tests/vector/test_thread_pool.py", "tests/vector/test_bells.py"
ONE_VARIANT = "-DKERNEL_BASELINE"  # threads share out the work alike, whatever the registers

SUITES = {
    "programs": Suite(None, ("tests/ocean/test_sanitizers.py", *PROGRAMS)),
    "bindings": Suite(
        MEMORY,
        tuple(f"tests/ocean/test_{name}.py" for name in OCEAN),
        ("leaks_nothing",),  # AddressSanitizer holds freed memory back; leaks it sees itself
    ),
    "vectors": Suite(MEMORY, tuple(f"tests/vector/test_{name}.py" for name in VECTOR)),
    "kernels": Suite(MEMORY, tuple(f"tests/extensions/test_{name}.py" for name in KERNELS)),
    "kernels_avx2": Suite(MEMORY, PRODUCTS, macros="-DKERNEL_NO_AVX512"),
    "kernels_baseline": Suite(MEMORY, PRODUCTS, macros=ONE_VARIANT),
    "threads": Suite(
        THREADS,
        ("tests/vector/test_native.py", "tests/vector/test_vector_rollouts.py"),
        ("forked_child",),  # ThreadSanitizer knows no threads after a fork
        macros=ONE_VARIANT,
    ),
    "kernel_threads": Suite(
        THREADS,
        tuple(
            f"tests/extensions/test_{name}.py" for name in ("threads", "advantage_kernel", "orthogonalize", "network")
        ),
        ("child_has_threads",),  # as above
        macros=ONE_VARIANT,
    ),
}


@dataclass(frozen=True)
class Row:
    """One line of results/sanitizers.csv."""

    date: str  # UTC
    machine: str
    commit: str
    sanitizers: str
    compiler: str
    suite: str
    passed: int  # tests
    failed: int
    reports: int
    seconds: int  # of the tests, without the build
    command: str


@dataclass(frozen=True)
class Outcome:
    """What a suite gave.

    Attributes:
        passed: tests.
        failed: tests, among them one for a process that ended in the midst of them.
        reports: what the sanitizers wrote, a text for each process.
        seconds: it took.
        output: what pytest printed.
    """

    passed: int
    failed: int
    reports: tuple[str, ...]
    seconds: float
    output: str

    @property
    def num_reports(self) -> int:
        """Single reports in all texts."""
        return sum(len(REPORT.findall(text)) for text in self.reports)

    @property
    def is_clean(self) -> bool:
        """Whether something was run, everything passed, and nothing was reported."""
        return self.passed > 0 and self.failed == 0 and self.num_reports == 0


def copy_tree(folder: Path) -> Path:
    """Copies the sources and what tests them, and links the mapped folders as an editable install does."""
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):  # .git may be a file that points to this tree
            shutil.copy2(path, folder)
    for name in ("tests", "bench", *MAPPED):
        shutil.copytree(ROOT / name, folder / name, ignore=BUILT)
    shutil.copytree(ROOT / "pufferlib", folder / "pufferlib", ignore=lambda path, names: {*BUILT(path, names), *MAPPED})
    for name in MAPPED:
        (folder / "pufferlib" / name).symlink_to(Path("..", name), target_is_directory=True)
    return folder


def keep_modules(tree: Path, environments: tuple[str, ...], has_kernels: bool) -> None:
    """Leaves so many modules in a copy as a short test needs: some environments, nothing to draw them with."""
    for source in tree.glob("ocean/*/binding.c"):
        if source.parent.name not in environments:
            shutil.rmtree(source.parent)
    for header in tree.glob("ocean/*/*_render.h"):
        header.unlink()
    if not has_kernels:
        for source in tree.glob("extensions/*.cpp"):
            source.write_text("")


def build(tree: Path, suite: Suite, compiler: str, *options: str) -> None:
    """Builds the modules of a copy in place; those that were built already, in the same way, with `--force` alone."""
    compilers = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}[compiler]
    variables = {"CC": compilers[0], "CXX": compilers[1], "CPPFLAGS": suite.macros}
    variables |= {"PUFFER_SANITIZE": suite.sanitizers, "PUFFER_CUDA": "0"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", *options]
    subprocess.run(command, cwd=tree, env=os.environ | variables, check=True)


def suites_of(compiler: str) -> list[str]:
    """The suites that a compiler can be tried with; programs that tests build are GCC's."""
    known = {*RUNTIMES[compiler], *([None] if compiler == "gcc" else [])}
    return [name for name, suite in SUITES.items() if suite.sanitizers in known]


def runtime(compiler: str, sanitizers: str) -> str | None:
    """The libraries to preload, None where this compiler has none.

    They are the sanitizer's and that of C++, whose exceptions the first looks for when it starts.
    """
    if shutil.which(compiler) is None:
        return None
    names = RUNTIMES[compiler][sanitizers], "libstdc++.so.6"
    commands = ([compiler, f"-print-file-name={name}"] for name in names)
    paths = [Path(subprocess.check_output(command, text=True).strip()) for command in commands]
    return " ".join(map(str, paths)) if all(path.is_absolute() and path.exists() for path in paths) else None


def variables_of(sanitizers: str, compiler: str, log: Path) -> dict[str, str]:
    """The environment of an interpreter with the runtime in it, whose reports go to files that begin like `log`."""
    where = f"log_path={log}:log_exe_name=1"
    options = {
        # Not detect_stack_use_after_return: GCC before 13.3 stores vectors of 64 bytes in frames that it aligns to less
        # (its bug 110027). And not intercept_tls_get_addr: before GCC 14 and clang 17, thread-local memory that begins
        # 16 bytes into a page is taken for that of an old glibc, and the search for leaks ends by a signal (issue 1322
        # of google/sanitizers). It is searched without that too, as glibc allocates it by malloc.
        "ASAN_OPTIONS": f"{where}:detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0",
        "UBSAN_OPTIONS": f"{where}:print_stacktrace=1",
        "TSAN_OPTIONS": f"{where}:ignore_noninstrumented_modules=1",
    }
    preloaded = runtime(compiler, sanitizers)
    assert preloaded is not None, f"{compiler} has no runtime for {sanitizers}"
    return options | {"LD_PRELOAD": preloaded, "PYTHONMALLOC": "malloc"}


def run(tree: Path, suite: Suite, compiler: str, only: str = "") -> Outcome:
    """Runs the tests of a suite in a built copy; `only` says which of them as pytest's -k does."""
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder, "report.xml"), Path(folder, "log")
        environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PUFFER_ALL_ENVIRONMENTS": "1"}
        if suite.sanitizers is not None:
            environment |= variables_of(suite.sanitizers, compiler, log)
        selected = " and ".join([*([f"({only})"] if only else []), *(f"not {name}" for name in suite.left_out)])
        command = [sys.executable, "bench/sanitized_pytest.py", "-n0", "-q", "-p", "no:cacheprovider"]
        command += ["-m", "slow" if suite.sanitizers is None else "not slow or quick", f"--junitxml={report}"]
        command += [*(["-k", selected] if selected else []), *suite.tests]
        start = time.monotonic()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=tree, env=environment, timeout=TIMEOUT_SECONDS, **pipes)
        seconds = time.monotonic() - start
        passed, failed = counted(report)
        texts = tuple(path.read_text(errors="replace") for path in sorted(Path(folder).glob("log.*")))
        was_cut_off = done.returncode != 0 and failed == 0
        return Outcome(passed, failed + was_cut_off, texts, seconds, done.stdout)


def counted(report: Path) -> tuple[int, int]:
    """Tests that passed and that failed, by pytest's report; none where it did not come to write one."""
    if not report.exists():
        return 0, 0
    suites = ElementTree.parse(report).getroot().findall("testsuite")
    total, failed, skipped = (
        sum(int(each.get(key)) for each in suites for key in keys)
        for keys in (["tests"], ["failures", "errors"], ["skipped"])
    )
    return total - failed - skipped, failed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"out of {', '.join(SUITES)}; all by default")
    parser.add_argument("--print-only", action="store_true", help="adds no rows")
    parser.add_argument("-k", dest="only", default="", help="as pytest's: which tests")
    options = parser.parse_args(arguments)
    compiler = os.environ.get("SANITIZE_CC", "gcc")
    if compiler not in RUNTIMES:
        parser.error(f"expected SANITIZE_CC to be one of {', '.join(RUNTIMES)}, found {compiler}")
    if unknown := [name for name in options.suites if name not in suites_of(compiler)]:
        parser.error(f"expected suites out of {', '.join(suites_of(compiler))}, found {', '.join(unknown)}")
    is_clean = True
    with tempfile.TemporaryDirectory() as folder:
        tree, built = copy_tree(Path(folder)), (None, "")
        for name in options.suites or suites_of(compiler):
            suite = SUITES[name]
            wanted = suite.sanitizers, suite.macros
            if suite.sanitizers is not None and wanted != built:
                (tree / "extensions/kernel.h").touch()  # what macros there are is a matter of the kernels alone
                build(tree, suite, compiler, *(["--force"] if suite.sanitizers != built[0] else []))
                built = wanted
            place = ROOT if suite.sanitizers is None else tree  # as it is built, which those tests only ask for facts
            outcome = run(place, suite, compiler, options.only)
            tell(name, outcome)
            is_clean &= outcome.is_clean
            if not options.print_only:
                record.append("sanitizers", [row(name, suite, compiler, outcome)])
    return 0 if is_clean else 1


def tell(name: str, outcome: Outcome) -> None:
    if not outcome.is_clean:
        print(outcome.output, *outcome.reports, sep="\n")
    counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.num_reports} reports"
    print(f"{name}: {counts}, {outcome.seconds:.0f} s", flush=True)


def row(name: str, suite: Suite, compiler: str, outcome: Outcome) -> Row:
    version = subprocess.check_output([compiler, "-dumpfullversion", "-dumpversion"], text=True).strip()
    return Row(
        date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        machine=record.machine(),
        commit=record.commit(),
        sanitizers=suite.sanitizers or f"{MEMORY} and {THREADS}",
        compiler=f"{compiler} {version}",
        suite=name,
        passed=outcome.passed,
        failed=outcome.failed,
        reports=outcome.num_reports,
        seconds=round(outcome.seconds),
        command=shlex.join(["python", "bench/sanitize.py", name]),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
