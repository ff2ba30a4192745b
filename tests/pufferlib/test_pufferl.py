import copy
import json
import math
import re
import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from scripted import ScriptedEnv
from scripted_policies import CountingPolicy, LinearPolicy
from torch import nn
from trained import weights

from pufferlib import pufferl, vector
from pufferlib.config import TrainConfig
from pufferlib.environment import PufferEnv
from pufferlib.errors import APIUsageError, ConfigError, DivergedError, PufferWarning
from pufferlib.extensions.optimizers import Adam, Muon, Sgd
from pufferlib.fast.cpu import NetworkGradients, ThreadedGradients
from pufferlib.loggers.logger import NoLogger
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.ocean import env_class
from pufferlib.ppo import losses
from pufferlib.ppo.sampling import sample_logits

pytestmark = pytest.mark.usefixtures("in_tmp_path")


class GuessEnv(PufferEnv):
    """Pays for repeating the number that is shown."""

    def __init__(self, action_space=None, buf=None, seed=0):
        self.single_observation_space = Box(0, 1, (3,), np.float32)
        self.single_action_space = action_space or Discrete(3)
        self.num_agents = 16
        super().__init__(buf)
        self.random = np.random.default_rng(seed)

    def reset(self, seed=None):
        self.show()
        return self.observations, []

    def show(self):
        self.numbers = self.random.integers(0, 3, self.num_agents)
        self.observations[:] = np.eye(3)[self.numbers]

    def step(self, actions):
        guesses = actions if actions.ndim == 1 else actions[:, 0]
        self.rewards[:] = np.round(guesses) == self.numbers
        self.terminals[:] = True
        self.show()
        infos = [{"score": float(self.rewards.mean()), "n": self.num_agents}]
        return self.observations, self.rewards, self.terminals, self.truncations, infos


class Recorder(NoLogger):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__("recorded")
        self.logs = []
        self.closed_with = []

    def log(self, metrics, step):
        self.logs.append((step, dict(metrics)))

    def close(self, model_path=None):
        self.closed_with.append(model_path)


def config(**settings):
    return {"device": "cpu", "bptt_horizon": 8, "total_timesteps": 8 * 16 * 10, "log_interval": 1, **settings}


def arguments(env_name, **settings):
    """What `load_config` returns, with the general defaults in place of the environment's own recipe."""
    args = pufferl.load_config(env_name)
    defaults = {name: setting.default for name, setting in TrainConfig.settings().items()}
    return {**args, "policy": {"hidden_size": 32}, "train": {**defaults, **config(**settings)}}


def guess_trainer(policy=None, logger=None, action_space=None, **settings):
    vecenv = vector.make(GuessEnv, env_kwargs={"action_space": action_space}, backend="Serial")
    torch.manual_seed(0)
    policy = policy or Default(vecenv.driver_env, 16)
    return pufferl.PuffeRL(config(**settings), vecenv, policy, logger)


def scripted_trainer(policy, has_absent_agents=False, loss=None, **settings):
    kwargs = [{"index": i, "agents": 4, "has_absent_agents": has_absent_agents} for i in range(4)]
    vecenv = vector.make(ScriptedEnv, env_kwargs=kwargs, num_envs=4, backend="Serial")
    return pufferl.PuffeRL(config(**settings), vecenv, policy, loss=loss)


def run(trainer, epochs):
    logs = []
    for _ in range(epochs):
        trainer.evaluate()
        logs.append(trainer.train())
    return logs


# --- calls of users


def test_the_train_section_alone_is_a_configuration():
    trainer = guess_trainer()
    run(trainer, 1)
    assert trainer.close().startswith("experiments/guessenv_")


@pytest.mark.quick("recurrent")
@pytest.mark.parametrize("settings", [{}, {"rnn_name": None}], ids=["recurrent", "not recurrent"])
def test_train_returns_the_logs_of_the_last_four_fifths(settings, capsys):
    args = {**pufferl.load_config("puffer_breakout"), **settings}
    args["env"]["num_envs"] = 4
    args["train"].update(device="cpu", total_timesteps=4 * 8 * 10, bptt_horizon=8, log_interval=1, minibatch_size=32)
    logs = pufferl.train("puffer_breakout", args)
    assert [log["epoch"] for log in logs] == list(range(2, 11))
    assert all(log["agent_steps"] == 32 * log["epoch"] for log in logs)
    assert "saved experiments/puffer_breakout_" in capsys.readouterr().out


def test_train_takes_the_users_vector_policy_and_logger():
    args = arguments("puffer_squared", num_iterations=3)
    vecenv, logger = vector.make(GuessEnv, backend="Serial"), Recorder()
    policy = Default(vecenv.driver_env, 8)
    before = weights(policy)
    pufferl.train("puffer_squared", args, vecenv, policy, logger)
    assert (weights(policy) != before).any()
    assert [step for step, _ in logger.logs] == [128, 256, 384]
    assert len(logger.closed_with) == 1 and logger.closed_with[0].endswith("_000003.pt")


# --- learning


