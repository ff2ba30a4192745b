"""The update by kernels is that of torch: the draw of a minibatch, the loss, its gradient, and a whole training."""

import dataclasses
import functools

import pytest
import torch
from emulated_cuda import needs_emulator, on_emulator  # noqa: F401 - a fixture
from recorded_capture import FakeCapture
from torch import nn

from pufferlib import ocean, pufferl, vector
from pufferlib.extensions import cuda_library, ppo
from pufferlib.fast import device_update
from pufferlib.fast.device_update import DeviceGradients, DeviceMinibatches
from pufferlib.fast.learners import CapturedLearner
from pufferlib.models import Continuous, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.ppo.advantages import importance_weights, inclusion_probabilities, mask_weights, segment_probabilities
from pufferlib.ppo.learner import Gradients

pytestmark = needs_emulator


@pytest.fixture(autouse=True)
def kernels(on_emulator, monkeypatch):  # noqa: F811
    """Has the kernels be there."""
    monkeypatch.setattr(ppo, "has_kernels", lambda device: True)
    return on_emulator


def make_trainer(folder, name="puffer_breakout", make_policy=None, **settings):
    args = pufferl.load_config(name)
    args["env"]["num_envs"] = 16
    defaults = {"device": "cpu", "bptt_horizon": 16, "minibatch_size": 128, "fused": False, "num_minibatches": 1}
    args["train"].update(data_dir=str(folder), **{**defaults, **settings})
    vecenv = vector.make(ocean.env_class(name), env_kwargs={"num_envs": 16}, backend="Serial", seed=1)
    torch.manual_seed(0)
    policy = pufferl.load_policy(args, vecenv, name) if make_policy is None else make_policy(vecenv.driver_env)
    return pufferl.PuffeRL(args["train"], vecenv, policy)


def wrapped(wrapper):
    return lambda env: wrapper(env, Default(env, 16), 16, 16)


class TwoDeviations(Default):
    """A policy of numbers whose deviations depend on the observation, which is left to torch."""

    def decode_actions(self, hidden):
        normal, values = super().decode_actions(hidden)
        return torch.distributions.Normal(normal.mean, normal.stddev * hidden.sigmoid().mean(-1, keepdim=True)), values


CASES = {
    "choices": ("puffer_breakout", lambda env: Default(env, 16)),
    "parts": ("puffer_pacman", lambda env: Default(env, 16)),
    "MinGRU": ("puffer_breakout", wrapped(MinGRUWrapper)),
    "LSTM": ("puffer_breakout", wrapped(LSTMWrapper)),
    "numbers": ("puffer_drone", lambda env: Default(env, 16)),
    "numbers apart": ("puffer_drone", lambda env: Continuous(env)),
    "deviations": ("puffer_drone", lambda env: TwoDeviations(env, 16)),
    "both": ("puffer_spaces", lambda env: Default(env, 16)),
}


