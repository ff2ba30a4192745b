"""Games replayed move by move in OpenSpiel, and how far an agent is from perfect play of Kuhn and Leduc poker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pufferlib.ocean.poker.poker import CALL, FOLD, RAISE

KUHN_ACTIONS = {FOLD: 0, CALL: 1, RAISE: 1}  # where there is a bet to call; else a check is 0
TURNS, RANKS, ROUNDS = {"kuhn": 3, "leduc": 4}, 3, {"kuhn": 1, "leduc": 2}  # of a round; of cards


def pyspiel() -> ModuleType:
    """OpenSpiel; skips the test where it is not installed."""
    return pytest.importorskip("pyspiel", reason="needs OpenSpiel: pip install open_spiel")


def spiel_game(game: str) -> Any:
    return pyspiel().load_game(f"{game}_poker")


def spiel_action(game: str, action: int, is_facing_bet: bool) -> int:
    """An action of ours as OpenSpiel's number."""
    if game == "leduc":
        return action
    return KUHN_ACTIONS[action] if is_facing_bet else {CALL: 0, RAISE: 1}[action]


def own_action(game: str, action: int, is_facing_bet: bool) -> int:
    """An action of OpenSpiel's as our number."""
    return next(
        own
        for own in ((FOLD, CALL, RAISE) if is_facing_bet else (CALL, RAISE))
        if spiel_action(game, own, is_facing_bet) == action
    )


def spiel_card(game: str, card: int) -> int:
    """Our cards are numbered by suit, theirs by rank."""
    return card % RANKS * 2 + card // RANKS if game == "leduc" else card


def own_card(game: str, card: int) -> int:
    return card % 2 * RANKS + card // 2 if game == "leduc" else card


def observed(game: str, state: Any) -> tuple[np.ndarray, np.ndarray]:
    """What poker.h shows who acts in a state of OpenSpiel's, and the action mask beside it."""
    player, rounds, turns = state.current_player(), ROUNDS[game], TURNS[game]
    num_cards = RANKS * rounds
    row = np.zeros(1 + num_cards * rounds + 2 * rounds * turns, np.uint8)
    row[0] = player == 0
    round_index = turn = num_raises = 0
    for i, (actor, action) in enumerate((move.player, move.action) for move in state.full_history()):
        if actor < 0:
            if i in (player, 2) or i > 2:
                row[1 + (0 if i < 2 else num_cards) + own_card(game, action)] = 1
            continue
        action = own_action(game, action, num_raises > 0)
        row[1 + num_cards * rounds + 2 * (round_index * turns + turn) + (action == RAISE)] = 1
        is_over, turn, num_raises = action == CALL and turn > 0, turn + 1, num_raises + (action == RAISE)
        if is_over:
            round_index, turn, num_raises = round_index + 1, 0, 0
    legal = {own_action(game, action, num_raises > 0) for action in state.legal_actions()}
    return row, np.array([action in legal for action in range(3)])


def decisions(state: Any) -> Iterator[Any]:
    """Every state below one in which a player acts."""
    if state.is_terminal():
        return
    if not state.is_chance_node():
        yield state
    for action in state.legal_actions():
        yield from decisions(state.child(action))


Probabilities = Callable[[np.ndarray], np.ndarray]
"""Of the three actions by rows of observations, `(rows, 3)`, such as `Agent.probabilities`."""


@functools.cache
def information_states(game: str) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """Every state of information with its place, the observations there, and the action masks, `(places, 3)`."""
    seen = {}
    for state in decisions(spiel_game(game).new_initial_state()):
        if state.information_state_string() not in seen:
            seen[state.information_state_string()] = observed(game, state)
    rows, masks = map(np.stack, zip(*seen.values(), strict=True))
    return {key: place for place, key in enumerate(seen)}, rows, masks


def legal_chances(game: str, probabilities: Probabilities) -> np.ndarray:
    """The probabilities in all states of information, `(places, 3)`, without those of actions that are not legal."""
    _, rows, masks = information_states(game)
    chances = np.asarray(probabilities(rows)) * masks
    return chances / chances.sum(axis=1, keepdims=True)


def mixture(game: str, policies: Sequence[Probabilities]) -> np.ndarray:
    """The policy that draws one of some policies for each hand, `(places, 3)` as `information_states` has them.

    An action's probability is the mean of theirs, weighed by how likely each plays to that point by its own actions.
    """
    places, _, masks = information_states(game)
    chances = np.stack([legal_chances(game, policy) for policy in policies])
    reaches = np.zeros(chances.shape[:2])

    def follow(state: Any, reach: np.ndarray) -> None:  # reach: (players, policies)
        if state.is_terminal():
            return
        if state.is_chance_node():
            for action in state.legal_actions():
                follow(state.child(action), reach)
            return
        place, player = places[state.information_state_string()], state.current_player()
        reaches[:, place] = reach[player]
        for action in state.legal_actions():
            own, after = own_action(game, action, bool(masks[place][FOLD])), reach.copy()
            after[player] *= chances[:, place, own]
            follow(state.child(action), after)

    follow(spiel_game(game).new_initial_state(), np.ones((2, len(policies))))
    total = reaches.sum(0)[:, None]
    return np.where(total > 0, (reaches[..., None] * chances).sum(0) / np.maximum(total, 1e-300), chances.mean(0))


def exploitability(game: str, probabilities: Probabilities) -> float:
    """How many chips a hand a policy loses to the best answer, as OpenSpiel counts it, the mean of both seats.

    Args:
        game: `kuhn` or `leduc`.
        probabilities: of the policy; those of actions that are not legal are left out.
    """
    places, _, masks = information_states(game)
    chances, policy = legal_chances(game, probabilities), {}
    for key, place in places.items():
        is_facing_bet = bool(masks[place][FOLD])
        actions = np.flatnonzero(masks[place]).tolist()
        policy[key] = [(spiel_action(game, action, is_facing_bet), chances[place, action]) for action in actions]
    return pyspiel().exploitability(spiel_game(game), policy)