@pytest.mark.quick("discrete")
@pytest.mark.parametrize(
    ("action_space", "expected"),
    [(None, 0.95), (MultiDiscrete([3, 2]), 0.95), (Box(-1.0, 3.0, (1,)), 0.6)],
    ids=["discrete", "multidiscrete", "continuous"],
)
def test_it_learns_to_guess(action_space, expected):
    trainer = guess_trainer(action_space=action_space, total_timesteps=128 * 150, learning_rate=0.1, gamma=0.0)
    scores = []
    while trainer.epoch < trainer.total_epochs:
        scores.append(trainer.evaluate()["score"])
        trainer.train()
    trainer.close()
    assert np.mean(scores[:5]) < 0.5
    assert np.mean(scores[-10:]) > expected


@pytest.mark.slow
def test_squared_is_learnt_in_seconds(capsys):
    args = arguments(
        "puffer_squared",
        **{"total_timesteps": 128 * 32 * 30, "bptt_horizon": 32, "minibatch_size": 512},
        **{"learning_rate": 0.05, "gamma": 0.95},
    )
    args["env"].update(num_envs=128, size=5)
    logs = pufferl.train("puffer_squared", args)
    assert logs[0]["environment/perf"] < 0.7  # already better than the policy at the start
    assert logs[-1]["environment/perf"] > 0.8


def test_an_update_improves_the_surrogate():
    trainer = guess_trainer(learning_rate=1e-3, ent_coef=0.0, vf_coef=0.0, prio_alpha=0.0)
    trainer.evaluate()
    rollout, rows = trainer.rollout, torch.arange(16)
    advantages = losses.normalize(trainer._learner._advantages.compute(), None).clone()

    def surrogate():
        logits, _ = trainer.policy(rollout.observations[rows].flatten(0, 1))
        _, logprobs, _ = sample_logits(logits, action=rollout.actions[rows].flatten())
        return ((logprobs.view(16, 8) - rollout.logprobs).exp() * advantages).mean().item()

    before = surrogate()
    trainer.train()
    assert surrogate() > before + 1e-4


# --- minibatches


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"update_epochs": 1.25, "minibatch_size": 128}, [1, 2, 3, 5, 6, 7, 8, 10]),
        ({"update_epochs": 1.25, "minibatch_size": 32}, [5, 10, 15]),
        ({"update_epochs": 0.5, "minibatch_size": 128}, [0, 1, 1, 2]),
        ({"update_epochs": 0.1, "minibatch_size": 128}, [0] * 9 + [1]),
        ({"update_epochs": 4, "minibatch_size": 64}, [8, 16]),
    ],
)
def test_fractions_of_a_minibatch_are_carried_over(settings, steps):
    trainer = guess_trainer(**settings)
    count = 0

    def counted(step=trainer._learner.optimizer.step):
        nonlocal count
        count += 1
        step()

    trainer._learner.optimizer.step = counted
    for expected in steps:
        run(trainer, 1)
        assert count == expected


def test_accumulated_gradients_equal_those_of_the_whole_minibatch():
    steps = []
    for size in (128, 64, 16):
        trainer = guess_trainer(
            optimizer="sgd", adam_beta1=0.0, learning_rate=1.0, minibatch_size=128, max_minibatch_size=size
        )
        before = weights(trainer.policy)
        metrics = run(trainer, 1)[0]
        steps.append((weights(trainer.policy) - before, metrics))
    for step, metrics in steps[1:]:
        torch.testing.assert_close(step, steps[0][0], atol=1e-5, rtol=1e-5)
        assert metrics == pytest.approx(steps[0][1], abs=1e-5)
    assert steps[0][0].abs().max() > 1e-3


def test_accumulated_gradients_equal_the_whole_where_agents_are_absent():
    steps = []
    for size in (128, 32):
        policy = LinearPolicy()
        trainer = scripted_trainer(
            policy, True, optimizer="sgd", adam_beta1=0.0, minibatch_size=128, max_minibatch_size=size
        )
        before = weights(policy)
        run(trainer, 1)
        steps.append(weights(policy) - before)
    torch.testing.assert_close(steps[0], steps[1], atol=1e-5, rtol=1e-5)
    assert steps[0].abs().max() > 1e-5


def test_gradients_left_over_are_not_trained_on():
    results = []
    for leftover in (None, 100.0):
        trainer = guess_trainer(optimizer="sgd")
        for parameter in trainer.policy.parameters():
            parameter.grad = None if leftover is None else torch.full_like(parameter, leftover)
        run(trainer, 2)
        results.append(weights(trainer.policy))
    assert torch.equal(*results)


def test_modes_of_torch_are_left_as_they_were():
    trainer = guess_trainer(precision="bfloat16")
    run(trainer, 1)
    assert not torch.is_autocast_enabled("cpu") and torch.is_grad_enabled()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.quick("LinearPolicy-False", "CountingPolicy-True")
