import numpy as np
import pytest
import torch
from torch import nn
from tracking_env import TrackingEnv

from pufferlib.config import TrainConfig, resolve_sizes
from pufferlib.ppo.advantages import Advantages, SegmentMinibatches, StepMinibatches, bootstrap_truncations
from pufferlib.ppo.learner import Gradients
from pufferlib.ppo.rollout import FinalValues, Rollout

CPU = torch.device("cpu")
SEGMENTS, HORIZON = 4, 6


def filled_rollout(seed=0):
    env = TrackingEnv()
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, SEGMENTS, HORIZON, {}, CPU, CPU)
    torch.manual_seed(seed)
    for name in ("actions", "logprobs", "values", "rewards"):
        getattr(rollout, name).normal_()
    rollout.by_column.normal_()
    return rollout


def config(**settings):
    given = {"shuffle": "steps", "prio_alpha": 0.0, "bptt_horizon": HORIZON, "minibatch_size": 8, **settings}
    return resolve_sizes(TrainConfig(**given), SEGMENTS, "cpu")


def test_observations_are_gathered_in_the_order_of_rows_and_time():
    rollout = filled_rollout()
    gradients = Gradients(nn.Linear(1, 1), rollout, config())
    for rows in ([3, 0, 2], [1], [0, 1, 2, 3]):
        assert torch.equal(gradients.gather_observations(torch.tensor(rows)), rollout.observations[rows])


def step_minibatches(rollout, **settings):
    steps, resolved = rollout.single_steps(), config(**settings)
    advantages = Advantages(rollout, resolved)
    advantages.load()
    minibatches = StepMinibatches(rollout, steps, advantages, torch.Generator().manual_seed(1))
    return minibatches, steps, advantages


def test_a_step_is_the_same_in_every_array():
    rollout = filled_rollout()
    minibatches, steps, advantages = step_minibatches(rollout, norm_adv=False)
    minibatches.begin(0.0, True)
    minibatch = minibatches.draw()
    found = advantages.compute()
    for place, row in enumerate(minibatch.rows.tolist()):
        step, segment = divmod(row, SEGMENTS)
        assert torch.equal(steps.observations[row, 0], rollout.observations[segment, step])
        assert torch.equal(steps.actions[row, 0], rollout.actions[segment, step])
        assert steps.logprobs[row, 0] == rollout.logprobs[segment, step]
        assert minibatch.old_values[place, 0] == rollout.values[segment, step]
        assert minibatch.advantages[place, 0] == found[segment, step]
        assert minibatch.returns[place, 0] == found[segment, step] + rollout.values[segment, step]


def test_every_pass_goes_through_all_steps_once_in_another_order():
    minibatches, _, _ = step_minibatches(filled_rollout())
    minibatches.begin(0.0, True)
    passes = [torch.cat([minibatches.draw().rows for _ in range(3)]).tolist() for _ in range(2)]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(SEGMENTS * HORIZON))
    assert passes[0] != passes[1]


def test_what_is_learned_is_fixed_when_the_rollout_is_taken():
    rollout = filled_rollout()
    minibatches, steps, _ = step_minibatches(rollout)
    minibatches.begin(0.0, True)
    first = {row: value for minibatch in [minibatches.draw() for _ in range(3)] for row, value in by_row(minibatch)}
    steps.values.fill_(7.0)  # as training does, which writes what it found
    second = {row: value for minibatch in [minibatches.draw() for _ in range(3)] for row, value in by_row(minibatch)}
    assert first == second


def by_row(minibatch):
    learned = zip(minibatch.returns.flatten().tolist(), minibatch.old_values.flatten().tolist(), strict=True)
    return zip(minibatch.rows.tolist(), learned, strict=True)


@pytest.mark.parametrize("norm_adv", [True, False])
def test_advantages_are_normalised_within_a_minibatch_where_asked(norm_adv):
    minibatches, _, _ = step_minibatches(filled_rollout(), norm_adv=norm_adv)
    minibatches.begin(0.0, True)
    normalized = minibatches.draw().ready_for_loss(norm_adv).advantages
    is_normal = abs(normalized.mean()) < 1e-6 and abs(normalized.std(correction=0) - 1) < 1e-4
    assert is_normal == norm_adv


