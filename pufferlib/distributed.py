"""Training by several processes: their ranks, and the messages between them by torch's collective operations."""

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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from pufferlib.errors import RankError
from pufferlib.machine import usable_cores
from pufferlib.seeding import mix_seed

T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)  # for a message of a process that has not ended; torch.compile may take some of it
TURN = timedelta(seconds=1)  # between two looks for lost processes: far longer than a message takes
NOTICE_SECONDS = 10.0  # in which the processes of a broken run look for the one that is lost
ROUNDING = 1e-3  # how far weights may be apart on unlike processors, as a part of a tensor's largest number

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # set by torchrun


class Ranks:
    """This process among all that train together. A single process sends nothing and does not wait."""

    def __init__(
        self,
        rank: int = 0,  # of this process; the first writes logs and checkpoints
        world_size: int = 1,
        store: dist.Store | None = None,  # shared by all processes, see `_wait_for_all`; works when the group is broken
        group: dist.ProcessGroup | None = None,  # of tensors in CPU memory; None, and a GPU's, is torch's default group
    ):
        self.rank, self.world_size = rank, world_size
        self._store, self._group = store, group
        # Facts whose comparison has not ended, and what waits for their digests.
        self._compared: tuple[Mapping[str, str], Callable[[], Tensor]] | None = None
        self._decisions = 0  # of the first process

    @property
    def is_first(self) -> bool:
        """Whether this process is the first, which writes for all."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """The seed of this process in a run seeded with `seed`: that very one for the first."""
        return mix_seed(seed, self.rank) if self.rank else seed

    def average_gradients(self, parameters: Sequence[nn.Parameter], numbers: Tensor) -> Tensor:
        """Averages the gradients over all processes; a missing one counts as 0, and stays missing if all are.

        The parameters are on one device and of one dtype. `numbers`, `(count,)` float32 on that device, are sent in the
        same message. Returns those of all, `(world_size, count)` by rank.
        """
        if self.world_size == 1:
            return numbers.unsqueeze(0)
        own = [parameter.grad is not None for parameter in parameters]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flags, places = numbers.new_tensor(own), self._in_own_place(numbers)
        message = self.start_sum(torch.cat([*(part.flatten() for part in parts), flags, places.flatten()]))()
        *averages, counts, places = message.split([*(part.numel() for part in parts), len(own), places.numel()])
        for index, (parameter, average) in enumerate(zip(parameters, averages, strict=True)):
            if own[index] or counts[index] > 0:
                parameter.grad = average.view_as(parameter).div_(self.world_size).to(parameter.dtype)
        return places.view(self.world_size, -1).to(numbers.dtype)

    def gather_numbers(self, numbers: Tensor) -> Tensor:
        """Gathers `(count,)` numbers of each process: `(world_size, count)`, by rank."""
        if self.world_size == 1 or not len(numbers):
            return numbers.expand(self.world_size, -1)
        return self.start_sum(self._in_own_place(numbers))()

    def _in_own_place(self, numbers: Tensor) -> Tensor:
        # One row for each process, zeros in those of the others: the sum over all processes then holds them all.
        places = numbers.new_zeros(self.world_size, len(numbers))
        places[self.rank] = numbers
        return places

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Overwrites the tensors with those of the first process."""
        if self.world_size == 1:
            return
        self._end_comparison()
        for tensor in tensors:
            with torch.no_grad(), self._naming_the_lost():
                work = dist.broadcast(tensor, 0, group=self._group_of(tensor), async_op=True)
            self._wait(work, tensor)

    def total(self, number: float) -> float:
        """Returns the sum of a number over all processes."""
        return self.start_total(number)()

    def start_total(self, number: float) -> Callable[[], float]:
        """Starts to sum a number over all processes; the call that is returned waits for the sum."""
        finish = self.start_sum(torch.tensor(float(number), dtype=torch.float64))
        return lambda: finish().item()

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes by rank; anything that pickle takes."""
        if self.world_size == 1:
            return [value]
        self._end_comparison()
        values = [None] * self.world_size
        with self._naming_the_lost():
            dist.all_gather_object(values, value, group=self._group)
        return values

    def from_first(self, decide: Callable[[], T]) -> T:
        """Calls `decide` in the first process and returns its result in all; its error is raised in all of them.

        The others wait for it however long it takes, as long as the first process does not end.
        """
        if self.world_size == 1:
            return decide()
        self._end_comparison()
        self._decisions += 1
        key, result, own_error, error = f"decided/{self._decisions}", None, None, None
        if self.is_first:
            try:
                result = decide()
            except Exception as raised:
                own_error, error = raised, _sendable(raised)
        decided = [result, error]
        with self._naming_the_lost():
            if self.is_first:
                self._store.set(key, "")
            else:
                self._wait_for_key(key)
            dist.broadcast_object_list(decided, 0, group=self._group)
        result, error = decided
        if error is not None:
            raise own_error or error
        return result

    # ---------------------------------------------------------------------------------------------------- the messages

    def start_sum(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Starts to replace a tensor by its sum over all processes; the call that is returned waits, and returns it."""
        if self.world_size == 1:
            return lambda: tensor
        self._end_comparison()
        with self._naming_the_lost():
            work = dist.all_reduce(tensor, group=self._group_of(tensor), async_op=True)

        def finish() -> Tensor:
            self._wait(work, tensor)
            return tensor

        return finish

    def _group_of(self, tensor: Tensor) -> dist.ProcessGroup | None:
        return self._group if tensor.is_cpu else None

    def _wait(self, work: dist.Work, tensor: Tensor) -> None:
        # Until an operation on a tensor has ended, or for two turns after a process was lost.
        is_any_lost = False
        with self._naming_the_lost():
            if not tensor.is_cpu:
                work.wait()  # NCCL watches over it by itself
                return
            while True:
                try:
                    work.wait(TURN)
                    return
                except RuntimeError:
                    if work.is_completed():
                        work.wait()  # it ended just now, well or not
                        return
                    if is_any_lost:  # a message that was being sent has arrived by now
                        raise
                    is_any_lost = any(self._lost())

    def _wait_for_key(self, key: str) -> None:
        # However long it takes, and for one more turn after a process was lost: it may have ended after it had the key.
        # The store's own wait writes a warning to stderr with every turn.
        is_any_lost, end_of_turn = False, time.monotonic() + TURN.total_seconds()
        while not self._store.check([key]):
            time.sleep(0.01)
            if time.monotonic() < end_of_turn:
                continue
            if is_any_lost:
                raise RuntimeError("the first process waits for a lost one, or is lost")
            is_any_lost, end_of_turn = any(self._lost()), time.monotonic() + TURN.total_seconds()

    # -------------------------------------------------------------------------------------------- what must be the same

    def require_same(self, facts: Mapping[str, str]) -> None:
        """Compares facts, by name, with those of all other processes.

        Raises RankError if they differ; it names a fact and its value in each process.
        """
        found = self.gather(dict(facts))
        differing = [name for name in dict.fromkeys(itertools.chain(*found)) if len({f.get(name) for f in found}) > 1]
        if not differing:
            return
        name, *others = differing
        first, *values = (facts.get(name, "nothing of that name") for facts in found)
        got = [f"{value} in rank {rank}" for rank, value in enumerate(values, 1) if value != first]
        more = f" (and so must {', '.join(others[:3])}{' and more' if len(others) > 3 else ''})" if others else ""
        raise RankError(
            f"{name} must be the same in all processes{more}, got {', '.join(got)} and {first} in rank 0; "
            "make it the same in every process, and start them again"
        )

    def start_comparing(self, facts: Mapping[str, str]) -> None:
        """Starts to compare facts, see `require_same`; whatever call sends next raises the error, in all processes."""
        if self.world_size == 1:
            return
        digest = hashlib.sha256(repr(sorted(facts.items())).encode()).digest()
        number = int.from_bytes(digest[:8], "little", signed=True)
        self._compared = facts, self.start_sum(self._in_own_place(torch.tensor([number])))

    def _end_comparison(self) -> None:
        if self._compared is None:
            return
        (facts, finish), self._compared = self._compared, None
        digests = finish()
        if (digests != digests[0]).any():
            self.require_same(facts)

    def check_same(self, tensors: Sequence[Tensor], name: str, tolerance: float = 0.0) -> None:
        """Compares tensors, of the same shapes in all processes, with those of the first one.

        Raises RankError if numbers are farther apart than `tolerance`, a part of the largest in a tensor.
        """
        if self.world_size == 1:
            return
        firsts = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]
        self.broadcast(firsts)
        are_close = True
        for own, first in zip(tensors, firsts, strict=True):
            if own.numel():
                most = tolerance * float(first.float().abs().max()) if tolerance else 0.0
                are_close &= torch.allclose(own.detach().float(), first.float(), rtol=0.0, atol=most, equal_nan=True)
        differing = [rank for rank, is_close in enumerate(self.gather(are_close)) if not is_close]
        if differing:
            raise RankError(
                f"the {name} of all ranks must be the same, those of rank {', '.join(map(str, differing))} differ from "
                "rank 0's; change them in every process alike, and go on from the last checkpoint"
            )

    def announce(self, error: BaseException) -> None:
        """Records the error that ends this process, for the others to report."""
        if self._store is not None and not isinstance(error, RankError):
            with contextlib.suppress(RuntimeError):  # the process that keeps the store may be gone
                self._store.set(f"failed/{self.rank}", f"{type(error).__name__}: {error}")

    # --------------------------------------------------------------------------------------------- when one is missing

    @contextlib.contextmanager
    def _naming_the_lost(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            atexit.unregister(_disconnect)
            _keep_groups()
            raise RankError(
                f"{self._describe_loss()}; this run cannot go on without it, and goes on from its last checkpoint "
                "with --resume"
            ) from error

    def _describe_loss(self) -> str:
        deadline = time.monotonic() + NOTICE_SECONDS
        try:
            while not any(lost := self._lost()) and time.monotonic() < deadline:
                time.sleep(0.1)
            self._store.set(f"noticed/{self.rank}", "")
            # The first process may keep the store, which the others have yet to ask.
            while self.is_first and not self._have_others_noticed() and time.monotonic() < deadline:
                time.sleep(0.1)
        except RuntimeError:
            return "the process that keeps the others together (rank 0, or torchrun's) is gone"
        failed, gone = lost
        words = failed.values() or gone.values()  # those that are gone went after one that failed
        return " and ".join(words) or "the connection to another process broke"

    def _have_others_noticed(self) -> bool:
        failed, gone = self._lost()
        others = {*range(self.world_size)} - {self.rank, *failed, *gone}
        return all(self._store.check([f"noticed/{rank}"]) for rank in others)

    def _lost(self) -> tuple[dict[int, str], dict[int, str]]:
        # The other ranks that failed, and those that ended on this machine; torchrun watches over other machines.
        failed, gone = {}, {}
        for rank in range(self.world_size):
            if rank == self.rank:
                continue
            pid, host = self._store.get(f"process/{rank}").decode().split()
            if self._store.check([f"failed/{rank}"]):
                failed[rank] = f"rank {rank} failed with {self._store.get(f'failed/{rank}').decode()}"
            elif host == socket.gethostname() and _has_ended(int(pid)):
                gone[rank] = f"rank {rank} (process {pid} on {host}) is gone"
        return failed, gone


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _keep_groups() -> None:
    # Threads of torch's process groups may still wait for a lost process, and their destructors would wait for these
    # threads when the process ends.
    for group in list(dist.distributed_c10d._world.pg_map):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def _sendable(error: Exception) -> Exception:
    try:
        return pickle.loads(pickle.dumps(error))  # noqa: S301 - a class of the user's may take other arguments
    except Exception:
        return RankError(f"rank 0 failed with {type(error).__name__}: {error}")


def connect() -> Ranks:
    """Returns this process among those that torchrun, or a program like it, started; a single one without it.

    The first call connects all of them. A torch process group that exists already is used. On a machine that several
    processes share, torch gets this process's share of the cores, in place of the single thread that torchrun sets.
    Raises RankError if the processes cannot be connected.
    """
    is_started_with_others = all(name in os.environ for name in _VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1
    return _connected() if dist.is_initialized() or is_started_with_others else Ranks()


def take_gpu() -> int:
    """Makes this process's GPU torch's default; returns its number, 0 where a scheduler shows each process only one."""
    index = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.device_count() > 1 else 0
    if index < torch.cuda.device_count():  # naming a GPU that is missing raises elsewhere
        torch.cuda.set_device(index)
    return index


@functools.cache
def _connected() -> Ranks:
    if dist.is_initialized():
        store = dist.PrefixStore("ranks", dist.distributed_c10d._get_default_store())
        _wait_for_all(store, dist.get_rank(), dist.get_world_size())
        return Ranks(dist.get_rank(), dist.get_world_size(), store, dist.new_group(backend="gloo"))
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
        store = dist.PrefixStore("ranks", store)
        _wait_for_all(store, rank, world_size)
    except (RuntimeError, ValueError) as error:
        found = ", ".join(f"{name}={os.environ.get(name)}" for name in _VARIABLES)
        raise RankError(f"the processes must reach each other, got {error} with {found}; check them") from error
    atexit.register(_disconnect)
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(usable_cores())
    return Ranks(rank, world_size, store)


def _wait_for_all(store: dist.Store, rank: int, world_size: int) -> None:
    store.set(f"process/{rank}", f"{os.getpid()} {socket.gethostname()}")
    store.wait([f"process/{index}" for index in range(world_size)], TIMEOUT)


def _disconnect() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
