"""Compares environments of Gymnasium's names with EnvPool's, and writes the table of those that are the same.

    python bench/envpool_same.py                              all names below
    python bench/envpool_same.py LunarLander-v3 --episodes 1000

A row says yes where the spaces, the limit of steps and everything else that is compared agree: `pufferlib.families`
then lets EnvPool step the environment of that name. What is compared:

- A common state, from which both take the same random actions. Of MuJoCo that is the first of an episode, and they must
  agree to 1e-6 for three steps, and on ends until chaos has brought the last digits to the front. Of classic control
  each step begins in EnvPool's state again, which it tells as float32, and must agree to 1e-4. Grid worlds have
  EnvPool's grid, and everything is equal up to the end of the episode. Atari has EnvPool's memory of the console.
- The first observations of episodes, each number by the test of Kolmogorov and Smirnov.
- Where there is no common state: returns, lengths, ends and observations of random actions, and of a rule that lands,
  by the same test. Two hundredths of a number's deviation do not count.

All tests of a name together find a difference where there is none once in 1,000 times.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
from scipy.stats import kstwobign

from pufferlib import vector
from pufferlib.families import catalog
from pufferlib.families.envpool_family import _TABLE as TABLE
from pufferlib.vector.envpool_vector import EnvPoolEnv, import_envpool, make_spec

NEGLIGIBLE = 0.01  # of a number's deviation: a lander rests 0.001 higher in one Box2D than in the other
ERROR = 1e-3  # of a name to be called different that is the same
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
BOX2D = ("LunarLander-v3", "BipedalWalker-v3")
MUJOCO = tuple(
    f"{name}-v5"
    for name in (
        *("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid", "Swimmer", "InvertedPendulum"),
        *("InvertedDoublePendulum", "Reacher", "Pusher", "HumanoidStandup"),
    )
)
HIDDEN = ("InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5")  # whose observations do not have the state
GRIDS = (
    *(f"MiniGrid-Empty-{size}-v0" for size in ("5x5", "6x6", "8x8", "16x16", "Random-5x5", "Random-6x6")),
    *(f"MiniGrid-DoorKey-{size}-v0" for size in ("5x5", "6x6", "8x8", "16x16")),
    *(f"MiniGrid-{kind}Crossing{size}-v0" for kind in ("Simple", "Lava") for size in ("S9N1", "S9N2", "S9N3", "S11N5")),
    *(f"MiniGrid-{kind}-v0" for kind in ("LavaGapS5", "LavaGapS6", "LavaGapS7", "DistShift1", "DistShift2")),
    *(f"MiniGrid-KeyCorridor{size}-v0" for size in ("S3R1", "S3R2", "S3R3", "S4R3", "S5R3", "S6R3")),
    *(f"MiniGrid-Memory{size}-v0" for size in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")),
    *(f"MiniGrid-MultiRoom-{size}-v0" for size in ("N2-S4", "N4-S5", "N6")),
    *(f"MiniGrid-Fetch-{size}-v0" for size in ("5x5-N2", "6x6-N2", "8x8-N3")),
    *(f"MiniGrid-GoToDoor-{size}-v0" for size in ("5x5", "6x6", "8x8")),
    *(f"MiniGrid-{kind}-v0" for kind in ("GoToObject-6x6-N2", "GoToObject-8x8-N2", "PutNear-6x6-N2", "PutNear-8x8-N3")),
    *(f"MiniGrid-{kind}-v0" for kind in ("RedBlueDoors-6x6", "RedBlueDoors-8x8", "LockedRoom", "FourRooms")),
    *(f"MiniGrid-{kind}-v0" for kind in ("Unlock", "UnlockPickup", "BlockedUnlockPickup")),
)
LEVELS = (  # of BabyAI, whose instructions are no state that could be set
    *(f"BabyAI-GoTo{kind}-v0" for kind in ("RedBallGrey", "RedBall", "RedBallNoDists", "Obj", "ObjS4", "Local")),
    *(f"BabyAI-GoToLocal{size}-v0" for size in ("S5N2", "S6N2", "S6N3")),
)
ATARI = ("ALE/Pong-v5", "ALE/Breakout-v5")
NAMES = (*CLASSIC, *GRIDS, *LEVELS, *MUJOCO, *ATARI, *BOX2D)


class Different(Exception):
    """What differs."""


def require(is_same: bool, text: str) -> None:
    if not is_same:
        raise Different(text)


def task_of(name: str) -> str:
    return name.removeprefix("ALE/")


def make_view(name: str):
    entry = catalog.find(name)
    return entry.view_maker() if hasattr(entry, "view_maker") else None


def compare_spaces(name: str) -> str:
    entry, spec = catalog.find(name), make_spec(task_of(name))
    ours, theirs = entry.creator(), EnvPoolEnv(task_of(name))
    pairs = [(ours.single_action_space, theirs.single_action_space)]
    if name not in (*GRIDS, *LEVELS):  # whose view is made here
        pairs.append((ours.single_observation_space, theirs.single_observation_space))
    bounds = "spaces"
    for a, b in pairs:
        require(type(a) is type(b) and a.shape == b.shape and a.dtype == b.dtype, f"spaces {a} and {b}")
        require(getattr(a, "n", None) == getattr(b, "n", None), f"actions {a} and {b}")
        if hasattr(a, "low") and not (np.allclose(a.low, b.low, atol=1e-6) and np.allclose(a.high, b.high, atol=1e-6)):
            require(a is ours.single_observation_space, f"bounds of actions {a} and {b}")
            bounds = "spaces but for declared bounds of observations"
    limit = max_steps(ours)
    ours.close()
    require(spec.config.max_episode_steps == limit, f"limit {limit} and {spec.config.max_episode_steps} steps")
    return f"{bounds}, limit"


def max_steps(env) -> int | None:
    spec, inner = env.env.spec, env.env.unwrapped
    if "max_num_frames_per_episode" in spec.kwargs:
        return spec.kwargs["max_num_frames_per_episode"] // catalog.find(spec.id).settings["frameskip"].default
    return spec.max_episode_steps or getattr(inner, "max_steps", None)


# ----------------------------------------------------------------------------------------------------- a common state


def pool(task: str, **config):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_envpool().make_gymnasium(task, num_envs=1, batch_size=1, num_threads=1, **config)


def random_action(space, rng: np.random.Generator):
    if hasattr(space, "n"):
        return np.int32(rng.integers(space.n))
    return rng.uniform(space.low, space.high).astype(space.dtype)


def compare_mujoco(name: str, steps: int) -> str:
    """Sets the state by the first observation, which has all of it."""
    import gymnasium

    config = WHOLE if has_keyword(name, WHOLE) else {}
    env = gymnasium.make(name, **config).unwrapped
    rng, worst, count = np.random.default_rng(0), 0.0, 0
    nq, nv = env.model.nq, env.model.nv
    for seed in range(steps // 25):
        theirs = pool(task_of(name), seed=seed, **config)
        first, _ = theirs.reset()
        env.reset()
        env.set_state(first[0, :nq], first[0, nq : nq + nv])
        since = 0
        for _ in range(25):
            action = random_action(env.action_space, rng)
            seen, rewards, ends, _, _ = theirs.step(action[None].astype(np.float64))
            observation, reward, terminal, _, _ = env.step(action)
            since, count = since + 1, count + 1
            gap = max((np.abs(observation - seen[0]) / (1 + np.abs(observation))).max(), abs(reward - rewards[0]))
            if since <= 3:
                worst = max(worst, gap)
                require(gap < 1e-6, f"{gap:.1e} after {since} steps from one state")
            if gap > 1e-4 or terminal:  # chaos, which soon has the last digits in front
                require(terminal == ends[0] or since > 3, f"ends after {since} steps from one state")
                break
            require(not ends[0], f"ends after {since} steps from one state")
    return f"{count} steps from {steps // 25} common states, {worst:.0e} apart after 3"


WHOLE = {"exclude_current_positions_from_observation": False}


def has_keyword(name: str, keywords) -> bool:
    return keywords.keys() <= catalog.find(name).settings.keys()


def _acrobot(row):
    return np.array([np.arctan2(row[1], row[0]), np.arctan2(row[3], row[2]), row[4], row[5]], np.float64)


def _pendulum(row):
    return np.array([np.arctan2(row[1], row[0]), row[2]], np.float64)


STATES: dict[str, Callable] = {"Acrobot-v1": _acrobot, "Pendulum-v1": _pendulum}


def compare_classic(name: str, steps: int) -> str:
    import gymnasium

    env, theirs, rng = gymnasium.make(name).unwrapped, pool(task_of(name), seed=1), np.random.default_rng(0)
    env.reset(seed=0)
    row, worst, is_over = theirs.reset()[0][0], 0.0, False
    for _ in range(steps):
        action = random_action(env.action_space, rng)
        seen, rewards, ends, cuts, _ = theirs.step(np.asarray(action)[None])
        if not is_over:
            env.state = STATES.get(name, lambda row: row.astype(np.float64))(row)
            env.steps_beyond_terminated = None
            observation, reward, terminal, _, _ = env.step(action)
            gap = max(np.abs(observation - seen[0]).max(), abs(reward - rewards[0]))
            worst = max(worst, gap)
            require(gap < 1e-4, f"{gap:.1e} after a step from one state")
            require(terminal == ends[0], "ends of a step from one state")
        is_over, row = bool(ends[0] or cuts[0]), seen[0]
    return f"{steps} steps, each from a common state, {worst:.0e} apart"


def compare_grid(name: str, episodes: int) -> str:
    import gymnasium

    env, view = gymnasium.make(name).unwrapped, make_view(name)
    rng, count = np.random.default_rng(0), 0
    for seed in range(episodes):
        theirs = pool(task_of(name), seed=seed)
        seen, _ = theirs.reset()
        _, write = view(theirs.observation_space)
        env.reset(seed=seed)
        copy_grid(env, theirs.debug_states()[0])
        require_same_view(env.gen_obs(), seen, "the first view")
        for _ in range(env.max_steps):
            # Random actions seldom come to an end: these push on.
            action = rng.choice(7, p=[0.15, 0.15, 0.4, 0.1, 0.02, 0.16, 0.02])
            seen, rewards, ends, cuts, _ = theirs.step(np.array([action], np.int32))
            observation, reward, terminal, truncation, _ = env.step(action)
            require_same_view(observation, seen, "a view")
            require(abs(reward - rewards[0]) < 1e-5, f"rewards {reward} and {rewards[0]}")
            require((terminal, truncation) == (ends[0], cuts[0]), "ends")
            count += 1
            if terminal or truncation:
                break
    return f"{count} steps of {episodes} common grids, equal"


def require_same_view(observation, seen, what: str) -> None:
    is_same = (
        np.array_equal(observation["image"], seen["image"][0]) and observation["direction"] == seen["direction"][0]
    )
    require(is_same, f"{what} of one grid")
    mission = bytes(seen["mission"][0]).rstrip(b"\0").decode()
    require(mission == observation["mission"], f"missions {observation['mission']!r} and {mission!r} of one grid")


def copy_grid(env, state) -> None:
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT
    from minigrid.core.grid import Grid

    encoded = np.array(state.grid, np.uint8).reshape(state.width, state.height, 3)
    env.grid, _ = Grid.decode(encoded)
    env.width, env.height = state.width, state.height
    env.agent_pos, env.agent_dir, env.carrying = tuple(state.agent_pos), state.agent_dir, None
    env.mission = state.mission
    kind, color = IDX_TO_OBJECT[state.target_type], IDX_TO_COLOR[state.target_color]
    known = {  # by what environments know their targets
        **{"targetType": kind, "target_type": kind, "targetColor": color, "target_color": color},
        **{"move_type": IDX_TO_OBJECT[state.move_type], "moveColor": IDX_TO_COLOR[state.move_color]},
        **{name: tuple(getattr(state, name)) for name in ("target_pos", "success_pos", "failure_pos")},
    }
    cells = [cell for cell in env.grid.grid if cell is not None]
    doors = {cell.color: cell for cell in cells if cell.type == "door"}
    known |= {"red_door": doors.get("red"), "blue_door": doors.get("blue")}
    known |= {name: env.grid.get(*state.target_pos) for name in ("door", "obj") if min(state.target_pos) >= 0}
    for name, value in known.items():
        if hasattr(env, name):
            setattr(env, name, value)


def compare_atari(name: str, steps: int) -> str:
    import gymnasium

    from pufferlib.families.atari import register_games

    register_games()
    rng, task = np.random.default_rng(0), task_of(name)
    theirs = pool(task, seed=1, use_fire_reset=False)
    seen, info = theirs.reset()
    raw = gymnasium.make(name, frameskip=1, repeat_action_probability=0.0)
    for noops in range(31):
        env = gymnasium.wrappers.AtariPreprocessing(raw, noop_max=0, frame_skip=4)
        env.reset(seed=1)
        for _ in range(noops):
            raw.step(0)
        if np.array_equal(raw.unwrapped.ale.getRAM(), info["ram"][0]):
            break
    else:
        raise Different("the memory of the console after the same number of frames without action")
    for _ in range(steps):
        action = random_action(env.action_space, rng)
        seen, rewards, ends, _, info = theirs.step(np.array([action]))
        observation, reward, terminal, _, _ = env.step(action)
        require(np.array_equal(raw.unwrapped.ale.getRAM(), info["ram"][0]), "the memory of the console after a step")
        require((reward, terminal) == (rewards[0], ends[0]), "rewards or ends")
        gap = np.abs(observation.astype(int) - seen[0, -1].astype(int))
        require(gap.max() == 0, f"pictures, by {gap.mean():.2f} of 255 on average and {gap.max()} at most")
        if terminal:
            break
    raise Different(
        f"ale-py's own vector steps it, as fast, and its episodes are lives; {steps} steps of one console are equal"
    )


# ----------------------------------------------------------------------------------------------------- in distribution


@dataclass
class Sample:
    starts: np.ndarray  # (episodes, numbers), the first observations
    later: np.ndarray  # (episodes, numbers), an observation of each, at a time of its own
    returns: np.ndarray
    lengths: np.ndarray
    is_cut: np.ndarray


def lander(rows: np.ndarray, space, rng: np.random.Generator) -> np.ndarray:
    """Gymnasium's own rule, which lands; every fifth action is random."""
    from types import SimpleNamespace

    from gymnasium.envs.box2d.lunar_lander import heuristic

    env = SimpleNamespace(continuous=False, unwrapped=SimpleNamespace(continuous=False))
    return np.array([space.sample() if rng.random() < 0.2 else heuristic(env, row) for row in rows])


