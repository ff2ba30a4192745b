"""What is not finite ends the training in one sentence that names what came first."""

import math

import numpy as np
import pytest
import torch
from breaking import AGENTS, HORIZON, make_trainer, train
from command import run
from gymnasium.spaces import Box
from torch import nn
from torch.distributions import Normal

from pufferlib.errors import DivergedError
from pufferlib.metrics import finite
from pufferlib.models import Default, LSTMWrapper

pytestmark = pytest.mark.usefixtures("in_tmp_path")


class CustomPolicy(nn.Module):
    """As users write them: torch's own checks of a Normal raise for NaN."""

    def __init__(self, env):
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, observations, state=None):
        mean = self.head(observations)
        return Normal(mean, torch.ones_like(mean)), mean.squeeze(-1)


class NumbPolicy(Default):
    """Makes zeros of what it cannot see."""

    def forward(self, observations, state=None):
        return super().forward(observations.nan_to_num(0.0), state)


# --- what the environment gives


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("what", ["reward", "observation"])
@pytest.mark.parametrize(
    ("step", "batch", "place"),
    [(13, 1, "step 5 of the rollout"), (16, 1, "step 8 of the rollout"), (13, 2, "step 13 of the rollout")],
    ids=["within", "at the last step", "in a later group of segments"],
)
def test_the_first_number_that_is_none_is_named(what, is_fused, step, batch, place):
    trainer = make_trainer({"what": what, "step": step}, fused=is_fused, batch_size=AGENTS * HORIZON * batch)
    before = (step - 1) // (HORIZON * batch) * HORIZON * batch * AGENTS
    expected = rf"the {what} of agent 2 \(environment 0\) at {place} is nan, which began after {before} agent steps"
    with pytest.raises(DivergedError, match=f"^{expected}.*look at what the environment's step"):
        train(trainer)
    assert all(parameter.isfinite().all() for parameter in trainer.policy.parameters())


def test_of_a_reward_and_an_observation_of_one_step_the_reward_is_named():
    with pytest.raises(DivergedError, match=r"the reward of agent 2 \(environment 0\) at step 5"):
        train(make_trainer({"what": "both"}))


@pytest.mark.parametrize("value", [math.inf, -math.inf])
@pytest.mark.parametrize("settings", [{"reward_clip": 1.0}, {"reward_clip": 0.0}, {"normalize_rewards": True}])
def test_an_infinite_reward_is_named_before_it_is_scaled_or_clipped(value, settings):
    trainer = make_trainer({"value": value}, **settings)
    with pytest.raises(
        DivergedError, match=rf"the reward of agent 2 \(environment 0\) at step 5 of the rollout is {value}"
    ):
        train(trainer)
    if settings.get("normalize_rewards"):
        assert math.isfinite(trainer._collector.reward_normalizer.moments.variance)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_statistics_of_observations_stay_finite(value):
    trainer = make_trainer({"what": "observation", "value": value}, normalize_observations=True)
    with pytest.raises(
        DivergedError, match=rf"the observation of agent 2 \(environment 0\) at step 5 of the rollout is {value}"
    ):
        train(trainer)
    assert all(tensor.isfinite().all() for tensor in trainer.policy.state_dict().values())


@pytest.mark.parametrize("step", [13, 16])
def test_a_policy_of_ones_own_that_raises_anything_is_explained(step):
    numbers = Box(-1, 1, (1,), np.float32)
    trainer = make_trainer({"what": "observation", "action_space": numbers, "step": step}, CustomPolicy)
    with pytest.raises(
        DivergedError, match=rf"the observation of agent 2 \(environment 0\) at step {step - 8}"
    ) as raised:
        train(trainer)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_policy_may_take_observations_that_are_nan():
    trainer = make_trainer({"what": "observation"}, lambda env: NumbPolicy(env, 16))
    train(trainer)
    assert trainer.epoch == 8


def test_an_error_of_a_policy_on_finite_numbers_stays_what_it_is():
    trainer = make_trainer()
    trainer._collector.actor.act = lambda rows, column: [][0]
    with pytest.raises(IndexError):
        trainer.evaluate()


# --- what learning makes of it


@pytest.mark.parametrize("is_fused", [True, False])
@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_a_learning_rate_that_is_too_high_is_to_blame(is_fused, optimizer):
    trainer = make_trainer(learning_rate=1e38, anneal_lr=False, fused=is_fused, optimizer=optimizer)
    with pytest.raises(DivergedError, match=r"lower \[train\] learning_rate"):
        train(trainer)


def test_an_update_that_leaves_a_weight_nan_says_which():
    trainer = make_trainer()
    trainer.evaluate()
    step = trainer._learner.optimizer.step

    def ruin():
        step()
        with torch.no_grad():
            next(trainer.policy.parameters())[0, 0] = math.nan

    trainer._learner.optimizer.step = ruin
    name = next(iter(dict(trainer.policy.named_parameters())))
    with pytest.raises(DivergedError, match=rf"the weight '{name}' is nan after an update .* which was "):
        trainer.train()
    assert trainer.epoch == 0 and trainer.run.model_path is None


