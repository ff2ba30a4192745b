"""Training on several processes, as torchrun starts them: who they are, and all that they tell each other.

Every process collects its own rollout and differentiates its own part of each minibatch; the gradients are averaged
before the optimizer steps, so that all of them hold the same weights. What must not differ between processes is decided
by the first and handed to the others. Whoever calls a method here waits until all processes have called it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import psutil
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from pufferlib.errors import RankError
from pufferlib.machine import usable_cores
from pufferlib.messages import Messages, abandon_groups
from pufferlib.seeding import mix_seed

T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)
"""How long to wait for a process that neither answers nor ends; torch.compile may take some minutes of it."""

BEAT_SECONDS = 5.0
"""How often the first process says that it is still at work while the others wait for it: sooner than any timeout."""

ROLL_CALL_SECONDS = 10.0
"""How long those that noticed a loss wait for the others to notice it too, before they name who is missing."""

ROUNDING = 1e-3
"""How far apart, as a part of the largest number in a tensor, what processors of other kinds round may come to be."""

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets, or whoever starts the processes


class Total:
    """A sum over all processes that is on its way; whoever asks for the result waits for it."""

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
    """What a process must have alike with all others, while the digests are on their way."""

    facts: Mapping[str, str]
    digests: Tensor  # (world_size,) int64, by rank once it is done
    work: dist.Work


class Ranks:
    """This process among all those that train together. One alone waits for nobody and sends nothing.

    Attributes:
        rank: this process, 0 for the first, which writes logs and checkpoints.
        world_size: processes in all.
        messages: what goes to the other processes and is no tensor of the policy's device.
    """

    def __init__(
        self,
        rank: int = 0,
        world_size: int = 1,
        store: dist.Store | None = None,
        group: dist.ProcessGroup | None = None,
    ):
        """Tells the others where this process runs.

        Args:
            rank: below `world_size`.
            world_size: of the process group, which exists already where it is above 1.
            store: shared by all processes, for what is said when the group is broken.
            group: for `messages`; None is torch's default one, which tensors of the policy's device go through.
        """
        self.rank = rank
        self.world_size = world_size
        self.messages = Messages(self._is_anybody_lost, group)
        self._tensors = Messages(self._is_anybody_lost)
        self._store = store
        self._comparison: Comparison | None = None  # that was started and not ended
        if store is not None:
            store.set(f"process/{rank}", f"{os.getpid()} {socket.gethostname()}")

    @property
    def is_first(self) -> bool:
        """Whether this process writes for all."""
        return self.rank == 0

    def seed(self, seed: int) -> int:
        """The seed of this process in a run seeded with `seed`: that very one for the first."""
        return mix_seed(seed, self.rank) if self.rank else seed

    def average_gradients(self, parameters: Sequence[nn.Parameter], numbers: Tensor) -> Tensor:
        """Averages the gradients over all processes, in one message; a missing one counts as 0.

        A parameter that no process has a gradient for keeps none.

        Args:
            parameters: on one device and of one dtype.
            numbers: `(count,)` float32 on that device, to go with the message: each one waits for the slowest process.

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
        """`(world_size, count)`, the numbers of all processes by rank, of which each has `(count,)` on its device."""
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
        """Starts to sum a number over all processes: it waits for nobody but where a comparison has to end."""
        self._end_comparison()
        return Total(self, number)

    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank; anything that pickle takes."""
        if self.world_size == 1:
            return [value]
        self._end_comparison()
        with self.noticing_losses():
            return self.messages.gather_objects(value)

    def wait_for_first(self, work: Callable[[], object]) -> None:
        """Has the first process alone do something, and the others wait for it however long that takes.

        They wait while it says that it is still at work, and no longer than TIMEOUT after it last did. An error leaves
        the first process, and the others wait on until it has ended.
        """
        self._end_comparison()
        if self.world_size == 1:
            work()
        elif self.is_first:
            with self._beating():
                work()
            self._send_beat(False)
        else:
            while self._receive_beat():
                pass

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        is_over = threading.Event()

        def beat() -> None:
            with contextlib.suppress(RankError):  # which the next message of the process itself runs into as well
                while not is_over.wait(BEAT_SECONDS):
                    self._send_beat(True)

        thread = threading.Thread(target=beat, name="puffer-beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _send_beat(self, is_at_work: bool) -> None:
        with self.noticing_losses():
            self.messages.broadcast(torch.tensor([is_at_work]))

    def _receive_beat(self) -> bool:
        is_at_work = torch.zeros(1, dtype=torch.bool)
        with self.noticing_losses():
            self.messages.broadcast(is_at_work)
        return bool(is_at_work)

    def from_first(self, decide: Callable[[], T]) -> T:
        """What `decide` returns in the first process, which alone calls it; its error is raised in all of them.

        It may take its time, see `wait_for_first`.
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
        """Compares what all processes must have alike.

        Args:
            facts: by the name that the error has for them.

        Raises:
            RankError: if they differ, naming a fact and what each process has.
        """
        _require_same(self.gather(dict(facts)))

    def start_comparing(self, facts: Mapping[str, str]) -> None:
        """Starts to compare facts, see `require_same`; waits for nobody.

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
        """Compares what all processes hold, by a hash.

        Args:
            tensors: in the same order everywhere.
            name: of all of them together.
            tolerance: how far numbers may be from those of the first process, as a part of the largest in a tensor.

        Raises:
            RankError: if they differ, naming the processes that differ from the first.
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
        firsts = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]
        self.broadcast(firsts)
        pairs = [(own.detach().float(), first.float()) for own, first in zip(tensors, firsts, strict=True)]
        return all(
            bool((own - first).abs().max() <= tolerance * first.abs().max()) for own, first in pairs if own.numel()
        )

    def announce(self, error: BaseException) -> None:
        """Leaves word of an error that ends this process, for the others to report."""
        if self._store is not None and not isinstance(error, RankError):
            with contextlib.suppress(RuntimeError):  # who keeps the store may be gone
                self._store.set(f"failed/{self.rank}", f"{type(error).__name__}: {error}")

    # --------------------------------------------------------------------------------------------- when one is missing

    @contextlib.contextmanager
    def noticing_losses(self) -> Iterator[None]:
        """Turns the error of a message that did not get through into one that says who is missing."""
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
        if self._store is None:
            return f"one of the other {self.world_size - 1} processes is gone"
        try:
            deadline = time.monotonic() + ROLL_CALL_SECONDS
            lost, words = self._roll_call(deadline)
            self._store.set(f"heard/{self.rank}", "")
            if self.is_first:  # whose process may be the one that keeps the store: the others have to ask it first
                self._await("heard", [rank for rank in range(self.world_size) if rank not in lost], deadline)
            return words
        except RuntimeError:
            return "the process that keeps the others together (rank 0, or torchrun's) is gone"

    def _roll_call(self, deadline: float) -> tuple[list[int], str]:
        self._store.set(f"answer/{self.rank}", "")
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        silent = self._await("answer", others, deadline)
        failed = [rank for rank in others if self._store.check([f"failed/{rank}"])]
        if failed:
            reasons = [f"rank {rank} failed with {self._store.get(f'failed/{rank}').decode()}" for rank in failed]
            return failed, ", ".join(reasons)
        missing = [rank for rank in silent if self._is_dead(rank)] or silent
        if not missing:
            return [], "the connection between the processes broke"
        names = " and ".join(f"rank {rank} ({self._place(rank)})" for rank in missing)
        return missing, f"{names} {'is' if len(missing) == 1 else 'are'} gone"

    def _await(self, what: str, ranks: Sequence[int], deadline: float) -> list[int]:
        while True:
            silent = [rank for rank in ranks if not self._store.check([f"{what}/{rank}"])]
            is_known = any(self._store.check([f"failed/{rank}"]) or self._is_dead(rank) for rank in silent)
            if not silent or is_known or time.monotonic() >= deadline:
                return silent
            time.sleep(0.1)

    def _is_anybody_lost(self) -> bool:
        others = [rank for rank in range(self.world_size) if rank != self.rank]
        if self._store is None:
            return False
        return any(self._store.check([f"failed/{rank}"]) or self._is_dead(rank) for rank in others)

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
    """This process among those that torchrun, or a program like it, started; alone where there was none.

    The first call connects all of them. Where the program that imports this library has a torch process group already,
    that one is used. On a machine that several processes share, torch gets this one's share of the cores, in place of
    the single thread that torchrun sets.

    Raises:
        RankError: if the processes cannot be connected, or how many there are is no number.
    """
    return _connected() if dist.is_initialized() or _is_started_with_others() else Ranks()


def take_gpu() -> int:
    """The number of this process's GPU, which torch takes from then on where none is named.

    That is its number among the processes of this machine; where it sees a single GPU, as a scheduler may have each of
    them see another one, it is that.
    """
    index = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.device_count() > 1 else 0
    if index < torch.cuda.device_count():  # who names it is told otherwise
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
        # torchrun keeps the store when it starts the processes anew; what the failed ones left in it must not count.
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
