"""Actions that are choices and numbers at once, from the policy to the environment and through training."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, Tuple
from torch.distributions import Categorical, Normal
from traced_policies import layers_of

from pufferlib import PuffeRL, spaces, vector
from pufferlib.environment import PufferEnv
from pufferlib.fast.device_network import can_be_in_a_rollout
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.play.environments import space_text
from pufferlib.ppo.sampling import greedy_action, sample_logits

STEERING = Tuple([Discrete(3), Box(-1, 1, (1,)), Discrete(2, start=5)])
CPU = {"device": "cpu", "batch_size": 512, "num_steps": 8, "learning_rate": 0.01, "gamma": 0.0}

pytestmark = pytest.mark.usefixtures("in_tmp_path")


class Steering(PufferEnv):
    """Shows a gear, a wheel position and a pedal; pays for the first and the second being right at once.

    The rewards of a step are those of a bandit. What was chosen last is seen in `seen`.
    """

    def __init__(self, num_envs=64, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Box(-1, 1, (4,)), STEERING
        self.num_agents = num_envs
        super().__init__(buf)
        self.random = np.random.default_rng(seed)

    def reset(self, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.show()
        return self.observations, []

    def show(self):
        self.observations[:, :3] = np.eye(3)[self.random.integers(0, 3, self.num_agents)]
        self.observations[:, 3] = self.random.uniform(-0.8, 0.8, self.num_agents)

    def step(self, actions):
        assert actions.shape == (self.num_agents, 3) and actions.dtype == np.float32
        assert np.isin(actions[:, 0], [0, 1, 2]).all() and np.isin(actions[:, 2], [0, 1]).all()
        is_right = self.observations[np.arange(self.num_agents), actions[:, 0].astype(int)] == 1
        distance = np.abs(actions[:, 1] - self.observations[:, 3])
        self.rewards[:] = is_right * np.maximum(1 - distance, 0)
        self.terminals[:] = True
        self.show()
        return self.observations, self.rewards, self.terminals, self.truncations, [{"score": self.rewards.mean()}]

    def snapshot(self):
        return pickle.dumps((self.random, self.observations))

    def restore(self, snapshot):
        self.random, self.observations[:] = pickle.loads(snapshot)


def make_trainer(**settings):
    torch.manual_seed(0)
    env = Steering()
    return PuffeRL(env, Default(env, 32), **{**CPU, **settings})


def weights(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


def run(trainer, epochs):
    scores = []
    for _ in range(epochs):
        scores.append(trainer.evaluate()["score"])
        trainer.train()
    return scores


# --- training


@pytest.mark.slow
def test_it_learns_what_needs_both_parts():
    trainer = make_trainer(ent_coef=0.0)
    scores = run(trainer, 25)
    trainer.close()
    assert scores[0] < 0.25  # a third of the gears, and numbers that are far off
    assert np.mean(scores[-5:]) > 0.65


def test_a_resumed_run_goes_on_exactly():
    whole, part = make_trainer(), make_trainer()
    run(whole, 3)
    run(part, 2)
    part.save_checkpoint()
    expected = run(part, 1)
    part.release()
    resumed = make_trainer()
    resumed.load_checkpoint(part.run_folder)
    assert run(resumed, 1) == expected
    for trainer in (whole, resumed):
        trainer.close()
    assert torch.equal(weights(resumed), weights(part)) and torch.equal(weights(part), weights(whole))


@pytest.mark.quick("MinGRUWrapper")
@pytest.mark.parametrize("wrapper", [LSTMWrapper, MinGRUWrapper])
def test_recurrent_policies_train(wrapper):
    env = Steering(8)
    trainer = PuffeRL(env, wrapper(env, Default(env, 8), 8, 8), **CPU)
    before = weights(trainer)
    run(trainer, 2)
    trainer.close()
    assert not torch.equal(weights(trainer), before)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the start method that is quick to test
def test_processes_give_the_serial_rollout():
    def history(**options):
        vecenv = vector.make(Steering, env_kwargs={"num_envs": 3}, num_envs=2, seed=5, **options)
        with vecenv:
            vecenv.action_space.seed(7)
            steps = [vecenv.reset()[0].copy()]
            for _ in range(20):
                observations, rewards, *_ = vecenv.step(vecenv.action_space.sample())
                steps += [observations.copy(), rewards.copy()]
        return steps

    expected = history(backend="Serial")
    found = history(backend="Multiprocessing", num_workers=2, context="fork")
    assert all(np.array_equal(*pair) for pair in zip(expected, found, strict=True))
    assert sum(step.sum() for step in expected[2::2]) > 0


# --- the policy's side


def test_the_kernels_leave_them_to_torch():
    env = Steering()
    for policy in (Default(env, 8), MinGRUWrapper(env, Default(env, 8), 8, 8)):
        layers = layers_of(policy, env)
        assert not layers.fit() and not can_be_in_a_rollout(layers, torch.float32)


def mixed_logits(rows=(5,), seed=0):
    generator = torch.Generator().manual_seed(seed)
    first, mean, second = (torch.randn(*rows, size, generator=generator) for size in (3, 2, 4))
    return first, Normal(mean, torch.tensor([0.5, 2.0]).expand_as(mean)), second


@pytest.mark.parametrize("rows", [(5,), (2, 3)])
def test_log_probability_and_entropy_are_sums_over_the_parts(rows):
    first, normal, second = logits = mixed_logits(rows)
    actions, logprobs, entropy = sample_logits(logits, generator=torch.Generator().manual_seed(1))
    assert actions.shape == (*rows, 4) and actions.dtype == torch.float32
    truth = Categorical(logits=first), Categorical(logits=second)
    expected = truth[0].log_prob(actions[..., 0]) + truth[1].log_prob(actions[..., 3])
    torch.testing.assert_close(logprobs, expected + normal.log_prob(actions[..., 1:3]).sum(-1))
    torch.testing.assert_close(entropy, truth[0].entropy() + truth[1].entropy() + normal.entropy().sum(-1))
    again, same, _ = sample_logits(logits, action=actions)
    assert again is actions
    torch.testing.assert_close(same, logprobs)


def test_the_greedy_action_is_the_likeliest_of_every_part():
    first, normal, second = logits = mixed_logits()
    greedy = greedy_action(logits)
    assert torch.equal(greedy[:, 0], first.argmax(-1).float()) and torch.equal(greedy[:, 3], second.argmax(-1).float())
    assert torch.equal(greedy[:, 1:3], normal.mean)


def test_choices_are_whole_numbers_at_low_precision():
    logits = torch.zeros(1, 1000).bfloat16()
    logits[0, 999] = 20.0
    logits = logits, Normal(torch.zeros(1, 1).bfloat16(), torch.ones(1, 1).bfloat16())
    assert greedy_action(logits)[0, 0] == 999  # bfloat16 holds no such number
    assert sample_logits(logits)[0][0, 0] == 999


def test_no_part_may_be_nan():
    first, normal, second = mixed_logits()
    for broken in ((first * torch.nan, normal, second), (first, Normal(normal.mean * torch.nan, 1.0, False), second)):
        with pytest.raises(ValueError, match="NaN"):
            sample_logits(broken)


def test_only_numbers_have_a_standard_deviation():
    policy = Default(Steering(), 8)
    assert policy.head.log_std.shape == (1,) and policy.head.sizes == [3, 1, 2]
    first, normal, last = policy(torch.zeros(6, 4))[0]
    assert (first.shape, normal.mean.shape, last.shape) == ((6, 3), (6, 1), (6, 2))
    assert torch.equal(normal.stddev, torch.ones(6, 1))


# --- the space's side


def test_the_joint_space_draws_valid_rows():
    env = Steering(1000)
    env.action_space.seed(0)
    rows = env.action_space.sample()
    assert rows.shape == env.actions.shape == (1000, 3) and rows.dtype == env.actions.dtype == np.float32
    assert rows in env.action_space
    assert np.bincount(rows[:, 0].astype(int)).min() > 280 and np.bincount(rows[:, 2].astype(int)).min() > 440
    wrong = copy.deepcopy(rows)
    wrong[3, 0] = 0.5
    assert wrong not in env.action_space
    assert not env.action_space.contains(rows[:-1])


@pytest.mark.parametrize(
    ("part", "found"),
    [(Box(-1, 1, (2, 2)), r"Box\(.*\(2, 2\)"), (Box(-1, 1, (2,), np.float64), ".*float64"), (Tuple([]), r"Tuple\(\)")],
)
def test_a_part_of_another_kind_is_refused(part, found):
    class Wrong(Steering):
        def __init__(self):
            super().__init__()
            self.single_action_space = Tuple([Discrete(2), part])
            PufferEnv.__init__(self)

    with pytest.raises(
        ValueError, match=f"must hold Discrete .* and one-dimensional float32 Box, got {found}.* at index 1"
    ):
        Wrong()


def test_the_listing_shows_the_parts():
    assert space_text(STEERING) == "Tuple(Discrete(3), float32[1], Discrete(2))"
    assert space_text(Tuple([Discrete(3)] * 8)) == "Tuple of 8"
    assert spaces.action_shape(STEERING) == (3,)