def test_weights_that_are_broken_between_updates_are_named():
    trainer = make_trainer()
    train(trainer, 1)
    with torch.no_grad():
        list(trainer.policy.parameters())[-1].fill_(math.nan)
    with pytest.raises(DivergedError, match="^the weight '.*' is nan"):
        trainer.evaluate()


def test_logits_that_are_nan_by_themselves_are_told_apart():
    class Undecided(Default):
        def forward(self, observations, state=None):
            logits, values = super().forward(observations, state)
            return logits * torch.nan, values

    with pytest.raises(DivergedError, match="logits contain NaN, from finite observations and weights, the largest"):
        make_trainer(policy=lambda env: Undecided(env, 16)).evaluate()


class Blast(nn.Module):
    """Overflows."""

    def forward(self, inputs):
        return inputs * 1e38 * 1e38


@pytest.mark.parametrize("is_recurrent", [True, False])
def test_the_layer_that_is_the_first_to_give_such_numbers_is_named(is_recurrent):
    def make_policy(env):
        policy = Default(env, 16)
        policy.encoder = nn.Sequential(policy.encoder, Blast(), nn.Identity())
        return LSTMWrapper(env, policy, 16, 16) if is_recurrent else policy

    name = "policy.encoder.1" if is_recurrent else "encoder.1"
    with pytest.raises(DivergedError, match=rf"NaN, first in its layer '{name}' \(Blast\), from finite observations"):
        train(make_trainer(policy=make_policy))


def test_the_environment_of_an_agent_is_named():
    rewards, observations = torch.zeros(9, 6), torch.zeros(8, 6, 3)
    rewards[3, 5] = math.inf
    found = finite.find_first(rewards, observations, observations[0], 0, agents_per_env=2)
    assert found.startswith("the reward of agent 5 (environment 2) at step 3 of the rollout is inf")


@pytest.mark.parametrize("name", ["values", "logprobs"])
def test_values_that_are_not_finite_are_not_learned_from(name):
    trainer = make_trainer()
    act = trainer._collector.actor.act

    def ruin(rows, column):
        actions = act(rows, column)
        getattr(trainer.rollout, name)[1, column] = math.inf
        return actions

    trainer._collector.actor.act = ruin
    with pytest.raises(DivergedError, match="values or log-probabilities are not finite"):
        trainer.evaluate()


# --- the pieces


def test_sums_that_overflow_are_no_reason_to_stop():
    assert finite.is_finite(torch.full((4,), 3e38)) and finite.is_finite(torch.tensor([1, 2]))
    assert not finite.is_finite(torch.tensor([math.inf, -math.inf]))
    policy = nn.Linear(2, 2)
    with torch.no_grad():
        policy.weight.fill_(3e38)
    assert finite.describe_update({"policy_loss": 0.0, "approx_kl": math.inf}, math.inf, policy, 0.1) is None


def test_masks_of_minus_infinity_are_no_broken_weights():
    policy = nn.Linear(2, 2)
    policy.register_buffer("mask", torch.tensor([0.0, -math.inf]))
    assert finite.find_weight(policy) is None
    policy.mask[0] = math.nan
    assert "'mask' is nan" in finite.find_weight(policy)


# --- the command line

MODULE = """
import gymnasium
import numpy as np

class Breaking(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), float("nan") if self.steps == 70 else 0.0, False, False, {}

gymnasium.register("Breaking-v0", entry_point=Breaking)
"""
SIZES = ["--train.bptt-horizon", 64, "--train.minibatch-size", 64, "--train.device", "cpu"]


@pytest.mark.slow
def test_a_reward_that_is_nan_is_one_sentence_of_the_command_line(tmp_path, monkeypatch):
    (tmp_path / "breaking_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    few = ["--vec.backend", "Serial", "--vec.num-envs", 1, "--train.batch-size", 64]
    code, stderr = run(tmp_path, "train", "breaking_envs:Breaking-v0", *few, *SIZES)
    assert code == 2
    assert "puffer: the reward of agent 0 (environment 0) at step 6 of the rollout is nan, which began" in stderr
    assert "Traceback" not in stderr


def test_a_learning_rate_of_a_billion_is_one_sentence_of_the_command_line(tmp_path):
    few = ["--env.num-envs", 4, "--train.batch-size", 256, "--train.total-timesteps", 10_000]
    code, stderr = run(tmp_path, "train", "puffer_squared", *few, *SIZES, "--train.learning-rate", 1e9)
    assert code == 2
    assert stderr.count("\n") == 1 and "lower [train] learning_rate" in stderr
