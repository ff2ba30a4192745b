"""A PettingZoo environment as a PufferEnv, one row for each of its agents."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from numpy.typing import ArrayLike
from typing_extensions import override

from pufferlib import spaces
from pufferlib.emulation import emulated_env
from pufferlib.emulation.emulated_env import ACTION_MASK, EmulatedEnv, single_number
from pufferlib.emulation.rows import ActionLayout, Split, row_writer
from pufferlib.environment import StepResult, fitting_actions
from pufferlib.errors import APIUsageError, kind_of, require_extra, require_results
from pufferlib.spaces import Layout, only_numbers


class PettingZooPufferEnv(EmulatedEnv):
    """Steps a parallel PettingZoo environment; row `i` is agent `env.possible_agents[i]`.

    An environment of the other kind (AEC) is converted by PettingZoo's own `aec_to_parallel` if it is parallelizable.
    Else each step is that of the agent whose turn it is, and the others wait, masked, for whom everything is allowed.

    A mask is True where the agent acts on the observation beside it; the row of an agent that is gone is zeros. One
    that ends before the others has its last reward and its flag at that step, and is masked from that step on. When no
    agent is left the environment is reset in the same step: the rows then hold the last rewards and flags of those who
    were left, a flag for those who took no part, and the first observations of all agents.

    Where all agents have the same observation space it is packed as `emulated` describes, unless it is a Box. Where
    they differ, every observation is flattened to float32 as `gymnasium.spaces.flatten` does, padded with zeros to the
    longest, and `emulated` is None. Actions may differ too, if all act by choices, or all by numbers, or all in the
    same way: an agent takes the front of a row that is as wide as the widest, clipped to its own space.

    Where an agent's observations are dicts with an `action_mask`, `action_masks` has it and the observation does not;
    if one part remains, that is the observation. One in the infos of `reset` alone is an APIUsageError.

    Infos are those of GymnasiumPufferEnv, a final observation with the `agent_id` of its row; the numbers at the end of
    an episode are means over the agents whose last infos have them.
    """

    _RESULTS = ("observations", "rewards", "terminations", "truncations", "infos")  # of a step

    @override
    def _describe(self, env: object) -> None:
        self.env = _parallel(env)
        self._takes_turns = self.env is not env and not env.metadata.get("is_parallelizable", False)
        agents = list(getattr(self.env, "possible_agents", []))
        if not agents:
            raise APIUsageError(
                f"a PettingZoo environment must list its possible_agents, got none from {env}; set them in its __init__"
            )
        given = [_space_without_mask(self.env.observation_space(agent)) for agent in agents]
        layouts = [Layout.of(space) for space in given]
        emulated_env.warn_of_left_out(self.env, dict.fromkeys(name for layout in layouts for name in layout.left_out))
        self._spaces = [only_numbers(space)[0] for space in given]
        self._layout = layouts[0] if all(layout == layouts[0] for layout in layouts) else None
        flat = map(gymnasium.spaces.flatten_space, self._spaces)
        self.single_observation_space = self._layout.row_space if self._layout else _widest_box(flat, padding=0)
        self._has_mask = [_has_mask(self.env.observation_space(agent)) for agent in agents]
        self.has_action_masks = any(self._has_mask)
        actions = [ActionLayout(self.env.action_space(agent)) for agent in agents]
        self.single_action_space = _common([layout.canonical for layout in actions])
        own = [(space, layout.space) for space, layout in zip(given, actions, strict=True)]
        self.own_spaces = own[0] if all(each == own[0] for each in own) else None
        self._splits = [_split(layout, self.single_action_space) for layout in actions]
        self._choices = [[part.choices or 0 for part in spaces.action_parts(layout.canonical)] for layout in actions]
        self.num_agents = len(agents)
        self._row_of = {agent: row for row, agent in enumerate(agents)}

    @override
    def _connect(self) -> None:
        rows = [self.observations[index, ...] for index in range(self.num_agents)]  # arrays, also of no dimension
        if self._layout is not None:
            self._writers = [row_writer(self._layout, row) for row in rows]
        else:
            self._writers = [_flat_writer(space, row) for space, row in zip(self._spaces, rows, strict=True)]
        self._live: dict[Any, int] = {}  # the agents that act next, and their rows
        self._reports: list[dict[str, float]] = []  # of the agents that ended in this episode
        self._took_part = np.zeros(self.num_agents, bool)  # in this episode

    @override
    def step(self, actions: np.ndarray) -> StepResult:
        actions = fitting_actions(actions, self.actions)
        chosen = {agent: self._splits[row](actions[row]) for agent, row in self._live.items()}
        results = require_results(self.env, "step", self._RESULTS, self.env.step(chosen))
        if not all(hasattr(part, "get") for part in results):
            raise APIUsageError(
                "step() of a parallel PettingZoo environment must return dicts, got "
                f"{', '.join(map(kind_of, results))} from {self.env}; make it a current one"
            )
        self._clear_step()
        observations, rewards, terminations, truncations, infos = results
        remaining = dict.fromkeys(self.env.agents)
        told: list[dict] = []
        for agent, row in self._live.items():
            reward = rewards.get(agent, 0.0)
            self.rewards[row] = reward if isinstance(reward, (int, float)) else single_number(reward, self.env)
            terminated, truncated = bool(terminations.get(agent, False)), bool(truncations.get(agent, False))
            if not (terminated or truncated) and agent in remaining:
                continue
            remaining.pop(agent, None)
            self.terminals[row] = terminated or not truncated  # one that just vanishes has come to an end as well
            self.truncations[row] = truncated
            self._reports.append(emulated_env.plain_numbers(infos.get(agent)))
            if truncated and not terminated and agent in observations:
                self._write(row, observations[agent])
                told.append(emulated_env.final_observation(self.observations, row))
        if remaining:
            self._observe(remaining, observations)
        else:
            names = dict.fromkeys(name for report in self._reports for name in report)
            numbers = {name: statistics.fmean(each[name] for each in self._reports if name in each) for name in names}
            told += [numbers] if numbers else []
            self.terminals |= ~self._took_part
            self._restart()
        return self.observations, self.rewards, self.terminals, self.truncations, told

    @override
    def _start_episode(self, seed: int | None, options: dict[str, Any] | None) -> None:
        observations, infos = self._reset_inside(emulated_env.library_seed(seed), options)
        if not self.has_action_masks and any(ACTION_MASK in (info or {}) for info in (infos or {}).values()):
            raise APIUsageError(
                f"the action_mask of a PettingZoo environment is read from its observations, got one in an info of "
                f"{self.env}; make each observation a Dict with it"
            )
        self._reports.clear()
        self._took_part[:] = False
        if not self.env.agents:
            raise APIUsageError(f"a PettingZoo environment must have agents after reset(), got none from {self.env}")
        self._observe(self.env.agents, observations)

    def _observe(self, agents: Sequence[Any], observations: Mapping[Any, Any]) -> None:
        try:
            self._live = {agent: self._row_of[agent] for agent in agents}
        except KeyError as error:
            raise APIUsageError(
                f"possible_agents of a PettingZoo environment must hold all that act, got {list(self._row_of)} without "
                f"{error} from {self.env}; add it there"
            ) from None
        self._took_part[list(self._live.values())] = True
        if len(self._live) < self.num_agents:
            gone = [row for agent, row in self._row_of.items() if agent not in self._live]
            self.observations[gone] = 0
            self.masks[gone] = False
        for agent, row in self._live.items():
            if agent not in observations:
                raise APIUsageError(f"a PettingZoo environment must observe for all its agents, got none for {agent!r}")
            self._write(row, observations[agent])
            if self._has_mask[row]:
                self._write_mask(row, observations[agent][ACTION_MASK])
        if self._takes_turns:
            self.masks[np.arange(self.num_agents) != self._row_of[self.env.aec_env.agent_selection]] = False
            if self.has_action_masks:
                self.action_masks[~self.masks] = True

    def _write(self, row: int, observation: Any) -> None:
        self._writers[row](_without_mask(observation) if self._has_mask[row] else observation)

    def _write_mask(self, row: int, mask: ArrayLike) -> None:
        # The rows may have more parts and more choices than the agent's own action: it may do nothing in those.
        own, first, place = emulated_env.flat_mask(mask, sum(self._choices[row]), self.env), 0, 0
        target = self.action_masks[row]
        target[:] = True
        for count, part in zip(self._choices[row], spaces.action_parts(self.single_action_space), strict=False):
            target[place : place + count] = own[first : first + count]
            target[place + count : place + (part.choices or 0)] = False
            first, place = first + count, place + (part.choices or 0)


def _has_mask(space: gymnasium.Space) -> bool:
    return isinstance(space, Dict) and ACTION_MASK in space.spaces and len(space.spaces) > 1


def _without_mask(parts: Mapping[str, Any]) -> Any:  # what is left alone where that is one part
    rest = {key: part for key, part in parts.items() if key != ACTION_MASK}
    return next(iter(rest.values())) if len(rest) == 1 else rest


def _space_without_mask(space: gymnasium.Space) -> gymnasium.Space:
    rest = _without_mask(space.spaces) if _has_mask(space) else space
    return Dict(rest) if isinstance(rest, dict) else rest


def _parallel(env: object) -> Any:
    require_extra("pettingzoo", "pettingzoo")
    import pettingzoo
    from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel

    if isinstance(env, pettingzoo.ParallelEnv):
        return env
    if not isinstance(env, pettingzoo.AECEnv):
        raise APIUsageError(
            f"PettingZooPufferEnv takes a pettingzoo.ParallelEnv or AECEnv, got {kind_of(env)}; "
            "a Gymnasium environment goes to GymnasiumPufferEnv"
        )
    return (aec_to_parallel if env.metadata.get("is_parallelizable", False) else turn_based_aec_to_parallel)(env)


def _flat_writer(space: gymnasium.Space, row: np.ndarray) -> Callable[[Any], None]:
    front = row[: gymnasium.spaces.flatdim(space)]
    layout = Layout.of(space)
    packed = np.zeros(layout.row_space.shape, layout.row_space.dtype)
    check = row_writer(layout, packed)

    def write(observation: object) -> None:
        check(observation)
        _require_categories(space, observation)
        front[:] = gymnasium.spaces.flatten(space, observation)

    return write


def _require_categories(space: gymnasium.Space, observation: Any) -> None:
    if isinstance(space, (Dict, Tuple)):
        for key, child in spaces.children(space):
            _require_categories(child, observation[key])
    elif isinstance(space, (Discrete, MultiDiscrete)):
        start, counts = spaces.categories(space)
        chosen = np.asarray(observation) - start
        if not ((chosen >= 0) & (chosen < counts)).all():
            raise APIUsageError(f"an observation must be in {space}, got {observation}; return one of its numbers")


def _widest_box(boxes: Iterable[Box], padding: float = np.inf) -> Box:
    # Rows of a shorter box are padded so; those of actions are not, as nobody looks at their end.
    bounds = [(box.low.astype(np.float32), box.high.astype(np.float32)) for box in boxes]
    length = max(len(low) for low, _ in bounds)
    lows = [np.pad(low, (0, length - len(low)), constant_values=padding) for low, _ in bounds]
    highs = [np.pad(high, (0, length - len(high)), constant_values=-padding) for _, high in bounds]
    return Box(np.min(lows, axis=0), np.max(highs, axis=0))


def _split(layout: ActionLayout, row_space: gymnasium.Space) -> Split:
    # The common row may be wider than the agent's own.
    split = layout.split
    is_number = isinstance(layout.canonical, Discrete) and not isinstance(row_space, Discrete)
    return (lambda row: split(row[0])) if is_number else split


def _common(rows: Sequence[gymnasium.Space]) -> gymnasium.Space:
    if all(row == rows[0] for row in rows):
        return rows[0]
    if all(isinstance(row, Discrete) for row in rows):
        return Discrete(max(row.n for row in rows))
    if all(isinstance(row, Box) for row in rows):
        return _widest_box(rows)
    if all(isinstance(row, (Discrete, MultiDiscrete)) for row in rows):
        choices = [[part.choices for part in spaces.action_parts(row)] for row in rows]
        length = max(map(len, choices))
        return MultiDiscrete(np.max([np.pad(each, (0, length - len(each))) for each in choices], axis=0))
    other = next(row for row in rows if row != rows[0])
    raise APIUsageError(
        f"agents must all act by choices, all by numbers, or all in the same way, got {rows[0]} and {other}; "
        "give them the same action space"
    )
