import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from recorded_capture import FakeCapture

from pufferlib import pufferl, vector
from pufferlib.distributed import Ranks
from pufferlib.fast.learners import (
    CapturedDistributedLearner,
    DistributedLearner,
    merge_moments,
    moments,
    normalize_across_ranks,
)
from pufferlib.ocean import env_class
from pufferlib.ppo.advantages import Minibatch, mask_weights


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=8), offset=st.floats(-1000, 1000))
@settings(deadline=None, max_examples=40)
def test_moments_of_parts_are_those_of_the_whole(sizes, offset):
    random = torch.Generator().manual_seed(sum(sizes))
    parts = [offset * (index + 1) + torch.randn(50, generator=random) for index in range(len(sizes))]
    weights = [(torch.arange(50) < size) * (50 / max(size, 1)) for size in sizes]
    found = merge_moments(torch.stack([moments(*part) for part in zip(parts, weights, strict=True)]))
    whole = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).double()
    if not len(whole):
        assert found.tolist() == [0, 0, 0]
        return
    expected = [len(whole), whole.mean(), whole.var(correction=0)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * (1 + offset**2))


def test_moments_of_a_single_part_are_its_own():
    own = moments(3 + torch.randn(7, 9), None)
    assert torch.equal(merge_moments(own.unsqueeze(0)), own)


@pytest.mark.parametrize("norm_adv", [True, False])
@pytest.mark.parametrize("is_full", [True, False])
def test_eight_shares_of_a_minibatch_are_the_whole(is_full, norm_adv):
    random = torch.Generator().manual_seed(3)
    advantages = torch.randn(8, 8, generator=random) * torch.arange(8).exp2().unsqueeze(1)
    masks = torch.rand(8, 8, generator=random) < torch.linspace(0, 1, 8).unsqueeze(1)  # nobody in the first one
    importance = torch.rand(8, 1, generator=random)

    def share(rows):
        weights = None if is_full else mask_weights(masks[rows])
        others = advantages[rows], advantages[rows], advantages[rows], importance[rows]
        return Minibatch(torch.arange(len(rows)), masks[rows], *others, weights)

    whole = share(torch.arange(8)).ready_for_loss(norm_adv)
    shares = [share(torch.tensor([row])) for row in range(8)]
    is_told = norm_adv or not is_full
    payload = [moments(one.advantages, one.weights) if is_told else torch.empty(0) for one in shares]
    found = [normalize_across_ranks(one, torch.stack(payload), rank, norm_adv) for rank, one in enumerate(shares)]
    torch.testing.assert_close(torch.cat([one.advantages for one in found]), whole.advantages)
    if is_full:
        assert all(one.weights is None for one in found)
    else:
        torch.testing.assert_close(torch.cat([one.weights for one in found]), whole.weights)


class OtherRank(Ranks):
    """This process and one whose gradients are a third of this one's, and which has nothing else to say."""

    def __init__(self):
        super().__init__(rank=0, world_size=2)
        self.sums = 0

    def start_sum(self, tensor):
        self.sums += 1
        return lambda: tensor.mul_(4 / 3)

    def gather_numbers(self, numbers):
        return torch.stack([numbers, torch.zeros_like(numbers)])


def make_trainer(folder, **settings):
    args = pufferl.load_config("puffer_breakout")
    defaults = {"device": "cpu", "bptt_horizon": 16, "minibatch_size": 64, "fused": False}
    args["train"].update(data_dir=str(folder), **{**defaults, **settings})
    vecenv = vector.make(env_class("puffer_breakout"), env_kwargs={"num_envs": 16}, backend="Serial", seed=1)
    return pufferl.PuffeRL(args["train"], vecenv, pufferl.load_policy(args, vecenv, "puffer_breakout"))


@pytest.mark.quick("muon-True", "adam-False")
@pytest.mark.parametrize("norm_adv", [True, False])
@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_graphs_around_the_message_train_as_without(optimizer, norm_adv, tmp_path):
    captures, found = [], []
    for kind in (DistributedLearner, CapturedDistributedLearner):
        settings = {"optimizer": optimizer, "learning_rate": 0.01, "adam_eps": 1e-6, "norm_adv": norm_adv}
        trainer = make_trainer(tmp_path, update_epochs=1.25, **settings)
        learner, ranks = trainer._learner, OtherRank()
        parts = trainer.rollout, learner.gradients, learner.optimizer, trainer._generator, trainer.phases
        trainer._learner = kind(*parts, ranks)
        if kind is CapturedDistributedLearner:
            trainer._learner.capture = FakeCapture()
            captures.append(trainer._learner.capture)
        for _ in range(5):
            trainer.evaluate(), trainer.train()
        found.append([*trainer.policy.parameters(), torch.tensor(list(trainer.report.losses.values()))])
        assert ranks.sums == 5 * 5
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    # Past three calls of each part: the first draw and the last minibatch of an iteration, and the minibatches between.
    assert len(captures[0].captured) == 5 and captures[0].replays == 2 + 2 * 2 + 2 * (4 * 5 - 3)
