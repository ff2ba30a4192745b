"""Pac-Man: the maze, the published rules in positions made by hand, and every step against a second implementation."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from contract import checksum
from pacman_reference import (
    DEPTH,
    ENTERING,
    EXIT,
    EYES,
    FRUIT,
    LEAVING,
    OUTSIDE,
    WAITING,
    Dice,
    Ghost,
    Reference,
    read_maze,
)
from positions import POINTERS, position, put, struct_layout

from pufferlib.ocean.pacman.pacman import Pacman

UP, LEFT, DOWN, RIGHT = range(4)
BLINKY, PINKY, INKY, CLYDE = range(4)
DOTS, SELF, WAYS, GHOSTS, CLOCK = 231, 231, 237, 269, 297
STEPS_PER_SECOND = 0.8 * 75.757625 / 8  # Pac-Man at 80 % of the arcade's full speed, in tiles

MAZE = read_maze((Path(__file__).parents[2] / "ocean/pacman/pacman_maze.h").read_text())
TILES = [(row, column) for row in range(31) for column in range(27)]
HOUSE = {(row, column) for row in (13, 14, 15) for column in range(11, 16)}
PLACES = [tile for kind in "o. " for tile in TILES if MAZE[tile[0]][tile[1]] == kind and tile not in HOUSE]

GHOST = np.dtype(
    [
        *((name, np.int16) for name in ("place", "progress")),
        *((name, np.uint8) for name in ("heading", "mode", "is_frightened", "must_turn")),
    ]
)
COUNTS = ("dots_left", "hungry_steps", "phase", "phase_left", "fright_left", "ghosts_eaten", "fruit_left", "steps")
LAYOUT = struct_layout(
    ("rng", np.uint64),
    ("ghosts", GHOST, 4),
    ("eaten", np.uint8, 256),
    *((name, np.int16) for name in ("place", "heading", *COUNTS)),
    ("score", np.int32),
    ("episode_return", np.float32),
    ("log", np.float32, 5),
    pointers=(*POINTERS, "shared"),
)


def started(seed=0):
    env = Pacman(1, report_interval=10**9)
    env.reset(seed)
    return env


def place_of(row, column):
    return PLACES.index((row, column))


def dots_but(num_left, *eaten_last):
    """The dots when so many are left, some tiles' among them."""
    last = [place_of(*tile) for tile in eaten_last]
    others = [dot for dot in range(DOTS) if dot not in last]
    eaten = np.full(256, 255, np.uint8)
    eaten[last + others[: num_left - len(last)]] = 0
    return {"eaten": eaten, "dots_left": num_left}


def arrange(env, tile, heading=LEFT, ghosts=None, **members):
    """Puts Pac-Man on a tile, and ghosts where `ghosts` says by index; all others wait."""
    found = position(env, LAYOUT)
    placed = found["ghosts"]
    placed["mode"], placed["progress"], placed["place"], placed["heading"] = WAITING, DEPTH, place_of(*EXIT), LEFT
    for index, ghost in (ghosts or {}).items():
        members_of = {"mode": OUTSIDE, "progress": 0, "is_frightened": 0, "must_turn": 0, **ghost}
        members_of["place"] = place_of(*members_of.pop("tile"))
        for name, value in members_of.items():
            placed[index][name] = value
    put(env, LAYOUT, ghosts=placed, place=place_of(*tile), heading=heading, **{"hungry_steps": 0, **members})


def step(env, action=LEFT):
    _, rewards, terminals, truncations, _ = env.step(np.array([action], np.int32))
    return round(float(rewards[0]), 5), bool(terminals[0]), bool(truncations[0])


def ghost(env, index):
    found = position(env, LAYOUT)["ghosts"][index]
    return PLACES[found["place"]], int(found["progress"]), int(found["heading"]), int(found["mode"])


# ------------------------------------------------------------------------------------------------------- the maze


def beside(tile):
    return [
        (tile[0] + down, (tile[1] + right) % 27)
        for down, right in ((-1, 0), (0, -1), (1, 0), (0, 1))
        if MAZE[tile[0] + down][(tile[1] + right) % 27] in ".o "
    ]


def test_the_maze_is_one_of_corridors_without_dead_ends():
    assert len(MAZE) == 31 and all(row == row[::-1] and len(row) == 27 for row in MAZE)
    assert sum(row.count(".") for row in MAZE) == 227 and sum(row.count("o") for row in MAZE) == 4
    assert len(PLACES) == 284
    assert all(len(beside(tile)) >= 2 for tile in PLACES)
    squares = [{(row, column), (row, column + 1), (row + 1, column), (row + 1, column + 1)} for row, column in TILES]
    assert not any(square <= set(PLACES) for square in squares)
    assert len(Reference(MAZE, Dice(0), LEFT, []).home) == 284  # all are reached from the house


