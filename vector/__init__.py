"""Vectorization: many PufferEnvs stepped as one, by the backend that suits them.

`pufferlib.emulation` makes PufferEnvs of environments of Gymnasium and PettingZoo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pufferlib.emulation import as_puffer_env
from pufferlib.emulation.gymnasium_emulation import GymnasiumVectorPufferEnv
from pufferlib.environment import check_env
from pufferlib.errors import APIUsageError, nearest
from pufferlib.vector.base import State, Vector
from pufferlib.vector.envpool_vector import EnvPool
from pufferlib.vector.native import Device, Native
from pufferlib.vector.processes import Multiprocessing
from pufferlib.vector.ray import Ray
from pufferlib.vector.ready import adopt, fitting_backend
from pufferlib.vector.recipe import AUTO, EnvRecipe, Options, checked_timeout, count_workers
from pufferlib.vector.serial import GymnasiumVector, Serial

__all__ = [
    "BACKENDS",
    "Device",
    "EnvPool",
    "GymnasiumVector",
    "GymnasiumVectorPufferEnv",
    "Multiprocessing",
    "Native",
    "Ray",
    "Serial",
    "State",
    "Vector",
    "adopt",
    "as_puffer_env",
    "check_env",
    "make",
]

_BACKENDS = (Serial, Native, Device, Multiprocessing, GymnasiumVector, EnvPool, Ray)
BACKENDS: dict[str, type[Vector]] = {backend.__name__: backend for backend in _BACKENDS}


def make(
    env_creator_or_creators: Callable | Sequence[Callable],
    env_args: Sequence | None = None,
    env_kwargs: dict | Sequence[dict] | None = None,
    backend: type[Vector] | str = AUTO,
    num_envs: int = 1,
    num_workers: int | str = AUTO,
    batch_size: int | str = AUTO,
    zero_copy: bool = True,
    seed: int = 0,
    context: str | None = None,
    step_timeout_seconds: float | None = None,
) -> Vector:
    """Makes `num_envs` PufferEnvs and the backend that steps them.

    A creator, a class or a function, is called as `creator(*args, buf=Buffers or None, seed=int, **kwargs)`. One that
    takes neither `buf` nor `seed` may return an environment of Gymnasium or PettingZoo, which is emulated, or a
    `gymnasium.vector.VectorEnv`, which then is one PufferEnv of many agents. The first environment is made once more
    than the others, to learn its spaces. The same seed gives the same rollout on every backend.

    Args:
        env_creator_or_creators: one callable for all environments, or a list of `num_envs` callables.
        env_args: positional arguments for all environments, or a list of `num_envs` tuples.
        env_kwargs: keyword arguments for all environments, or a list of `num_envs` dicts.
        backend: a class of this module or its name. 'auto' takes Native for C environments, EnvPool for its own,
            GymnasiumVector for vector environments, Multiprocessing for others when there is more than one worker, else
            Serial. Device is Native for a trainer on a GPU, which may step the environments there.
        num_envs: PufferEnvs, each of one or many agents; all of the same spaces and number of agents.
        num_workers: threads (Native, Device, EnvPool), or processes (Multiprocessing) or actors (Ray), a divisor of
            `num_envs`. 'auto' follows the cores this process, or the cluster, may use.
        batch_size: PufferEnvs per `recv`, a divisor of `num_envs`. 'auto' is 1 for Native and GymnasiumVector,
            else all.
        zero_copy: Multiprocessing and Ray only: True makes batches of neighbouring environments, which are handed out
            as views; False lets a batch mix any workers that are ready, at the price of a copy.
        seed: environment `i` is made and reset with `mix_seed(seed, i)`.
        context: Multiprocessing only: None starts each worker in a fresh interpreter; 'fork', 'forkserver' and 'spawn'
            are the start methods of the standard library, and the last two need a guarded main program.
        step_timeout_seconds: Multiprocessing only: a worker that takes longer for a step or a reset is killed, and the
            call that waits for it raises a WorkerError. None waits forever.

    Raises:
        APIUsageError: if the arguments do not fit together, or the environments do not fit each other.
    """
    recipe = EnvRecipe.build(env_creator_or_creators, env_args, env_kwargs, num_envs, seed)
    options = Options(num_workers, batch_size, zero_copy, context, checked_timeout(step_timeout_seconds))
    chosen = _named_backend(backend)
    driver = recipe.make(0, None)
    try:
        if chosen is None:
            chosen = EnvPool if EnvPool.can_step(driver) else fitting_backend(driver)
            if chosen is Serial and (step_timeout_seconds is not None or count_workers(options, num_envs) > 1):
                chosen = Multiprocessing
        if step_timeout_seconds is not None and not issubclass(chosen, Multiprocessing):
            raise APIUsageError(
                f"step_timeout_seconds needs a backend that can end a step, got {chosen.__name__}; "
                "use the Multiprocessing backend"
            )
        vecenv = chosen(recipe, driver, options)
    except BaseException:
        driver.close()
        raise
    vecenv.options = options
    return vecenv


def _named_backend(backend: type[Vector] | str) -> type[Vector] | None:
    if isinstance(backend, type) and issubclass(backend, Vector):
        return backend
    if backend == AUTO:
        return None
    if backend in BACKENDS:
        return BACKENDS[backend]
    names = [AUTO, *BACKENDS]
    raise APIUsageError(
        f"backend must be one of {', '.join(map(repr, names))} or a class of pufferlib.vector, "
        f"got {backend!r}{nearest(str(backend), names)}"
    )