@pytest.mark.parametrize("has_absent_agents", [False, True])
@pytest.mark.parametrize("policy", [LinearPolicy, CountingPolicy])
def test_threads_share_an_update_without_changing_it(two_threads, policy, has_absent_agents):
    steps = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        trainer = scripted_trainer(policy(), has_absent_agents, optimizer="sgd", adam_beta1=0.0, minibatch_size=120)
        before = weights(trainer.policy)
        metrics = run(trainer, 2)[-1]
        steps.append((weights(trainer.policy) - before, metrics))
        trainer.close()
        assert torch.get_num_threads() == threads
    torch.testing.assert_close(steps[0][0], steps[1][0], atol=1e-6, rtol=1e-4)
    assert steps[0][1] == pytest.approx(steps[1][1], abs=1e-4)
    assert steps[0][0].abs().max() > 1e-4


@pytest.mark.quick("MinGRUWrapper", "LSTMWrapper")
@pytest.mark.parametrize("wrapper", [None, MinGRUWrapper, LSTMWrapper])
def test_kernels_of_whole_policies_train_like_torch(wrapper):
    results = []
    for fused in (False, True):
        vecenv = vector.make(env_class("puffer_squared"), env_kwargs={"num_envs": 32}, seed=3)
        torch.manual_seed(0)
        policy = Default(vecenv.driver_env, 16, num_layers=2)
        policy = wrapper(vecenv.driver_env, policy, 16, 16, 2) if wrapper else policy
        settings = config(fused=fused, optimizer="sgd", adam_beta1=0.0, learning_rate=0.1, minibatch_size=128)
        trainer = pufferl.PuffeRL(settings, vecenv, policy)
        assert isinstance(trainer._learner.gradients, NetworkGradients) == fused
        metrics = run(trainer, 3)[-1]
        results.append((weights(policy), trainer.rollout.actions.clone(), metrics))
        trainer.close()
    (plain_weights, plain_actions, plain_metrics), (fused_weights, fused_actions, fused_metrics) = results
    assert torch.equal(plain_actions, fused_actions)
    torch.testing.assert_close(plain_weights, fused_weights, rtol=1e-4, atol=1e-5)
    assert fused_metrics == pytest.approx(plain_metrics, rel=1e-3, abs=1e-4)


class OwnPolicy(Default):
    """Computes something that no layer of the kernel does."""

    def encode_observations(self, observations):
        return super().encode_observations(observations).sort(-1).values


def with_encoder(policy, encoder):
    policy.encoder = encoder
    return policy


def with_hook(policy):
    policy.head.register_forward_hook(lambda module, inputs, outputs: outputs)
    return policy


@pytest.mark.quick("subclass", "own part", "hook", "switched off")
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (lambda env: Default(env, 16, num_layers=64), {}),
        (lambda env: OwnPolicy(env, 16), {}),
        (lambda env: with_encoder(Default(env, 16), nn.Sequential(nn.Linear(121, 16), nn.Hardtanh())), {}),
        (lambda env: with_hook(Default(env, 16)), {}),
        (lambda env: Default(env, 16), {"fused": False}),
    ],
    ids=["too deep", "subclass", "own part", "hook", "switched off"],
)
def test_other_policies_are_left_to_torch(make, settings):
    vecenv = vector.make(env_class("puffer_squared"), env_kwargs={"num_envs": 4})
    trainer = pufferl.PuffeRL(config(**settings), vecenv, make(vecenv.driver_env))
    assert isinstance(trainer._learner.gradients, ThreadedGradients)
    run(trainer, 1)
    trainer.close()


def test_a_failing_share_ends_the_update(two_threads):
    trainer = guess_trainer(fused=False)
    trainer.evaluate()
    trainer._learner.gradients._forward = lambda observations, state: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    trainer.release()


def watch_minibatches(learner):
    """A list that every minibatch's segments will be appended to."""
    rows = []
    differentiate = learner.gradients.differentiate

    def watch(minibatch):
        rows.append(minibatch.rows)
        return differentiate(minibatch)

    learner.gradients.differentiate = watch
    return rows


@pytest.mark.parametrize("fused", [False, True])
def test_segments_are_trained_on_without_repetition(fused):
    trainer = guess_trainer(minibatch_size=64, fused=fused)
    trainer.evaluate()
    drawn = watch_minibatches(trainer._learner)
    trainer.train()
    assert len(drawn) == 2
    assert all(len(rows.unique()) == 8 for rows in drawn)


@pytest.mark.parametrize("fused", [False, True])
def test_ratios_and_values_are_refreshed_where_trained_and_start_over_with_the_next_rollout(fused):
    trainer = guess_trainer(minibatch_size=64, update_epochs=0.5, learning_rate=0.1, prio_alpha=0.0, fused=fused)
    trainer.evaluate()
    rollout = trainer.rollout
    rows = watch_minibatches(trainer._learner)
    trainer.train()
    trainer.evaluate()
    assert (rollout.ratios == 1).all()
    # The policy has moved since: a second minibatch on the same rollout must see that.
    trainer._learner.train_minibatch(), trainer._learner.train_minibatch()
    touched = torch.cat(rows[-2:]).unique()
    changed = (rollout.ratios[:, :-1] != 1).any(1)
    assert changed.any() and set(changed.nonzero().flatten().tolist()) <= set(touched.tolist())