# ------------------------------------------------------------------------------------- against the second version


def reference_of(env):
    found = position(env, LAYOUT)
    ghosts = [
        Ghost(EXIT, 0 if index == BLINKY else DEPTH, int(each["heading"]), OUTSIDE if index == BLINKY else WAITING)
        for index, each in enumerate(found["ghosts"])
    ]
    return Reference(MAZE, Dice(int(found["rng"])), int(found["heading"]), ghosts)


def assert_same(env, reference):
    found = position(env, LAYOUT)
    assert PLACES[found["place"]] == reference.tile
    assert (found["score"], found["dots_left"]) == (reference.score, len(reference.dots))
    assert {PLACES[dot] for dot in np.flatnonzero(found["eaten"][:DOTS] == 0)} == reference.dots
    assert (found["fright_left"], found["fruit_left"]) == (reference.fright_left, reference.fruit_left)
    assert (found["phase"] % 2 == 0) == reference.is_scatter
    for each, expected in zip(found["ghosts"], reference.ghosts, strict=True):
        assert PLACES[each["place"]] == expected.tile
        assert (each["progress"], each["mode"]) == (expected.progress, expected.mode)
        assert (each["is_frightened"], each["must_turn"]) == (expected.is_frightened, expected.must_turn)
        assert each["mode"] not in (OUTSIDE, EYES) or each["heading"] == expected.heading
    assert found["rng"] == reference.dice.state


def careful_action(observation, generator):
    """To the nearest dot and the nearest prey, away from ghosts that hunt; sometimes anywhere."""
    ways = observation[WAYS:GHOSTS].reshape(4, 8)
    if generator.random() < 0.1:
        return int(generator.integers(-1, 6))
    worth = ways[:, 1] + ways[:, 4] + 0.5 * ways[:, 5] - 3.0 * (ways[:, 3] > 0.2) * ways[:, 3]
    return int(np.argmax(np.where(ways[:, 0] > 0, worth, -9.0)))


@pytest.mark.parametrize("seed", range(5))
def test_every_step_of_whole_games_agrees_with_the_reference(seed):
    env, generator = started(seed), np.random.default_rng(seed)
    reference = reference_of(env)
    for _ in range(600):
        action = careful_action(env.observations[0], generator)
        score = reference.score
        reference.step(action)
        reward, terminal, truncation = step(env, action)
        assert (terminal, truncation) == (reference.is_over, False)
        if terminal:
            assert reward == pytest.approx(-5 if reference.dots else 5, abs=1.0)
            (statistics,) = env.episode_statistics()
            assert statistics["score"] == reference.score
            assert statistics["perf"] == pytest.approx(1 - len(reference.dots) / DOTS)
            reference = reference_of(env)
        else:
            points = reference.score - score
            dots = 10 * (points % 100 == 10) + 50 * (points % 100 == 50)
            assert reward == pytest.approx(0.1 * (dots > 0) + (points - dots) / 2000, abs=1e-5)
        assert_same(env, reference)


def test_the_observation_shows_what_lies_by_every_way():
    env, generator = started(5), np.random.default_rng(5)
    reference = Reference(MAZE, Dice(0), LEFT, [])
    distances_from = functools.cache(reference.distances)
    for _ in range(300):
        step(env, careful_action(env.observations[0], generator))
        found, observation = position(env, LAYOUT), env.observations[0]
        tile = PLACES[found["place"]]
        np.testing.assert_array_equal(observation[:DOTS], found["eaten"][:DOTS] == 0)
        assert observation[SELF] == pytest.approx(tile[0] / 30) and observation[SELF + 1] == pytest.approx(tile[1] / 26)
        outside = [each for each in found["ghosts"] if each["mode"] == OUTSIDE]
        wanted = [
            [PLACES[dot] for dot in np.flatnonzero(found["eaten"][:DOTS] == 0)],
            [PLACES[dot] for dot in np.flatnonzero(found["eaten"][:4] == 0)],
            [PLACES[each["place"]] for each in outside if not each["is_frightened"]],
            [PLACES[each["place"]] for each in outside if each["is_frightened"]],
            [FRUIT] if found["fruit_left"] else [],
        ]
        hunts = [
            distances_from(reference.beside(PLACES[each["place"]], each["heading"]))
            for each in outside
            if not each["is_frightened"]
        ]
        for heading in range(4):
            way = observation[WAYS + 8 * heading : WAYS + 8 * heading + 8]
            next_tile = reference.beside(tile, heading)
            assert way[0] == (next_tile is not None)
            distances = distances_from(next_tile) if next_tile else {}
            safe = [to for to in distances if all(distances[to] + 1 < hunt[to] for hunt in hunts)]
            dots = [each for each in wanted[0] if each in safe]
            for number, tiles in zip((*way[1:6], way[7]), (*wanted, dots), strict=True):
                nearest = min((distances[each] for each in tiles if next_tile), default=np.inf)
                assert number == pytest.approx(1 / (1 + nearest))
            assert way[6] == pytest.approx(len(safe) / len(PLACES))


