"""Overcooked-AI, the program of the five kitchens' authors, and cooks who cook by chance, for the tests of overcooked.

`python tests/ocean/overcooked_oracle.py` plays a few games there and writes down what came of them, for the tests where
it is not installed.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pufferlib.ocean.environment import OceanEnv
from pufferlib.ocean.overcooked.overcooked import DOWN, INTERACT, LAYOUTS, LEFT, RIGHT, STAY, UP, Overcooked

FILE = Path(__file__).with_name("overcooked_games.json")
KITCHENS = LAYOUTS[:-1]
STEPS, COOKING = 400, 20
MOVES = ((0, -1), (0, 1), (1, 0), (-1, 0), (0, 0), "interact")  # our actions as theirs
THINGS = (None, "onion", "dish", "soup")
THEIR_NAMES = {"counter_circuit": "counter_circuit_o_1order"}
GAMES = 2  # of each kitchen in the file
# Of an observation, as overcooked.h lays it out.
HELD, AHEAD, NUM_AHEADS, FULL = 49, 52, 10, 251
_, _, COUNTER, _, _, _, ONIONS, DISHES, POT, WINDOW = range(NUM_AHEADS)
SEAT, COOKS = 88, 92  # bytes of the struct before the first agent's cook, as a number, and before both cooks


def gridworld() -> ModuleType:
    """Overcooked-AI; skips the test where it is not installed."""
    name = "overcooked_ai_py.mdp.overcooked_mdp"
    return pytest.importorskip(name, reason="needs Overcooked-AI: pip install overcooked-ai")


class TheirKitchen:
    """One episode in Overcooked-AI, where pots begin to cook by the rule of its paper.

    There three onions begin to cook at once. The program's newer rule has a cook light the pot by empty hands, so that
    here no cook does, and a pot is lit in the step that fills it. All else is the program's.
    """

    def __init__(self, layout: str):
        self.mdp = gridworld().OvercookedGridworld.from_layout_name(THEIR_NAMES.get(layout, layout))
        self.state: Any = self.mdp.get_standard_start_state()

    def step(self, actions: list[int]) -> tuple[float, list[float]]:
        """The soups' reward, and the shaping rewards of both cooks."""
        moves = [STAY if self._lights(cook, actions[cook]) else actions[cook] for cook in range(2)]
        self.state, facts = self.mdp.get_state_transition(self.state, [MOVES[action] for action in moves])
        for thing in self.state.objects.values():
            if thing.name == "soup" and len(thing.ingredients) == 3 and thing.is_idle:
                thing.begin_cooking()
                thing.cook()
        return sum(facts["sparse_reward_by_agent"]), facts["shaped_reward_by_agent"]

    def _lights(self, index: int, action: int) -> bool:
        cook = self.state.players[index]
        (x, y), (right, down) = cook.position, cook.orientation
        is_at_pot = (x + right, y + down) in self.mdp.get_pot_locations()
        return action == INTERACT and is_at_pot and not cook.has_object()

    def facts(self) -> bytes:
        """All that there is in the kitchen; the same bytes as `facts_of`."""
        cooks, things = [], []
        for cook in self.state.players:
            x, y = cook.position
            held = cook.held_object.name if cook.held_object else None
            cooks += [9 * y + x, MOVES.index(cook.orientation), THINGS.index(held)]
        pots = {9 * y + x: (0, 0) for x, y in self.mdp.get_pot_locations()}
        for (x, y), thing in self.state.objects.items():
            if 9 * y + x in pots:
                left = COOKING - thing._cooking_tick if thing.is_cooking else 0
                pots[9 * y + x] = (len(thing.ingredients), left)
            else:
                things += [(9 * y + x, THINGS.index(thing.name))]
        return facts_from(cooks, [pots[cell] for cell in sorted(pots)], things)


def facts_from(cooks: list[int], pots: Sequence[Sequence[int]], things: list[tuple[int, int]]) -> bytes:
    return bytes([*cooks, *itertools.chain(*pots), 255, *itertools.chain(*sorted(things))])


def facts_of(struct: np.ndarray, num_pots: int) -> bytes:
    """What is in one of our kitchens: Overcooked in overcooked.h, from its cooks on."""
    cooks, pots = struct[COOKS : COOKS + 6].tolist(), struct[COOKS + 6 : COOKS + 6 + 2 * num_pots].tolist()
    cells = []
    for thing, bits in enumerate(struct[COOKS + 20 : COOKS + 44].view("u8").tolist(), 1):
        cells += [(cell, thing) for cell in range(45) if bits >> cell & 1] if bits else []
    return facts_from(cooks, [pots[:2], pots[2:]][:num_pots], cells)


def places() -> dict[tuple[str, int], np.ndarray]:
    """Where the pots, the windows, the onions and the dishes of each kitchen are: columns and rows."""
    maps = {
        "cramped_room": "XXPXX/O   O/X   X/XDXSX",
        "asymmetric_advantages": "XXXXXXXXX/O XSXOX S/X   P   X/X   P   X/XXXDXDXXX",
        "coordination_ring": "XXXPX/X   P/D X X/O   X/XOSXX",
        "forced_coordination": "XXXPX/O X P/O X X/D X X/XXXSX",
        "counter_circuit": "XXXPPXXX/X      X/D XXXX S/X      X/XXXOOXXX",
    }
    signs = {ONIONS: "O", DISHES: "D", POT: "P", WINDOW: "S"}
    return {
        (name, kind): np.argwhere(np.array([list(row) for row in rows.split("/")]) == sign)[:, ::-1]
        for name, rows in maps.items()
        for kind, sign in signs.items()
    }


