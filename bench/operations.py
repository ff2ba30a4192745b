"""How many operations does a GPU get for an update, and how much memory do they read and write? Counted without a GPU.

    python bench/operations.py                     every environment in C; rows go to bench/results/operations.csv
    python bench/operations.py puffer_breakout     these alone

What a CUDA graph records of a minibatch is done on `meta` tensors, which have shapes and no numbers, and counted: one
for each kernel that torch or this library launches, views none. Some operations of torch are several kernels (topk,
a norm over many tensors), so a graph has a few nodes more. What an iteration does besides is counted likewise.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import record
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

EXPECTED = "puffer_breakout"  # whose rate is reckoned
NODE_SECONDS = 2e-6  # of a small kernel in a graph, between the 1.5 and 2.5 us of published measurements
LAUNCH_SECONDS = 10e-6  # of an operation that Python launches by itself
DRAW_SECONDS = 30e-6  # of puffer_draw, which is one block of threads
HOST_SECONDS = 0.5e-3  # of an iteration in which the GPU waits for a rollout's end, and for Python after it
ROLLOUT_BYTES = 600  # a step of a rollout in one kernel
BANDWIDTH_SHARE = 0.8  # of what a data sheet says


@dataclass(frozen=True)
class Gpu:
    """What is reckoned with."""

    bandwidth: float  # bytes a second
    rollout_seconds: float  # of Breakout's arithmetic, 8,192 agents by 64 steps: instructions over cores


GPUS = {
    "H200": Gpu(4.8e12, 1.25e-3),
    "H100": Gpu(3.35e12, 1.25e-3),
    "RTX 5090": Gpu(1.79e12, 2e-3),
    "RTX 4090": Gpu(1.01e12, 3e-3),
    "RTX 3060": Gpu(0.36e12, 19e-3),
}
META = torch.device("meta")
FREE = ("empty", "new_empty", "detach", "_unsafe_view", "lift", "_reshape_alias", "_record_function")
MOVING = ("index", "gather", "index_select", "index_copy", "index_put", "index_fill", "scatter", "embedding")
KERNELS_OF = {"pufferlib::mingru_forward": 2}  # it copies the last state


class Operations(TorchDispatchMode):
    """Counts operations while it is entered.

    Attributes:
        counts: by name.
        bytes: that they read and write, each tensor once an operation.
    """

    def __init__(self):
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.bytes = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name = operation._schema.name
        overload = name.split("::")[1]
        results = operation(*arguments, **(keywords or {}))
        if operation.is_view or overload.rstrip("_").startswith(FREE):
            return results
        taken, given = tensors_of((arguments, keywords)), tensors_of(results)
        self.counts[name] += KERNELS_OF.get(name, 1) if not overload.startswith("_foreach") else launches(arguments)
        places = {id(tensor): tensor for tensor in (*taken, *given)}
        if overload.rstrip("_") in MOVING:
            self.bytes += 2 * (taken[-1] if overload.endswith("_") else given[0]).nbytes
        else:
            self.bytes += sum(tensor.nbytes for tensor in places.values())
        return results

    def step_adam(self, *lists: list[torch.Tensor], **keywords: object) -> None:
        """In place of torch's fused step, which meta tensors do not have."""
        self.counts["_fused_adamw_"] += 1
        self.bytes += sum(tensor.nbytes for tensor in tensors_of(lists))

    def launch(self, program, function, grid, block, arguments, shared_bytes=0) -> None:
        """In place of `cuda_library.launch`."""
        self.counts[function] += 1
        self.bytes += sum(tensor.nbytes for tensor in tensors_of(arguments))
        for argument in arguments:
            if isinstance(argument, ctypes.Structure) and hasattr(argument, "width"):  # PpoBatch of ppo.cu
                self.bytes += 4 * argument.count * (2 * argument.width + 6)