# -------------------------------------------------------------------------------------------- ghosts, known answers


@pytest.mark.parametrize(
    ("index", "pacman", "action", "blinky", "expected"),
    [
        # The ghost comes up to the crossing (20, 5). By up it is then at (19, 5), by left (20, 4), by right (20, 6).
        (BLINKY, (17, 9), UP, None, UP),  # target (16, 9): the squares are 25, 41, 25, and up comes first
        (PINKY, (15, 9), DOWN, (1, 1), RIGHT),  # target (20, 9), four ahead of (16, 9): 17, 25, 9
        (PINKY, (17, 9), UP, (1, 1), UP),  # target (12, 9): 65, 89, 73
        (INKY, (15, 9), DOWN, (1, 1), RIGHT),  # target 2 * (18, 9) - (1, 1) = (35, 17): 400, 394, 346
        (INKY, (15, 9), DOWN, (17, 16), LEFT),  # target (19, 2): 9, 5, 17
        (CLYDE, (15, 9), DOWN, (1, 1), LEFT),  # within 8 tiles of (16, 9): his corner (31, 0)
        (CLYDE, (8, 13), LEFT, (1, 1), UP),  # not within 8 of (8, 12), his target: 170, 208, 180
    ],
)
def test_each_ghost_has_a_target_of_its_own(index, pacman, action, blinky, expected):
    env = started()
    ghosts = {BLINKY: {"tile": blinky, "heading": DOWN}} if blinky else {}
    if blinky == (17, 16):  # in a straight, a tile back: when Inky chooses it has walked on by none
        ghosts[BLINKY]["heading"] = RIGHT
    ghosts[index] = {"tile": (21, 5), "heading": UP, "progress": 4}
    arrange(env, pacman, ghosts=ghosts, phase=7, phase_left=0, eaten=dots_but(1)["eaten"], dots_left=1)
    step(env, action)
    assert ghost(env, index)[0] == (20, 5)
    assert ghost(env, index)[2] == expected


@pytest.mark.parametrize(
    ("index", "tile", "heading", "expected"),
    [
        (BLINKY, (6, 13), UP, RIGHT),
        (PINKY, (6, 13), UP, LEFT),
        (INKY, (22, 13), DOWN, RIGHT),
        (CLYDE, (22, 13), DOWN, LEFT),
    ],
)
def test_while_they_scatter_they_go_to_their_corners(index, tile, heading, expected):
    env = started()
    arrange(env, (11, 13), ghosts={index: {"tile": tile, "heading": heading, "progress": 4}}, phase=2, phase_left=9)
    step(env, LEFT)
    assert ghost(env, index)[2] == expected


def test_phases_last_as_published():
    seconds = (7, 20, 7, 20, 5, 20, 5)
    env = started()
    for phase in range(len(seconds)):
        arrange(env, (29, 13), ghosts={BLINKY: {"tile": (1, 1), "heading": DOWN}}, phase=phase, phase_left=1)
        step(env)
        found = position(env, LAYOUT)
        assert found["phase"] == phase + 1 and found["ghosts"][BLINKY]["must_turn"]
        if phase + 1 < len(seconds):
            assert found["phase_left"] / STEPS_PER_SECOND == pytest.approx(seconds[phase + 1], abs=0.1)
        assert env.observations[0, CLOCK + 1] == ((phase + 1) % 2 == 0)
    assert position(started(), LAYOUT)["phase_left"] / STEPS_PER_SECOND == pytest.approx(7, abs=0.1)
    step(env)
    assert position(env, LAYOUT)["phase"] == 7  # for good


def test_a_ghost_turns_back_at_the_next_tile_when_it_must():
    env = started()
    arrange(env, (29, 13), ghosts={BLINKY: {"tile": (6, 1), "heading": UP, "progress": 10, "must_turn": 1}})
    step(env, LEFT)
    assert ghost(env, BLINKY)[:3] == ((5, 1), 10 + 60 + 7 - 64, DOWN)


