"""Every environment steps clean under sanitizers, from the state that play leads to and from any that it accepts.

One program for each sanitizer holds the environments that run: tests/c/drive.c and an object of drive_env.c for each.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from checked_headers import SHARED, STANDING, is_changed, params
from contract import COMPILED, Case, cases, extreme_cases
from game import SNAPSHOT_HEADER_BYTES, Game
from test_headers import HEADERS, INCLUDE, ROOT, WARNINGS, check, is_gcc, struct_name

from pufferlib import ocean

# Those that are built and stepped on every run: what was under the sanitizers as it is has nothing new to show.
ALWAYS = STANDING if is_changed(SHARED) else ("puffer_breakout", "puffer_target")
STEPS = 100_000  # of agents, as few for each environment alone as a game has ends in
FLAGS = ["-std=gnu11", "-g", "-O1", "-fno-sanitize-recover=all", *WARNINGS]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are GCC's on Linux"),
    pytest.mark.skipif(not is_gcc(), reason="needs GCC"),
]


def require_sanitizer(name, folder):
    """Skips the test where no program with this sanitizer links and runs."""
    command = ["gcc", f"-fsanitize={name}", "-x", "c", "-", "-o", folder / "probe"]
    built = subprocess.run(command, input="int main(void) { return 0; }", text=True, capture_output=True)
    if built.returncode != 0 or subprocess.run([folder / "probe"], capture_output=True).returncode != 0:
        pytest.skip(f"GCC has no sanitizer {name}")


def shared_name(name):
    found = re.search(r"^typedef (\w+) Shared;", (HEADERS[name].parent / "binding.c").read_text(), re.MULTILINE)
    return found and found[1]


def build(request, folder, sanitizers):
    """The program with the environments of all tests that are to run, built once."""
    for name in sanitizers.split(","):
        require_sanitizer(name, folder)
    params = [item.callspec.params for item in request.session.items if item.path == request.path]
    chosen = {param["name"] if "name" in param else param["case"].name for param in params}
    names = [name.removeprefix(ocean.PREFIX) for name in COMPILED if name in chosen]
    compiler = ["gcc", *FLAGS, f"-fsanitize={sanitizers}", "-I", INCLUDE]

    def compile_one(name):
        shared = shared_name(name)
        defines = [f"-DNAME={name}", f"-DENV={struct_name(name)}", *([f"-DSHARED={shared}"] if shared else [])]
        binding = (HEADERS[name].parent / "binding.c").read_text()
        arrays = re.findall(r"^#define (ENV_ACTION_MASKS|ENV_TURNS)$", binding, re.MULTILINE)
        defines += [f"-D{array}" for array in arrays]
        source, target = ROOT / "tests/c/drive_env.c", folder / f"{name}.o"
        check([*compiler, *defines, "-include", HEADERS[name], "-c", source, "-o", target])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, names))
    declared, listed = (", ".join(prefix + name for name in names) for prefix in ("drive_", "&drive_"))
    listing = folder / "listing.c"
    listing.write_text(
        f'#include "drive.h"\nextern const DrivenEnv {declared};\n'
        f"extern const DrivenEnv* const DRIVEN_ENVS[];\nconst DrivenEnv* const DRIVEN_ENVS[] = {{{listed}, NULL}};\n"
    )
    sources = [ROOT / "tests/c/drive.c", listing, *objects]
    check([*compiler, "-I", ROOT / "tests/c", *sources, "-o", folder / "drive", "-pthread", "-lm"])
    return folder / "drive"


@pytest.fixture(scope="module")
def memory_checked(request, tmp_path_factory):
    return build(request, tmp_path_factory.mktemp("asan"), "address,undefined,float-cast-overflow")


@pytest.fixture(scope="module")
def thread_checked(request, tmp_path_factory):
    return build(request, tmp_path_factory.mktemp("tsan"), "thread")


class Driver:
    """One case in a program that `build` made."""

    def __init__(self, program, case: Case, folder: Path):
        game = Game(case.name, **case.kwargs)
        self.agents = game.agents
        self.program = [program, game.name]
        env_bytes, shared_bytes = map(int, check([*self.program, "sizes"]).split())
        files = folder / "struct", folder / "shared"
        files[0].write_bytes(configured_struct(game)[:env_bytes])
        files[1].write_bytes(shared_state(game, shared_bytes))
        self.setup = [*files, num_choices(game.action_space)]

    def hash(self, envs, threads, steps):
        return check([*self.program, *self.setup, envs, threads, steps])

    def fuzz(self, tries, steps):
        return int(check([*self.program, "fuzz", *self.setup, tries, steps]))


def num_choices(space):
    """The most that a discrete action may be, and one more; 0 for boxes."""
    return int(np.max(getattr(space, "nvec", getattr(space, "n", 0))))


def configured_struct(game):
    """The bytes of one environment's struct (and more), borrowed pointers zero."""
    single = game.single()
    game.binding.env_reset(single)
    return game.binding.env_get(single)[SNAPSHOT_HEADER_BYTES:]


def shared_state(game, size):
    if size == 0:
        return b""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.string_at(get_pointer(game.shared, f"pufferlib.ocean.{game.name}.shared".encode()), size)


@pytest.mark.parametrize("case", params(cases(), ALWAYS))
def test_random_steps_are_clean_under_asan_and_ubsan(memory_checked, case, tmp_path):
    driver = Driver(memory_checked, case, tmp_path)
    steps = max(2500, STEPS // (4 * driver.agents))
    assert driver.hash(envs=4, threads=1, steps=steps) != driver.hash(envs=4, threads=1, steps=10)


@pytest.mark.parametrize("case", params(extreme_cases(), ALWAYS))
def test_the_smallest_and_the_largest_are_clean_too(memory_checked, case, tmp_path):
    driver = Driver(memory_checked, case, tmp_path)
    driver.hash(envs=2, threads=1, steps=max(500, min(2500, STEPS // driver.agents)))


@pytest.mark.parametrize("case", params(cases(), ALWAYS))
def test_whatever_is_accepted_in_place_of_a_struct_is_stepped_cleanly(memory_checked, case, tmp_path):
    driver = Driver(memory_checked, case, tmp_path)
    assert 30 <= driver.fuzz(tries=3000, steps=max(30, 1000 // driver.agents)) < 2900


@pytest.mark.parametrize("name", params(COMPILED, ALWAYS))
def test_two_threads_over_disjoint_environments_are_clean_under_tsan(thread_checked, name, tmp_path):
    driver = Driver(thread_checked, Case(name), tmp_path)
    steps = max(60, min(500, STEPS // (7 * driver.agents)))
    assert driver.hash(envs=7, threads=2, steps=steps) == driver.hash(envs=7, threads=1, steps=steps)