def tensors_of(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def launches(arguments: tuple) -> int:
    """Kernels of a call for a list of tensors: one where all lie alike and without gaps, else one for each."""
    lists = [argument for argument in arguments if isinstance(argument, list) and tensors_of(argument)]
    alike = all(len({tensor.stride() for tensor in group}) == 1 for group in zip(*lists, strict=True))
    are_dense = all(is_dense(tensor) for each in lists for tensor in each)
    return 1 if alike and are_dense else len(lists[0])


def is_dense(tensor: torch.Tensor) -> bool:
    spans = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return sum(spans) + 1 == tensor.numel()


@contextlib.contextmanager
def as_on_a_gpu(operations: Operations) -> Iterator[None]:
    """Has meta tensors be treated as those of a GPU where this library or torch asks what a device can do."""
    from torch.utils import _foreach_utils

    from pufferlib.extensions import cuda_library, mingru, optimizers, ppo
    from pufferlib.fast import choose

    with contextlib.ExitStack() as patches:

        def put(place, name, value):
            patches.enter_context(patch.object(place, name, value))

        put(mingru, "_has_kernel", lambda device: True)
        put(optimizers, "has_kernel", lambda matrices: all(max(each.shape) <= 512 for each in matrices))
        put(cuda_library, "launch", operations.launch)
        put(ppo, "_launch", lambda *arguments: operations.launch("ppo", *arguments))
        put(choose, "has_kernels", lambda device: True)
        put(ppo, "has_kernels", lambda device: True)
        put(choose.Backend, "autocast", lambda backend: contextlib.nullcontext())
        put(_foreach_utils, "_get_foreach_kernels_supported_devices", lambda: ["meta"])
        put(sys.modules["torch.optim.adam"], "_device_dtype_check_for_fused", lambda *arguments, **keywords: None)
        put(torch, "_fused_adamw_", operations.step_adam)
        yield


def make_learner(env_name: str, world_size: int = 1):
    """The learner of an environment's own settings and of as many agents as it has on a GPU, on meta tensors."""
    from pufferlib import ocean, pufferl, vector
    from pufferlib.config import TrainConfig
    from pufferlib.config.sizes import resolve_env_count, resolve_sizes
    from pufferlib.distributed import Ranks
    from pufferlib.fast.choose import choose_backend
    from pufferlib.metrics.measures import Phases
    from pufferlib.policy import initial_state
    from pufferlib.ppo.rollout import Rollout

    args, env_class = pufferl.load_config(env_name), ocean.env_class(env_name)
    settings = {name: value for name, value in args["env"].items() if name != "num_envs"}
    with vector.make(env_class, env_kwargs={**settings, "num_envs": 1}, backend="Serial") as vecenv:
        policy = pufferl.load_policy(args, vecenv, env_name).to(META)
        count = resolve_env_count(args["env"]["num_envs"], "cuda", 1, vecenv.num_agents)
        agents = count * vecenv.num_agents
        config = resolve_sizes(TrainConfig.from_dict({**args["train"], "device": "cuda"}), agents, "cuda", world_size)
        spaces = vecenv.single_observation_space, vecenv.single_action_space
        states = initial_state(policy, config.segments, META)
        rollout = Rollout.allocate(*spaces, config.segments, config.bptt_horizon, states, META, META)
    backend = replace(choose_backend(policy, rollout, config, META), is_captured=True, network=None)
    return backend.make_learner(rollout, None, Phases(), Ranks(0, world_size))


@dataclass(frozen=True)
class Update:
    """What an environment's update is made of."""

    minibatch: Operations
    besides: Operations  # of an iteration, but for its minibatches and its rollout
    steps: int  # of a minibatch
    batch_size: int  # steps of an iteration
    minibatches: float  # of an iteration

    def seconds(self, gpu: Gpu) -> float:
        """Expected of an iteration on a GPU, on paper: the sum of all parts, as if none of them overlapped."""
        bandwidth = BANDWIDTH_SHARE * gpu.bandwidth
        one = self.minibatch.total * NODE_SECONDS + DRAW_SECONDS + self.minibatch.bytes / bandwidth
        rollout = max(gpu.rollout_seconds, self.batch_size * ROLLOUT_BYTES / bandwidth)
        return self.minibatches * one + self.besides.total * LAUNCH_SECONDS + rollout + HOST_SECONDS


def expected_rate(gpu: Gpu) -> float:
    """Steps a second of EXPECTED, on paper."""
    update = count_update(EXPECTED)
    return update.batch_size / update.seconds(gpu)


def count_update(env_name: str) -> Update:
    """Counts the second minibatch, when the optimizer has its state, and the rest of an iteration's update."""
    warm_up, minibatch, besides = Operations(), Operations(), Operations()
    with as_on_a_gpu(warm_up):
        learner = make_learner(env_name)
        learner._minibatches.begin(0.5, True)
        learner._work()
        learner._summarize()
    with as_on_a_gpu(minibatch), minibatch:
        learner._work()
    learner._run = lambda *work: None  # a replay
    learner._named = lambda numbers: {}  # which waits for them
    learner.minibatches_due = 1.0 - learner.config.minibatches_per_epoch  # one
    with as_on_a_gpu(besides), besides:
        learner.prepare()
        learner.learn(0.01, 0.5, True)
    config = learner.config
    return Update(minibatch, besides, config.minibatch_steps, config.batch_size, config.minibatches_per_epoch)


def main() -> None:
    from calibrate import calibration

    from pufferlib import ocean

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("envs", nargs="*", help="such as puffer_breakout")
    parser.add_argument("--names", action="store_true", help="each operation and how often, and no rows")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="the folder of operations.csv")
    options = parser.parse_args()
    before, rows = calibration(), []
    for name in options.envs or ocean.names():
        update = count_update(name)
        size = update.minibatch.bytes / update.steps
        parts = f"{update.minibatch.total} operations a minibatch, {size / 1e3:.1f} KB a step"
        print(f"{name}: {parts}, {update.minibatches:g} minibatches, {update.besides.total} besides", flush=True)
        rows.append((f"{name}: a minibatch", update.minibatch.total, "operations"))
        rows.append((f"{name}: memory of a step", size, "bytes"))
        for operation, count in update.minibatch.counts.most_common() if options.names else ():
            print(f"    {count:4}  {operation}")
    for name, gpu in GPUS.items():
        rate = expected_rate(gpu)
        print(f"{EXPECTED} on {name}, on paper: {rate / 1e6:.0f} M steps/s")
        rows.append((f"{EXPECTED}: {name}, on paper", rate, "steps/s"))
    if not options.names:
        record.RESULTS = options.results
        record.keep("operations", rows, shlex.join(["python", "bench/operations.py", *sys.argv[1:]]), before)


if __name__ == "__main__":
    main()
