"""Plays a few C environments on arrays of their own, and names a fault of their C that a rollout would not show."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box

from pufferlib import spaces
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.ocean.environment import OceanEnv

GUARD, POISON = 1024, 0xA5  # bytes before and behind every array, and what each of them holds
MOST_SECONDS, STUCK_SECONDS = 1.0, 20.0  # in which steps are begun, and after which a call is said to hang
EVERY_STEP = ("rewards", "terminals", "truncations")  # written whole; of the other arrays only what changes need be


class _Probe:
    """`count` environments like those of `env`, on arrays between guards that hold `fill` before they are written."""

    def __init__(self, env: OceanEnv, count: int, fill: int):
        self.env, self.fill, agents = object.__new__(type(env)), fill, count * env.agents_per_env
        vars(self.env).update(vars(env))
        like = Buffers.empty(env.single_observation_space, env.single_action_space, agents, env.has_action_masks)
        self.written = [name for name in like.result_names if name != "masks" or env.has_turns]
        self.memory = {name: np.full(getattr(like, name).nbytes + 2 * GUARD, POISON, np.uint8) for name in like.names}
        vars(self.env).update(num_envs=count, num_agents=agents)
        for name, memory in self.memory.items():
            array = getattr(like, name)
            setattr(self.env, name, memory[GUARD:-GUARD].view(array.dtype).reshape(array.shape))
        self.env.handle = self.env.make_handle(env.arguments, 0)

    def call(self, function: str, written: Iterable[str], *arguments: int) -> None:
        for array in (getattr(self.env, name) for name in written):
            array.view(np.uint8)[...] = self.fill & 1 if array.dtype == bool else self.fill
        getattr(self.env.binding, function)(self.env.handle, *arguments)

    def differing(self, other: _Probe) -> str | None:
        """The first array in which the environments are others than the first ones of another probe."""
        pairs = ((name, getattr(self.env, name), getattr(other.env, name)) for name in self.written)
        return next((name for name, one, two in pairs if one.tobytes() != two[: len(one)].tobytes()), None)

    def random_actions(self, seed: int) -> Iterator[np.ndarray]:
        """Random ones, legal where the environment says what is."""
        generator = np.random.default_rng(seed)
        space = spaces.joint_space(self.env.single_action_space, self.env.num_agents, are_actions=True)
        space.seed(seed)
        while True:
            actions = np.array(space.sample())
            if self.env.has_action_masks:
                actions = spaces.allowed_actions(
                    actions, self.env.action_masks, self.env.single_action_space, generator
                )
            yield actions


def warn_of_faults(env: object) -> None:
    """Warns of a fault of an Ocean environment, as `find_faults` does; one that comes with an agent is not played."""
    if isinstance(env, OceanEnv) and not Path(env.binding.__file__).with_name("pretrained.pt").exists():
        for fault in find_faults(env, steps=256):
            warnings.warn(fault, PufferWarning, stacklevel=2)


def find_faults(env: OceanEnv, steps: int = 1000, seed: int = 0) -> list[str]:
    """Plays environments like those of `env`, which stays as it is, by random actions; describes a fault of their C.

    Raises APIUsageError if they write outside of their rows; warns if a call does not return.
    """
    folder = Path(env.binding.__file__).parent.name
    stuck = f"ocean/{folder}/{folder}.h does not return from c_reset or c_step; see which of its loops has no end"
    watch = threading.Timer(STUCK_SECONDS, warnings.warn, (stuck, PufferWarning))
    watch.daemon = True
    watch.start()
    try:
        probes = _Probe(env, 1, 0), _Probe(env, 3, 0), _Probe(env, 1, 0x41), _Probe(env, 1, 0)
        fault = _first_fault(*probes, steps, seed)
    finally:
        watch.cancel()
    memories = (memory for probe in probes for memory in probe.memory.items())
    for name in (name for name, memory in memories if (np.append(memory[:GUARD], memory[-GUARD:]) != POISON).any()):
        raise APIUsageError(
            f"ocean/{folder}/{folder}.h must write only its rows of {name}, and writes before or behind them; compare "
            f"its indices with c_layout, or have `pytest -n0 tests/ocean -k {folder} -m slow` name the line"
        )
    return [] if fault is None else [f"ocean/{folder}/{folder}.h {fault}"]


def _first_fault(one: _Probe, many: _Probe, filled: _Probe, other: _Probe, steps: int, seed: int) -> str | None:
    # `many` begin with what `one` and `filled` are, and `other` acts in another way than these.
    env, space, end = many.env, many.env.single_observation_space, time.monotonic() + MOST_SECONDS
    chosen, running = many.random_actions(seed), np.zeros((2, env.num_agents))
    ends, sums = 0, np.zeros(2)  # of the returns and lengths of the episodes that ended
    for step in range(steps + 1):
        actions = next(chosen)
        for probe in (one, many, filled, other):
            probe.env.actions[...] = (actions[::-1] if probe is other else actions)[: probe.env.num_agents]
            probe.call("vec_step", EVERY_STEP) if step else probe.call("vec_reset", probe.written, seed)
        unlike, unwritten = one.differing(many), one.differing(filled)
        if unlike is not None or (unwritten is not None and step > 0 and unwritten not in EVERY_STEP):
            found = (
                f"writes other {unlike or unwritten} where other environments are stepped too, by one seed and actions"
            )
            return f"{found}; take chance from env->rng alone, and keep all that it remembers in the struct"
        if unwritten is not None:
            found = f"leaves {unwritten} of an agent as they were in {'c_step' if step else 'c_reset'}"
            return f"{found}; write the whole observation in c_reset, and every reward and both flags in every c_step"
        if isinstance(space, Box):
            outside = np.argwhere(~((env.observations >= space.low) & (env.observations <= space.high)))[:1]
            for place in map(tuple, outside.tolist()):
                found = f"observes {env.observations[place]:g} at {list(place[1:])}, outside of {space}"
                return f"{found}; declare the bounds that it keeps in its class, and write no NaN"
        acting = env.masks if env.has_turns else slice(None)
        parts = spaces.mask_parts(env.action_masks, env.single_action_space) if env.has_action_masks else []
        if not all(allowed[acting].any(1).all() for _, allowed in parts):
            return "leaves an agent that acts without a choice in action_masks; set 1 for all that it may do"
        if step == 0:
            continue
        flags = env.terminals.view(np.uint8) + env.truncations.view(np.uint8)
        if flags.max() > 1:
            return "sets both flags of an agent, or one to more than 1; terminal: it ended, truncation: it was cut"
        running += env.rewards, np.ones(env.num_agents)
        ends += int(flags.sum())
        sums += running[:, flags == 1].sum(1)
        running[:, flags == 1] = 0.0
        if time.monotonic() > end:
            break
    if not np.array_equal(one.env.structs(), filled.env.structs()):
        return "keeps an address in its struct, as of malloc, while two games are the same; give arrays a fixed size"
    if step >= 64 and np.array_equal(one.env.structs(), other.env.structs()):
        return "does the same by all actions; read them by the type that c_layout says, int32_t or float"
    log = env.binding.vec_log(env.handle)
    if log["n"] not in (ends, ends / env.agents_per_env):  # one for each agent, or for a game of all
        return f"counts {log['n']:g} episodes in log.n, where {ends} ended by a flag; add 1 only where one is set"
    for name, seen in zip(("episode_return", "episode_length"), sums.tolist(), strict=True):
        if log["n"] == ends and abs(log.get(name, seen) - seen) > 1e-3 * max(abs(seen), ends):
            found = f"adds {log[name]:g} to log.{name} in {ends} episodes, where it is {seen:g} in all"
            return f"{found}; add it once, where an episode ends, and then call c_reset, which sets every member anew"
    if log.get("perf", 0.0) > 1.001 * log["n"]:
        return f"adds {log['perf']:g} to log.perf in {ends} episodes; add a number from 0 to 1 for each"
    return None
