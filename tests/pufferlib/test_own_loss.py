"""A loss of a user's own, as a script of theirs has it."""

import functools

import pytest
import torch

import pufferlib
from pufferlib import PuffeRL
from pufferlib.errors import APIUsageError
from pufferlib.ppo.losses import PPOLoss, mean, ppo_loss

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SMALL = {"device": "cpu", "batch_size": 512, "num_steps": 16, "seed": 3}


def trained(**keywords):
    env = pufferlib.make("puffer_squared", num_envs=32)
    trainer = PuffeRL(env, **{**SMALL, **keywords})
    for _ in range(2):
        trainer.evaluate()
        losses = trainer.train()
    return trainer, losses


def curious_loss(*tensors, bonus=0.1, **coefficients):
    """PPO's, and a bonus on values that differ from the old ones."""
    loss = ppo_loss(*tensors, **coefficients)
    change = mean((tensors[1] - tensors[4]).square(), tensors[7])
    return PPOLoss(loss.total - bonus * change, {**loss.metrics, "change": change}, loss.ratio)


def test_a_loss_of_ones_own_is_minimised_and_its_metrics_are_logged():
    trainer, losses = trained(loss=curious_loss)
    assert losses["change"] >= 0 and trainer.mean_and_log()["losses/change"] == losses["change"]
    assert trainer.computed_by == "torch (the loss is curious_loss, one of your own)"
    assert trainer.run.describe()["computation"] == {
        "by": "torch",
        "because": "the loss is curious_loss, one of your own",
    }
    trainer.release()


def test_the_loss_of_the_library_given_as_ones_own_is_what_runs_without():
    wrapped = functools.partial(ppo_loss)
    given, without = trained(loss=wrapped)[0], trained(fused=False)[0]
    for parameter, other in zip(given.policy.parameters(), without.policy.parameters(), strict=True):
        assert torch.equal(parameter, other)


def with_metrics(metrics):
    def loss(*tensors, **coefficients):
        found = ppo_loss(*tensors, **coefficients)
        return PPOLoss(found.total, metrics(found.metrics), found.ratio)

    return loss


def test_metrics_may_be_numbers_or_none_at_all():
    as_numbers = with_metrics(lambda found: {name: metric.item() for name, metric in found.items()} | {"one": 1})
    (numbers, found), (tensors, expected) = trained(loss=as_numbers), trained(fused=False)
    assert found.pop("one") == 1.0 and found == expected
    _, losses = trained(loss=with_metrics(lambda found: {}))
    assert list(losses) == ["explained_variance"]
    for parameter, other in zip(numbers.policy.parameters(), tensors.policy.parameters(), strict=True):
        assert torch.equal(parameter, other)


def test_a_metric_of_several_numbers_is_refused():
    with pytest.raises(APIUsageError, match="a loss's metrics must be single numbers"):
        trained(loss=with_metrics(lambda found: {"several": torch.ones(3)}))


def test_a_configuration_takes_a_loss_too():
    vecenv = pufferlib.vector.make(pufferlib.ocean.env_class("puffer_squared"), env_kwargs={"num_envs": 32})
    config = {"device": "cpu", "bptt_horizon": 16, "total_timesteps": 10_000, "minibatch_size": 256}
    trainer = PuffeRL(config, vecenv, pufferlib.models.Default(vecenv.driver_env), loss=curious_loss)
    trainer.evaluate()
    assert "change" in trainer.train()
    trainer.release()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("clipped", "loss must be a function such as pufferlib.ppo.losses.ppo_loss, got str"),
        (lambda *tensors, bonus: None, "keywords of a loss must be .train. settings or have defaults, got 'bonus'"),
        (lambda *tensors, **coefficients: tensors[0].mean(), "a loss must return a PPOLoss.*, got Tensor"),
    ],
)
def test_what_is_no_loss_is_refused(loss, message):
    with pytest.raises(APIUsageError, match=message):
        trained(loss=loss)
