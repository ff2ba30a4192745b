"""Is a GPU used well? Checks every CUDA kernel and CUDA graphs, trains and times, and says how long the GPU waits.

    python bench/gpu.py                    about five minutes on one GPU; rows go to bench/results/gpu.csv
    python bench/gpu.py --solve            breakout to its [solve] threshold as well
    python bench/gpu.py --results FOLDER   the rows go there

Needs pufferlib installed for development (`pip install -e .`); what is not built yet is built first. A wrong kernel,
a wrong graph or a failed case gives exit code 1, a machine without CUDA 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import record
import torch
from calibrate import calibration

ROOT = Path(__file__).parents[1]
SECONDS = 420.0  # after which no further case is begun
GPU_WORK = {"kernel", "gpu_memcpy", "gpu_memset"}  # categories of the profiler's trace
TOLERANCE = 1e-5  # of ||out - reference|| / ||reference||, float32 against float64
CAPTURE_TOLERANCE = 1e-3  # the same, of weights trained in CUDA graphs against those trained without
RECURRENT = ("MinGRU", "LSTM")  # the policies whose graphs are checked


@dataclass(frozen=True)
class Case:
    """One way to train."""

    env_name: str
    agents: int
    has_graphs: bool = True
    precision: str = "float32"
    num_buffers: int = 2
    rnn_name: str | None = "tuned"  # as in the environment's configuration
    backend: str = "Native"
    is_fused: bool = True  # rollouts in one kernel, where environments are on the GPU and the policy allows it

    @property
    def label(self) -> str:
        stepped = "" if self.backend == "Native" else f"{self.backend}, "
        stepped += "" if self.is_fused else "many kernels, "
        recurrent = "" if self.rnn_name == "tuned" else f"{self.rnn_name}, "
        return (
            f"{self.env_name}, {self.agents} agents by {self.num_buffers}, {stepped}{recurrent}{self.precision}, "
            f"{'graphs' if self.has_graphs else 'no graphs'}"
        )


CASES = [
    Case("puffer_breakout", 8192),
    Case("puffer_breakout", 8192, has_graphs=False),
    Case("puffer_breakout", 8192, precision="bfloat16"),
    Case("puffer_breakout", 8192, num_buffers=1),
    Case("puffer_breakout", 8192, rnn_name="LSTM"),
    Case("puffer_pong", 8192),
    Case("puffer_pong", 8192, has_graphs=False),
    Case("puffer_breakout", 2048),
    Case("puffer_breakout", 16384),
    Case("puffer_pong", 16384),
    Case("puffer_breakout", 32768),
]


# ---------------------------------------------------------------------------------------------------------- kernels


def check_advantage(device: torch.device) -> float:
    """The largest error over odd shapes."""
    from pufferlib.extensions.advantage import compute_puff_advantage, reference_advantage

    errors = []
    for segments, columns in [(1, 1), (1, 2), (3, 7), (9, 65), (257, 31), (13, 131), (8191, 65)]:
        values, rewards, ratio = (torch.randn(segments, columns) for _ in range(3))
        inputs = values, rewards, (torch.rand(segments, columns) < 0.2).float(), (0.5 * ratio).exp()
        found = torch.full((segments, columns), torch.nan, device=device)
        constants = 0.99, 0.95, 1.1, 0.9
        compute_puff_advantage(*(tensor.to(device) for tensor in inputs), found, *constants)
        errors.append(error(found, reference_advantage(*(tensor.double() for tensor in inputs), *constants)))
    return max(errors)


def check_mingru_scan(device: torch.device) -> float:
    """The largest error over odd shapes: outputs, final state and all gradients."""
    from pufferlib.extensions.mingru import mingru_scan, reference_mingru

    errors = []
    for batch, steps, hidden in [(1, 1, 1), (2, 1, 16), (3, 7, 5), (7, 31, 67), (1, 130, 17), (1023, 64, 64)]:
        inputs, reset = mingru_inputs(batch, steps, hidden)
        weights = torch.randn(batch, steps, hidden), torch.randn(batch, hidden)

        def run(scan, kind, place, inputs=inputs, reset=reset, weights=weights):
            tensors = [tensor.to(place, kind).requires_grad_() for tensor in inputs]
            results = scan(*tensors, reset.to(place))
            loss = sum((one * weight.to(one)).sum() for one, weight in zip(results, weights, strict=True))
            return *results, *torch.autograd.grad(loss, tensors)

        found, truth = run(mingru_scan, torch.float32, device), run(reference_mingru, torch.float64, "cpu")
        errors += [error(one, other) for one, other in zip(found, truth, strict=True)]
    return max(errors)


def check_mingru_step(device: torch.device) -> float:
    """The largest error over odd shapes: output and new state."""
    from pufferlib.extensions.mingru import mingru_step, reference_mingru

    errors = []
    for batch, hidden in [(1, 1), (3, 5), (257, 67), (8191, 64)]:
        inputs, reset = mingru_inputs(batch, 1, hidden)
        gates, x, state = (tensor.clone().to(device) for tensor in (inputs[0][:, 0], inputs[1][:, 0], inputs[2]))
        output = mingru_step(gates, x, state, reset[:, 0].to(device))
        truth, final = reference_mingru(*(tensor.double() for tensor in inputs), reset)
        errors += [error(output, truth[:, 0]), error(state, final)]
    return max(errors)


def mingru_inputs(batch: int, steps: int, hidden: int):
    gates, x = 2 * torch.randn(batch, steps, 3 * hidden), torch.randn(batch, steps, hidden)
    return (gates, x, torch.randn(batch, hidden)), torch.rand(batch, steps) < 0.2


def error(found: torch.Tensor, truth: torch.Tensor) -> float:
    """||found - truth|| / ||truth||, infinite where anything is NaN."""
    distance = (found.detach().double().cpu() - truth.detach()).norm() / truth.detach().norm().clamp(min=1e-30)
    if truth.norm() == 0:  # the advantage of a single column
        distance = found.double().norm().cpu()
    return distance.nan_to_num(torch.inf).item()


CHECKS: dict[str, Callable[[torch.device], float]] = {
    "advantage": check_advantage,
    "mingru scan and gradients": check_mingru_scan,
    "mingru step": check_mingru_step,
}


def check_kernels(device: torch.device) -> list[tuple[str, float, str]]:
    """A row for each kernel; memory that torch hands out is full of NaN meanwhile, so that nothing stays unwritten."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)  # which is also what fills new memory
    try:
        rows = [(f"kernel {name}: error", check(device), "relative") for name, check in CHECKS.items()]
    finally:
        torch.use_deterministic_algorithms(False)
    for name, value, _ in rows:
        print(f"{name:<48} {value:10.2e}  {'ok' if value < TOLERANCE else 'WRONG'}", flush=True)
    return rows


