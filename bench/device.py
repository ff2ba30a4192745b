"""Do environments run on a GPU as they do on a CPU, and how fast? Proves the Device backend on one GPU, in 8 minutes.

    python bench/device.py                    rows go to bench/results/device.csv
    python bench/device.py --results FOLDER   the rows go there
    python bench/device.py --only episodes    a part of it: episodes, rollouts, stepping, training, solving

First what is right: every environment that rounds as on a CPU plays the episodes of tests/vector/golden.json, and a
trainer collects the rollouts, bit for bit, that threads collect for the same policy. Then what it brings: steps of
Breakout alone, training beside the rate that bench/operations.py expects on paper, with what the GPU's time goes to,
and Breakout from three seeds to its threshold.

Needs pufferlib installed for development (`pip install -e .`); what is not built yet is built first. Anything wrong
gives exit code 1, and is measured no further; a machine without CUDA gives 2.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import gpu
import numpy as np
import operations
import record
import torch
from calibrate import calibration
from gpu import Case

sys.path.insert(0, str(gpu.ROOT / "tests" / "vector"))

Rows = list[tuple[str, float, str]]
PARTS = ("episodes", "rollouts", "stepping", "training", "solving")
SECONDS = 440.0  # after which no further case is begun
STEPPED = (8_192, 131_072, 1_048_576)
STEPS_IN_A_GRAPH = 64
SEEDS = (1, 2, 3)
CASES = [
    Case("puffer_breakout", 8192, num_buffers=2),  # threads, for comparison
    Case("puffer_breakout", 8192, num_buffers=1, backend="Device"),
    Case("puffer_breakout", 8192, num_buffers=1, backend="Device", is_fused=False),
    Case("puffer_breakout", 8192, num_buffers=1, backend="Device", precision="bfloat16"),
    Case("puffer_breakout", 16384, num_buffers=1, backend="Device"),
    Case("puffer_breakout", 32768, num_buffers=1, backend="Device"),
    Case("puffer_breakout", 65536, num_buffers=1, backend="Device", precision="bfloat16"),
    Case("puffer_breakout", 8192, num_buffers=1, backend="Device", rnn_name="MinGRU"),
    Case("puffer_pong", 8192, num_buffers=1, backend="Device"),
    Case("puffer_target", 8192, num_buffers=1, backend="Device"),
]
PROFILED = CASES[1]


def check_episodes(device: torch.device) -> Rows:
    """A row for each environment: whether its episodes are the golden ones, 1 or 0."""
    import golden
    from device_player import DevicePlayer
    from rollouts import digest, make_quietly, random_actions

    from pufferlib import ocean

    hashes, rows = json.loads(golden.FILE.read_text())["hashes"], []
    for name in golden.compiled_names():
        if golden.calls_the_library(name):
            print(f"{name:<24} rounds as its machine's library does, and is compared with nothing", flush=True)
            continue
        env_class = ocean.env_class(name)
        num_envs = max(3, golden.NUM_AGENTS // env_class.agents_per_env)
        begin = time.perf_counter()
        vecenv = make_quietly(env_class, env_kwargs={"num_envs": num_envs}, num_envs=2, seed=3, backend="Device")
        player, random = DevicePlayer(vecenv, device), np.random.default_rng(0)
        history = [player.first]
        for _ in range(golden.STEPS):
            player.play(random_actions(random, vecenv.single_action_space, vecenv.num_agents))
            history.append(player.arrays())
        vecenv.close()
        is_right = digest(history) == hashes[name]
        rows.append((f"{name}: plays the golden episodes", float(is_right), "1 is yes"))
        print(f"{name:<24} {'ok' if is_right else 'WRONG'}  {time.perf_counter() - begin:5.1f} s", flush=True)
    return rows


def check_rollouts(device: torch.device, agents: int = 512) -> Rows:
    """A row for each policy: whether five rollouts with training between are those of threads, 1 or 0."""
    rows = []
    for rnn_name in (None, "MinGRU"):
        native, on_device = (
            rollouts_of(
                Case("puffer_breakout", agents, num_buffers=1, rnn_name=rnn_name, backend=backend, is_fused=False),
                device,
            )
            for backend in ("Native", "Device")
        )
        is_right = all(torch.equal(one, other) for one, other in zip(native, on_device, strict=True))
        rows.append((f"rollouts of {rnn_name or 'Default'} are those of threads", float(is_right), "1 is yes"))
        print(f"{rows[-1][0]:<48} {'ok' if is_right else 'WRONG'}", flush=True)
    return rows


def check_one_kernel(device: torch.device, agents: int = 512) -> Rows:
    """A row for each policy: whether a rollout that is one kernel is that of many, but for rounding, 1 or 0.

    An action that rounding decides changes what the agent sees from then on: one in a hundred agents may differ.
    """
    rows = []
    for name, rnn_name in (("puffer_breakout", "MinGRU"), ("puffer_pong", None), ("puffer_target", None)):
        many, one = (
            rollouts_of(
                Case(name, agents, num_buffers=1, rnn_name=rnn_name, backend="Device", is_fused=fused),
                device,
                learning_rate=1e-9,  # the policy stays as it is
            )[-6:]
            for fused in (False, True)
        )
        observations, actions, _, _, _, values = zip(many, one, strict=True)
        same = torch.isclose(*observations, rtol=1e-3, atol=1e-4).flatten(2).all(2).all(0)
        same &= torch.isclose(*actions, rtol=1e-3, atol=1e-4).flatten(1).all(1)
        same &= torch.isclose(*values, rtol=1e-2, atol=1e-3).all(1)
        rows.append(
            (f"{name}: rollouts in one kernel are those of many", float(same.float().mean() >= 0.99), "1 is yes")
        )
        words = "ok" if rows[-1][1] else "WRONG"
        print(f"{rows[-1][0]:<60} {words}, {same.float().mean():.2%} of agents", flush=True)
    return rows


def rollouts_of(case: Case, device: torch.device, **settings: float) -> list[torch.Tensor]:
    """The weights after five rollouts, and what these hold, the last of them past the captures."""
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        settings |= {"bptt_horizon": 16, "minibatch_size": 16 * case.agents // 4}
        trainer = gpu.make_trainer(case, folder, str(device), batch_size=16 * case.agents, **settings)
        torch.set_float32_matmul_precision("highest")  # a trainer lowers it, and the kernel multiplies all 24 bits
        try:
            for _ in range(5):
                trainer.evaluate()
                rollout = trainer.rollout
                kept += [rollout.by_column, rollout.actions, rollout.rewards, rollout.terminals, rollout.truncations]
                kept += [rollout.values]
                kept = [tensor.detach().cpu().clone() for tensor in kept]
                trainer.train()
            if case.backend == "Device" and not trainer.vecenv.is_lent:
                raise RuntimeError("the environments stayed on the CPU")
            return [weight.detach().cpu().clone() for weight in trainer.policy.parameters()] + kept
        finally:
            trainer.release()


def measure_stepping(device: torch.device) -> Rows:
    """Steps of Breakout with no policy, and the memory that an environment takes."""
    from device_player import DevicePlayer

    from pufferlib import ocean, vector

    rows: Rows = []
    for num_envs in STEPPED:
        kwargs = {"num_envs": num_envs}
        vecenv = vector.make(ocean.env_class("puffer_breakout"), env_kwargs=kwargs, backend="Device", seed=1)
        player = DevicePlayer(vecenv, device)
        player.play(np.random.default_rng(0).integers(0, 3, num_envs))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(STEPS_IN_A_GRAPH):
                player.launch()
        seconds = median_seconds(graph.replay, repeats=20)
        bytes_per_env = sum(envs.structs.nbytes for envs in player.envs) / num_envs
        rate = num_envs * STEPS_IN_A_GRAPH / seconds
        rows.append((f"puffer_breakout, {num_envs} environments, steps alone", rate, "steps/s"))
        rows.append((f"puffer_breakout, {num_envs} environments, memory of one", bytes_per_env, "bytes"))
        print(f"{num_envs:>9} environments {rate:16,.0f} steps/s, {bytes_per_env:.0f} bytes each", flush=True)
        vecenv.close()
    return rows


def median_seconds(run, repeats: int) -> float:
    """Wall time of one call that is waited for, after two others."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return float(np.median(times[2:]))


