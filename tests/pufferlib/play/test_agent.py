import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from torch import nn

import pufferlib
from pufferlib import Agent, vector
from pufferlib.emulation.rows import row_writer
from pufferlib.errors import APIUsageError, DivergedError
from pufferlib.models import Continuous, Convolutional, Default, LSTMWrapper, MinGRUWrapper
from pufferlib.play.player import Player
from pufferlib.ppo.sampling import sample_logits
from pufferlib.spaces import Layout

CPU = torch.device("cpu")


class Structured(gymnasium.Env):
    """Random observations and episodes; every action has to be in its space."""

    def __init__(self, observation_space=None, action_space=None):
        parts = {"camera": Box(0, 255, (2, 3), np.uint8), "place": Tuple((Box(-1, 1, (2,), np.float32), Discrete(3)))}
        self.observation_space = observation_space or Dict(parts)
        self.action_space = action_space or Discrete(4, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        is_over = self.np_random.random() < 0.1
        return self.observation_space.sample(), 1.0, is_over, False, {}


def puffer_env(space, action_space=None):
    return pufferlib.make(Structured, observation_space=space, action_space=action_space)


def policy_of(kind, env, **settings):
    """A policy that prefers some actions clearly."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        policy = (Continuous if kind is Continuous else Default)(env, **settings)
        policy = kind(env, policy) if kind in (MinGRUWrapper, LSTMWrapper) else policy
        for parameter in policy.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return policy


# --- the same as a Player


class Watched:
    """Remembers whose episodes ended with the last step."""

    def __init__(self, vecenv, monkeypatch):
        receive = vecenv.recv

        def recv():
            received = receive()
            self.ended = received[2] | received[3]
            return received

        monkeypatch.setattr(vecenv, "recv", recv)


def clipped(actions, space):
    if isinstance(space, Box):
        return np.clip(actions, space.low, space.high)
    return actions + getattr(space, "start", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "sample"),
    [
        ("puffer_squared", Default, False),
        ("puffer_squared", MinGRUWrapper, True),
        ("CartPole-v1", MinGRUWrapper, False),
        ("Pendulum-v1", Continuous, True),
        (Structured, LSTMWrapper, False),
    ],
)
def test_an_agent_acts_as_a_player_does_for_a_thousand_steps(name, kind, sample, monkeypatch):
    env = pufferlib.make(name, num_envs=5, seed=2)
    vecenv = env if isinstance(env, vector.Vector) else vector.adopt(env)
    policy, watched, steps, resets = policy_of(kind, vecenv), Watched(vecenv, monkeypatch), 0, 0
    agent = Agent(policy, vecenv, seed=4)
    player, generator = Player(vecenv, policy.eval()), torch.Generator().manual_seed(4)

    def decide(decision):
        nonlocal steps, resets
        if steps:
            agent.reset(watched.ended)
        steps, resets = steps + 1, resets + int(watched.ended.sum())
        actions = decision.actions
        if sample:
            actions = sample_logits(decision.logits, generator=generator)[0].numpy()
        expected = clipped(actions, agent.action_space)
        np.testing.assert_array_equal(agent.act(decision.observations, sample), expected)
        return actions

    for _ in player.play(np.full(5, 1_000), 1_000, seed=1, decide=decide):
        pass
    assert steps == 1_000 and resets > 10
    vecenv.close()


@pytest.mark.parametrize("kind", [Default, MinGRUWrapper])
def test_one_observation_after_the_other_is_as_good_as_rows(kind):
    env = pufferlib.make("CartPole-v1")
    policy, real = policy_of(kind, env), gymnasium.make("CartPole-v1")
    alone, of_rows = Agent(policy, env), Agent(policy, real)
    observation, _ = real.reset(seed=5)
    for _ in range(300):
        action = alone.act(observation)
        assert type(action) is int and of_rows.act(observation[None]).tolist() == [action]
        observation, _, terminated, truncated, _ = real.step(action)
        if terminated or truncated:
            observation, _ = real.reset()
        alone.reset(terminated or truncated)
        of_rows.reset([0] if terminated or truncated else [])


# --- forms


def test_structured_observations_are_taken_as_environments_give_them():
    env = Structured()
    env.observation_space.seed(0)
    agent = Agent(policy_of(Default, vector.as_puffer_env(env)), env)
    seen = [env.observation_space.sample() for _ in range(6)]
    one_by_one = [agent.act(each) for each in seen]
    batch = {
        "camera": np.stack([each["camera"] for each in seen]),
        "place": tuple(np.stack([each["place"][index] for each in seen]) for index in range(2)),
    }
    rows = np.concatenate([vector.as_puffer_env(Structured()).observations for _ in seen])
    for row, each in zip(rows, seen, strict=True):
        row_writer(Layout.of(env.observation_space), row)(each)
    for many in (seen, batch, rows):
        np.testing.assert_array_equal(agent.act(many), one_by_one)
    assert agent.act(rows[2]) == one_by_one[2]
    assert {*one_by_one} <= {-1, 0, 1, 2} and len({*one_by_one}) > 1


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3, start=4),
        MultiDiscrete([3, 2]),
        Box(-0.1, 0.1, (2,), np.float32),
        Box(-0.1, 0.1, (2, 3), np.float64),
        Dict(move=Discrete(2), aim=Box(-1, 1, (2,), np.float32)),
        Tuple((Discrete(2), MultiDiscrete([2, 3]))),
    ],
    ids=str,
)
@pytest.mark.parametrize("sample", [False, True])
def test_actions_are_in_the_space_of_the_environment_one_and_many(space, sample):
    env = Structured(Box(-1, 1, (3,), np.float32), space)
    agent = Agent(policy_of(Default, vector.as_puffer_env(env)), env)
    observation, _ = env.reset(seed=0)
    action = agent.act(observation, sample)
    assert action in space
    env.step(action)
    many = agent.act(np.stack([observation] * 7), sample)
    assert many in gymnasium.vector.utils.batch_space(space, 7)


@pytest.mark.parametrize("space", [Discrete(5, start=2), MultiDiscrete([4, 3])], ids=str)
def test_observations_that_are_choices_come_by_themselves_many_and_as_rows(space):
    env = Structured(space)
    agent = Agent(policy_of(Default, vector.as_puffer_env(env)), env)
    first, second = space.sample(), space.sample()
    expected = [agent.act(first), agent.act(second)]
    assert agent.act(np.array([first, second])).tolist() == expected
    rows = np.array([first, second]).reshape(2, -1)
    assert agent.act(rows).tolist() == expected


@pytest.mark.parametrize("wrap", [lambda rows: (rows,), lambda rows: {"a": rows}], ids=["Tuple", "Dict"])
def test_rows_of_a_structure_of_one_choice_are_many(wrap):
    space = Tuple([Discrete(3)]) if isinstance(wrap(0), tuple) else Dict(a=Discrete(3))
    env = puffer_env(space)
    agent = Agent(Default(env, 8), env)
    rows = np.array([0, 1, 2, 1])
    assert agent.act(wrap(rows)).tolist() == [agent.act(wrap(row)) for row in rows]


def test_images_are_taken_one_by_one_and_many():
    env = puffer_env(Box(0, 255, (1, 36, 36), np.uint8))
    agent = Agent(Convolutional(env, hidden_size=8), env)
    image = env.single_observation_space.sample()
    assert agent.act(np.stack([image] * 3)).tolist() == [agent.act(image)] * 3


def test_observations_may_be_of_bfloat16():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    agent = Agent(policy_of(Default, env), env)
    observations = torch.rand(4, 3).bfloat16()
    np.testing.assert_array_equal(agent.value(observations), agent.value(observations.float()))


def test_rows_of_an_environment_in_c_go_straight_back_to_it():
    env = pufferlib.make("puffer_breakout", num_envs=6, continuous=True)
    agent = Agent(policy_of(Default, env), env)
    observations, _ = env.reset(seed=0)
    for _ in range(10):
        observations, *_ = env.step(agent.act(observations, sample=True))


def test_what_has_another_form_is_said():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    agent = Agent(policy_of(Default, env), env)
    for shape in ((4,), (2, 4), (0, 3), (2, 2, 3), ()):
        with pytest.raises(
            APIUsageError, match=r"observation must have shape \(3,\) for one or \(rows, 3\) for many, got"
        ):
            agent.act(np.zeros(shape, np.float32))
    with pytest.raises(APIUsageError, match="observation must be float32 of shape"):
        agent.act(["left", "right", "up"])
    structured = vector.as_puffer_env(Structured())
    agent = Agent(policy_of(Default, structured), structured)
    with pytest.raises(APIUsageError, match=r"observation\['camera'\] must be .*, got none \(KeyError: 'camera'\)"):
        agent.act({"place": (np.zeros(2), 1)})
    with pytest.raises(APIUsageError, match="an array of structured observations must be rows of uint8 and shape"):
        agent.act(np.zeros(3))


# --- memory


def recurrent(rows=3):
    env = pufferlib.make("puffer_squared", num_envs=rows)
    agent = Agent(policy_of(MinGRUWrapper, env), env)
    generator = np.random.default_rng(0)
    return agent, [generator.integers(0, 3, env.observations.shape, np.uint8) for _ in range(40)]


def values(agent, steps):
    """What an agent thinks at every step."""
    found = []
    for observations in steps:
        found.append(agent.value(observations))
        agent.act(observations)
    return np.array(found)


@pytest.mark.parametrize(
    ("rows", "meant"), [([1], [1]), ([True, False, True], [0, 2]), (2, [2]), (np.array([], int), [])]
)
def test_rows_that_are_reset_forget_and_others_do_not(rows, meant):
    agent, steps = recurrent()
    fresh = values(agent, steps[20:])
    agent.reset()
    values(agent, steps[:20])
    before = agent.value(steps[20])
    agent.reset(rows)
    after = values(agent, steps[20:])
    others = [row for row in range(3) if row not in meant]
    np.testing.assert_array_equal(after[:, meant], fresh[:, meant])
    np.testing.assert_array_equal(after[0, others], before[others])
    assert not np.array_equal(after[0, others], fresh[0, others])


def test_flags_that_are_no_bools_are_not_taken_for_indices():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    agent = Agent(LSTMWrapper(env, Default(env, 8), 8, 8), env)
    agent.act(np.zeros((4, 3), np.float32))
    with pytest.raises(APIUsageError, match="rows must be 4 bools, or different indices of them, got .0, 1, 0, 0."):
        agent.reset(np.array([0, 1, 0, 0], np.uint8))


def test_another_number_of_rows_is_refused_until_all_begin_anew():
    agent, steps = recurrent()
    agent.act(steps[0])
    words = r"this agent has the state of 3 rows, got 2; call reset\(\) before another number"
    for call in (agent.act, agent.value):
        with pytest.raises(APIUsageError, match=words):
            call(steps[0][:2])
    agent.reset()
    agent.act(steps[0][:2])


def test_a_policy_without_memory_takes_any_number():
    env = pufferlib.make("puffer_squared", num_envs=3)
    agent = Agent(policy_of(Default, env), env)
    for rows in (3, 1, 2):
        assert agent.act(env.observations[:rows]).shape == (rows,)
    agent.reset([True] * 9)


def test_rows_that_are_not_there_are_refused():
    agent, steps = recurrent()
    agent.act(steps[0])
    for rows, words in (
        ([True, False], "rows must be 3 bools, or indices of them: boolean index did not match"),
        (3, "rows must be 3 bools, or indices of them: index 3 is out of bounds"),
        ([-1], r"rows must be in \[0, 3\), got \[-1\]"),
        ([0.5], "arrays used as indices must be of integer"),
    ):
        with pytest.raises(APIUsageError, match=words):
            agent.reset(rows)


def test_asking_for_a_value_changes_nothing():
    asked, silent = recurrent()[0], recurrent()[0]
    for observations in recurrent()[1]:
        asked.value(observations)
        asked.probabilities(observations)
        np.testing.assert_array_equal(asked.act(observations), silent.act(observations))


def test_an_agent_goes_on_where_it_was_pickled():
    agent, steps = recurrent()
    for observations in steps[:20]:
        agent.act(observations, sample=True)
    copy = pickle.loads(pickle.dumps(agent))
    for observations in steps[20:]:
        np.testing.assert_array_equal(agent.act(observations, sample=True), copy.act(observations, sample=True))


# --- drawing


def test_draws_follow_the_probabilities_and_the_seed():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    policy, observation = policy_of(Default, env), np.array([0.5, -0.5, 0.25], np.float32)
    drawn = [Agent(policy, env, seed=seed).act(np.stack([observation] * 4_000), sample=True) for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])
    shares = np.bincount(drawn[0] + 1, minlength=4) / 4_000
    np.testing.assert_allclose(shares, Agent(policy, env).probabilities(observation), atol=0.03)


def test_drawing_leaves_torch_as_it_is():
    agent, steps = recurrent()
    before = torch.get_rng_state()
    agent.act(steps[0], sample=True)
    assert torch.equal(torch.get_rng_state(), before)


def test_probabilities_are_of_choices():
    env = puffer_env(Box(-1, 1, (3,), np.float32), MultiDiscrete([2, 3]))
    first, second = Agent(policy_of(Default, env), env).probabilities(np.zeros((5, 3)))
    assert first.shape == (5, 2) and second.shape == (5, 3)
    np.testing.assert_allclose(first.sum(1), 1, rtol=1e-6)
    env = puffer_env(Box(-1, 1, (3,), np.float32), Box(-1, 1, (2,), np.float32))
    with pytest.raises(APIUsageError, match="needs actions that are choices, got Box"):
        Agent(policy_of(Default, env), env).probabilities(np.zeros(3))


class Broken(nn.Module):
    def forward(self, observations):
        return torch.full((len(observations), 4), torch.nan), torch.zeros(len(observations))


def test_a_policy_gone_wrong_is_said_where_it_is_drawn_from():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    with pytest.raises(DivergedError, match="NaN"):
        Agent(Broken(), env).act(np.zeros(3), sample=True)


def test_a_policy_gone_wrong_is_said_on_a_gpu_too_where_sampling_does_not_wait_to_look(monkeypatch):
    monkeypatch.setattr("pufferlib.ppo.sampling._refuse_nan", lambda logits: None)
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    with pytest.raises(DivergedError, match="NaN"):
        Agent(Broken(), env).act(np.zeros(3), sample=True)


# --- making


def test_a_policy_has_to_fit_the_environment():
    with pytest.raises(APIUsageError, match="Broken.forward must return logits"):
        Agent(Broken(), puffer_env(Box(-1, 1, (3,), np.float32), Discrete(7)))
    with pytest.raises(APIUsageError, match="policy must be a torch module, got str"):
        Agent("puffer_breakout", None)
    with pytest.raises(APIUsageError, match="env must be a PufferEnv"):
        Agent(Broken(), 3)


def test_a_class_is_taken_where_its_instance_is():
    assert Agent(policy_of(Default, puffer_env(None)), Structured).action_space == Structured().action_space


def test_a_policy_with_weights_that_are_no_numbers_is_refused():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    policy = policy_of(Default, env)
    policy.encoder[0].bias.data[2] = torch.nan
    with pytest.raises(DivergedError, match="finite weights to act, but the weight 'encoder.0.bias' is nan"):
        Agent(policy, env)


def test_an_agent_switches_its_policy_to_evaluation():
    env = puffer_env(Box(-1, 1, (3,), np.float32))
    assert not Agent(policy_of(Default, env).train(), env).policy.training