# --------------------------------------------------------------------------------------------------------- training


def make_trainer(case: Case, folder: str, device: str = "cuda", **settings):
    from pufferlib import ocean, pufferl

    args = pufferl.load_config(case.env_name)
    envs = case.agents // ocean.env_class(case.env_name).agents_per_env
    args["vec"]["num_envs"], args["env"]["num_envs"] = case.num_buffers, envs // case.num_buffers
    args["vec"]["backend"], args["vec"]["batch_size"] = case.backend, 1
    if case.rnn_name != "tuned":
        args["rnn_name"] = case.rnn_name
    args["train"].update(
        data_dir=folder,
        device=device,
        minibatch_size="auto",
        precision=case.precision,
        cuda_graphs=case.has_graphs,
        fused=case.is_fused,
        total_timesteps=10**10,
        checkpoint_interval=10**9,
        log_interval=10**9,
    )
    args["train"].update(settings)
    vecenv = pufferl.load_env(case.env_name, args)
    policy = pufferl.load_policy(args, vecenv, case.env_name)
    return pufferl.PuffeRL({**args["train"], "env": case.env_name}, vecenv, policy)


def check_captures(device: torch.device, agents: int = 256) -> list[tuple[str, float, str]]:
    """A row for each recurrent policy: the error of its weights and states after iterations in CUDA graphs."""
    from pufferlib.errors import PufferWarning

    rows = []
    for rnn_name in RECURRENT:
        cases = [Case("puffer_breakout", agents, has_graphs, rnn_name=rnn_name) for has_graphs in (False, True)]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="the policy cannot be captured")
                truth, found = (train_briefly(case, device) for case in cases)
            value = max(error(one, other.double()) for one, other in zip(found, truth, strict=True))
        except PufferWarning as warning:
            print(f"{rnn_name}: {warning}")
            value = float("inf")
        rows.append((f"{rnn_name} in CUDA graphs: error", value, "relative"))
        print(f"{rows[-1][0]:<48} {value:10.2e}  {'ok' if value < CAPTURE_TOLERANCE else 'WRONG'}", flush=True)
    return rows


