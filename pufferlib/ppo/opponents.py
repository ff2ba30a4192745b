"""The pool of opponents: earlier policies, agents that stay as they are, and bots play some sides of games; ratings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pufferlib.config import SelfplayConfig
from pufferlib.distributed import Ranks
from pufferlib.environment import BOT_MOVES
from pufferlib.errors import APIUsageError
from pufferlib.ppo.actor import Actor, Streams
from pufferlib.vector.base import Vector

_FORGETTING = 0.95  # of the results so far, with each rollout: the policy is another one then
_LEAST_GAMES = 100  # by which a win rate is known
RESULTS = ("points", "games", "elos", "_recent")
"""Attributes of a pool that all processes share."""
_GAMES = ("opponents", "_returns", "_has_ended", "_starts", "_masks", "_players", "_is_counted")  # that are running
ARRAYS = (*RESULTS, *_GAMES)
"""Attributes of a pool that a checkpoint holds as they are."""


class Seen(NamedTuple):
    """What a batch acts on: its observations, and its action masks or None, a row for each agent."""

    observations: np.ndarray
    action_masks: np.ndarray | None

    def of(self, chosen: np.ndarray | slice) -> Seen:
        """Returns some rows."""
        return Seen(*(None if array is None else array[chosen] for array in self))


@dataclass
class _Member:
    name: str
    actor: Actor | None = None  # fills a rollout of one step, not learned from; None for the environments' own bot
    states: dict[str, Tensor] = field(default_factory=dict)  # recurrent, of every agent whose place it may take

    def act(self, rows: slice, agents: Tensor, seen: Seen, starts: np.ndarray) -> np.ndarray:
        # Rows of the actor act for the agents, by what these see; starts, (agents,) bool, tell where a game begins.
        if self.actor is None:
            return np.array(BOT_MOVES)  # of every agent, and every part of its action
        for name, state in self.actor.states.items():
            state[rows] = self.states[name][agents]
        self.actor.store_observations(rows, 0, seen.observations, starts)
        if seen.action_masks is not None:
            self.actor.store_action_masks(rows, 0, seen.action_masks)
        actions = self.actor.act(rows, 0)
        for name, state in self.actor.states.items():
            self.states[name][agents] = state[rows]
        return actions


class OpponentPool:
    """Decides who plays whom, and acts for the opponents.

    A game is one environment of several agents. When it begins, it is drawn whether the policy plays against itself or
    against a member of the pool, which then has half of the seats, drawn too. What opponents do is not learned from:
    their agents are absent in the rollout. A game is over once each of its agents has ended; its result is by the
    returns of both sides. Several processes have the same members and results: those of all processes' games.
    """

    def __init__(
        self,
        config: SelfplayConfig,
        vecenv: Vector,
        snapshot_steps: Callable[[], int],  # agent steps from one snapshot to the next
        fixed: Mapping[str, nn.Module | None],  # the agents that stay, by name; None is the environments' own bot
        make_actor: Callable[[nn.Module, torch.Generator], Actor],
        generator: torch.Generator,  # draws opponents and their actions, and nothing else draws from it
        ranks: Ranks,  # of all that learn together
    ):
        num_agents, self._seats = vecenv.num_agents, agents_in_one(vecenv)
        if self._seats < 2:
            raise APIUsageError(
                f"a pool of opponents needs games of 2 agents or more, got {self._seats} in each environment; "
                "pass opponent='self' where the environment has it, as puffer_connect4"
            )
        self._config, self._snapshot_steps, self._ranks = config, snapshot_steps, ranks
        self._has_several_batches = vecenv.agents_per_batch < num_agents
        self._make_actor, self.generator, self._streams = make_actor, generator, Streams(generator, num_agents)
        self.num_fixed, self.capacity = len(fixed), len(fixed) + config.pool_size
        # Of each member: the points that the policy scored against it, 1 for a win and 0.5 for a draw, and the games
        # that they played, of which old ones count less; and its rating, where the policy at the start has 0.
        self.points, self.games, self.elos = np.zeros((3, self.capacity))
        self._found = np.zeros((2, self.capacity))  # points and games of this rollout
        self.next_snapshot = 0
        self._recent = np.zeros(2)  # points and games against the pool since the last snapshot
        self._returns = np.zeros(num_agents)  # NaN for who took no part in a game so far
        # Whose games begin with the newest observation: starts.
        self._has_ended, self._starts, self._masks = np.zeros((3, num_agents), bool)
        self._players = np.full(num_agents, -1)  # the member that plays an agent
        self.opponents = np.full(num_agents // self._seats, -1)  # in each game; -1 where the policy plays itself
        self._is_counted = np.zeros(len(self.opponents), bool)  # the opponent is still the one that it was
        self._seen: dict[int, Seen] = {}  # of a batch until it acts, by its first agent
        # Those that stay, then the earlier policies, oldest first.
        self.members = [self._make_member(name, policy) for name, policy in fixed.items()]
        self._chances = self.probabilities()  # of the members, for the games that begin in this rollout

    # ------------------------------------------------------------------------------------------------------- the games

    def restart(self) -> None:
        """Begins all games anew."""
        self._seen.clear()
        self._draw(np.arange(len(self.opponents)), self.generator)

    def begin_rollout(self, policy: nn.Module, agent_steps: int) -> None:
        """Takes a snapshot of the policy where one is due; no agent acts meanwhile."""
        points, games = self._recent
        rate_wanted = self._config.snapshot_win_rate
        is_better = rate_wanted is not None and games >= _LEAST_GAMES and points >= rate_wanted * games
        if self._config.pool_size and (agent_steps >= self.next_snapshot or is_better):
            self.next_snapshot = agent_steps + self._snapshot_steps()
            self._take_snapshot(policy, agent_steps)
        self.points *= _FORGETTING
        self.games *= _FORGETTING
        self._chances = self.probabilities()
        self._found[:] = 0.0
        self._streams.begin()
        for actor in self._actors():
            actor.start_rollout(0)
        if self._has_several_batches:  # here, as the batches may come in any order
            for streams in (self._streams, *(actor.streams for actor in self._actors())):
                streams.draw_seed()

    def end_rollout(self) -> None:
        """Adds the results of this rollout's games, those of all processes; no agent acts meanwhile."""
        own = torch.from_numpy(self._found).flatten()
        found = self._ranks.gather_numbers(own).sum(0).view(2, -1).numpy()  # exact: they are halves and integers
        self.points += found[0]
        self.games += found[1]
        self._recent += found.sum(1)

    def receive(
        self,
        rows: slice,
        observations: np.ndarray,
        rewards: np.ndarray,
        ended: np.ndarray,
        masks: np.ndarray,
        action_masks: np.ndarray | None,
    ) -> np.ndarray:
        """Follows the games of a batch by what it brought; returns its masks, `(rows,)` bool, without the opponents.

        The observations and the action masks may be read until the batch acts.
        """
        returns = self._returns[rows]
        returns[np.isnan(returns) & (rewards != 0)] = 0.0
        returns += rewards
        self._has_ended[rows] |= ended
        over = self._has_ended[rows].reshape(-1, self._seats).all(1).nonzero()[0] + rows.start // self._seats
        if len(over):
            self._count(over)
            self._draw(over, self._streams.ready(rows))
        returns[np.isnan(returns) & masks] = 0.0
        self._seen[rows.start], self._masks[rows] = Seen(observations, action_masks), masks
        return masks & (self._players[rows] < 0)

    def act(self, rows: slice, actions: np.ndarray) -> np.ndarray:
        """Returns the actions of a batch with those of the opponents in place of the policy's."""
        seen, players = self._seen.pop(rows.start), self._players[rows]
        counts = np.bincount(players + 1, minlength=len(self.members) + 1)[1:]
        if counts.any():
            actions = actions.copy()
        for index in counts.nonzero()[0]:
            member, is_acting = self.members[index], players == index
            if not member.states:
                is_acting &= self._masks[rows]  # an agent that waits has nothing to remember
            (chosen,) = is_acting.nonzero()
            if len(chosen):
                places = slice(rows.start, rows.start + len(chosen))  # with random numbers of this batch's own
                agents, starts = torch.from_numpy(chosen + rows.start), self._starts[rows][chosen]
                actions[chosen] = member.act(places, agents, seen.of(chosen), starts)
        self._starts[rows] = False
        return actions

    def _count(self, games: np.ndarray) -> None:
        rated = games[(self.opponents[games] >= 0) & self._is_counted[games]]
        returns, is_other = (each.reshape(-1, self._seats)[rated] for each in (self._returns, self._players >= 0))
        points = points_of(returns, ~is_other)
        rated, points = rated[~np.isnan(points)], points[~np.isnan(points)]
        np.add.at(self._found[0], self.opponents[rated], points)
        np.add.at(self._found[1], self.opponents[rated], 1.0)

    def _draw(self, games: np.ndarray, generator: torch.Generator) -> None:
        # Opponents and their seats for games that begin.
        device = generator.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        shape = len(games), 2 + self._seats
        numbers = torch.rand(shape, generator=generator, dtype=dtype, device=device).cpu().numpy()
        self.opponents[games] = -1
        if len(self._chances):
            bounds = self._chances.cumsum()
            drawn = np.searchsorted(bounds, numbers[:, 1] * bounds[-1], "right").clip(max=len(bounds) - 1)
            self.opponents[games] = np.where(numbers[:, 0] < self._config.selfplay_share, -1, drawn)
        has_seat = numbers[:, 2:].argsort(1).argsort(1) < self._seats // 2
        players = np.where(has_seat, self.opponents[games][:, None], -1)
        arrays = (self._players, self._starts, self._has_ended, self._returns)
        for array, values in zip(arrays, (players, True, False, np.nan), strict=True):
            array.reshape(-1, self._seats)[games] = values
        self._is_counted[games] = True

    def probabilities(self) -> np.ndarray:
        """The chances of the members to be the opponent of a game against the pool: `(members,)`, in all 1."""
        count = len(self.members)
        # LaTeX: P_i \propto (1 - w_i)^2 ; P = probabilities, w = the policy's win rate
        weights = (1.0 - (self.points[:count] + 0.5) / (self.games[:count] + 1.0)) ** 2
        weights = np.ones(count) if self._config.pool_choice == "uniform" else weights
        return weights / max(weights.sum(), 1e-300)

    # ----------------------------------------------------------------------------------------------------- the members

    def _take_snapshot(self, policy: nn.Module, agent_steps: int) -> None:
        rating, _ = self.rating()
        if len(self.members) == self.capacity:
            oldest = self.num_fixed
            self.members.pop(oldest).actor.close()
            for array in (self.points, self.games, self.elos):
                array[oldest:] = np.append(array[oldest + 1 :], 0.0)
            self._is_counted &= self.opponents != oldest
            for players in (self.opponents, self._players):
                players[players == oldest] = self.capacity  # the new one takes over its games
                players[players > oldest] -= 1
        self.elos[len(self.members)] = rating
        self._recent[:] = 0.0
        held = (value for part in policy.modules() for value in vars(part).values())
        activations = {id(kept): kept.detach() for kept in held if isinstance(kept, Tensor) and not kept.is_leaf}
        copied = copy.deepcopy(policy, activations)  # which has no copy of a tensor that has a gradient
        self.members.append(self._make_member(f"after {agent_steps} steps", copied))

    def _actors(self) -> list[Actor]:
        return [member.actor for member in self.members if member.actor is not None]

    def _make_member(self, name: str, policy: nn.Module | None) -> _Member:
        if policy is None:
            return _Member(name)
        actor = self._make_actor(policy.eval(), self.generator)
        return _Member(name, actor, {key: torch.zeros_like(state) for key, state in actor.states.items()})

    def rating(self) -> tuple[float, float]:
        """The policy's rating against the pool, and half the width of its 95 % confidence interval."""
        if not self.games.any():
            return float(self.elos[max(len(self.members) - 1, 0)]), np.inf
        points = np.zeros((self.capacity + 1, self.capacity + 1))
        points[-1, :-1], points[:-1, -1] = self.points, self.games - self.points
        elos, widths = rate(points, np.append(self.elos, np.nan))
        return float(elos[-1]), float(widths[-1])

    def metrics(self) -> dict[str, float]:
        """Returns the rating with its interval, win rates, and the number of members, by `selfplay/...`."""
        if not self.games.any():
            return {}
        rating, width = self.rating()
        found = {"elo": rating, "elo_interval": width, "win_rate": self.points.sum() / self.games.sum()}
        results = zip(self.members[: self.num_fixed], self.points, self.games, strict=False)
        found |= {f"win_rate/{member.name}": points / games for member, points, games in results if games > 0}
        return {f"selfplay/{name}": float(value) for name, value in {**found, "members": len(self.members)}.items()}

    def close(self) -> None:
        """Releases what the members hold; may be called twice."""
        for actor in self._actors():
            actor.close()

    # -------------------------------------------------------------------------------------------------- its checkpoint

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that a later process needs to continue exactly, between two rollouts."""
        snapshots, names = self.members[self.num_fixed :], [member.name for member in self.members]
        return {
            **{name: torch.from_numpy(getattr(self, name).copy()) for name in ARRAYS},
            "generator": self.generator.get_state(),
            "next_snapshot": self.next_snapshot,
            "fixed": names[: self.num_fixed],
            "names": names[self.num_fixed :],
            "weights": [dict(member.actor.policy.state_dict()) for member in snapshots],
            "states": [{key: state.clone() for key, state in member.states.items()} for member in self.members],
        }

    def load_state_dict(self, state: Mapping[str, Any], policy: nn.Module, seen: Mapping[int, Seen]) -> None:
        """Restores what `state_dict` returned.

        `policy` is of the class and sizes of the earlier ones; `seen` is what every batch acts on next, by its first
        agent.
        """
        self.load_members(state, policy)
        for member, states in zip(self.members, state["states"], strict=True):
            for key, kept in member.states.items():
                kept.copy_(states[key])
        for name in _GAMES:
            getattr(self, name)[...] = state[name].numpy()
        self._seen = dict(seen)
        self.generator.set_state(state["generator"])

    def load_members(self, state: Mapping[str, Any], policy: nn.Module) -> None:
        """Restores the earlier policies and the results against all members; the running games go on."""
        while len(self.members) > self.num_fixed:
            self.members.pop().actor.close()
        for name, weights in zip(state["names"], state["weights"], strict=True):
            member = self._make_member(name, copy.deepcopy(policy))
            member.actor.policy.load_state_dict(weights)
            self.members.append(member)
        for name in RESULTS:
            getattr(self, name)[...] = state[name].numpy()
        self.next_snapshot = state["next_snapshot"]
        self._chances = self.probabilities()


def agents_in_one(vecenv: Vector) -> int:
    """Agents of a single environment; one PufferEnv of a vector may hold many."""
    return getattr(vecenv.driver_env, "agents_per_env", vecenv.agents_per_env)


def points_of(returns: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """What the first side got of games, `(games,)`: 1, 0.5 or 0, by which side's mean return is larger.

    Both arguments are `(games, seats)`: the agents' returns, NaN for who took no part, and whether they are of the
    first side. Points are NaN where a whole side took no part.
    """
    took_part = ~np.isnan(returns)
    sides = (is_first & took_part, ~is_first & took_part)
    with np.errstate(invalid="ignore"):
        first, other = (np.where(side, returns, 0.0).sum(1) / side.sum(1) for side in sides)
    return 0.5 * (1.0 + np.sign(first - other))


_SCALE = 400.0 / np.log(10.0)  # points of rating for odds of e
NORMAL_95 = 1.96
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""


def rate(points: np.ndarray, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Finds the likeliest ratings: a player is expected to score 1 / (1 + 10^((other - own) / 400) of a game.

    A draw more than was played counts for each pair that met, so that who won every game has a rating too.

    Args:
        points: `(players, players)`, what the row's player scored against the column's: 1 for a win, 0.5 for a draw.
        known: `(players,)` ratings that stay as they are, NaN for those to find; without any the mean is 0.

    Returns:
        `(players,)` ratings, and half the width of their 95 % confidence intervals, by the Fisher information: 0 for
        those that were known, infinite for players without games.
    """
    games = points + points.T
    games, points = games + (games > 0), points + 0.5 * (games > 0)
    known = np.full(len(points), np.nan) if known is None else known
    is_free, is_idle = np.isnan(known), games.sum(1) == 0
    strengths = np.where(is_free, 0.0, known) / _SCALE
    inverse = np.zeros_like(games)
    for _ in range(100):  # Newton's steps; a few do
        # LaTeX: p_{ij} = \frac{1}{1 + e^{s_j - s_i}} ; p = expected, s = strengths
        expected = 1.0 / (1.0 + np.exp(strengths[None] - strengths[:, None]))
        # LaTeX: I_{ij} = -n_{ij}\, p_{ij} (1 - p_{ij}), \quad I_{ii} = -\sum_{j \ne i} I_{ij} ; n = games
        information = -games * expected * (1.0 - expected)
        np.fill_diagonal(information, 0.0)
        np.fill_diagonal(information, -information.sum(1))
        inverse = np.linalg.pinv(information[np.ix_(is_free, is_free)], hermitian=True)
        step = inverse @ (points - games * expected).sum(1)[is_free]
        strengths[is_free] += np.clip(step, -1.0, 1.0)
        if not len(step) or np.abs(step).max() < 1e-9:
            break
    strengths -= strengths.mean() if is_free.all() else 0.0
    widths = np.zeros(len(points))
    widths[is_free] = NORMAL_95 * _SCALE * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    return strengths * _SCALE, np.where(is_free & is_idle, np.inf, widths)