SCRIPTED = {"LunarLander-v3": lander}  # where random actions do not see much of an environment


def random_actions(rows: np.ndarray, space, rng: np.random.Generator) -> np.ndarray:
    return np.array([random_action(space, rng) for _ in rows])


def sample_of(name: str, backend: str, episodes: int, starts_alone: bool, policy: Callable) -> Sample:
    if backend == "EnvPool":
        creator = partial(EnvPoolEnv, task_of(name), make_view=make_view(name))
    else:
        creator = catalog.find(name).creator
    envs = 16
    vecenv = vector.make(creator, num_envs=envs, backend=backend, seed=5 + (backend == "EnvPool"))
    found = list(first_observations(vecenv, episodes) if starts_alone else whole_episodes(vecenv, episodes, policy))
    vecenv.close()
    return Sample(*(np.array(column, float) for column in zip(*found[:episodes], strict=True)))


def first_observations(vecenv, episodes: int) -> Iterator[tuple]:
    for number in range(-(-episodes // vecenv.num_agents)):
        observations, _ = vecenv.reset(seed=number)
        for row in observations.reshape(vecenv.num_agents, -1):
            yield row.astype(np.float64), row, 0.0, 0, False


def whole_episodes(vecenv, episodes: int, policy: Callable) -> Iterator[tuple]:
    """As many of every environment, so that long ones count like short ones."""
    agents, rng = vecenv.num_agents, np.random.default_rng(0)
    quota = np.full(agents, -(-episodes // agents))
    observations, _ = vecenv.reset()
    starts = observations.reshape(agents, -1).astype(np.float64)
    later, returns, lengths = starts.copy(), np.zeros(agents), np.zeros(agents, int)
    is_running = np.ones(agents, bool)
    space = vecenv.single_action_space
    while quota.any():
        actions = policy(observations, space, rng)
        observations, rewards, terminals, truncations, _ = vecenv.step(actions)
        rows = observations.reshape(agents, -1)
        masks = vecenv._buffers.masks
        returns += np.where(is_running, rewards, 0.0)
        lengths += is_running
        for agent in np.flatnonzero(
            is_running & ~(terminals | truncations) & (rng.random(agents) < 1 / lengths.clip(1))
        ):
            later[agent] = rows[agent]  # of all observations so far one, each as likely
        for agent in np.flatnonzero(terminals | truncations):
            if quota[agent]:
                quota[agent] -= 1
                yield starts[agent].copy(), later[agent].copy(), returns[agent], lengths[agent], truncations[agent]
            returns[agent] = lengths[agent] = 0
        for agent in np.flatnonzero((terminals | truncations | ~is_running) & masks):
            starts[agent] = rows[agent]
            later[agent] = rows[agent]
        is_running = masks.copy()


def chance_of(a: np.ndarray, b: np.ndarray, tolerance: float) -> float:
    """The p of two samples by Kolmogorov and Smirnov, where each may be shifted by the tolerance against the other."""
    a, b = np.sort(a), np.sort(b)
    places = np.concatenate([a, b])

    def excess(x: np.ndarray, y: np.ndarray) -> float:  # of the part of x that is well below a place
        below = np.searchsorted(x, places - 2 * tolerance, "right") / len(x)
        return float((below - np.searchsorted(y, places, "right") / len(y)).max())

    size = len(a) * len(b) / (len(a) + len(b))
    return float(kstwobign.sf(np.sqrt(size) * max(excess(a, b), excess(b, a), 0.0)))


def compare_samples(name: str, episodes: int, starts_alone: bool, policy: Callable = random_actions) -> str:
    ours, theirs = (sample_of(name, backend, episodes, starts_alone, policy) for backend in ("Serial", "EnvPool"))
    pairs = [("first observations", ours.starts[:, i], theirs.starts[:, i]) for i in range(ours.starts.shape[1])]
    if not starts_alone:
        pairs += [("observations", ours.later[:, i], theirs.later[:, i]) for i in range(ours.later.shape[1])]
        pairs += [(what, getattr(ours, what), getattr(theirs, what)) for what in ("returns", "lengths", "is_cut")]
    pairs = [(what, a, b) for what, a, b in pairs if not (np.ptp(a) == np.ptp(b) == 0 and a[0] == b[0])]
    for what, a, b in pairs:
        chance = chance_of(a, b, NEGLIGIBLE * a.std())
        require(
            chance > ERROR / len(pairs),
            f"{what}, {a.mean():.4g} ± {a.std():.4g} and {b.mean():.4g} ± {b.std():.4g}, p {chance:.0e}",
        )
    play = "random play" if policy is random_actions else "play by a rule"
    return f"{'first observations' if starts_alone else play} of {episodes} episodes"


def compare(name: str, episodes: int) -> tuple[bool, str]:
    """Whether the environments are the same, and what was compared or differs."""
    parts = [partial(compare_spaces, name)]
    if name in CLASSIC:
        parts += [partial(compare_classic, name, 5 * episodes), partial(compare_samples, name, episodes, True)]
    elif name in MUJOCO and name not in HIDDEN:
        parts += [partial(compare_mujoco, name, 2 * episodes), partial(compare_samples, name, episodes, True)]
    elif name in GRIDS:
        parts += [partial(compare_grid, name, episodes // 10), partial(compare_samples, name, episodes, True)]
    elif name in ATARI:
        parts += [partial(compare_atari, name, 1000)]
    else:
        parts += [partial(compare_samples, name, episodes, False)]
    if name in SCRIPTED:
        parts.append(partial(compare_samples, name, episodes, False, SCRIPTED[name]))
    done: list[str] = []
    for part in parts:
        try:
            done.append(part())
        except Different as error:
            return False, f"differs: {error}" + (f"; the same: {'; '.join(done)}" if done else "")
    return True, "; ".join(done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--table", type=Path, default=TABLE, help="to which rows are added, in place of those there")
    given = parser.parse_args()
    for name in given.names:
        is_same, found = compare(name, given.episodes)
        row = [name, task_of(name), metadata.version("envpool"), "yes" if is_same else "no", found]
        print(row, flush=True)
        write(given.table, row)


def write(table: Path, row: list[str]) -> None:
    rows = list(csv.reader(table.open(encoding="utf-8", newline=""))) if table.exists() else []
    header = rows[:1] or [["gymnasium", "envpool", "version", "same", "compared"]]
    rows = sorted([*(each for each in rows[1:] if each[0] != row[0]), row])
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([*header, *rows])


if __name__ == "__main__":
    main()