def check_update(device: torch.device, agents: int = 256) -> list[tuple[str, float, str]]:
    """A row: how far the gradients are from torch's where kernels draw the minibatch and differentiate the loss."""
    from pufferlib.fast.device_update import DeviceGradients, DeviceMinibatches
    from pufferlib.ppo.learner import Gradients

    with tempfile.TemporaryDirectory() as folder:
        settings = {"bptt_horizon": 16, "minibatch_size": 16 * agents // 4, "prio_alpha": 0.8, "fused": False}
        trainer = make_trainer(
            Case("puffer_breakout", agents, rnn_name="MinGRU"), folder, str(device), batch_size=16 * agents, **settings
        )
        try:
            trainer.evaluate()
            advantages, found = trainer._learner._advantages, []
            minibatches = DeviceMinibatches(trainer.rollout, advantages, trainer._generator)
            minibatches.begin(0.5, True)
            ready = minibatches.draw_ready()
            plain = replace(ready, advantages=advantages.compute()[ready.rows]).ready_for_loss(True)
            for kind, minibatch in ((Gradients, plain), (DeviceGradients, ready)):
                gradients = kind(trainer.policy, trainer.rollout, trainer.config)
                metrics = gradients.differentiate(minibatch)
                found.append([metrics, *(parameter.grad.clone() for parameter in gradients.parameters)])
        finally:
            trainer.release()
    value = max(error(one, other.double().cpu()) for other, one in zip(*found, strict=True))
    print(
        f"{'update by kernels: error':<48} {value:10.2e}  {'ok' if value < CAPTURE_TOLERANCE else 'WRONG'}", flush=True
    )
    return [("update by kernels: error", value, "relative")]


def train_briefly(case: Case, device: torch.device) -> list[torch.Tensor]:
    """The weights and recurrent states after some iterations, most of them past the captures."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"bptt_horizon": 16, "minibatch_size": 16 * case.agents // 4, "learning_rate": 1e-3, "fused": False}
        trainer = make_trainer(case, folder, str(device), batch_size=16 * case.agents, **settings)
        try:
            for _ in range(4):
                trainer.evaluate(), trainer.train()
            kept = [*trainer.policy.parameters(), *trainer.rollout.states.values()]
            return [tensor.detach().cpu().clone() for tensor in kept]
        finally:
            trainer.release()


def measure(case: Case) -> list[tuple[str, float, str]]:
    """Throughput, the share of the rollout in the time, and the share of the time in which the GPU did nothing."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(case, folder)
        try:
            for _ in range(6):  # past the captures
                iterate(trainer)
            times = [iterate(trainer) for _ in range(10)]
            events = trace(lambda: (iterate(trainer), iterate(trainer)))
        finally:
            trainer.release()
    seconds = statistics.median(sum(pair) for pair in times)
    rollout = statistics.median(pair[0] for pair in times)
    idle = idle_share(events)
    rate = trainer.config.batch_size / seconds
    print(f"{case.label:<60} {rate:12,.0f} steps/s  rollout {rollout / seconds:4.0%}  GPU idle {idle:4.0%}", flush=True)
    return [
        (f"train, {case.label}", rate, "steps/s"),
        (f"rollout, {case.label}", rollout / seconds, "share"),
        (f"GPU idle, {case.label}", idle, "share"),
    ]


def iterate(trainer) -> tuple[float, float]:
    """One iteration; seconds of evaluate() and of train()."""
    begin = time.perf_counter()
    trainer.evaluate()
    torch.cuda.synchronize()
    middle = time.perf_counter()
    trainer.train()
    torch.cuda.synchronize()
    return middle - begin, time.perf_counter() - middle


def trace(run: Callable[[], object]) -> list[dict]:
    """What torch.profiler saw, as events of Chrome's trace format."""
    from torch.profiler import ProfilerActivity, profile

    with tempfile.TemporaryDirectory() as folder:
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:  # the CPU side would slow it down
            run()
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())["traceEvents"]


