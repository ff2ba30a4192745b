"""Actions that masks do not allow are never drawn, by torch and by the kernel."""

from __future__ import annotations

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Categorical, Normal
from traced_policies import layers_of

from pufferlib import models
from pufferlib.errors import APIUsageError
from pufferlib.extensions.network import Network
from pufferlib.ppo import sampling
from pufferlib.ppo.sampling import greedy_action, mask_logits, sample_logits

LARGEST_UNIFORM = 1.0 - 2.0**-24  # the largest float32 that torch.rand returns


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def random_masks(parts, *rows, seed=0):
    generator = stream(seed)
    masks = torch.rand(*rows, sum(parts), generator=generator) < 0.3
    for part in masks.split(parts, -1):
        part.scatter_(-1, torch.randint(0, part.shape[-1], (*rows, 1), generator=generator), True)
    return masks


def count_illegal(actions, masks, parts):
    columns = actions.view(len(actions), -1).long().unbind(-1)
    pairs = zip(masks.split(parts, -1), columns, strict=True)
    return sum(int((~mask.gather(-1, column.unsqueeze(-1))).sum()) for mask, column in pairs)


def draw(how, parts, rounds, rows):
    """Illegal actions among `rounds * rows` draws, with logits of every size."""
    illegal, space = 0, Discrete(parts[0]) if len(parts) == 1 else MultiDiscrete(parts)

    class Env:
        single_observation_space = Box(-1, 1, (4,))
        single_action_space = space

    network = Network(layers_of(models.Default(Env, hidden_size=16), Env)) if how == "kernel" else None
    for index in range(rounds):
        generator, masks = stream(index), random_masks(parts, rows, seed=index)
        noise = torch.rand(rows, len(parts), generator=generator)
        noise[: rows // 8] = LARGEST_UNIFORM if index % 2 else 0.0
        if network is None:
            logits = 10.0 ** (index % 4 - 1) * torch.randn(rows, sum(parts), generator=generator)
            logits = logits if len(parts) == 1 else logits.split(parts, -1)
            actions, logprobs, _ = sample_by(noise, logits, masks)
        else:
            observations = 10.0 ** (index % 4) * torch.randn(rows, 4, generator=generator)
            actions, logprobs = torch.empty(rows, len(parts), dtype=torch.int32), torch.empty(rows)
            network.act(observations, [], noise, actions, logprobs, torch.empty(rows), masks=masks)
        assert logprobs.isfinite().all()
        illegal += count_illegal(actions, masks, parts)
    return illegal


def sample_by(noise, logits, masks):
    """`sample_logits`, drawing by given numbers."""
    original = sampling._draw_noise
    sampling._draw_noise = lambda parts, generator: sampling._split(noise, parts)
    try:
        return sample_logits(logits, masks=masks)
    finally:
        sampling._draw_noise = original


@pytest.mark.quick("[37, 3, 2]-kernel")
@pytest.mark.parametrize("how", ["torch", "kernel"])
@pytest.mark.parametrize("parts", [[5], [37, 3, 2]], ids=str)
def test_no_illegal_action_in_a_million_draws(how, parts):
    assert draw(how, parts, rounds=10, rows=100_000 // len(parts)) == 0


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("how", ["torch", "kernel"])
def test_no_illegal_action_in_a_hundred_million_draws(how):
    assert draw(how, [7], rounds=400, rows=250_000) == 0


def test_a_draw_that_rounds_past_the_last_possible_choice_takes_one_before_it():
    """As sums by a GPU may fall by a rounding; here the mask leaves the first choice alone."""
    masks = torch.tensor([[True, False, False]])
    for noise in (0.0, 0.5, LARGEST_UNIFORM):
        actions, _, _ = sample_by(torch.full((1, 1), noise), torch.zeros(1, 3), masks)
        assert actions.tolist() == [0]


def test_a_choice_of_probability_0_is_not_drawn_where_cumulative_sums_fall(monkeypatch):
    sums = torch.tensor([[0.4, 0.4000001, 0.39999, 1.0, 1.0000001]])
    monkeypatch.setattr(torch.Tensor, "cumsum", lambda self, dim: sums)
    masks = torch.tensor([[True, False, False, True, False]])
    for noise in torch.linspace(0, 1, 101).clamp(max=LARGEST_UNIFORM).tolist() + [0.4 / 1.0000001]:
        actions, _, _ = sample_by(torch.full((1, 1), noise), torch.tensor([[0.4, 9, 9, 0.6, 9.0]]).log(), masks)
        assert actions.item() in (0, 3)


@pytest.mark.parametrize("parts", [[6], [4, 3]], ids=str)
def test_torch_and_the_kernel_draw_the_same_from_the_same_numbers(parts):
    class Env:
        single_observation_space = Box(-1, 1, (4,))
        single_action_space = Discrete(parts[0]) if len(parts) == 1 else MultiDiscrete(parts)

    policy, rows = models.Default(Env, hidden_size=32), 4_000
    observations, masks = 3 * torch.randn(rows, 4, generator=stream(1)), random_masks(parts, rows, seed=2)
    noise = torch.rand(rows, len(parts), generator=stream(3))
    actions, logprobs = torch.empty(rows, len(parts), dtype=torch.int32), torch.empty(rows)
    network = Network(layers_of(policy, Env))
    network.act(observations, [], noise, actions, logprobs, torch.empty(rows), masks=masks)
    with torch.no_grad():
        logits, _ = policy(observations)
    expected, expected_logprobs, _ = sample_by(noise, logits, masks)
    is_same = (actions == expected.view(rows, -1)).all(1)
    assert (~is_same).sum() <= 2  # where a number lies at a bound
    torch.testing.assert_close(logprobs[is_same], expected_logprobs[is_same], rtol=1e-4, atol=1e-5)


def test_probabilities_and_entropy_are_those_of_what_is_allowed():
    logits = torch.randn(50, 9, generator=stream(4)).requires_grad_()
    masks = random_masks([9], 50, seed=5)
    actions, logprobs, entropy = sample_logits(logits, generator=stream(6), masks=masks)
    for row in range(50):
        (allowed,) = masks[row].nonzero(as_tuple=True)
        truth = Categorical(logits=logits[row, allowed])
        place = (allowed == actions[row]).nonzero().squeeze(1)
        torch.testing.assert_close(logprobs[row : row + 1], truth.log_prob(place))
        torch.testing.assert_close(entropy[row], truth.entropy())
    (logprobs.sum() + entropy.sum()).backward()
    assert logits.grad.isfinite().all() and (logits.grad[~masks] == 0).all() and logits.grad[masks].any()


def test_the_greedy_action_is_the_likeliest_of_those_allowed():
    logits = torch.tensor([[1.0, 5.0, 3.0], [1.0, 5.0, 3.0]])
    masks = torch.tensor([[True, False, True], [True, True, True]])
    assert greedy_action(logits, masks).tolist() == [2, 1]


def test_masks_leave_numbers_of_a_mixed_action_alone():
    normal = Normal(torch.zeros(4, 2), torch.ones(4, 2))
    masks = torch.tensor([[True, False, False]] * 4)
    actions, logprobs, _ = sample_logits((torch.zeros(4, 3), normal), generator=stream(), masks=masks)
    assert (actions[:, 0] == 0).all() and actions[:, 1:].any() and logprobs.isfinite().all()


def test_without_masks_logits_are_the_same_object():
    logits = torch.zeros(2, 3)
    assert mask_logits(logits, None) is logits


def test_masks_of_other_choices_are_refused():
    with pytest.raises(APIUsageError, match=r"a column for each of 3 choices, got \(2, 4\)"):
        sample_logits(torch.zeros(2, 3), masks=torch.ones(2, 4, dtype=torch.bool))