def measure_training(deadline: float) -> Rows:
    """Throughput by case, and what the GPU's time goes to in one of them."""
    rows: Rows = []
    for case in CASES:
        if time.perf_counter() > deadline:
            print(f"out of time, left out: {case.label}")
            continue
        measured = gpu.measure(case)
        rows += measured + (beside_expected(measured[0][1]) if case == PROFILED else [])
    if time.perf_counter() < deadline:
        rows += profile(PROFILED)
    return rows


def beside_expected(rate: float) -> Rows:
    """What bench/operations.py reckons for this GPU, where it knows it, and the share of it that was measured."""
    rows: Rows = []
    for name, known in operations.GPUS.items():
        if name in torch.cuda.get_device_name():
            expected = operations.expected_rate(known)
            print(f"  on paper {expected:,.0f} steps/s, of which {rate / expected:.0%} were measured", flush=True)
            rows.append((f"{operations.EXPECTED}: {name}, on paper", expected, "steps/s"))
            rows.append((f"{operations.EXPECTED}: {name}, measured of it", rate / expected, "share"))
    return rows


def profile(case: Case, shown: int = 12) -> Rows:
    """The kernels that take most of an iteration, as shares of the time in which the GPU works."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = gpu.make_trainer(case, folder)
        try:
            for _ in range(6):  # past the captures
                gpu.iterate(trainer)
            events = gpu.trace(lambda: (gpu.iterate(trainer), gpu.iterate(trainer)))
        finally:
            trainer.release()
    spent, counts = defaultdict(float), defaultdict(int)
    for event in events:
        if event.get("cat") in gpu.GPU_WORK:
            spent[event["name"]] += event["dur"]
            counts[event["name"]] += 1
    total = sum(spent.values())
    rows = []
    for name in sorted(spent, key=spent.get, reverse=True)[:shown]:
        print(f"  {spent[name] / total:5.1%}  {spent[name] / counts[name]:8.1f} us x {counts[name]:6}  {name[:90]}")
        rows.append((f"{case.label}: share of {name[:60]}", spent[name] / total, "share"))
    return rows


def solve_breakout(deadline: float) -> Rows:
    """Seconds until Breakout is solved, by seed."""
    from solve import solve

    from pufferlib.config import load_config

    rows: Rows = []
    for seed in SEEDS:
        if time.perf_counter() > deadline:
            print(f"out of time, left out: seed {seed}")
            continue
        args = load_config("puffer_breakout")
        with tempfile.TemporaryDirectory() as folder:
            args["train"].update(device="cuda", data_dir=folder, seed=seed)
            outcome = solve("puffer_breakout", args, minutes=1.0)
        words = "solved" if outcome.is_solved else "not solved"
        print(f"seed {seed}: {words}, {outcome.score:.0f}, {outcome.seconds:.2f} s, {outcome.steps / 1e6:.1f} M steps")
        rows.append((f"puffer_breakout: {words}, time", outcome.seconds, "s"))
        rows.append((f"puffer_breakout: {words}, steps", outcome.steps, "steps"))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="the folder of device.csv")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, metavar="PART", help="parts of it")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(
            "bench/device.py needs an NVIDIA GPU and a torch built for CUDA, and torch sees none here", file=sys.stderr
        )
        return 2
    deadline = time.perf_counter() + SECONDS
    gpu.build()
    warnings.simplefilter("always")
    before, device = calibration(), torch.device("cuda", 0)
    record.RESULTS = options.results
    accelerator = torch.cuda.get_device_name()
    print(f"{accelerator}, torch {torch.__version__}, {record.machine()}")
    rows = check_episodes(device) if "episodes" in options.only else []
    rows += check_rollouts(device) + check_one_kernel(device) if "rollouts" in options.only else []
    is_right = all(value == 1.0 for _, value, _ in rows)
    if is_right:
        rows += measure_stepping(device) if "stepping" in options.only else []
        rows += measure_training(deadline - 120.0) if "training" in options.only else []
        rows += solve_breakout(deadline) if "solving" in options.only else []
    record.keep("device", rows, shlex.join(["python", "bench/device.py", *sys.argv[1:]]), before, accelerator)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