PLACES = places()


def actions_of(env: OceanEnv, layout: str, generator: np.random.Generator) -> np.ndarray:
    """Cooks who blunder about, mostly to where what they hold is wanted, and mostly use what helps ahead of them."""
    rows, count = env.observations, env.num_agents
    held = (rows[:, HELD : HELD + 3] * [1, 2, 3]).sum(axis=1)
    ahead = rows[:, AHEAD : AHEAD + NUM_AHEADS].argmax(axis=1)
    is_laden = (ahead > COUNTER) & (ahead < ONIONS)
    is_full = rows[:, [FULL, FULL + 8]].any(axis=1)
    likes_dish = is_full ^ (generator.random(count) < 0.1)
    takes = (held == 0) & (is_laden | (ahead == np.where(likes_dish, DISHES, ONIONS)))
    brings = ((held == 1) | (held == 2)) & (ahead == POT) | (held == 3) & (ahead == WINDOW)
    puts = (held > 0) & (ahead == COUNTER) & (generator.random(count) < 0.1)
    is_use = (takes | brings | puts) & (generator.random(count) < 0.9)
    wanted = np.select([held == 3, held > 0, likes_dish], [WINDOW, POT, DISHES], ONIONS)
    cells = rows[:, :45].argmax(axis=1)
    way = np.array([way_to(layout, *pair, generator) for pair in zip(wanted.tolist(), cells.tolist(), strict=True)])
    way = np.where(generator.random(count) < 0.4, generator.integers(0, 6, count), way)
    return np.where(is_use, INTERACT, way).astype(np.int32)


def way_to(layout: str, kind: int, cell: int, generator: np.random.Generator) -> int:
    """A step that leads nearer to one of some places, whatever is in the way."""
    (x, y), spots = (cell % 9, cell // 9), PLACES[layout, kind]
    right, down = spots[generator.integers(len(spots))] - (x, y)
    if right and (not down or generator.random() < 0.5):
        return RIGHT if right > 0 else LEFT
    return DOWN if down > 0 else UP


def num_pots(layout: str) -> int:
    return 1 if layout == "cramped_room" else 2


def seats_of(env: OceanEnv) -> np.ndarray:
    """The cook that each kitchen's first agent is, 0 or 1."""
    return env.structs()[:, SEAT].astype(int)


def played(layout: str, num_games: int, seed: int) -> Iterator[tuple[list[list[int]], list[bytes], np.ndarray]]:
    """Games of ours by chance: the actions of both cooks, what is in the kitchen after each step, their rewards.

    After the last step there is the next episode in the kitchen, so that its facts are left out.
    """
    env, generator = Overcooked(num_games, layout, report_interval=10**9), np.random.default_rng(seed)
    env.reset(seed)
    by_cook = np.arange(2) ^ seats_of(env)[:, None]
    actions, structs, rewards = [], [], []
    for _ in range(STEPS):
        own = actions_of(env, layout, generator)
        env.step(own)
        actions.append(np.take_along_axis(own.reshape(-1, 2), by_cook, 1))
        rewards.append(np.take_along_axis(env.rewards.reshape(-1, 2), by_cook, 1))
        structs.append(env.structs())
    assert env.truncations.all()
    for i in range(num_games):
        facts = [facts_of(struct[i], num_pots(layout)) for struct in structs[:-1]]
        yield [row[i].tolist() for row in actions], facts, np.array([row[i] for row in rewards])
    env.close()


def replay(layout: str, num_games: int, seed: int) -> tuple[int, int]:
    """Plays so many games by chance in both programs, and holds every state and reward to the other's.

    Returns:
        How many soups were served, and how many rewards there were for other things.
    """
    soups = others = 0
    for actions, facts, rewards in played(layout, num_games, seed):
        kitchen = TheirKitchen(layout)
        for step in range(STEPS):
            served, shaped = kitchen.step(actions[step])
            assert rewards[step].tolist() == [served + own for own in shaped], (layout, step)
            if step < STEPS - 1:
                assert list(kitchen.facts()) == list(facts[step]), (layout, step)
            soups += served // 20
            others += sum(own > 0 for own in shaped)
    return soups, others


def recorded(layout: str) -> list[dict[str, Any]]:
    """The games with most soups of a few that are played in Overcooked-AI, by actions of ours."""
    games = sorted(played(layout, 20, seed=0), key=lambda game: game[2].sum(), reverse=True)[:GAMES]
    return [record(layout, actions) for actions, _, _ in games]


def record(layout: str, actions: list[list[int]]) -> dict[str, Any]:
    kitchen, states, rewards = TheirKitchen(layout), 0, {}
    for step in range(STEPS):
        served, shaped = kitchen.step(actions[step])
        if served or any(shaped):
            rewards[str(step)] = [served + own for own in shaped]
        if step < STEPS - 1:
            states = zlib.crc32(kitchen.facts(), states)
    moves = ["".join(str(row[cook]) for row in actions) for cook in range(2)]
    return {"layout": layout, "actions": moves, "states": states, "rewards": rewards}


if __name__ == "__main__":
    found = [game for layout in KITCHENS for game in recorded(layout)]
    FILE.write_text(json.dumps({"made by": "python tests/ocean/overcooked_oracle.py", "games": found}) + "\n")
