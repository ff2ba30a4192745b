"""The environments of a vector: creators, arguments, seeds, and the sizes of batches and workers."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import override

from pufferlib.emulation import make_puffer_env
from pufferlib.environment import Buffers, PufferEnv
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.machine import usable_cores
from pufferlib.seeding import mix_seed
from pufferlib.vector.arrays import private_buffers

AUTO = "auto"
_ARRAYS = tuple(name for name in Buffers.__dataclass_fields__ if name != "action_masks")


@dataclass(frozen=True)
class Options:
    """How to run the environments, as the caller of `make` wrote it; each backend checks the options that it uses."""

    num_workers: int | str = AUTO
    batch_size: int | str = AUTO
    zero_copy: bool = True
    context: str | None = None
    step_timeout_seconds: float | None = None


class EnvSource(abc.ABC):
    """The source of a vector's environments."""

    num_envs: int  # in all
    seed: int  # of the vector, unless a reset gives another
    fills_buf: bool = True  # whether the environments must write into the arrays `buf` that `make` was given

    def env_seed(self, index: int, seed: int | None = None) -> int:
        """The seed of environment `index` in a vector seeded with `seed`, or with the source's own seed."""
        return mix_seed(self.seed if seed is None else seed, index)

    @abc.abstractmethod
    def make(self, index: int, buf: Buffers | None) -> PufferEnv:
        """Returns environment `index`, on the arrays `buf` or on its own."""

    @abc.abstractmethod
    def allocate(self, driver: PufferEnv) -> Buffers:
        """The arrays of all environments in this process; `driver`, which has the spaces, is not used afterwards."""

    def note_closed(self) -> None:  # noqa: B027 - most sources need not know
        """Called after the environments were closed."""


