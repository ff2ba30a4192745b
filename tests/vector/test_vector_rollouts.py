"""One seed gives one rollout, bit for bit, whatever the backend and the number of workers."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig

import golden
import pytest
from checked_headers import params
from contract import COMPILED
from environments import CountingEnv
from rollouts import digest, make_quietly, rollout

from pufferlib import ocean, vector

SEVERAL_BACKENDS = ("puffer_drone", "puffer_template")
GOLDEN = json.loads(golden.FILE.read_text())
VARIANTS = [
    {"backend": "Serial", "batch_size": 1},
    *({"backend": "Native", "num_workers": threads} for threads in (1, 2, 3, 7)),
    {"backend": "Native", "num_workers": 2, "batch_size": 2},
    {"backend": "Device", "num_workers": 2},  # with nobody to lend to
    {"backend": "Multiprocessing", "num_workers": 1, "context": "fork"},  # the start method that is quick to test
    {"backend": "Multiprocessing", "num_workers": 2, "batch_size": 1, "context": "fork"},
]


@pytest.mark.parametrize("name", COMPILED)
def test_an_ocean_environment_gives_its_golden_rollout_on_seven_threads(name):
    has_golden = GOLDEN["library"] == golden.library_fingerprint() or not golden.calls_the_library(name)
    reference = GOLDEN["hashes"].get(name) if has_golden else golden.fingerprint(name, backend="Serial")
    found = golden.fingerprint(name, backend="Native", num_workers=7)
    assert found == reference, f"where that is meant: python tests/vector/golden.py {name}"


@pytest.mark.quick("puffer_drone")
@pytest.mark.parametrize("name", params(COMPILED, SEVERAL_BACKENDS, (pytest.mark.slow, pytest.mark.weekly)))
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_every_backend_gives_the_same_rollout_of_an_ocean_environment(name):
    reference = golden.fingerprint(name, backend="Serial")
    assert [golden.fingerprint(name, **variant) for variant in VARIANTS] == [reference] * len(VARIANTS)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
@pytest.mark.parametrize("name", params(COMPILED))
def test_clang_plays_the_same_episodes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ocean.env_class(name), "binding", built_by_clang(name, tmp_path / "binding.so"))
    if GOLDEN["library"] != golden.library_fingerprint() and golden.calls_the_library(name):
        pytest.skip("the golden hash of this environment is another C library's")
    assert golden.fingerprint(name, backend="Serial") == GOLDEN["hashes"].get(name)


def built_by_clang(name, module):
    """The binding of an environment, compiled as setup.py does but for speed."""
    folder = ocean.config_path(name).parent
    flags = ["-std=c11", "-O1", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Wno-unused-parameter"]
    flags += [f"-I{path}" for path in (folder.parent / "include", sysconfig.get_paths()["include"])]
    flags += ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = ["clang", *flags, "-Werror", "-shared", "-fPIC", folder / "binding.c", "-o", module, "-lm"]
    subprocess.run(command, check=True, timeout=600)
    spec = importlib.util.spec_from_file_location("binding", module)
    opened = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(opened)
    return opened


@pytest.mark.quick("True")
@pytest.mark.parametrize("zero_copy", [True, False])
def test_processes_give_the_serial_rollout_of_a_python_environment(zero_copy):
    def run(**options):
        return digest(rollout(make_quietly(CountingEnv, num_envs=4, seed=5, **options), steps=64))

    reference = run(backend="Serial")
    assert run(backend="Multiprocessing", num_workers=2, batch_size=2, zero_copy=zero_copy) == reference


def test_another_seed_gives_another_rollout():
    squared = ocean.env_class("puffer_squared")
    digests = {digest(rollout(vector.make(squared, seed=seed, backend="Serial"), steps=8)) for seed in range(4)}
    assert len(digests) == 4


def test_environments_of_one_vector_differ():
    history = rollout(vector.make(CountingEnv, num_envs=4, seed=5, backend="Serial"), steps=2)
    noise = history[0][0][:, 3]
    assert len(set(noise.tolist())) == len(noise)
