"""The tables of `puffer envs`, and the timing of `puffer bench`."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
import timeit
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from pufferlib import ocean, spaces
from pufferlib.config import check_section, env_settings, load_config, resolve_env_count
from pufferlib.config.flags import BenchOptions
from pufferlib.dashboard.output import plain_table, printable, printable_lines, terminal_columns
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, nearest
from pufferlib.families import catalog

MAX_NAMED_PARTS = 3  # of a Tuple


def envs_command(family: str | None = None) -> None:
    """Prints the environments, or the names of one family."""
    print(printable_lines(overview() if family is None else listing(family)))


def overview() -> str:
    """Returns the tables of Ocean's environments and of the other families."""
    rows = []
    for family in catalog.families():
        if family.name != "ocean":
            is_counted = family.is_installed and family.is_listed_freely  # else it would have to be imported
            state = "installed" if family.is_installed else f"pip install 'pufferlib[{family.extra}]'"
            rows.append((family.name, str(len(family.names())) if is_counted else "-", family.example, state))
    families = plain_table(("family", "environments", "named like", "installed"), rows)
    return f"{environments_table()}\n\n{families}\n\n`puffer envs FAMILY` lists the names of a family"


def listing(family_name: str) -> str:
    """Returns the names of a family's environments as text, and before them how many there are of each kind."""
    known = {family.name: family for family in catalog.families()}
    if family_name not in known:
        remedy = nearest(family_name, known) or f"; there are {', '.join(known)}"
        raise APIUsageError(f"there is no family of environments {family_name!r}{remedy}")
    family = known[family_name]
    family.require()
    names, counts = family.names(), family.counts()
    table = plain_table(("kind", "environments"), [(kind, f"{count:,}") for kind, count in counts.items()])
    return "\n".join([*([f"{table}\n"] if counts else []), *names])


def environments_table(width: int | None = None) -> str:
    """Returns a table of Ocean; lines are cut to `width` columns, None are those of the terminal if there is one."""
    header = ("environment", "observation", "action", "agents", "solved at", "what it is")
    rows = [_environment_row(name) for name in ocean.names()]
    return plain_table(header, rows, terminal_columns() if width is None else width)


def what_it_is(name: str) -> str:
    """Returns an environment in a few words: the first line of its module's docstring, after the name."""
    module = sys.modules[ocean.env_class(name).__module__]
    first = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    called, separator, words = first.partition(": ")
    is_name = called.lower().replace(" ", "_") == name.removeprefix(ocean.PREFIX)
    return words if separator and is_name else first


def _environment_row(name: str) -> tuple[str, ...]:
    try:
        env_class = ocean.env_class(name)
    except ImportError:
        return name, "not compiled: run `pip install -e .`", "", "", "", ""
    args = load_config(name)
    one = {"num_envs": 1} if "num_envs" in env_settings(name) else {}
    solve = args.get("solve")
    solved_at = f"{solve['metric']} {solve['threshold']:g}" if solve else "-"
    with closing(env_class(**{**args["env"], **one})) as env:
        found = space_text(env.single_observation_space), space_text(env.single_action_space), str(env.num_agents)
    return name, *found, solved_at, what_it_is(name)


def space_text(space: gymnasium.Space) -> str:
    """Returns a space in a word or two, such as `uint8[121]`, `Discrete(5)` or `Tuple of 8`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete({space.n})"
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return f"MultiDiscrete({', '.join(str(count) for count in space.nvec.flat)})"
    if isinstance(space, gymnasium.spaces.Tuple):
        if len(space.spaces) > MAX_NAMED_PARTS:
            return f"Tuple of {len(space.spaces)}"
        return f"Tuple({', '.join(map(space_text, space.spaces))})"
    return f"{space.dtype}[{' x '.join(str(size) for size in space.shape)}]"


LARGE_NUM_ENVS = 4096  # of the second row: the size at which environments are compared
REPEATS = 7
_ACTION_SETS = 16  # prepared rows of actions, used in turn
_WARM_UP_STEPS = 32


def bench_command(env_name: str, args: dict[str, Any], options: BenchOptions) -> None:
    """Prints the speed of `env.step` at [env] num_envs and at 4096, with random actions."""
    arguments = check_section("env", args["env"], env_name)
    creator, seed = catalog.find(env_name).creator, args["train"]["seed"]
    rows = []
    for size in _sizes(env_name, arguments):
        with closing(creator(**{**arguments, **size}, seed=seed)) as env:
            rates = measure(env, seed, options.seconds)
        figures = (statistics.median(rates), min(rates), max(rates))
        rows.append((str(size.get("num_envs", 1)), str(env.num_agents), *(f"{rate:,.0f}" for rate in figures)))
    print(printable(f"{env_name}: agent steps per second through env.step, one thread, random actions"))
    print(plain_table(("environments", "agents", f"median of {REPEATS}", "lowest", "highest"), rows))


def _sizes(env_name: str, arguments: dict[str, Any]) -> list[dict[str, int]]:
    setting = env_settings(env_name).get("num_envs")
    if setting is None:
        return [{}]
    agents = catalog.find(env_name).agents_per_env
    count = resolve_env_count(arguments.get("num_envs", setting.default), "cpu", 1, agents)
    return [{"num_envs": count} for count in sorted({count, LARGE_NUM_ENVS})]


def measure(env: PufferEnv, seed: int, seconds: float) -> list[float]:
    """Times `env.step` by random actions after a reset; it stays in the middle of an episode.

    Returns the steps of one agent per second of REPEATS repeats, which together take `seconds`, at least a step each.
    """
    env.reset(seed)
    seconds_of = partial(_seconds_by_masks, env, np.random.default_rng(seed))
    if not env.has_action_masks:
        actions = itertools.cycle(random_actions(env, seed))
        seconds_of = timeit.Timer(lambda: env.step(next(actions))).timeit
    seconds_of(_WARM_UP_STEPS)  # warms the caches
    steps = max(1, int(seconds / REPEATS * _WARM_UP_STEPS / seconds_of(_WARM_UP_STEPS)))
    return [steps * env.num_agents / seconds_of(steps) for _ in range(REPEATS)]


def random_actions(env: PufferEnv, seed: int) -> list[np.ndarray]:
    """Returns uniform random actions of all agents, in the dtype of the environment's array."""
    env.action_space.seed(seed)
    return [env.action_space.sample().astype(env.actions.dtype) for _ in range(_ACTION_SETS)]


def _seconds_by_masks(env: PufferEnv, generator: np.random.Generator, steps: int) -> float:
    # In `env.step` alone, by allowed actions, which are drawn between two steps.
    taken = 0.0
    for _ in range(steps):
        actions = spaces.allowed_actions(env.actions, env.action_masks, env.single_action_space, generator)
        begin = time.perf_counter()
        env.step(actions)
        taken += time.perf_counter() - begin
    return taken
