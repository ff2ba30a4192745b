import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch.distributions import Normal

from pufferlib.ocean.screen import Screen
from pufferlib.play.player import Decision
from pufferlib.watch.stage import (
    PANEL_MIN_HEIGHT,
    PANEL_WIDTH,
    PolicyTrace,
    SidePanel,
    as_picture,
    pooled,
    trace_of,
)

OBSERVATIONS = np.arange(6, dtype=np.float32).reshape(2, 3)


def trace(logits, actions, row=0, is_first=False):
    decision = Decision([slice(0, 2)], OBSERVATIONS, logits, torch.tensor([[1.5], [2.5]]), np.array(actions))
    return trace_of(decision, decision.actions, row, is_first)


def test_a_choice_is_how_likely_each_is_and_which_was_taken():
    found = trace(torch.tensor([[0.0, 0.0], [0.0, np.log(3.0)]]), [0, 1], row=1, is_first=True)
    (choice,) = found.parts
    assert found.action.tolist() == [1] and choice.tolist() == pytest.approx([0.25, 0.75])
    assert (found.value, found.is_first) == (2.5, True) and found.observation.tolist() == [3, 4, 5]


def test_a_thought_outlives_the_decision():
    normal, actions = Normal(torch.zeros(2, 1), torch.ones(2, 1)), np.zeros((2, 1))
    decision = Decision([slice(0, 2)], OBSERVATIONS.copy(), normal, torch.zeros(2), actions)
    found = trace_of(decision, actions, 0, is_first=False)
    for array in (decision.observations, normal.loc, actions):
        array += 1
    assert (found.observation.tolist(), found.parts[0].loc.tolist(), found.action.tolist()) == ([0, 1, 2], [0], [0])


def test_several_choices_come_in_their_order():
    found = trace((torch.zeros(2, 3), torch.zeros(2, 2)), [[2, 1], [0, 0]])
    assert [len(part) for part in found.parts] == [3, 2] and found.action.tolist() == [2, 1]


def test_numbers_have_a_mean_and_a_deviation_whatever_the_precision():
    loc, scale = torch.tensor([[0.1, 2.0], [0.2, 3.0]]), torch.tensor([0.5, 0.25])
    for dtype in (torch.float32, torch.bfloat16):
        (normal,) = trace(Normal(loc.to(dtype), scale.to(dtype)), [[0.3, 2.5], [0.0, 0.0]]).parts
        assert normal.loc.numpy() == pytest.approx([0.1, 2.0], rel=0.01)
        assert normal.scale.numpy() == pytest.approx([0.5, 0.25])


# --- the panel


@pytest.mark.parametrize(
    ("shape", "dtype", "wanted"),
    [
        ((84, 84), np.uint8, (84, 84, 3)),
        ((84, 84, 1), np.uint8, (84, 84, 3)),
        ((84, 80, 4), np.uint8, (84, 80, 3)),
        ((4, 84, 80), np.uint8, (84, 80, 3)),
        ((3, 64, 96), np.uint8, (64, 96, 3)),
        ((64, 96, 3), np.uint8, (64, 96, 3)),
        ((7, 7, 3), np.uint8, None),
        ((84, 84), np.float32, None),
        ((121,), np.uint8, None),
        ((8, 84, 84), np.uint8, None),
    ],
)
def test_pictures_are_told_from_numbers(shape, dtype, wanted):
    found = as_picture(np.zeros(shape, dtype))
    assert wanted == (None if found is None else found.shape)


def test_of_pictures_behind_each_other_the_newest_is_shown():
    frames = np.stack([np.full((20, 20), shade, np.uint8) for shade in (1, 2, 3, 4)])
    assert (as_picture(frames) == 4).all() and (as_picture(np.moveaxis(frames, 0, -1)) == 4).all()


def test_numbers_that_share_a_place_show_the_furthest_from_zero():
    assert pooled(np.array([1.0, -3.0, 2.0, 0.5]), 2).tolist() == [-3.0, 2.0]
    assert pooled(np.array([1.0, 2.0]), 5).tolist() == [1.0, 2.0]


CHOICE, MANY = torch.tensor([0.7, 0.2, 0.1]), torch.full((300,), 1 / 300)
ENDLESS = Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))
AMOUNTS = Normal(torch.tensor([0.0, 9.0]), torch.tensor([0.5, 1.0]))


@pytest.mark.parametrize(
    ("observation", "space", "parts", "action"),
    [
        (np.array([0.5, -2.0, np.nan, np.inf]), Discrete(3), (CHOICE,), [0]),
        (np.random.default_rng(1).integers(0, 255, (40, 60, 3), np.uint8), Discrete(300), (MANY,), [7]),
        (np.zeros(0), MultiDiscrete([3, 3, 3]), (CHOICE, CHOICE, CHOICE), [0, 0, 0]),
        (np.zeros(3), MultiBinary(2), (CHOICE[:2], CHOICE[:2]), [0, 1]),
        (np.arange(1000), Tuple((ENDLESS, Discrete(3))), (AMOUNTS, CHOICE), [0.1, 2.0, 0]),
        (np.int64(3), Box(-1, 1, (30,)), (Normal(torch.zeros(30), torch.ones(30)),), [0.0] * 30),
    ],
    ids=["numbers", "picture", "nothing", "bits", "many", "one"],
)
def test_every_kind_of_thought_is_drawn_within_the_panel(observation, space, parts, action):
    values = np.sin(np.arange(40))
    traces = [
        PolicyTrace(np.asarray(observation), value, parts, np.array(action), index % 9 == 0)
        for index, value in enumerate(values)
    ]
    screen = Screen(PANEL_WIDTH + 100, PANEL_MIN_HEIGHT, "panel", False)
    try:
        panel = SidePanel(space, {0: "stay"})
        frames = []
        for progress in (0.0, 0.9):
            screen.begin()
            panel.draw(screen, 100, PANEL_MIN_HEIGHT, traces, progress)
            frames.append(screen.frame().astype(int))
            screen.end()
    finally:
        screen.close()
    assert (frames[0][:, :99] == frames[0][0, 0]).all()  # nothing beside it
    assert frames[0][:, 100:].std() > 10 and abs(frames[0] - frames[1]).max() > 30  # and the curve moves


@pytest.mark.parametrize("values", [[0.0] * 9, [50.0] * 9, [-3.0, 7.0] * 9, [1e-9, 2e-9] * 9, [np.nan] * 9])
def test_a_curve_has_room_above_and_below(values):
    class Drawn:
        """Stands in for a screen."""

        def text_width(self, text, size):
            return 8 * len(text)

        def text(self, text, x, y, size, color):
            pass

        def rectangle(self, *place):
            pass

        def line(self, points, color):
            self.heights = points[:, 1]

    drawn = Drawn()
    traces = [PolicyTrace(np.zeros(1), value, (CHOICE,), np.zeros(1), False) for value in values]
    SidePanel(Discrete(3), {}).draw(drawn, 0, PANEL_MIN_HEIGHT, traces, 1.0)
    assert 180 < drawn.heights.min() <= drawn.heights.max() < PANEL_MIN_HEIGHT - 20
    assert (drawn.heights.max() - drawn.heights.min() > 100) == (-3.0 in values)
