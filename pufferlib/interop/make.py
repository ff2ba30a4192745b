"""`pufferlib.make_gymnasium`, `make_gymnasium_vec` and `make_pettingzoo`: an environment for another library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.interop import spec_of
from pufferlib.interop.gymnasium_interop import OceanGymnasiumEnv, OceanVectorEnv
from pufferlib.interop.ocean_envs import ocean_name
from pufferlib.ocean.environment import OceanEnv

if TYPE_CHECKING:
    from pettingzoo import ParallelEnv


def make_gymnasium(name: str | type[OceanEnv], render_mode: str | None = None, **env_kwargs: Any) -> gymnasium.Env:
    """Makes one environment of one agent, as `gymnasium.Env`.

    `gymnasium.make("pufferlib/breakout")` makes the same with Gymnasium's usual wrappers around it.

    Args:
        name: `puffer_breakout` and the like, or a class of C environments, which come as an OceanGymnasiumEnv; or
            another name of an environment that Gymnasium knows (`CartPole-v1`, `dm_control/cheetah/run`), which comes
            as the trainer would see it, with the wrappers of its family and before any packing.
        render_mode: `rgb_array`, `human` or None.
        env_kwargs: of the environment.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        APIUsageError: if it is no single environment of one agent, or an argument is out of its range.
    """
    own = ocean_name(name)
    if own is not None:
        env = OceanGymnasiumEnv(own, render_mode, **env_kwargs)
        env.spec = spec_of(own, render_mode=render_mode, **env_kwargs)
        return env
    mode = {} if render_mode is None else {"render_mode": render_mode}
    return _emulated(name, GymnasiumPufferEnv, {**mode, **env_kwargs})


def make_gymnasium_vec(
    name: str | type[OceanEnv], num_envs: int = 1, render_mode: str | None = None, copy: bool = False, **env_kwargs: Any
) -> OceanVectorEnv:
    """Makes many environments of one agent each, as one `gymnasium.vector.VectorEnv` without copies.

    `gymnasium.make_vec("pufferlib/breakout", num_envs=64)` makes the same. What is returned by `reset` and `step` is
    overwritten by the next step, unless `copy` is set: see OceanVectorEnv.

    Args:
        name: `puffer_breakout` and the like, or a class of C environments.
        num_envs: environments, at least 1.
        render_mode: `rgb_array` or None.
        copy: whether `reset` and `step` return copies, for code that keeps what they returned.
        env_kwargs: of the environment.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        APIUsageError: if it is not of Ocean, has several agents, or an argument is out of its range.
    """
    own = ocean_name(name)
    if own is None:
        raise APIUsageError(
            f"make_gymnasium_vec() takes an environment in C, such as puffer_breakout, got {name}; "
            "gymnasium.make_vec makes those that Gymnasium knows"
        )
    envs = OceanVectorEnv(own, num_envs, render_mode, copy, **env_kwargs)
    envs.spec = spec_of(own, num_envs=num_envs, render_mode=render_mode, copy=copy, **env_kwargs)
    return envs


def make_pettingzoo(name: str | type[OceanEnv], render_mode: str | None = None, **env_kwargs: Any) -> ParallelEnv:
    """Makes one environment of any number of agents, as a `pettingzoo.ParallelEnv`.

    Args:
        name: of an Ocean environment, or a class of C environments, which come as an OceanParallelEnv; or one such as
            `pettingzoo:butterfly/pistonball_v6`, which comes as the trainer would see it.
        render_mode: `rgb_array`, `human` or None.
        env_kwargs: of the environment.

    Raises:
        UnknownEnvironmentError: if there is no environment of that name; the message lists the nearest.
        MissingExtraError: if PettingZoo is not installed.
        APIUsageError: if it is not of this kind, or an argument is out of its range.
    """
    own = ocean_name(name)
    if own is not None:
        from pufferlib.interop.pettingzoo_interop import OceanParallelEnv  # PettingZoo is optional

        return OceanParallelEnv(own, render_mode, **env_kwargs)
    mode = {} if render_mode is None else {"render_mode": render_mode}
    return _emulated(name, PettingZooPufferEnv, {**mode, **env_kwargs})


def _emulated(name: str, kind: type[PufferEnv], env_kwargs: dict[str, Any]) -> Any:
    env = catalog.find(name).creator(**env_kwargs)
    if isinstance(env, kind):
        return env.env
    env.close()
    wanted = "one environment of Gymnasium" if kind is GymnasiumPufferEnv else "an environment of PettingZoo"
    raise APIUsageError(f"{wanted}, or one in C, is expected, got {name} as {type(env).__name__}")