def idle_share(events: Iterable[dict]) -> float:
    """The share of the time between the first and the last work on the GPU in which there was none.

    Work that overlaps, on several streams, counts once.
    """
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") in GPU_WORK)
    if not spans:
        return 1.0
    busy, reached = 0.0, spans[0][0]
    for begin, end in spans:
        busy += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return 1.0 - busy / (reached - spans[0][0])


def solve_breakout() -> list[tuple[str, float, str]]:
    from solve import solve

    from pufferlib.config import load_config

    args = load_config("puffer_breakout")
    with tempfile.TemporaryDirectory() as folder:
        args["train"].update(device="cuda", data_dir=folder)
        outcome = solve("puffer_breakout", args, minutes=4.0)
    words = "solved" if outcome.is_solved else "not solved"
    print(f"breakout: {words}, score {outcome.score:.0f}, {outcome.seconds:.1f} s, {outcome.steps / 1e6:.1f} M steps")
    return [(f"breakout: {words}, time", outcome.seconds, "s"), (f"breakout: {words}, steps", outcome.steps, "steps")]


# -------------------------------------------------------------------------------------------------------------------


def build() -> None:
    """Builds the native modules where there are none."""
    if importlib.util.find_spec("pufferlib.extensions.cpu_kernels") is None:
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=ROOT, check=True)
        importlib.invalidate_caches()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solve", action="store_true", help="also train breakout to its threshold, up to 4 minutes")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="the folder of gpu.csv")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench/gpu.py needs an NVIDIA GPU and a torch built for CUDA, and torch sees none here", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    build()
    warnings.simplefilter("always")  # a policy that could not be captured says so at each case
    before = calibration()
    record.RESULTS = options.results
    accelerator = torch.cuda.get_device_name()
    print(f"{accelerator}, torch {torch.__version__}, {record.machine()}")
    rows = check_kernels(torch.device("cuda"))
    captures = check_captures(torch.device("cuda")) + check_update(torch.device("cuda"))
    is_right = all(value < TOLERANCE for _, value, _ in rows)
    is_right &= all(value < CAPTURE_TOLERANCE for _, value, _ in captures)
    rows += captures
    cases = CASES if is_right else []
    for case in cases:
        if time.perf_counter() - begin > SECONDS - 240.0 * options.solve:
            print(f"out of time, left out: {case.label}")
            continue
        try:
            rows += measure(case)
        except RuntimeError as error:  # the other cases may still say something
            print(f"{case.label}: failed, {error}")
            is_right = False
    if options.solve and is_right:
        rows += solve_breakout()
    record.keep("gpu", rows, shlex.join(["python", "bench/gpu.py", *sys.argv[1:]]), before, accelerator)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