# --- formulas in their places


def test_every_step_of_the_horizon_has_the_advantage_of_the_recurrence():
    trainer = scripted_trainer(CountingPolicy(), reward_clip=1.0, gamma=0.9, gae_lambda=0.8)
    trainer.evaluate()
    rollout = trainer.rollout
    found = trainer._learner._advantages.compute().double().numpy()
    values, rewards = rollout.values.double().numpy(), rollout.rewards.double().numpy()
    terminals, truncations = rollout.terminals.numpy() > 0, rollout.truncations.numpy() > 0
    assert terminals.any() and truncations.any()
    truth = np.zeros_like(values)
    for t in reversed(range(8)):
        reward = rewards[:, t + 1] + 0.9 * values[:, t] * (truncations & ~terminals)[:, t + 1]
        goes_on = ~(terminals | truncations)[:, t + 1]
        delta = reward + 0.9 * values[:, t + 1] * goes_on - values[:, t]
        truth[:, t] = delta + 0.9 * 0.8 * goes_on * truth[:, t + 1]
    np.testing.assert_allclose(found, truth[:, :-1], rtol=1e-4, atol=1e-4)
    assert (found[:, -1] != 0).any()


def test_where_the_task_ended_too_a_limit_cuts_nothing():
    trainer = guess_trainer()
    trainer.evaluate()
    rollout, taken = trainer.rollout, trainer._learner._advantages
    rollout.terminals[:2, 3], rollout.terminals[2:, 3] = True, False
    rollout.truncations[:, 3] = torch.tensor([True, False]).repeat(8)
    trainer._learner.prepare()
    assert taken._ends[:4, 3].tolist() == [1, 1, 1, 0] and taken.resets[:4, 3].tolist() == [True, True, True, False]
    assert taken._cuts[:4, 3].tolist() == [0, 0, 1, 0]


def test_training_repeats_the_rollout_until_the_weights_move():
    """With still weights the ratio is 1: state, resets, actions and observations are those of the rollout."""
    vecenv = pufferl.load_env("puffer_breakout", small_breakout())
    torch.manual_seed(0)
    policy = MinGRUWrapper(vecenv.driver_env, Default(vecenv.driver_env, 16), 16, 16, num_layers=2)
    trainer = pufferl.PuffeRL(config(learning_rate=0.0, bptt_horizon=16), vecenv, policy)
    for _ in range(20):
        trainer.evaluate()
        metrics = trainer.train()
        assert metrics["importance"] == pytest.approx(1, abs=1e-5)
        assert metrics["clipfrac"] == 0 and abs(metrics["approx_kl"]) < 1e-6
    trainer.close()


def small_breakout():
    args = pufferl.load_config("puffer_breakout")
    args["env"]["num_envs"] = 8
    args["train"]["device"] = "cpu"
    return args


