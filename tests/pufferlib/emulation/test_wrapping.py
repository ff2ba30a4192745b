"""Classes and functions that make environments of any kind."""

import copy
import pickle
from functools import partial

import gymnasium
import numpy as np
import pytest
from environments import CountingEnv
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib import PuffeRL, vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.families.entry import importable_name
from pufferlib.models import Default
from pufferlib.runs.making import environment_name
from pufferlib.vector import GymnasiumVectorPufferEnv

SAME_STEP = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
TRAINING = {"device": "cpu", "batch_size": 64, "num_steps": 16}


class Dice(gymnasium.Env):
    """Shows the dice that it throws; six of them are ten steps."""

    def __init__(self, size=2):
        self.observation_space, self.action_space = Box(0, 1, (size,), np.float32), Discrete(2)

    def throw(self):
        return self.np_random.random(self.observation_space.shape, np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.throw(), {}

    def step(self, action):
        self.steps += 1
        return self.throw(), float(action), self.steps == 10, False, {}


class Loaded(Dice):
    """Hands its keywords on."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class Swallowing(Dice):
    """Takes any keywords and keeps them."""

    def __init__(self, **kwargs):
        super().__init__()
        self.kept = kwargs


def throw_dice(**kwargs):
    return Dice(**kwargs)


CREATORS = {
    "class": Dice,
    "class that hands keywords on": Loaded,
    "class that takes any": Swallowing,
    "lambda": lambda: Dice(),
    "function that hands keywords on": throw_dice,
    "partial": partial(Dice, size=2),
    "PufferEnv of one's own": lambda: GymnasiumPufferEnv(Dice()),
}
EMULATED = [name for name in CREATORS if name != "PufferEnv of one's own"]


@pytest.mark.parametrize("name", EMULATED)
def test_every_form_gives_the_rollout_of_the_emulated_environment(name):
    expected = vector.make(GymnasiumPufferEnv, env_kwargs={"env_creator": Dice}, num_envs=3, backend="Serial", seed=5)
    found = vector.make(CREATORS[name], num_envs=3, backend="Serial", seed=5)
    assert not getattr(found.driver_env.env, "kept", {})  # neither buf nor seed went where they mean nothing
    np.testing.assert_array_equal(found.reset()[0], expected.reset()[0])
    for _ in range(12):
        for one, other in zip(found.step(np.ones(3, int))[:4], expected.step(np.ones(3, int))[:4], strict=True):
            np.testing.assert_array_equal(one, other)
    found.close(), expected.close()


@pytest.mark.parametrize("name", CREATORS)
def test_make_takes_it(name):
    one = pufferlib.make(CREATORS[name])
    assert isinstance(one, GymnasiumPufferEnv) and one.num_agents == 1
    one.close()


@pytest.mark.parametrize("name", EMULATED)
def test_with_num_envs_make_gives_so_many(name):
    many = pufferlib.make(CREATORS[name], num_envs=4, seed=3)
    assert many.num_agents == 4 and len(np.unique(many.reset()[0], axis=0)) == 4
    many.close()


def test_what_takes_num_envs_is_told_it():
    creators = [
        partial(gymnasium.make_vec, "CartPole-v1", vectorization_mode="sync", vector_kwargs=SAME_STEP),
        lambda num_envs, **kwargs: CountingEnv(num_envs, **kwargs),
        lambda **kwargs: CountingEnv(agents=kwargs.pop("num_envs"), **kwargs),
    ]
    for creator in creators:
        env = pufferlib.make(creator, num_envs=4)
        assert env.num_agents == 4 and not isinstance(env, vector.Vector)
        env.close()


def test_keywords_go_to_the_class_and_the_seed_to_its_reset():
    env, same, other = (pufferlib.make(Dice, size=7, seed=seed) for seed in (1, 1, 2))
    first = env.reset()[0]
    assert first.shape == (1, 7)
    assert np.array_equal(first, same.reset()[0]) and not np.array_equal(first, other.reset()[0])
    with pytest.raises(APIUsageError, match=r"Dice\(size=2\) does not accept the arguments .*sise=3"):
        pufferlib.make(partial(Dice, sise=3))
    with pytest.raises(APIUsageError, match=r"Dice\(size=2\) does not accept the arguments .*'sise'"):
        pufferlib.make(Dice, num_envs=4, sise=3)
    with pytest.raises(APIUsageError, match=r"'sides'\); .*functools.partial or a default"):
        pufferlib.make(lambda sides: Dice(sides))


def test_a_function_of_gymnasium_makes_single_environments_and_vectors_of_them():
    many = pufferlib.make(gymnasium.make, id="Acrobot-v1", num_envs=3)
    assert many.num_agents == 3 and environment_name(many.driver_env) == "Acrobot-v1"
    many.close()
    creator = partial(gymnasium.make_vec, "Acrobot-v1", num_envs=2, vector_kwargs=SAME_STEP)
    with vector.make(creator, backend="Serial") as vecenv:
        assert isinstance(vecenv.driver_env, GymnasiumVectorPufferEnv) and vecenv.num_agents == 2


@pytest.mark.parametrize("name", EMULATED)
def test_a_trainer_takes_it(name):
    trainer = PuffeRL(CREATORS[name], num_envs=4, num_workers=1, evaluations=1, evaluation_envs=2, **TRAINING)
    assert trainer.vecenv.num_agents == 4
    made = type(trainer.vecenv.driver_env.env).__name__  # a class goes by module:Class, a function by what it makes
    assert trainer.env_name in (made.lower(), f"{__name__}:{made}", importable_name(CREATORS[name]))
    trainer.evaluate(), trainer.train(), trainer.vecenv.close()


def test_a_partial_keeps_the_number_that_it_fixes():
    creator = partial(gymnasium.make_vec, "Acrobot-v1", num_envs=2, vector_kwargs=SAME_STEP)
    trainer = PuffeRL(creator, **TRAINING)
    assert trainer.vecenv.num_agents == 2
    trainer.vecenv.close()


@pytest.mark.parametrize("name", CREATORS)
def test_a_trainer_with_a_configuration_takes_it_for_one_environment(name):
    config = {"batch_size": 64, "minibatch_size": 64, "bptt_horizon": 32, "device": "cpu", "total_timesteps": 64}
    policy = Default(pufferlib.make(Dice))
    trainer = PuffeRL(config, CREATORS[name], policy)
    assert trainer.vecenv.num_agents == 1
    trainer.evaluate(), trainer.train(), trainer.vecenv.close()


def test_a_failed_call_with_a_configuration_closes_what_it_made():
    closed = []

    class Closing(Dice):
        def close(self):
            closed.append(self)

    with pytest.raises(pufferlib.PufferError):
        PuffeRL({"batch_size": -1}, Closing, Default(pufferlib.make(Dice)))
    with pytest.raises(pufferlib.PufferError, match="total_timesteps must be at least one batch"):
        PuffeRL({"total_timesteps": 1, "device": "cpu"}, Closing, Default(pufferlib.make(Dice)))
    assert len(closed) == 1


def test_pettingzoos_classes_and_functions_are_taken():
    pytest.importorskip("pettingzoo")
    from pettingzoo.butterfly import pistonball_v6
    from pettingzoo.utils.env import ParallelEnv

    for creator in (pistonball_v6.parallel_env, partial(pistonball_v6.parallel_env, n_pistons=5), pistonball_v6.env):
        one, many = pufferlib.make(creator, seed=1), pufferlib.make(creator, num_envs=2)
        assert isinstance(one.env, ParallelEnv) and many.num_agents == 2 * one.num_agents
        assert environment_name(one).startswith("pistonball")
        one.close(), many.close()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("kind", ["Gymnasium", "vector", "PettingZoo", "C"])
def test_no_copy_is_made_of_what_writes_into_its_arrays_from_elsewhere(kind, copied):
    if kind == "PettingZoo":
        pytest.importorskip("pettingzoo")
        from pettingzoo_environments import Leaving

        env = PettingZooPufferEnv(Leaving())
    elif kind == "vector":
        env = GymnasiumVectorPufferEnv(gymnasium.vector.SyncVectorEnv([Dice, Dice], **SAME_STEP))
    else:
        env = pufferlib.make("puffer_squared") if kind == "C" else GymnasiumPufferEnv(Dice())
    with pytest.raises(APIUsageError, match=f"{type(env).__name__} to copy or pickle"):
        copied(env)
    env.close()


def test_an_error_of_the_environment_keeps_its_traceback():
    class Broken(Dice):
        def __init__(self, **kwargs):
            raise TypeError("unexpected keyword argument 'gravity'")

    with pytest.raises(TypeError, match="gravity"):
        vector.make(Broken, backend="Serial")
    with pytest.raises(TypeError, match="gravity"):
        vector.make(lambda **kwargs: Broken(), backend="Serial")
