"""Games between two sides, each played by a policy of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from pufferlib import ocean
from pufferlib.environment import BOT_MOVES
from pufferlib.errors import APIUsageError
from pufferlib.families.catalog import Entry
from pufferlib.models import Default
from pufferlib.play import scores
from pufferlib.play.agent import load_agent, training_settings
from pufferlib.play.player import Decision, Episodes, Player
from pufferlib.policy import EnvSpaces, Logits, acting_forward, device_of, initial_state
from pufferlib.ppo.opponents import agents_in_one, points_of
from pufferlib.runs.checkpoint import resolve_run
from pufferlib.vector import Vector

BOT, RANDOM, PRETRAINED = "bot", "random", "pretrained"  # players that are no files


def find_training(word: str, env_name: str, data_dir: str) -> dict[str, Any]:
    """Returns the settings, as `training_settings`, of an agent by a word of `load_member`, not `random` or `bot`."""
    source: str | Path = env_name if word == PRETRAINED else word
    if source not in ocean.names() and not Path(source).exists():
        source = resolve_run(data_dir, env_name, word)
    found = training_settings(source)
    if found["env_name"] != env_name:
        raise APIUsageError(
            f"an opponent must have been trained in {env_name}, got {word} of {found['env_name']}; take another one"
        )
    return found


def load_member(word: str, env_name: str, env: EnvSpaces, device: torch.device, data_dir: str) -> nn.Module | None:
    """Loads a policy to play in an environment or a vector, `env`, by a word; None is the environment's own bot.

    The word is what `load_agent` takes; `pretrained`; a run in `data_dir` as `puffer train --resume` names it;
    `random`; or `bot`. It raises an APIUsageError if it was trained in another environment, or this one has no bot that
    moves in an agent's place, and a CheckpointError if there is none, or its weights do not fit the spaces.
    """
    if word == BOT:
        if not getattr(getattr(env, "driver_env", env), "has_bot_moves", False):
            raise APIUsageError(
                f"{env_name} has no bot that moves in an agent's place, got {BOT!r} as a player; "
                f"take {RANDOM!r}, or an agent"
            )
        return None
    if word == RANDOM:
        policy = Default(env, hidden_size=8).to(device)
        for parameter in policy.parameters():
            nn.init.zeros_(parameter)  # all choices are equally likely then
        return policy
    return load_agent(find_training(word, env_name, data_dir)["load_model_path"], env, str(device)).policy


class Versus(nn.Module):
    """Two policies as one: the first acts for the agents where `is_first`, `(agents,)` bool, the second for the others.

    It is called with observations of all of these agents, who play games of `seats`. A second of None acts as the
    first: it stands for a bot. Where `is_random` the second's likeliest actions are random ones.
    """

    def __init__(
        self, first: nn.Module, second: nn.Module | None, is_first: np.ndarray, seats: int, is_random: bool = False
    ):
        super().__init__()
        self._generator = torch.Generator().manual_seed(0) if is_random else None
        self.seats_per_game = seats
        self.sides = nn.ModuleList([first] if second is None else [first, second])
        self.register_buffer("is_first", torch.from_numpy(is_first), persistent=False)

    def initial_state(self, num_agents: int, device: torch.device) -> dict[str, Tensor]:
        """Returns the states of both, by names with the side before them."""
        return {
            f"{side}.{name}": state
            for side, policy in enumerate(self.sides)
            for name, state in initial_state(policy, num_agents, device).items()
        }

    def forward(self, observations: Tensor, state: dict[str, Tensor]) -> tuple[Logits, Tensor]:
        """Returns the results of each side for its agents; `state` is updated."""
        found = []
        for side, policy in enumerate(self.sides):
            prefix = f"{side}."
            own = {name.removeprefix(prefix): state[name] for name in state if name.startswith(prefix)}
            logits, values = acting_forward(policy)(observations, own)
            state.update((f"{prefix}{name}", value) for name, value in own.items())
            found.append((logits, values.view(len(observations), -1)))
        (first, first_values), (second, second_values) = found[0], found[-1]
        if self._generator is not None:
            second = _drawn(second, self._generator)
        is_first = self.is_first.repeat(1 + len(observations) // len(self.is_first))[: len(observations)]
        return _choose(is_first, first, second), _choose(is_first, first_values, second_values)


def _drawn(logits: Logits, generator: torch.Generator) -> Logits:
    if isinstance(logits, tuple):
        return tuple(_drawn(part, generator) for part in logits)
    if isinstance(logits, Normal):
        noise = torch.randn(logits.loc.shape, generator=generator).to(logits.loc.device)
        return Normal(logits.loc + logits.scale * noise, logits.scale)
    return torch.rand(logits.shape, generator=generator).to(logits.device)


def _choose(is_first: Tensor, first: Logits, second: Logits) -> Logits:
    if isinstance(first, tuple):
        return tuple(_choose(is_first, *parts) for parts in zip(first, second, strict=True))
    if isinstance(first, Normal):
        return Normal(_choose(is_first, first.loc, second.loc), _choose(is_first, first.scale, second.scale))
    return torch.where(is_first.view(-1, *[1] * (first.dim() - 1)), first, second)


def seats_of(vecenv: Vector) -> np.ndarray:
    """The agents of the first side, `(num_agents,)` bool: by turns the first half of a game's seats and the other."""
    seats = agents_in_one(vecenv)
    agents = np.arange(vecenv.num_agents)
    return (agents % seats < seats // 2) ^ (agents // seats % 2 == 1)


class MatchSheet(scores.ScoreSheet):
    """Collects the games of a Versus: whose side had the larger return, 1, 0.5 or 0 to the first."""

    def __init__(self, versus: Versus):
        super().__init__()
        self._is_first, self._seats = versus.is_first.cpu().numpy(), versus.seats_per_game

    def add(self, episodes: Episodes) -> None:
        """Adds the episodes of whole games; the environment's reports, which are of no side, are left out."""
        is_first, took_part = self._is_first[episodes.agents], (episodes.lengths > 0) | (episodes.returns != 0)
        own = is_first & took_part
        super().add(Episodes(episodes.agents[own], episodes.returns[own], episodes.lengths[own]))
        returns = np.where(took_part, episodes.returns, np.nan)
        points = points_of(*(each.reshape(-1, self._seats) for each in (returns, is_first)))
        self._reported.setdefault("points", []).extend(points[~np.isnan(points)].tolist())


def against(word: str, entry: Entry, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of an environment in which a policy plays against what a word means.

    They have the environment's `match_settings` where points are counted, as against all but the bot. Raises
    APIUsageError if that is the bot, and the environment has none.
    """
    has_choice = "opponent" in entry.settings
    if word == BOT and not has_choice:
        raise APIUsageError(f"{entry.name} has no bot to play against; take {RANDOM!r}, or an agent")
    changed = {"opponent": BOT} if word == BOT else getattr(entry.creator, "match_settings", {})
    return {**env_kwargs, **({"opponent": "self"} if has_choice else {}), **changed}


def versus(word: str | nn.Module | None, env_name: str, data_dir: str, policy: nn.Module, vecenv: Vector) -> nn.Module:
    """Returns a policy and another one, or what a word means, as a `Versus`; the policy alone against the bot."""
    if word == BOT:
        return policy
    seats = agents_in_one(vecenv)
    if seats < 2:
        raise APIUsageError(
            f"a match needs games of 2 agents or more, got {seats} in {env_name}; take a game with an argument opponent"
        )
    device = device_of(policy)
    rival = load_member(word, env_name, vecenv, device, data_dir) if isinstance(word, str) else word
    return Versus(policy, rival, seats_of(vecenv), seats, is_random=word == RANDOM).to(device)


def sheet_for(player: Player) -> scores.ScoreSheet:
    """Makes what collects a player's episodes: games of a Versus, or else episodes of all agents."""
    return MatchSheet(player.policy) if isinstance(player.policy, Versus) else scores.ScoreSheet()


def play_match(
    first: nn.Module, second: nn.Module | None, entry: Entry, env_kwargs: Mapping[str, Any], games: int, seed: int
) -> list[float]:
    """Plays games between two policies, by actions that are drawn, half of them from each side.

    The second may be None, the bot of an environment that has one which moves in an agent's place. Returns what the
    first got of each game that ended: 1, 0.5 or 0.
    """
    env = scores.ConfiguredEnv(entry, against("self", entry, env_kwargs))
    make_policy = partial(versus, second, entry.name, "", first)
    with scores.player_in(env, make_policy, games, seed, is_sampled=True) as player:
        is_bots = ~seats_of(player.vecenv) & (second is None)

        def decide(decision: Decision) -> np.ndarray:
            actions = decision.actions.copy()
            actions[is_bots] = BOT_MOVES
            return actions

        quotas, sheet = scores.episodes_per_agent(games, player), sheet_for(player)
        for episodes in player.play(quotas, scores.MAX_STEPS * int(quotas.max()), seed, decide=decide):
            sheet.add(episodes)
        return sheet.numbers("points")