def test_absent_agents_are_neither_counted_nor_trained_on():
    class Poisoned(LinearPolicy):
        """Its logits for absent agents would move the weights far."""

        def forward(self, observations, state):
            logits, values = super().forward(observations, state)
            seen.append(observations)
            return logits, values

    seen = []
    trainer = scripted_trainer(Poisoned(), has_absent_agents=True)
    trainer.evaluate()
    present = trainer.rollout.masks[:, :-1].bool()
    assert trainer.global_step == int(present.sum()) < 128
    steps = []
    for garbage in (0.0, 1.0):
        again = scripted_trainer(LinearPolicy(), has_absent_agents=True, optimizer="sgd", adam_beta1=0.0)
        again.evaluate()
        rollout = again.rollout
        rollout.logprobs[~present] -= garbage
        rollout.observations[~present] += garbage
        before = weights(again.policy)
        again.train()
        steps.append(weights(again.policy) - before)
    assert steps[0].abs().max() > 0
    torch.testing.assert_close(steps[0], steps[1], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("has_absent_agents", [False, True])
def test_a_run_is_done_when_it_ends_where_agents_are_absent_too(has_absent_agents, capfd):
    trainer = scripted_trainer(LinearPolicy(), has_absent_agents, total_timesteps=4 * 128, log_interval=1)
    while trainer.epoch < trainer.total_epochs:
        trainer.evaluate()
        trainer.train()
        trainer.print_dashboard()
    lines = capfd.readouterr().out.splitlines()
    assert (trainer.global_step < 4 * 128) == has_absent_agents
    assert [re.search(r"(\d+)% done", line)[1] for line in lines] == ["25", "50", "75", "100"]
    assert "remaining 0s" in lines[-1]


def test_the_explained_variance_is_of_the_values_that_training_left():
    trainer = guess_trainer(gamma=0.0, minibatch_size=128, update_epochs=8, learning_rate=0.01)
    explained = [log["explained_variance"] for log in run(trainer, 4)]
    rollout = trainer.rollout
    returns, values = rollout.rewards[:, 1:], rollout.values[:, :-1]
    truth = (
        1
        - ((returns - values) * rollout.ratios[:, :-1].clamp(max=1)).var()
        / ((returns - values) * rollout.ratios[:, :-1].clamp(max=1) + values).var()
    )
    assert explained[-1] == pytest.approx(truth.item(), abs=1e-3)


# --- learning rate


def test_the_learning_rate_follows_a_cosine():
    trainer = guess_trainer(learning_rate=0.2)
    used = []
    for epoch in range(trainer.total_epochs):
        assert trainer.learning_rate == pytest.approx(0.2 * (1 + math.cos(math.pi * epoch / 10)) / 2)
        run(trainer, 1)
        used.append(trainer._learner.optimizer.param_groups[0]["lr"])
    assert used[0] == 0.2 and used[5] == pytest.approx(0.1) and 0 < used[-1] < 0.01
    run(trainer, 1)  # beyond the end: no rise again
    assert trainer.learning_rate == 0


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_learning_rate_may_end_early_and_above_zero(schedule):
    settings = {"learning_rate": 0.2, "min_learning_rate": 0.04, "lr_schedule": schedule}
    trainer = guess_trainer(**settings, anneal_timesteps=8 * 16 * 4)
    used = []
    for _ in range(6):
        run(trainer, 1)
        used.append(trainer._learner.optimizer.param_groups[0]["lr"])
    assert used[0] == 0.2 and used[2] == pytest.approx(0.12) and used[4:] == [0.04, 0.04]


def test_a_learning_rate_below_its_end_stays():
    trainer = guess_trainer(learning_rate=0.01, min_learning_rate=0.04)
    run(trainer, 2)
    assert trainer._learner.optimizer.param_groups[0]["lr"] == 0.01


def test_without_annealing_the_learning_rate_stays():
    trainer = guess_trainer(learning_rate=0.2, anneal_lr=False)
    run(trainer, 3)
    assert trainer.learning_rate == trainer._learner.optimizer.param_groups[0]["lr"] == 0.2


def test_setting_the_learning_rate_takes_effect_at_the_next_update():
    trainer = guess_trainer(anneal_lr=False)
    run(trainer, 1)
    trainer.learning_rate = 0.0
    before = weights(trainer.policy)
    run(trainer, 1)
    assert torch.equal(weights(trainer.policy), before)
    trainer.learning_rate = 1e-4
    run(trainer, 1)
    assert not torch.equal(weights(trainer.policy), before)


@pytest.mark.parametrize("wrong", [-1e-3, math.nan, math.inf, "0.1", None])
def test_a_learning_rate_that_is_none_is_refused(wrong):
    trainer = guess_trainer()
    before = trainer.learning_rate
    with pytest.raises(ConfigError, match=r"learning_rate must be"):
        trainer.learning_rate = wrong
    assert trainer.learning_rate == before
    trainer.learning_rate = torch.tensor(0.5)
    assert trainer.learning_rate == 0.5


# --- the order of calls


def test_training_needs_a_rollout():
    trainer = guess_trainer()
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        trainer.train()
    run(trainer, 1)
    with pytest.raises(APIUsageError, match=r"call evaluate\(\) first"):
        trainer.train()


def test_a_closed_trainer_says_so_and_closes_again():
    logger = Recorder()
    trainer = guess_trainer(logger=logger)
    run(trainer, 2)
    path = trainer.close()
    assert trainer.close() == path
    assert path == "experiments/guessenv_recorded/model_guessenv_000002.pt"
    assert logger.closed_with == [path]
    for call in (trainer.evaluate, trainer.train):
        with pytest.raises(APIUsageError, match="closed; make a new PuffeRL"):
            call()


def test_nothing_is_written_before_there_is_something_to_keep(tmp_path):
    trainer = guess_trainer()
    trainer.evaluate()
    assert list(tmp_path.iterdir()) == []


# --- metrics


def test_logging_twice_in_an_epoch_returns_the_same_and_logs_once():
    logger = Recorder()
    trainer = guess_trainer(logger=logger, log_interval=100, total_timesteps=128 * 100)
    run(trainer, 2)
    assert logger.logs == []
    first, second = trainer.mean_and_log(), trainer.mean_and_log()
    assert first == second and len(logger.logs) == 1


def test_the_losses_logged_are_those_of_the_last_update():
    logger = Recorder()
    trainer = guess_trainer(logger=logger)
    returned = run(trainer, 3)
    for (step, metrics), losses_of_epoch, epoch in zip(logger.logs, returned, range(1, 4), strict=True):
        assert step == metrics["agent_steps"] == 128 * epoch and metrics["epoch"] == epoch
        assert {name: metrics[f"losses/{name}"] for name in losses_of_epoch} == losses_of_epoch
        assert metrics["environment/n"] == 128
    assert returned[0] != returned[1]


def test_an_interval_logs_the_mean_over_all_its_episodes():
    logger = Recorder()
    trainer = guess_trainer(logger=logger, log_interval=3, total_timesteps=128 * 6)
    scores = []
    for _ in range(6):
        scores.append(trainer.evaluate()["score"])
        trainer.train()
    logged = [metrics["environment/score"] for _, metrics in logger.logs]
    assert logged == [pytest.approx(np.mean(scores[:3])), pytest.approx(np.mean(scores[3:]))]
    assert logger.logs[0][1]["environment/n"] == 3 * 128


def test_the_phases_share_the_time():
    logger = Recorder()
    run(guess_trainer(logger=logger), 2)
    shares = [share for name, share in logger.logs[-1][1].items() if name.startswith("performance/")]
    assert len(shares) == 6 and all(0 < share < 1 for share in shares)
    assert sum(shares) == pytest.approx(1)


def test_a_log_holds_what_its_documentation_says():
    logger = Recorder()
    losses_of_epoch = run(guess_trainer(logger=logger), 1)[0]
    metrics = logger.logs[0][1]
    episodes = ["episode/return_mean", "episode/return_min", "episode/return_max", "episode/length_mean"]
    episodes += ["episode/count", "environment/score", "environment/n"]
    assert set(metrics) - {"hardware/gpu", "hardware/gpu_memory", "hardware/gpu_memory_bytes"} == {
        *("agent_steps", "epoch", "uptime", "sps", "learning_rate", "iteration_seconds"),
        *episodes,
        *(f"since_start/{name}" for name in episodes),
        *(f"losses/{name}" for name in losses_of_epoch),
        *(f"performance/{phase}" for phase in ("environment", "store", "forward", "advantage", "learn", "other")),
        *("hardware/cpu", "hardware/memory", "hardware/memory_bytes"),
    }
    for name in ("sps", "iteration_seconds", "hardware/memory", "hardware/memory_bytes"):
        assert metrics[name] > 0
    assert 0 <= metrics["hardware/cpu"] <= 1 and metrics["hardware/memory"] < 1


class QuietEnv(ScriptedEnv):
    """Reports nothing of its episodes."""

    def step(self, actions):
        return *super().step(actions)[:4], []


def test_episodes_of_an_environment_that_reports_nothing_are_seen():
    vecenv = vector.make(QuietEnv, env_kwargs={"agents": 4}, backend="Serial")
    logger = Recorder()
    trainer = pufferl.PuffeRL(config(bptt_horizon=4, num_iterations=3), vecenv, LinearPolicy(), logger)
    first = trainer.evaluate()  # of agents whose episodes have 3, 4, 5 and 6 steps
    assert first["episode/count"] == 2 and first["episode/length_mean"] == 3.5
    assert first["episode/return_min"] == pytest.approx(1 + 2 + 3, abs=2)  # beside the actions
    assert first["episode/return_max"] == pytest.approx(400 + 1 + 2 + 3 + 4, abs=2)
    assert set(first) == {
        f"episode/{name}" for name in ("return_mean", "return_min", "return_max", "length_mean", "count")
    }
    trainer.train()
    assert {name: logger.logs[0][1][name] for name in first} == first


def test_a_rollout_without_ends_has_no_statistics():
    trainer = scripted_trainer(LinearPolicy(), bptt_horizon=2)
    assert trainer.evaluate() == {}


@pytest.mark.parametrize("wrong", [None, "broken"])
def test_a_logger_that_was_replaced_does_not_stop_the_training(wrong):
    class Broken(NoLogger):
        def log(self, metrics, step):
            raise OSError("gone")

    trainer = scripted_trainer(LinearPolicy(), bptt_horizon=4, num_iterations=2)
    trainer.logger = wrong and Broken()
    with pytest.warns(PufferWarning, match="Broken failed and may miss metrics") if wrong else nullcontext():
        for _ in range(2):
            trainer.evaluate()
            trainer.train()
    trainer.close()


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd"])
def test_parameters_that_a_user_adds_to_the_optimizer_get_the_gradients_of_one_minibatch(optimizer):
    scale, gradients = nn.Parameter(torch.ones(())), []

    def loss(*tensors, **coefficients):
        found = losses.ppo_loss(*tensors, **coefficients)
        return losses.PPOLoss(found.total + scale, found.metrics, found.ratio)

    trainer = scripted_trainer(LinearPolicy(), bptt_horizon=4, num_iterations=2, loss=loss, optimizer=optimizer)
    trainer.optimizer.add_param_group({"params": [scale]})
    trainer.optimizer.register_step_pre_hook(lambda *_: gradients.append(float(scale.grad)))
    for _ in range(2):
        trainer.evaluate()
        trainer.train()
    assert len(gradients) > 1 and set(gradients) == {1.0} and scale < 1.0
    trainer.release()


def test_statistics_since_the_start_weigh_the_episodes_of_all_intervals():
    logger = Recorder()
    trainer = scripted_trainer(LinearPolicy(), bptt_horizon=4, num_iterations=6, log_interval=2)
    trainer.logger = logger
    parts = []
    for _ in range(6):
        parts.append(trainer.evaluate())
        trainer.train()
    assert len({part["episode/count"] for part in parts}) > 1
    for index, (_, metrics) in enumerate(logger.logs):
        for prefix, seen in (("", parts[2 * index : 2 * index + 2]), ("since_start/", parts[: 2 * index + 2])):
            counts = [part["episode/count"] for part in seen]
            assert metrics[f"{prefix}episode/count"] == metrics[f"{prefix}environment/n"] == sum(counts)
            assert metrics[f"{prefix}episode/return_min"] == min(part["episode/return_min"] for part in seen)
            assert metrics[f"{prefix}episode/return_max"] == max(part["episode/return_max"] for part in seen)
            for name in ("episode/return_mean", "episode/length_mean"):
                mean = np.average([part[name] for part in seen], weights=counts)
                assert metrics[f"{prefix}{name}"] == pytest.approx(mean)
            mean = np.average([part["episode_length"] for part in seen], weights=counts)
            assert metrics[f"{prefix}environment/episode_length"] == pytest.approx(mean)


def test_an_iteration_takes_the_time_of_its_two_calls_and_no_other(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def pass_time(seconds):
        now[0] += seconds

    trainer = guess_trainer(log_interval=100, total_timesteps=128 * 100)
    run(trainer, 2)
    trainer.mean_and_log()
    evaluate, learn = trainer._collector.collect, trainer._learner.learn
    trainer._collector.collect = lambda *arguments: pass_time(0.02) or evaluate(*arguments)
    trainer._learner.learn = lambda *arguments: pass_time(0.01) or learn(*arguments)
    for _ in range(3):
        run(trainer, 1)
        pass_time(0.2)
    assert trainer.mean_and_log()["iteration_seconds"] == pytest.approx(0.03)


def test_the_speed_of_a_resumed_interval_is_that_of_all_its_steps():
    settings = {"log_interval": 100, "total_timesteps": 128 * 100, "data_dir": "."}
    trainer = scripted_trainer(LinearPolicy(), **settings)
    run(trainer, 2)
    time.sleep(0.3)
    trainer.save_checkpoint()
    again = scripted_trainer(LinearPolicy(), **settings)
    again.load_checkpoint(trainer.run_folder)
    run(again, 1)
    metrics = again.mean_and_log()
    assert metrics["sps"] < 3 * 128 / 0.3
    assert metrics["since_start/episode/count"] == metrics["episode/count"] > trainer.evaluate()["episode/count"]


def test_looking_at_the_dashboard_between_logs_changes_no_metric(capsys):
    logs = []
    for looks in (False, True):
        logger = Recorder()
        trainer = guess_trainer(logger=logger, log_interval=2, dashboard_interval_seconds=0.0)
        for _ in range(4):
            trainer.evaluate()
            if looks:
                trainer.print_dashboard()
                shown = trainer.report._dashboard
                shown.is_panel, shown.show = True, print
            trainer.train()
            trainer.print_dashboard() if looks else None
        kept = ("episode/", "environment/", "since_start/", "losses/")
        logs.append([{k: v for k, v in metrics.items() if k.startswith(kept)} for _, metrics in logger.logs])
    assert logs[0] == logs[1]
    assert "since_start/episode/count" in capsys.readouterr().out


# --- settings


def test_custom_policies_need_only_forward():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 4)

        def forward(self, observations, state=None):
            output = self.linear(observations)
            return output[:, :3], output[:, 3:]  # values as a column

    trainer = guess_trainer(Own())
    before = weights(trainer.policy)
    run(trainer, 2)
    assert not torch.equal(weights(trainer.policy), before)


@pytest.mark.parametrize("name", ["plain", "MinGRU"])
def test_bfloat16_trains(name):
    trainer = guess_trainer(precision="bfloat16")
    if name == "MinGRU":
        env = trainer.vecenv.driver_env
        trainer = guess_trainer(MinGRUWrapper(env, Default(env, 16), 16, 16), precision="bfloat16")
    before = weights(trainer.policy)
    metrics = run(trainer, 3)[-1]
    assert all(math.isfinite(value) for value in metrics.values())
    assert weights(trainer.policy).dtype == torch.float32
    assert not torch.equal(weights(trainer.policy), before)


def test_observations_may_stay_in_cpu_memory():
    trainers = [guess_trainer(cpu_offload=offload) for offload in (False, True)]
    for trainer in trainers:
        run(trainer, 2)
    assert trainers[1].rollout.observations.device.type == "cpu"
    assert torch.equal(weights(trainers[0].policy), weights(trainers[1].policy))


@pytest.mark.parametrize(("optimizer", "kind"), [("muon", Muon), ("adam", Adam), ("sgd", Sgd)])
def test_every_optimizer_trains(optimizer, kind):
    trainer = guess_trainer(optimizer=optimizer)
    before = weights(trainer.policy)
    run(trainer, 1)
    assert isinstance(trainer._learner.optimizer, kind) and not torch.equal(weights(trainer.policy), before)


def test_batches_of_several_horizons_per_agent():
    trainer = guess_trainer(batch_size=16 * 8 * 3, minibatch_size=128)
    assert trainer.config.segments == 48 and trainer.total_epochs == 4
    run(trainer, 2)
    assert trainer.global_step == 2 * 384


def test_a_segment_of_one_step_trains():
    trainer = guess_trainer(bptt_horizon=1, minibatch_size=1)
    metrics = run(trainer, 2)[-1]
    assert all(math.isfinite(value) for value in metrics.values())
    assert weights(trainer.policy).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 200}, "multiple of 128"),
        ({"total_timesteps": 10}, "at least one batch of 128"),
        ({"minibatch_size": 100}, "multiple of 8"),
        ({"minibatch_size": 1024}, "at most the batch of 128"),
        ({"learning_rte": 1}, "did you mean 'learning_rate'"),
        ({"device": "cuda"}, "torch sees no such device"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    if settings == {"device": "cuda"} and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ConfigError, match=words):
        guess_trainer(**settings)