@dataclass(frozen=True)
class EnvRecipe(EnvSource):
    """Everything needed to make environment `i`, as plain data that can be sent to workers."""

    creators: tuple[Callable, ...]  # these three have one entry per environment
    args: tuple[tuple, ...]
    kwargs: tuple[dict, ...]
    seed: int

    @classmethod
    def build(
        cls,
        creators: Callable | Sequence[Callable],
        args: Sequence | None,
        kwargs: Mapping | Sequence[Mapping] | None,
        num_envs: int,
        seed: int,
    ) -> EnvRecipe:
        """Checks the arguments of `make` and splits them by environment; an APIUsageError if one is wrong."""
        for name, value, least in (("num_envs", num_envs, 1), ("seed", seed, 0)):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
                raise APIUsageError(f"{name} must be an integer of at least {least}, got {value!r}")
        creators = _one_per_env("creators", creators, num_envs, isinstance(creators, (list, tuple)))
        args = () if args is None else args
        are_args_listed = isinstance(args, list) and args and all(isinstance(entry, (list, tuple)) for entry in args)
        args = _one_per_env("env_args", args, num_envs, are_args_listed)
        kwargs = {} if kwargs is None else kwargs
        kwargs = _one_per_env("env_kwargs", kwargs, num_envs, isinstance(kwargs, (list, tuple)))
        for name, entries, kind in (("env_args", args, (list, tuple)), ("env_kwargs", kwargs, dict)):
            for entry in entries:
                if not isinstance(entry, kind):
                    wanted = "dicts" if kind is dict else "sequences"
                    raise APIUsageError(f"{name} must hold {wanted}, got {type(entry).__name__}")
        for creator in creators:
            if not callable(creator):
                raise APIUsageError(f"an environment creator must be callable, got {type(creator).__name__}")
        return cls(creators, tuple(map(tuple, args)), kwargs, int(seed))

    @property
    @override
    def num_envs(self) -> int:
        return len(self.creators)

    @override
    def make(self, index: int, buf: Buffers | None) -> PufferEnv:
        # An APIUsageError if the creator returns no environment, or a PufferEnv without taking `buf` and `seed`.
        creator, args, kwargs = self.creators[index], self.args[index], self.kwargs[index]
        env = make_puffer_env(creator, args, kwargs, {"buf": buf, "seed": self.env_seed(index)})
        for name in ("single_observation_space", "single_action_space", "num_agents", *_ARRAYS):
            if not hasattr(env, name):
                raise APIUsageError(
                    f"an environment creator must return a PufferEnv, got {type(env).__name__} without {name}; "
                    "return one, or an environment of Gymnasium or PettingZoo"
                )
        return env

    @override
    def allocate(self, driver: PufferEnv) -> Buffers:
        """Closes `driver`, whose place the first environment on the arrays takes."""
        buffers = private_buffers(driver, self.num_envs * driver.num_agents)
        driver.close()
        return buffers

    def again(self, num_envs: int, inside: int, seed: int) -> EnvRecipe:
        """A recipe of `num_envs` other environments like these, of which each PufferEnv here has some `inside`.

        Where the creators have an argument for how many each holds, one PufferEnv, or one for each of their several
        arguments, with as many in all or a few more; else PufferEnvs like these in turn.
        """
        if "num_envs" in self.kwargs[0]:
            entries = list(zip(self.creators, self.args, self.kwargs, strict=True))
            differ = any(own is not first for entry in entries for own, first in zip(entry, entries[0], strict=True))
            creators, args, kwargs = zip(*entries[: max(1, min(num_envs, len(entries))) if differ else 1], strict=True)
            share = -(-num_envs // len(creators))
            return EnvRecipe(creators, args, tuple({**each, "num_envs": share} for each in kwargs), seed)
        turns = [index % self.num_envs for index in range(-(-num_envs // inside))]
        each = ([entries[index] for index in turns] for entries in (self.creators, self.args, self.kwargs))
        return EnvRecipe.build(*each, len(turns), seed)


def _one_per_env(name: str, value: Callable | Mapping | Sequence, num_envs: int, is_list: bool) -> tuple:
    if not is_list:
        return (value,) * num_envs
    if len(value) != num_envs:
        raise APIUsageError(f"a list of {name} must have num_envs {num_envs} entries, got {len(value)}")
    return tuple(value)


MAX_WORKERS = 1024  # threads or processes of one machine; more is a slip of the finger


def is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1; True and 2.0 are none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1


def count_batch(options: Options, num_envs: int, default: int) -> int:
    """The environments per batch; an APIUsageError names the nearest valid sizes."""
    size = default if options.batch_size == AUTO else options.batch_size
    divisors = [divisor for divisor in range(1, num_envs + 1) if num_envs % divisor == 0]
    _check_choice("batch_size", size, divisors, f"a divisor of num_envs {num_envs}")
    return size


def count_threads(options: Options) -> int:
    """The threads of a pool, the caller included; checked by `check_workers`."""
    threads = min(usable_cores(), MAX_WORKERS) if options.num_workers == AUTO else options.num_workers
    check_workers(threads)
    return threads


def check_workers(workers: object) -> None:
    """Raises an APIUsageError if a number of threads or processes is no count, or more than a machine has."""
    if not is_count(workers) or workers > MAX_WORKERS:
        raise APIUsageError(f"num_workers must be 'auto' or an integer from 1 to {MAX_WORKERS}, got {workers!r}")


def count_workers(options: Options, num_envs: int, cores: int | None = None) -> int:
    """The number of worker processes: all have equally many environments, and a batch consists of whole workers.

    `cores` are for 'auto'; None is those that this process may use. An APIUsageError names the nearest valid numbers.
    """
    batch_size = count_batch(options, num_envs, num_envs)
    valid = [
        workers
        for workers in range(1, num_envs + 1)
        if num_envs % workers == 0 and batch_size % (num_envs // workers) == 0
    ]
    if options.num_workers == AUTO:
        cores = usable_cores() if cores is None else cores
        return max((workers for workers in valid if workers <= cores), default=valid[0])
    rule = f"a divisor of num_envs {num_envs} with whole workers in a batch of {batch_size}"
    _check_choice("num_workers", options.num_workers, valid, rule)
    return options.num_workers


def checked_timeout(seconds: object) -> float | None:
    """The limit of a step, None for none; an APIUsageError if it is no number above 0."""
    if seconds is None:
        return None
    if not isinstance(seconds, (int, float, np.number)) or isinstance(seconds, bool) or not 0 < seconds < np.inf:
        raise APIUsageError(f"step_timeout_seconds must be None or a number above 0, got {seconds!r}")
    return float(seconds)


def _check_choice(name: str, value: object, valid: Sequence[int], rule: str) -> None:
    if is_count(value) and value in valid:
        return
    if not is_count(value):
        raise APIUsageError(f"{name} must be 'auto' or an integer of at least 1, got {value!r}; valid: {list(valid)}")
    below, above = [v for v in valid if v < value], [v for v in valid if v > value]
    near = " or ".join(str(choice) for choice in (*below[-1:], *above[:1]))
    raise APIUsageError(f"{name} must be {rule}, got {value}; the nearest is {near}")


def warn_above_cores(workers: int, cores: int | None = None) -> None:
    """Warns the caller of `make`, when a backend's constructor calls this; None is the cores of this process."""
    cores = usable_cores() if cores is None else cores
    if workers > cores:
        warnings.warn(
            f"num_workers {workers} is more than the {cores} cores this process may use; fewer are likely to be "
            "faster, unless the environments wait rather than compute",
            PufferWarning,
            stacklevel=4,
        )
