"""Plain tables, and the one that lists the environments."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium

from pufferlib import ocean
from pufferlib.config import env_settings, load_config


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligns columns with spaces: readable, and easy for another program to split."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def environments_table() -> str:
    """Every environment: its name, spaces of one agent, agents, and when it counts as solved."""
    header = ("environment", "observation", "action", "agents", "solved at")
    return plain_table(header, [environment_row(name) for name in ocean.names()])


def environment_row(name: str) -> tuple[str, str, str, str, str]:
    """One row of the table; an environment that was not compiled says how to do it."""
    try:
        env_class = ocean.env_class(name)
    except ImportError:
        return name, "not compiled: run `pip install -e .`", "", "", ""
    args = load_config(name)
    one = {"num_envs": 1} if "num_envs" in env_settings(name) else {}
    env = env_class(**{**args["env"], **one})
    solve = args.get("solve")
    row = (
        name,
        space_text(env.single_observation_space),
        space_text(env.single_action_space),
        str(env.num_agents),
        f"{solve['metric']} {solve['threshold']:g}" if solve else "-",
    )
    env.close()
    return row


def space_text(space: gymnasium.Space) -> str:
    """A space in one short word, such as `uint8[121]` or `Discrete(5)`."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"Discrete({space.n})"
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return f"MultiDiscrete({', '.join(str(count) for count in space.nvec.flat)})"
    if isinstance(space, gymnasium.spaces.Tuple):
        return f"Tuple({', '.join(map(space_text, space.spaces))})"
    return f"{space.dtype}[{' x '.join(str(size) for size in space.shape)}]"
