"""The environments' own headers as kernels: the golden episodes, and everything comes back as it would be on a CPU."""

from __future__ import annotations

import json
import shutil
import subprocess

import golden
import numpy as np
import pytest
import torch
from checked_headers import params
from contract import COMPILED
from device_player import DevicePlayer
from emulated_device import SHARED_BYTES, device_emulator, needs_emulator  # noqa: F401 - a fixture
from rollouts import digest, make_quietly, random_actions
from traced_policies import layers_of

from pufferlib import ocean
from pufferlib.config import load_config
from pufferlib.errors import APIUsageError, PufferError
from pufferlib.extensions import cuda_library
from pufferlib.fast.device_collector import THREADS_PER_BLOCK, Blocks
from pufferlib.fast.device_envs import device_code, device_program, play_program
from pufferlib.fast.device_network import DeviceNetwork, can_be_in_a_rollout
from pufferlib.runs.loaders import load_env, load_policy

GOLDEN = json.loads(golden.FILE.read_text())


def make(name, num_agents=golden.NUM_AGENTS, backend="Device"):
    env_class = ocean.env_class(name)
    sizes = {"env_kwargs": {"num_envs": max(3, num_agents // env_class.agents_per_env)}, "num_envs": 2, "seed": 3}
    return make_quietly(env_class, **sizes, backend=backend)


QUICK = ("puffer_breakout", "puffer_g2048", "puffer_go", "puffer_target")  # one agent, a shared table, search, several


OTHERS = [name for name in COMPILED if name not in QUICK]


def played(name, device="cpu"):
    """The hash of the golden episodes, by the kernels."""
    vecenv = make(name)
    player, random = DevicePlayer(vecenv, device), np.random.default_rng(0)
    history = [player.first]
    for _ in range(golden.STEPS):
        player.play(random_actions(random, vecenv.single_action_space, vecenv.num_agents))
        history.append(player.arrays())
    vecenv.close()
    return digest(history)


def assert_golden(name, found):
    assert found == golden.fingerprint(name, backend="Serial")
    if GOLDEN["library"] == golden.library_fingerprint() or not golden.calls_the_library(name):
        assert found == GOLDEN["hashes"][name]


@pytest.mark.quick("puffer_target")
@needs_emulator
@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(*param.values, marks=(*param.marks, pytest.mark.slow)) for param in params(OTHERS)),
    ],
)
def test_the_kernels_play_the_golden_episodes(name, device_emulator):  # noqa: F811
    assert_golden(name, played(name))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", COMPILED)
def test_a_gpu_plays_the_golden_episodes(name):
    if golden.calls_the_library(name):
        pytest.skip("a GPU has sines and exponentials of its own")
    assert_golden(name, played(name, "cuda"))


@needs_emulator
def test_what_comes_back_goes_on_as_on_threads(device_emulator):  # noqa: F811
    vecenvs = [make("puffer_breakout", backend=backend) for backend in ("Device", "Serial")]
    player, random = DevicePlayer(vecenvs[0]), np.random.default_rng(1)
    vecenvs[1].reset()
    for _ in range(40):
        actions = random.integers(0, 3, vecenvs[0].num_agents)
        player.play(actions)
        vecenvs[1].step(actions)
    assert vecenvs[0].snapshot() == vecenvs[1].snapshot()
    for vecenv in vecenvs:
        vecenv.close()


def test_structs_of_other_sizes_or_games_are_refused_and_change_nothing():
    env = ocean.env_class("puffer_breakout")(num_envs=3)
    env.reset(1)
    before, structs = env.snapshot(), env.structs()
    with pytest.raises(APIUsageError, match=r"expected the structs of 3 environment\(s\), \d+ bytes, got \d+"):
        env.put_structs(structs[:2], 0)
    forged = structs.copy()
    forged[1] = 255
    with pytest.raises(APIUsageError, match="environment 1 of the snapshot was made with other arguments"):
        env.put_structs(forged, 0)
    assert env.snapshot() == before
    env.put_structs(structs, 0)
    assert env.snapshot() == before
    env.close()


def complete_program(name):
    """All kernels of an environment: also that of rollouts with the policy of its configuration, where there is one."""
    env_class, args = ocean.env_class(name), load_config(name)
    args["vec"]["backend"], args["env"]["num_envs"] = "Serial", 2
    vecenv = load_env(name, args)
    layers = layers_of(load_policy(args, vecenv, name), vecenv)
    observations = torch.from_numpy(vecenv.driver_env.observations)
    vecenv.close()
    if not can_be_in_a_rollout(layers, observations.dtype) or env_class.agents_per_env > THREADS_PER_BLOCK:
        return device_program(env_class.binding)
    network = DeviceNetwork(layers, rounds=True)
    blocks = Blocks.deal(env_class.agents_per_env, observations, network, SHARED_BYTES)
    return play_program(env_class.binding, **network.macros(), **blocks.macros(env_class.has_truncations))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", params(COMPILED))
def test_nvcc_compiles_every_header_without_a_warning(name, tmp_path):
    folder = ocean.config_path(name).parent
    source = tmp_path / "device.cu"
    source.write_bytes(complete_program(name).source)
    places = [f"-I{place}" for place in (folder.parent / "include", folder, cuda_library.FOLDER)]
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "--fmad=false", "-Werror", "all-warnings", *places, "-cubin"]
    subprocess.run([*command, str(source), "-o", str(tmp_path / "device.cubin")], check=True, timeout=600)


def nvrtc_is_missing():
    try:
        cuda_library._open_nvrtc()
    except PufferError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.skipif(nvrtc_is_missing(), reason="needs NVRTC, which comes with torch's CUDA builds")
@pytest.mark.parametrize("name", params(COMPILED))
def test_nvrtc_compiles_every_header(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert b"puffer_env_step" in cuda_library.machine_code(complete_program(name), "sm_90")


def test_sources_that_are_not_there_are_told_of(tmp_path):
    with pytest.raises(PufferError, match="found none; set .vec. backend to Native to step it on the CPU"):
        device_code(tmp_path)
