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
    DiscreteProbs,
    GaussianParams,
    PolicyTrace,
    SidePanel,
    as_picture,
    pooled,
    trace_of,
    value_range,
)

OBSERVATIONS = np.arange(6, dtype=np.float32).reshape(2, 3)


def decision(logits, actions):
    return Decision([slice(0, 2)], OBSERVATIONS, logits, torch.tensor([[1.5], [2.5]]), np.array(actions))


def test_a_choice_is_how_likely_each_is_and_which_was_taken():
    logits = torch.tensor([[0.0, 0.0], [0.0, np.log(3.0)]])
    trace = trace_of(decision(logits, [0, 1]), 1, Discrete(2), is_first=True)
    (choice,) = trace.actions
    assert choice.taken == 1 and choice.probabilities == pytest.approx([0.25, 0.75])
    assert (trace.value, trace.is_first) == (2.5, True) and trace.observation.tolist() == [3, 4, 5]


def test_a_thought_outlives_the_decision():
    trace = trace_of(decision(torch.zeros(2, 2), [0, 1]), 0, Discrete(2), is_first=False)
    OBSERVATIONS[0] += 1
    assert trace.observation.tolist() == [0, 1, 2]
    OBSERVATIONS[0] -= 1


def test_several_choices_come_in_their_order():
    logits = (torch.zeros(2, 3), torch.zeros(2, 2))
    parts = trace_of(decision(logits, [[2, 1], [0, 0]]), 0, MultiDiscrete([3, 2]), is_first=False).actions
    assert [(len(part.probabilities), part.taken) for part in parts] == [(3, 2), (2, 1)]


def test_bits_are_choices_of_two():
    logits = (torch.zeros(2, 2), torch.zeros(2, 2))
    parts = trace_of(decision(logits, [[1, 0], [0, 0]]), 0, MultiBinary(2), is_first=False).actions
    assert [(len(part.probabilities), part.taken) for part in parts] == [(2, 1), (2, 0)]


def test_numbers_have_a_mean_a_deviation_and_a_range():
    space = Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32))
    logits = Normal(torch.tensor([[0.1, 2.0], [0.2, 3.0]]), torch.tensor([0.5, 0.25]))
    (amounts,) = trace_of(decision(logits, [[0.3, 2.5], [0.0, 0.0]]), 0, space, is_first=False).actions
    assert amounts.means == pytest.approx([0.1, 2.0]) and amounts.deviations == pytest.approx([0.5, 0.25])
    assert amounts.taken.tolist() == [0.3, 2.5] and (amounts.low.tolist(), amounts.high.tolist()) == ([-1, 0], [1, 5])


def test_choices_and_numbers_mix():
    space = Tuple((Discrete(2), Box(-1, 1, (2,), np.float32)))
    logits = (torch.zeros(2, 2), Normal(torch.zeros(2, 2), torch.ones(2, 2)))
    actions = [[1.0, 0.5, -0.5], [0.0, 0.0, 0.0]]
    choice, amounts = trace_of(decision(logits, actions), 0, space, is_first=False).actions
    assert choice.taken == 1 and amounts.taken.tolist() == [0.5, -0.5]


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


@pytest.mark.parametrize("values", [[0.0], [50.0, 50.0], [-3.0, 7.0], [1e-9, 2e-9]])
def test_a_curve_has_room_above_and_below(values):
    low, high = value_range(np.array(values))
    assert low < min(values) <= max(values) < high


def thoughts_of(observation, actions):
    return [
        PolicyTrace(observation, value, actions, index % 9 == 0) for index, value in enumerate(np.sin(np.arange(40)))
    ]


CHOICE = DiscreteProbs(np.array([0.7, 0.2, 0.1]), 0)
AMOUNTS = GaussianParams(
    *(np.array(numbers) for numbers in ([0.0, 9.0], [0.5, 1.0], [0.1, 2.0], [-1, -np.inf], [1, np.inf]))
)


@pytest.mark.parametrize(
    ("observation", "actions"),
    [
        (np.array([0.5, -2.0, np.nan, np.inf]), (CHOICE,)),
        (np.random.default_rng(1).integers(0, 255, (40, 60, 3), np.uint8), (DiscreteProbs(np.full(300, 1 / 300), 7),)),
        (np.zeros(0), (CHOICE, CHOICE, CHOICE)),
        (np.arange(1000), (AMOUNTS, CHOICE)),
        (np.int64(3), (GaussianParams(*[np.zeros(30)] * 3, np.full(30, -1.0), np.ones(30)),)),
    ],
    ids=["numbers", "picture", "nothing", "many", "one"],
)
def test_every_kind_of_thought_is_drawn_within_the_panel(observation, actions):
    screen = Screen(PANEL_WIDTH + 100, PANEL_MIN_HEIGHT, "panel", False)
    try:
        panel = SidePanel(["stay"])
        frames = []
        for progress in (0.0, 0.9):
            screen.begin()
            panel.draw(screen, 100, PANEL_MIN_HEIGHT, thoughts_of(np.asarray(observation), actions), progress)
            frames.append(screen.frame().astype(int))
            screen.end()
    finally:
        screen.close()
    assert (frames[0][:, :99] == frames[0][0, 0]).all()  # nothing beside it
    assert frames[0][:, 100:].std() > 10 and abs(frames[0] - frames[1]).max() > 30  # and the curve moves
