"""Training by several processes: messages, ranks, sums and heartbeats over torch's collective operations."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import itertools
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from pufferlib.errors import RankError
from pufferlib.machine import usable_cores
from pufferlib.seeding import mix_seed

TURN = timedelta(seconds=1)
"""The time between two looks for lost processes: far longer than a message takes."""


class Messages:
    """Sends numbers and objects to all processes of a group and waits for theirs.

    Every method is called by all of them. It raises RuntimeError where a message does not get through.

    Args:
        is_any_lost: whether a process of the group is known to have ended; it may raise RuntimeError.
        group: of torch; None is its default one.
    """

    def __init__(self, is_any_lost: Callable[[], bool], group: dist.ProcessGroup | None = None):
        self.group = group
        self._is_any_lost = is_any_lost

    def start_sum(self, tensor: Tensor) -> dist.Work:
        """Starts to replace a tensor by its sum over all processes; `wait` ends it."""
        return dist.all_reduce(tensor, group=self.group, async_op=True)

    def sum(self, tensor: Tensor) -> None:
        """Replaces a tensor by its sum over all processes."""
        self.wait(self.start_sum(tensor), tensor)

    def broadcast(self, tensor: Tensor) -> None:
        """Overwrites a tensor with the first process's."""
        self.wait(dist.broadcast(tensor, 0, group=self.group, async_op=True), tensor)

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Returns the tensors of all processes by rank; they have one shape and dtype."""
        tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size(self.group))]
        self.wait(dist.all_gather(tensors, tensor, group=self.group, async_op=True), tensor)
        return tensors

    def gather_objects(self, value: Any) -> list[Any]:
        """Returns the values of all processes by rank; anything that pickle takes."""
        content = _pickled(value)
        sizes = [int(size) for size in self.gather(torch.tensor([len(content)]))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(content)] = content
        return [_unpickled(other[:size]) for other, size in zip(self.gather(padded), sizes, strict=True)]

    def broadcast_object(self, value: Any) -> Any:
        """Returns the first process's value; anything that pickle takes."""
        content = _pickled(value)
        size = torch.tensor([len(content)])
        self.broadcast(size)
        if dist.get_rank() != 0:
            content = torch.zeros(int(size), dtype=torch.uint8)
        self.broadcast(content)
        return _unpickled(content)

    def wait(self, work: dist.Work, tensor: Tensor) -> None:
        """Waits until an operation has ended, or for two turns after a process was lost.

        Args:
            work: of the operation.
            tensor: of the operation; NCCL watches over those of a GPU by itself.
        """
        if not tensor.is_cpu:
            work.wait()
            return
        was_lost = False
        while True:
            try:
                work.wait(TURN)
                return
            except RuntimeError:
                if work.is_completed():
                    work.wait()  # it ended just now, well or not
                    return
                is_lost = self._is_any_lost()
                if was_lost and is_lost:  # a message that was being sent has arrived by now
                    raise
                was_lost = is_lost


