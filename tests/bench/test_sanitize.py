"""The suites of bench/sanitize.py on a few modules; and what is broken in them on purpose is reported."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from checked_headers import shared_marks

BENCH = Path(__file__).parents[2] / "bench"
ENVIRONMENTS = "squared", "multiagent", "template"  # one with several agents; tests use the last

pytestmark = [
    *shared_marks(),
    pytest.mark.skipif(sys.platform != "linux", reason="runtimes are preloaded as Linux does"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC"),
]


@pytest.fixture(scope="module")
def sanitize():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        import sanitize

        yield sanitize


def require_runtime(sanitize, sanitizers):
    if sanitize.runtime("gcc", sanitizers) is None:
        pytest.skip(f"GCC has no runtime for {sanitizers}; it comes with the compiler's libraries")


def built(sanitize, folder, name, has_kernels):
    """A copy of the tree with the modules of a short test, built for a suite."""
    suite = replace(sanitize.SUITES[name], macros=sanitize.ONE_VARIANT)
    require_runtime(sanitize, suite.sanitizers)
    sanitize.copy_tree(folder)
    sanitize.keep_modules(folder, ENVIRONMENTS, has_kernels)
    sanitize.build(folder, suite, "gcc")
    return folder


@pytest.fixture(scope="module")
def memory_checked(sanitize, tmp_path_factory):
    return built(sanitize, tmp_path_factory.mktemp("memory"), "bindings", has_kernels=True)


@pytest.fixture(scope="module")
def thread_checked(sanitize, tmp_path_factory):
    return built(sanitize, tmp_path_factory.mktemp("thread"), "threads", has_kernels=False)


@contextlib.contextmanager
def broken(tree, name, right, wrong):
    """Writes a mistake into a source of a copy; its modules are afterwards as they were."""
    path = tree / name
    text = path.read_text()
    assert text.count(right) == 1, f"expected {right!r} once in {name}"
    modules = {module: module.read_bytes() for module in tree.glob("[eov]*/**/*.so")}
    path.write_text(text.replace(right, wrong))
    yield path
    path.write_text(text)
    for module, content in modules.items():
        module.unlink()
        module.write_bytes(content)


def relink_kernels(sanitize, source):
    """Compiles one file of the kernels anew, where a build would compile all."""
    tree = source.parents[1]
    (objects,) = tree.glob("build/temp*/pufferlib.extensions.cpu_kernels/extensions")
    (library,) = tree.glob("extensions/cpu_kernels*.so")
    common = ["g++", f"-fsanitize={sanitize.MEMORY}", "-fPIC", "-O1", "-g1"]
    macros = [sanitize.ONE_VARIANT, "-DKERNEL_OUTLINED"]
    target = objects / f"{source.stem}.o"
    subprocess.run([*common, *macros, "-std=c++17", "-march=native", "-c", source, "-o", target], check=True)
    library.unlink()
    subprocess.run([*common, "-shared", *objects.glob("*.o"), "-o", library], check=True)


def outcome_of(sanitize, tree, name, tests, only=""):
    return sanitize.run(tree, replace(sanitize.SUITES[name], tests=tests), "gcc", only)


def assert_clean(outcome, least):
    assert outcome.is_clean, "\n".join([outcome.output, *outcome.reports])
    assert outcome.passed >= least


def assert_reported(outcome, *words):
    assert outcome.num_reports > 0 and not outcome.is_clean, outcome.output
    text = "\n".join(outcome.reports)
    assert [word for word in words if word not in text] == [], text


# ------------------------------------------------------------------------------------- addresses, leaks, odd shapes

BINDINGS = "tests/ocean/test_binding.py", "tests/ocean/test_binding_arguments.py", "tests/ocean/test_shared.py"
KERNELS = "tests/extensions/test_network.py", "tests/extensions/test_matmul.py", "tests/extensions/test_threads.py"


def test_bindings_touch_no_memory_but_their_own_and_leak_none(sanitize, memory_checked):
    assert_clean(outcome_of(sanitize, memory_checked, "bindings", BINDINGS), least=150)


def test_kernels_of_odd_shapes_touch_no_memory_but_their_tensors(sanitize, memory_checked):
    assert_clean(outcome_of(sanitize, memory_checked, "kernels", KERNELS, "learn or odd or thread"), least=30)


@pytest.mark.weekly
def test_memory_and_references_that_a_binding_never_gives_back_are_reported(sanitize, memory_checked):
    lines = "    Py_XDECREF(vec->members);\n    free(vec->envs.scattered);\n    free(vec->envs.contiguous);\n"
    with broken(memory_checked, "ocean/include/puffer_handles.h", lines, ""):
        sanitize.build(memory_checked, sanitize.SUITES["bindings"], "gcc")
        outcome = outcome_of(sanitize, memory_checked, "bindings", BINDINGS[:1], "same_rollout and squared")
    assert outcome.passed == 1  # seen at the end of the process alone
    assert_reported(outcome, "LeakSanitizer", "Direct leak", "puffer_many.h", "Indirect leak")


# The allocator gives each thread pages of its own, and so the first block of each lies where the runtime errs.
THREAD_LOCAL = """
    static __thread void* kept;
    void** kept_here(void) { return &kept; }