@pytest.mark.parametrize(
    ("ghost_at", "members", "speed"),
    [
        ({"tile": (29, 3), "heading": RIGHT}, {}, 60),
        ({"tile": (29, 3), "heading": RIGHT}, dots_but(20), 64),
        ({"tile": (29, 3), "heading": RIGHT}, dots_but(10), 68),
        ({"tile": (29, 3), "heading": RIGHT, "is_frightened": 1}, {"fright_left": 9}, 36),
        ({"tile": (14, 0), "heading": RIGHT}, {}, 32),
        ({"tile": (14, 0), "heading": RIGHT, "mode": EYES}, {}, 128),
    ],
)
def test_speeds_are_those_of_the_first_level(ghost_at, members, speed):
    env = started()
    arrange(env, (17, 17), ghosts={BLINKY: ghost_at}, **members)
    for count in (1, 2, 3):
        step(env, LEFT)
        (_, column), progress, _, _ = ghost(env, BLINKY)
        assert 64 * column + progress - 64 * ghost_at["tile"][1] == count * speed


@pytest.mark.parametrize(
    ("tile", "action", "way"),
    [
        ((17, 13), LEFT, 60),
        ((29, 13), LEFT, 60 + 60 // 8),  # a dot
        ((4, 1), UP, 36 + 3 * 36 // 8),  # a pill, which frightens first
    ],
)
def test_eating_lets_the_ghosts_come_nearer(tile, action, way):
    env = started()
    arrange(env, tile, ghosts={BLINKY: {"tile": (14, 6), "heading": RIGHT}})
    step(env, action)
    at, progress, _, _ = ghost(env, BLINKY)
    assert 64 * (at[1] - 6) + progress == way


def test_ghosts_leave_the_house_one_by_one():
    env = started()
    step(env, LEFT)
    assert [ghost(env, index)[3] for index in range(4)] == [OUTSIDE, LEAVING, WAITING, WAITING]
    for eaten, left in ((28, []), (29, [INKY]), (88, [INKY]), (89, [INKY, CLYDE])):
        env = started()
        arrange(env, (29, 12), **dots_but(DOTS - eaten, (29, 11)))
        step(env, LEFT)
        assert [index for index in (INKY, CLYDE) if ghost(env, index)[3] == LEAVING] == left


def test_a_hungry_pacman_lets_the_next_ghost_out():
    env, left = started(), []
    arrange(env, (17, 13), **dots_but(DOTS))
    for _ in range(60):
        ghosts = position(env, LAYOUT)["ghosts"]
        ghosts["progress"] = DEPTH  # whoever leaves has just begun to
        put(env, LAYOUT, place=place_of(17, 13), ghosts=ghosts)
        step(env, LEFT)
        left.append([index for index in (INKY, CLYDE) if ghost(env, index)[3] != WAITING])
    assert (left[28], left[29], left[58], left[59]) == ([], [INKY], [INKY], [INKY, CLYDE])
    assert abs(30 / STEPS_PER_SECOND - 4) < 0.1


def test_eyes_take_the_shortest_way_and_come_back_as_a_ghost():
    env, modes = started(), []
    arrange(env, (17, 13), ghosts={CLYDE: {"tile": (1, 1), "heading": DOWN, "mode": EYES}})
    for _ in range(22):
        put(env, LAYOUT, place=place_of(17, 13))
        step(env, LEFT)
        modes.append(ghost(env, CLYDE)[3])
    # 28 tiles at two a step, one and a half steps down, six up
    assert modes == [EYES] * 13 + [ENTERING] * 2 + [LEAVING] * 6 + [OUTSIDE]


# ------------------------------------------------------------------------------------------- touch, points and ends


@pytest.mark.parametrize(
    ("gap", "progress"),
    [(gap, progress) for gap in (1, 2, 3, 4) for progress in (0, 20, 31, 32, 63) if gap > 1 or progress < 32],
)
def test_nobody_passes_through_a_ghost_that_comes_head_on(gap, progress):
    env = started()
    ghosts = {BLINKY: {"tile": (29, 12 - gap), "heading": RIGHT, "progress": progress}}
    arrange(env, (29, 12), ghosts=ghosts, phase=7, phase_left=0)
    ends = [step(env, LEFT)[1] for _ in range(gap)]
    assert sum(ends) == 1 and ends.index(True) <= gap / 2


def test_being_caught_ends_the_episode_once():
    env = started()
    finals = env.keep_final_observations()
    arrange(env, (17, 12), ghosts={BLINKY: {"tile": (17, 11), "heading": RIGHT}})
    assert step(env, LEFT) == (-5.0, True, False)
    assert finals[0, GHOSTS + 4] == 1.0  # Blinky is where Pac-Man is
    assert step(env, LEFT)[1:] == (False, False)


def test_frightened_ghosts_are_worth_twice_as_much_each_until_the_next_pill():
    env = started()
    frightened = {index: {"tile": (29, 11 - 2 * index), "heading": RIGHT, "is_frightened": 1} for index in range(4)}
    arrange(env, (29, 13), ghosts=frightened, fright_left=40, **dots_but(4))
    scores = [position(env, LAYOUT)["score"]]
    for _ in range(8):
        step(env, LEFT)
        scores.append(position(env, LAYOUT)["score"])
    assert [gain for gain in np.diff(scores) if gain] == [200, 400, 800, 1600]
    assert position(env, LAYOUT)["ghosts_eaten"] == 4
    arrange(env, (4, 1), fright_left=1, ghosts_eaten=4, **dots_but(DOTS))
    assert step(env, UP)[0] == 0.1  # the pill at (3, 1)
    found = position(env, LAYOUT)
    assert (found["ghosts_eaten"], found["fright_left"]) == (0, 44)


def test_a_pill_frightens_all_but_eyes_for_six_seconds():
    env = started()
    ghosts = {
        BLINKY: {"tile": (29, 3), "heading": RIGHT, "progress": 0},
        PINKY: {"tile": (29, 5), "heading": RIGHT, "mode": EYES},
    }
    arrange(env, (4, 1), ghosts=ghosts)
    step(env, UP)
    found = position(env, LAYOUT)
    assert found["ghosts"]["is_frightened"].tolist() == [1, 0, 1, 1]
    assert found["ghosts"][BLINKY]["must_turn"] or found["ghosts"][BLINKY]["heading"] == LEFT
    assert (found["fright_left"] + 1) / STEPS_PER_SECOND == pytest.approx(6, abs=0.1)
    assert env.observations[0, CLOCK] == pytest.approx(44 / 45)
    put(env, LAYOUT, fright_left=1)
    step(env, UP)
    assert not position(env, LAYOUT)["ghosts"]["is_frightened"].any()


def test_a_fruit_lies_below_the_house_after_seventy_dots():
    env = started()
    arrange(env, (20, 13), **dots_but(DOTS - 69, (20, 12)))
    step(env, LEFT)
    assert position(env, LAYOUT)["fruit_left"] == 71
    assert abs(72 / STEPS_PER_SECOND - 9.5) < 0.1
    arrange(env, (17, 12), fruit_left=5)
    score = position(env, LAYOUT)["score"]
    assert step(env, RIGHT) == (0.05, False, False)
    assert position(env, LAYOUT)["score"] - score == 100 and position(env, LAYOUT)["fruit_left"] == 0


def test_the_last_dot_wins():
    env = started()
    arrange(env, (29, 12), **dots_but(1, (29, 11)))
    assert step(env, LEFT) == (pytest.approx(5.1), True, False)
    (statistics,) = env.episode_statistics()
    assert statistics["perf"] == 1.0 and statistics["score"] == 10.0
    assert np.all(env.observations[0, :DOTS] == 1.0)  # the next maze is full


def test_after_ten_thousand_steps_time_is_up():
    env = started()
    arrange(env, (29, 13), steps=9999)
    assert step(env, LEFT) == (0.1, False, True)
    assert step(env, LEFT)[1:] == (False, False)


def test_the_tunnel_leads_to_the_other_side():
    env = started()
    arrange(env, (14, 0))
    step(env, LEFT)
    assert PLACES[position(env, LAYOUT)["place"]] == (14, 26)
    step(env, RIGHT)
    assert PLACES[position(env, LAYOUT)["place"]] == (14, 0)


def test_a_closed_way_or_no_action_keeps_the_heading():
    env = started()
    arrange(env, (29, 12))
    for action in (UP, DOWN, -7, 99):
        step(env, action)
    assert PLACES[position(env, LAYOUT)["place"]] == (29, 8)


def test_rollout_is_the_golden_one():
    env = Pacman(16)
    env.reset(42)
    rows = np.arange(16)
    observed = []
    for count in range(512):
        env.step((rows * 7 + count // 3 * (rows + 1)) % 4)
        observed.append(np.rint(env.observations[:, :CLOCK] * 840).astype(np.int16))
    assert checksum(observed) == 3166541367  # printed by the lines above; changes when rules or random streams do