def test_nan_weights_stop_the_training():
    trainer = guess_trainer()
    with torch.no_grad():
        trainer.policy.head.linear.weight.fill_(math.nan)
    with pytest.raises(DivergedError, match=r"the weight 'head\.linear\.weight' is nan"):
        trainer.evaluate()


def test_the_seed_decides_the_run():
    runs = []
    for seed in (1, 1, 2):
        trainer = guess_trainer(seed=seed)
        run(trainer, 2)
        runs.append(weights(trainer.policy))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_the_global_random_streams_are_left_alone():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    args = arguments("puffer_squared")
    args["env"]["num_envs"] = 4
    vecenv = pufferl.load_env("puffer_squared", args)
    run(pufferl.PuffeRL(args["train"], vecenv, pufferl.load_policy(args, vecenv, "puffer_squared")), 1)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()


def storage_bytes(*owners):
    """Bytes of all memory that the tensors of some objects hold, counted once."""
    tensors = [value for owner in owners for value in vars(owner).values()]
    tensors += [value for held in tensors if isinstance(held, dict) for value in held.values()]
    storages = {tensor.untyped_storage() for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def test_the_memory_of_a_rollout_is_what_its_shapes_add_up_to():
    trainer = guess_trainer()
    steps, columns = 16 * 8, 16 * 9
    assert storage_bytes(trainer.rollout) == steps * (3 * 4 + 4 + 4) + columns * (3 * 4 + 4)


def test_all_memory_of_breakouts_batch_is_within_a_fifth_of_the_shapes_of_its_rollout():
    args = pufferl.load_config("puffer_breakout")
    args["env"]["num_envs"] = 64
    args["train"].update(device="cpu", minibatch_size="auto")
    vecenv = pufferl.load_env("puffer_breakout", args)
    trainer = pufferl.PuffeRL(args["train"], vecenv, pufferl.load_policy(args, vecenv, "puffer_breakout"))
    trainer.evaluate()
    learner = trainer._learner
    owners = trainer._collector, trainer._collector.actor, learner, learner._advantages, trainer._learner.gradients
    held = storage_bytes(trainer.rollout, *owners)
    trainer.close()
    assert held < 1.2 * storage_bytes(trainer.rollout)


@pytest.mark.slow
def test_compiled_training_equals_eager_training(recwarn):
    policies = [CompiledMLP(), CompiledMLP()]
    policies[1].load_state_dict(copy.deepcopy(policies[0].state_dict()))
    settings = {"optimizer": "sgd", "compile_mode": "default"}
    trainers = [
        guess_trainer(policy, compile=flag, **settings) for policy, flag in zip(policies, (False, True), strict=True)
    ]
    # Compiling torch's headers ahead takes longer than these few kernels gain by it. pytest's monkeypatch would
    # delete the setting afterwards, which hides it from all later compilations of the process.
    with torch._inductor.config.patch(cpp_cache_precompile_headers=False):
        for trainer in trainers:
            run(trainer, 2)
    torch.testing.assert_close(weights(policies[0]), weights(policies[1]), atol=1e-5, rtol=1e-4)


class CompiledMLP(torch.nn.Module):
    """Small, so that compiling it is quick."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, observations, state):
        output = self.linear(observations).tanh()
        return output[:, :3], output[:, 3]


# --- as a program


def program(folder, *flags):
    small = "--env.num-envs 16 --train.bptt-horizon 16 --train.total-timesteps 2048 --train.log-interval 1 "
    small += "--train.minibatch-size 64 --train.device cpu"
    command = [sys.executable, "-m", "pufferlib.pufferl", "train", "puffer_squared", *small.split(), *flags]
    folder.mkdir()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = folder.glob("experiments/*/metrics.jsonl")
    times = ("sps", "uptime", "iteration_seconds", "performance/", "hardware/")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith(times)} for line in lines]


@pytest.mark.slow
def test_one_seed_gives_one_run(tmp_path):
    first, same, other = (
        program(tmp_path / name, "--train.seed", seed) for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    assert len(first) == 8 and first == same
    assert [line["losses/entropy"] for line in first] != [line["losses/entropy"] for line in other]