def test_absent_agents_weigh_nothing():
    rollout = filled_rollout()
    rollout.masks[1] = False
    minibatches, _, _ = step_minibatches(rollout)
    minibatches.begin(0.0, False)
    minibatch = minibatches.draw()
    is_absent = minibatch.rows % SEGMENTS == 1
    assert is_absent.any() and (minibatch.weights[is_absent] == 0).all()
    torch.testing.assert_close(minibatch.weights.mean(), torch.tensor(1.0))


# --- segments


def segment_minibatches(advantages, size, **settings):
    """Draws segments of one step that have these advantages, with beta 1."""
    env, count = TrackingEnv(), len(advantages)
    rollout = Rollout.allocate(env.single_observation_space, env.single_action_space, count, 1, {}, CPU, CPU)
    rollout.rewards[:, 1] = advantages
    rollout.terminals[:, 1] = True
    given = {"prio_beta0": 1.0, "norm_adv": False, **settings}
    resolved = resolve_sizes(
        TrainConfig(bptt_horizon=1, minibatch_size=size, total_timesteps=10**6, **given), count, "cpu"
    )
    computed = Advantages(rollout, resolved)
    computed.load()
    minibatches = SegmentMinibatches(rollout, computed, torch.Generator().manual_seed(2))
    minibatches.begin(0.5, True)
    return minibatches


@pytest.mark.slow
@pytest.mark.parametrize("share", [1 / 16, 1 / 2, 15 / 16, 1])
def test_a_mean_that_goes_with_the_priorities_is_unbiased_however_many_are_drawn(share):
    advantages = torch.from_numpy(np.random.default_rng(0).lognormal(size=128)).float()
    minibatches = segment_minibatches(advantages, int(128 * share), prio_alpha=0.8)
    means = [minibatches.draw().ready_for_loss(False).advantages.mean() / advantages.mean() for _ in range(1500)]
    assert np.mean(means) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("prio_alpha", "size"), [(0.8, 16), (0.0, 4)])
def test_segments_weigh_the_same_where_all_are_drawn_or_all_as_likely(prio_alpha, size):
    advantages = torch.from_numpy(np.random.default_rng(0).lognormal(size=16)).float()
    minibatch = segment_minibatches(advantages, size, prio_alpha=prio_alpha).draw().ready_for_loss(False)
    assert torch.equal(minibatch.advantages[:, 0], advantages[minibatch.rows])


# --- advantages


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("truncation_bootstrap", [True, False])
def test_a_truncated_step_counts_the_value_of_what_came_after_it(is_known, truncation_bootstrap):
    rollout = filled_rollout()
    rollout.truncations[2, 4] = True
    if is_known:
        rollout.finals = FinalValues(torch.tensor([2]), torch.tensor([4]), torch.tensor([0.7]))
    advantages = Advantages(rollout, config(truncation_bootstrap=truncation_bootstrap, gamma=0.9))
    advantages.load()
    value = 0.7 if is_known else float(rollout.values[2, 3])
    expected = rollout.rewards[2, 4] + 0.9 * value * truncation_bootstrap - rollout.values[2, 3]
    np.testing.assert_allclose(float(advantages.compute()[2, 3]), float(expected), rtol=1e-5)


def test_a_known_final_value_is_forgotten_with_its_rollout():
    rollout = filled_rollout()
    advantages = Advantages(rollout, config())
    advantages.load()
    plain = advantages.compute().clone()
    rollout.finals = FinalValues(torch.tensor([2]), torch.tensor([4]), torch.tensor([0.7]))
    advantages.load()
    assert not torch.equal(advantages.compute(), plain)
    rollout.finals = None
    advantages.load()
    assert torch.equal(advantages.compute(), plain)


def test_a_truncated_step_gains_the_discounted_value_of_the_observation_acted_on():
    values = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    rewards = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    cuts = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    found = bootstrap_truncations(rewards, values, cuts, 0.5, out=torch.full_like(rewards, 9.0))
    # Column 0 is of an action of the rollout before.
    torch.testing.assert_close(found, torch.tensor([[9.0, 0.2 + 0.5 * 1.0, 0.3, 0.4]]))
    torch.testing.assert_close(rewards, torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