"""
THREADS_THAT_KEEP = """
    #include <dlfcn.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>

    static void** (*kept_here)(void);
    static sem_t kept;

    static void* keep(void* argument) {
        void** here = kept_here();
        *here = malloc(24);
        if ((uintptr_t)here % 4096 == 16) fputs("16 bytes into a page\\n", stderr);
        sem_post(&kept);
        pause();
        return argument;
    }

    int main(int count, char** arguments) {
        pthread_t threads[4];
        kept_here = (void** (*)(void))dlsym(dlopen(arguments[count - 1], RTLD_NOW), "kept_here");
        sem_init(&kept, 0, 0);
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, keep, NULL);
        for (int i = 0; i < 4; i++) sem_wait(&kept);
        malloc(40);
        return 0;
    }
"""


def test_leaks_are_told_from_what_threads_keep_wherever_their_memory_lies(sanitize, tmp_path):
    require_runtime(sanitize, sanitize.MEMORY)
    program, library = tmp_path / "program", tmp_path / "library.so"
    for options, source, target in (
        (["-shared", "-fPIC"], THREAD_LOCAL, library),
        (["-fsanitize=address"], THREADS_THAT_KEEP, program),
    ):
        command = ["gcc", *options, "-x", "c", "-", "-o", target, "-ldl", "-lpthread"]
        subprocess.run(command, input=source, text=True, check=True)
    environment = os.environ | sanitize.variables_of(sanitize.MEMORY, "gcc", tmp_path / "log")
    done = subprocess.run([program, library], env=environment, capture_output=True, text=True, timeout=60)
    assert "16 bytes into a page" in done.stderr
    report = "\n".join(path.read_text() for path in tmp_path.glob("log*"))
    assert "SUMMARY: AddressSanitizer: 40 byte(s) leaked in 1 allocation(s)." in report, report


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("advantages[(row + 1) * call.columns - 1] = 0.0f", "advantages[(row + 1) * call.columns] = 0.0f", "WRITE"),
        ("int64_t end = call.columns - 1; end > 0", "int64_t end = call.columns; end > 0", "READ"),
    ],
    ids=["write", "read"],
)
def test_a_kernel_that_goes_one_number_beyond_a_tensor_is_reported(sanitize, memory_checked, right, wrong, kind):
    with broken(memory_checked, "extensions/advantage.cpp", right, wrong) as source:
        relink_kernels(sanitize, source)
        outcome = outcome_of(sanitize, memory_checked, "kernels", ("tests/extensions/test_advantage_kernel.py",))
    assert_reported(outcome, "heap-buffer-overflow", f"{kind} of size 4", "advantage.cpp")


# ------------------------------------------------------------------------------------------------------- threads

NATIVE = "tests/vector/test_native.py", "tests/vector/test_vector_rollouts.py"


def test_native_steps_environments_on_any_number_of_threads_without_a_race(sanitize, thread_checked):
    assert_clean(outcome_of(sanitize, thread_checked, "threads", NATIVE), least=10)


@pytest.mark.weekly
def test_a_word_that_threads_write_in_no_order_is_reported(sanitize, thread_checked):
    right = "        job->task(job->context, first, first + size, worker);\n"
    wrong = right + "        job->alignment = job->alignment > 1 ? CLAIM_ALIGNMENT : 1;\n"
    with broken(thread_checked, "vector/src/thread_pool.c", right, wrong):
        sanitize.build(thread_checked, sanitize.SUITES["threads"], "gcc")
        outcome = outcome_of(sanitize, thread_checked, "threads", NATIVE, "every_backend and squared")
    assert_reported(outcome, "data race", "thread_pool.c")


def test_a_process_that_ends_amid_its_tests_is_no_success(sanitize, tmp_path):
    (tmp_path / "bench").mkdir()
    shutil.copy(BENCH / "sanitized_pytest.py", tmp_path / "bench")
    (tmp_path / "test_end.py").write_text("import os\ndef test_first(): pass\ndef test_end(): os._exit(0)\n")
    outcome = sanitize.run(tmp_path, sanitize.Suite(None, ("test_end.py",)), "gcc")
    assert (outcome.passed, outcome.is_clean) == (0, False)