def abandon_groups() -> None:
    """Keeps torch's process groups from being destroyed when the process ends.

    Their threads may still wait for a lost process, and the destructors would wait for these threads.
    """
    for group in list(dist.distributed_c10d._world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _pickled(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpickled(content: Tensor) -> Any:
    return pickle.loads(content.numpy().tobytes())  # noqa: S301 - another process's of this training


T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)
"""How long to wait for a process that neither answers nor ends; torch.compile may take some minutes of it."""

BEAT_SECONDS = 5.0
"""How often the first process sends a heartbeat while the others wait for it: sooner than any timeout."""

ROLL_CALL_SECONDS = 10.0
"""How long a process that noticed a loss waits for the others to notice it too, before it names the lost one."""

ROUNDING = 1e-3
"""How far weights may drift apart on processors that round differently, as a part of a tensor's largest number."""

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # set by torchrun


class Total:
    """A sum over all processes that is being computed; `result` waits for it."""

    def __init__(self, ranks: Ranks, number: float):
        self._ranks = ranks
        self._sum = torch.tensor(float(number), dtype=torch.float64)
        self._work = None
        if ranks.world_size > 1:
            with ranks.noticing_losses():
                self._work = ranks.messages.start_sum(self._sum)

    def result(self) -> float:
        """The sum."""
        if self._work is not None:
            with self._ranks.noticing_losses():
                self._ranks.messages.wait(self._work, self._sum)
            self._work = None
        return self._sum.item()


@dataclass(frozen=True)
class Comparison:
    """A comparison of facts that is being made."""

    facts: Mapping[str, str]
    digests: Tensor  # (world_size,) int64, by rank once it is done
    work: dist.Work


class Ranks:
    """This process among all that train together. A single process sends nothing and does not wait.

    Attributes:
        rank: of this process, 0 for the first, which writes logs and checkpoints.
        world_size: the number of processes.
        messages: to the other processes, for everything but tensors of the policy's device.
    """

    def __init__(
        self,
        rank: int = 0,
        world_size: int = 1,
        store: dist.Store | None = None,
        group: dist.ProcessGroup | None = None,
    ):
        """Records where this process runs.

        Args:
            rank: below `world_size`.
            world_size: of the process group, which must exist if this is above 1.
            store: shared by all processes, used when the group is broken.
            group: for `messages`; None is torch's default one, which sends tensors of the policy's device.
        """
        self.rank = rank
        self.world_size = world_size
        self.messages = Messages(self._is_any_lost, group)
        self._tensors = Messages(self._is_any_lost)
        self._store = store
        self._comparison: Comparison | None = None  # the one that has not ended
        if store is not None:
            store.set(f"process/{rank}", f"{os.getpid()} {socket.gethostname()}")

    @property
    def is_first(self) -> bool:
        """Whether this process is the first, which writes for all."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """The seed of this process in a run seeded with `seed`: that very one for the first."""
        return mix_seed(seed, self.rank) if self.rank else seed

    def average_gradients(self, parameters: Sequence[nn.Parameter], numbers: Tensor) -> Tensor:
        """Averages the gradients over all processes, in one message; a missing one counts as 0.

        A parameter that no process has a gradient for keeps none.

        Args:
            parameters: on one device and of one dtype.
            numbers: `(count,)` float32 on that device, sent in the same message: each waits for the slowest process.

        Returns:
            `(world_size, count)`, the numbers of all processes by rank.
        """
        if self.world_size == 1:
            return numbers.unsqueeze(0)
        self._end_comparison()
        own = [parameter.grad is not None for parameter in parameters]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flags = numbers.new_tensor(own)
        places = numbers.new_zeros(self.world_size, len(numbers))  # one for each process: the sum then holds them all
        places[self.rank] = numbers
        message = torch.cat([*(part.flatten() for part in parts), flags, places.flatten()])
        with self.noticing_losses():
            self._tensors.sum(message)
        *averages, counts, places = message.split([*(part.numel() for part in parts), len(own), places.numel()])
        for index, (parameter, average) in enumerate(zip(parameters, averages, strict=True)):
            if own[index] or counts[index] > 0:
                parameter.grad = average.view_as(parameter).div_(self.world_size).to(parameter.dtype)
        return places.view(self.world_size, -1).to(numbers.dtype)

    def gather_numbers(self, numbers: Tensor) -> Tensor:
        """Gathers `(count,)` numbers of each process: `(world_size, count)`, by rank."""
        if self.world_size == 1 or not len(numbers):
            return numbers.expand(self.world_size, -1)
        self._end_comparison()
        with self.noticing_losses():
            return torch.stack(self._tensors.gather(numbers))

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrites the tensors with those of the first process."""
        if self.world_size > 1:
            self._end_comparison()
            with self.noticing_losses(), torch.no_grad():
                for tensor in tensors:
                    self._tensors.broadcast(tensor)

    def start_total(self, number: float) -> Total:
        """Starts to sum a number over all processes; waits only for a comparison that has not ended."""
        self._end_comparison()
        return Total(self, number)

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes by rank; anything that pickle takes."""
        if self.world_size == 1:
            return [value]
        self._end_comparison()
        with self.noticing_losses():
            return self.messages.gather_objects(value)

    def wait_for_first(self, work: Callable[[], object]) -> None:
        """Calls `work` in the first process, while the others wait, however long it takes.

        They wait as long as its heartbeats come, and at most TIMEOUT after the last one. An error is raised in the
        first process; the others wait until that has ended.
        """
        self._end_comparison()
        if self.world_size == 1:
            work()
        elif self.is_first:
            is_over = threading.Event()
            thread = threading.Thread(target=self._beat_until, args=(is_over,), name="puffer-beat", daemon=True)
            thread.start()
            try:
                work()
            finally:
                is_over.set()
                thread.join()
            self._beat(is_at_work=False)
        else:
            while self._beat():
                pass

    def _beat_until(self, is_over: threading.Event) -> None:
        with contextlib.suppress(RankError):  # the next message of this process raises it as well
            while not is_over.wait(BEAT_SECONDS):
                self._beat()

    def _beat(self, is_at_work: bool = True) -> bool:
        # Returns the value that the first process sends.
        beat = torch.tensor([is_at_work])
        with self.noticing_losses():
            self.messages.broadcast(beat)
        return bool(beat)

    def from_first(self, decide: Callable[[], T]) -> T:
        """Calls `decide` in the first process and returns its result in all; its error is raised in all of them.

        It may take long, see `wait_for_first`.
        """
        if self.world_size == 1:
            return decide()
        result = own_error = None

        def try_to_decide() -> None:
            nonlocal result, own_error
            try:
                result = decide()
            except Exception as raised:
                own_error = raised

        self.wait_for_first(try_to_decide)
        with self.noticing_losses():
            result, error = self.messages.broadcast_object((result, own_error))
        if error is not None:
            raise own_error or error
        return result

    # -------------------------------------------------------------------------------------------- what must be the same

    def require_same(self, facts: Mapping[str, str]) -> None:
        """Compares facts, by name, with those of all other processes.

        Raises:
            RankError: if they differ; it names a fact and its value in each process.
        """
        _require_same(self.gather(dict(facts)))

    def start_comparing(self, facts: Mapping[str, str]) -> None:
        """Starts to compare facts, see `require_same`, without waiting.

        The next call that sends anything ends it, and raises the error in all processes, whichever calls these are.
        """
        if self.world_size == 1:
            return
        self._end_comparison()
        digest = hashlib.sha256(repr(sorted(facts.items())).encode()).digest()
        digests = torch.zeros(self.world_size, dtype=torch.int64)  # one for each process: the sum then holds them all
        digests[self.rank] = int.from_bytes(digest[:8], "little", signed=True)
        with self.noticing_losses():
            self._comparison = Comparison(facts, digests, self.messages.start_sum(digests))

    def _end_comparison(self) -> None:
        comparison, self._comparison = self._comparison, None
        if comparison is None:
            return
        with self.noticing_losses():
            self.messages.wait(comparison.work, comparison.digests)
        if (comparison.digests != comparison.digests[0]).any():
            self.require_same(comparison.facts)

    def check_same(self, tensors: Sequence[Tensor], name: str, tolerance: float = 0.0) -> None:
        """Compares tensors with those of all other processes, by a hash.

        Args:
            tensors: in the same order in all processes.
            name: of all of them, for the error.
            tolerance: how far numbers may be from those of the first process, as a part of the largest in a tensor.

        Raises:
            RankError: if they differ; it names the processes that differ from the first.
        """
        if self.world_size == 1:
            return
        digest = hashlib.sha256()
        for tensor in tensors:
            digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy())
        forms = [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]
        found = self.gather((forms, digest.hexdigest()))
        differing = [rank for rank, other in enumerate(found) if other != found[0]]
        if differing and tolerance and all(of_all == forms for of_all, _ in found):
            are_close = self.gather(self._are_close_to_first(tensors, tolerance))
            differing = [rank for rank, is_close in enumerate(are_close) if not is_close]
        if differing:
            raise RankError(
                f"the {name} of all ranks must be the same, those of rank {', '.join(map(str, differing))} differ from "
                "rank 0's; change them in every process alike, and go on from the last checkpoint"
            )

    def _are_close_to_first(self, tensors: Sequence[Tensor], tolerance: float) -> bool:
        # False where a number is NaN.
        firsts = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]
        self.broadcast(firsts)
        pairs = [(own.detach().float(), first.float()) for own, first in zip(tensors, firsts, strict=True)]
        return all(
            bool((own - first).abs().max() <= tolerance * first.abs().max()) for own, first in pairs if own.numel()
        )

    def announce(self, error: BaseException) -> None:
        """Records the error that ends this process, for the others to report."""
        if self._store is not None and not isinstance(error, RankError):
            with contextlib.suppress(RuntimeError):  # the process that keeps the store may be gone
                self._store.set(f"failed/{self.rank}", f"{type(error).__name__}: {error}")

    # --------------------------------------------------------------------------------------------- when one is missing

    @contextlib.contextmanager
    def noticing_losses(self) -> Iterator[None]:
        """Turns the error of a message that failed into a RankError that names the lost process."""
        try:
            yield
        except RuntimeError as error:
            atexit.unregister(_disconnect)
            abandon_groups()
            raise RankError(
                f"{self._describe_loss()}; this run cannot go on without it, and goes on from its last checkpoint "
                "with --resume"
            ) from error

    def _describe_loss(self) -> str:
        # Every process that notices the loss sets its answer; one that failed has set its error; one that is silent at
        # the deadline is gone.
        if self._store is None:
            return f"one of the other {self.world_size - 1} processes is gone"
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        deadline = time.monotonic() + ROLL_CALL_SECONDS
        try:
            self._store.set(f"answer/{self.rank}", "")
            silent = self._await("answer", others, deadline)
            errors = {rank: self._store.get(f"failed/{rank}").decode() for rank in others if self._has_failed(rank)}
            gone = [] if errors else [rank for rank in silent if self._is_dead(rank)] or silent
            places = [f"rank {rank} ({self._place(rank)})" for rank in gone]
            self._store.set(f"heard/{self.rank}", "")
            if self.is_first:  # this process may keep the store, which the others have yet to ask
                self._await("heard", [rank for rank in others if rank not in errors and rank not in gone], deadline)
        except RuntimeError:
            return "the process that keeps the others together (rank 0, or torchrun's) is gone"
        if errors:
            return ", ".join(f"rank {rank} failed with {error}" for rank, error in errors.items())
        if not gone:
            return "the connection between the processes broke"
        return f"{' and '.join(places)} {'is' if len(places) == 1 else 'are'} gone"

    def _await(self, what: str, ranks: Sequence[int], deadline: float) -> list[int]:
        # Waits until the ranks have set something in the store; returns those that have not. It stops once one of them
        # is known to have failed or ended: the others may be in the middle of work.
        while True:
            silent = [rank for rank in ranks if not self._store.check([f"{what}/{rank}"])]
            is_known = any(self._has_failed(rank) or self._is_dead(rank) for rank in silent)
            if not silent or is_known or time.monotonic() >= deadline:
                return silent
            time.sleep(0.1)

    def _is_any_lost(self) -> bool:
        if self._store is None:
            return False
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        return any(self._has_failed(rank) or self._is_dead(rank) for rank in others)

    def _has_failed(self, rank: int) -> bool:
        return self._store.check([f"failed/{rank}"])

    def _process(self, rank: int) -> tuple[int, str] | None:
        if not self._store.check([f"process/{rank}"]):
            return None
        pid, host = self._store.get(f"process/{rank}").decode().split()
        return int(pid), host

    def _place(self, rank: int) -> str:
        process = self._process(rank)
        return "which never answered" if process is None else f"process {process[0]} on {process[1]}"

    def _is_dead(self, rank: int) -> bool:
        process = self._process(rank)
        if process is None or process[1] != socket.gethostname():
            return False
        pid = process[0]
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True


def _require_same(found: Sequence[Mapping[str, str]]) -> None:
    names = [name for name in dict.fromkeys(itertools.chain(*found)) if len({facts.get(name) for facts in found}) > 1]
    if not names:
        return
    first, *others = (facts.get(names[0], "nothing of that name") for facts in found)
    differing = [f"{value} in rank {rank}" for rank, value in enumerate(others, 1) if value != first]
    more = f" (and so must {', '.join(names[1:4])}{' and more' if len(names) > 4 else ''})" if len(names) > 1 else ""
    raise RankError(
        f"{names[0]} must be the same in all processes{more}, got {', '.join(differing)} and {first} in rank 0; "
        "make it the same in every process, and start them again"
    )


def connect() -> Ranks:
    """Returns this process among those that torchrun, or a program like it, started; a single one without it.

    The first call connects all of them. A torch process group that exists already is used. On a machine that several
    processes share, torch gets this process's share of the cores, in place of the single thread that torchrun sets.

    Raises:
        RankError: if the processes cannot be connected, or WORLD_SIZE is no number.
    """
    return _connected() if dist.is_initialized() or _is_started_with_others() else Ranks()


def take_gpu() -> int:
    """Makes this process's GPU torch's default and returns its number.

    It is the number of the process on this machine, or 0 where a scheduler shows each process a single GPU.
    """
    index = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.device_count() > 1 else 0
    if index < torch.cuda.device_count():  # naming a GPU that is missing raises elsewhere
        torch.cuda.set_device(index)
    return index


def _is_started_with_others() -> bool:
    if not all(name in os.environ for name in _VARIABLES):
        return False
    size = os.environ["WORLD_SIZE"]
    if not size.isdecimal():
        raise RankError(f"WORLD_SIZE must be a number of processes, got {size!r}; leave it to torchrun, or unset it")
    return int(size) > 1


@functools.cache
def _connected() -> Ranks:
    if dist.is_initialized():
        return Ranks(dist.get_rank(), dist.get_world_size(), group=dist.new_group(backend="gloo"))
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    try:
        store, rank, world_size = next(rendezvous("env://", timeout=TIMEOUT))
        # torchrun keeps the store when it restarts the processes; entries of the failed ones must not count.
        store = dist.PrefixStore(f"attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if has_nccl else "gloo",
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=world_size,
            timeout=TIMEOUT,
        )
        _wait_for_all(dist.PrefixStore("connected", store), rank, world_size)
    except (RuntimeError, ValueError) as error:
        found = ", ".join(f"{name}={os.environ.get(name)}" for name in _VARIABLES)
        raise RankError(f"the processes must reach each other, got {error} with {found}; check them") from error
    atexit.register(_disconnect)
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(usable_cores())
    return Ranks(rank, world_size, dist.PrefixStore("ranks", store))


def _wait_for_all(store: dist.Store, rank: int, world_size: int) -> None:
    store.set(str(rank), "")
    store.wait([str(index) for index in range(world_size)], TIMEOUT)


def _disconnect() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