@pytest.mark.quick("True")
@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_minibatch_has_the_gradients_that_torch_finds(case, is_full, tmp_path, kernels):
    trainer = make_trainer(tmp_path, *CASES[case], max_minibatch_size=64)  # two parts
    trainer.evaluate()
    for parameter in trainer.policy.parameters():  # so that ratios leave 1 and values their clip
        parameter.data += 0.3 * torch.randn_like(parameter)
    config = dataclasses.replace(trainer.config, vf_clip_coef=0.5, ent_coef=0.1)
    learner, found = trainer._learner, []
    learner.prepare()
    learner._minibatches.begin(0.5, True)
    minibatch = learner._minibatches.draw().ready_for_loss(True)
    if not is_full:
        weights = mask_weights(torch.rand(minibatch.returns.shape) < 0.7)
        minibatch = dataclasses.replace(minibatch, weights=weights)
    for kind in (Gradients, DeviceGradients):
        trainer.rollout.values.zero_(), trainer.rollout.ratios.fill_(1.0)
        gradients = kind(trainer.policy, trainer.rollout, config)
        metrics = gradients.differentiate(minibatch)
        results = [metrics, trainer.rollout.values, trainer.rollout.ratios]
        found.append([each.clone() for each in (*results, *(parameter.grad for parameter in gradients.parameters))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5 * float(one.abs().max()) + 1e-7)
    launched = [] if case in ("deviations", "both") else 2 * ["puffer_ppo_choices"]
    assert [each for each in kernels if "ppo" in each] == (
        2 * ["puffer_ppo_numbers"] if case.startswith("numbers") else launched
    )


def test_the_logits_and_values_of_one_layer_are_not_copied():
    layer = nn.Linear(8, 4)
    flat, steps = layer(torch.randn(6, 8)), layer(torch.randn(2, 3, 8))
    assert device_update.joined([flat[:, :-1]], flat[:, -1], 6) is flat
    parts = steps[..., :-1].split([1, 2], -1)
    assert device_update.joined(parts, steps[..., -1], 6).data_ptr() == steps.data_ptr()
    assert device_update.joined(parts[::-1], steps[..., -1], 6).data_ptr() != steps.data_ptr()
    turned = steps.transpose(0, 1)
    copied = device_update.joined([turned[..., :-1]], turned[..., -1], 6)
    torch.testing.assert_close(copied, turned.reshape(6, 4))


def make_minibatches(tmp_path, segments=16, minibatch_segments=5, **settings):
    trainer = make_trainer(tmp_path, minibatch_size=16 * minibatch_segments, **settings)
    trainer.evaluate()
    learner = trainer._learner
    learner.prepare()
    minibatches = DeviceMinibatches(trainer.rollout, learner._advantages, torch.Generator().manual_seed(3))
    learner._advantages._rewards.copy_(torch.randn(learner._advantages._rewards.shape))
    minibatches.begin(0.5, True)
    return minibatches


def test_an_edit_of_the_draw_takes_effect(tmp_path, kernels, monkeypatch):
    minibatches = make_minibatches(tmp_path)
    monkeypatch.setattr(device_update, "stale_files", lambda: ("ppo/advantages.py",))
    monkeypatch.setattr("pufferlib.ppo.advantages.draw_segments", lambda *arguments: torch.arange(5))
    assert minibatches.draw_ready().rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.quick("0.8-True", "20.0-False")
@pytest.mark.parametrize("norm_adv", [True, False])
@pytest.mark.parametrize("prio_alpha", [0.0, 0.8, 20.0])
def test_a_minibatch_is_drawn_by_the_clocks_that_ring_first(prio_alpha, norm_adv, tmp_path, kernels):
    minibatches = make_minibatches(tmp_path, prio_alpha=prio_alpha, norm_adv=norm_adv)
    found = minibatches.draw_ready()
    advantages = minibatches._advantages.compute()
    probabilities = segment_probabilities(advantages, prio_alpha)
    noise = torch.empty(16).exponential_(generator=torch.Generator().manual_seed(3))
    rows = (noise / probabilities).topk(5, largest=False).indices.sort().values
    assert torch.equal(found.rows, rows)
    rollout = minibatches._rollout
    assert torch.equal(found.resets, minibatches._advantages.resets[rows])
    assert torch.equal(found.old_values, rollout.values[rows, :-1])
    torch.testing.assert_close(found.returns, advantages[rows] + rollout.values[rows, :-1])
    importance = None
    if prio_alpha:
        importance = importance_weights(inclusion_probabilities(probabilities, 5), rows, minibatches._beta).unsqueeze(1)
        torch.testing.assert_close(found.importance, importance, rtol=1e-3, atol=1e-5)
    plain = dataclasses.replace(found, advantages=advantages[rows], importance=importance).ready_for_loss(norm_adv)
    torch.testing.assert_close(found.advantages, plain.advantages, rtol=1e-3, atol=1e-4)
    assert kernels[-3:] == ["puffer_segments", "puffer_draw", "puffer_gather"]


@pytest.mark.quick("7-3", "3000-1700")
@pytest.mark.parametrize(("segments", "count"), [(1, 1), (7, 3), (1024, 1024), (3000, 1700)])
def test_distinct_segments_are_drawn_where_clocks_ring_together(segments, count, kernels):
    priorities, means, squares = torch.rand(3, segments)
    clocks = (4 * torch.rand(segments)).floor() * (priorities + 1e-6) / (priorities + 1e-6).sum()
    rows, moments, beta = torch.empty(count, dtype=torch.int64), torch.empty(2), torch.tensor(0.5)
    drawn = rows, None, moments, segments, count, 9
    launch = functools.partial(cuda_library.launch, "ppo", "puffer_draw", 1, (1024, 1))
    launch((priorities, means, squares, clocks, beta, *drawn))
    assert len(rows.unique()) == count and torch.equal(rows, rows.sort().values)
    left = torch.ones(segments, dtype=torch.bool)
    left[rows] = False
    assert not left.any() or clocks[rows].max() <= clocks[left].min()
    variance = (squares[rows].sum() / 9 + (means[rows] - means[rows].mean()).square().sum()) / count
    torch.testing.assert_close(moments, torch.stack([means[rows].mean(), variance.sqrt()]), rtol=1e-4, atol=1e-5)


@pytest.mark.quick("muon")
@pytest.mark.parametrize("optimizer", ["muon", "adam"])
def test_a_training_by_kernels_is_that_of_torch(optimizer, tmp_path):
    settings = {"optimizer": optimizer, "learning_rate": 0.01, "minibatch_size": 256, "update_epochs": 3}
    trainers = [make_trainer(tmp_path, adam_eps=1e-6, prio_alpha=0.0, **settings) for _ in range(2)]
    learner, capture = trainers[1]._learner, FakeCapture()
    gradients = DeviceGradients(trainers[1].policy, trainers[1].rollout, trainers[1].config)
    parts = trainers[1].rollout, gradients, learner.optimizer, trainers[1]._generator, trainers[1].phases
    trainers[1]._learner = CapturedLearner(*parts)
    trainers[1]._learner.capture = capture
    for trainer in trainers:
        for _ in range(2):
            trainer.evaluate(), trainer.train()
    assert capture.replays == 3
    for one, other in zip(*(trainer.policy.parameters() for trainer in trainers), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)
    assert trainers[0].report.losses == pytest.approx(trainers[1].report.losses, abs=1e-3, rel=1e-2)
