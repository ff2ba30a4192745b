"""Action masks of Gymnasium, PettingZoo and Stable-Baselines3's contributions, by their names."""

from __future__ import annotations

import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium_environments import Scripted, Walled
from gymnasium_vectors import SAME_STEP

import pufferlib
from pufferlib import models, vector
from pufferlib.emulation import GymnasiumPufferEnv, GymnasiumVectorPufferEnv, PettingZooPufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.play.agent import Agent


class Corridor(Walled):
    """Infos have the mask."""

    width = 2

    def told(self):
        return {"action_mask": np.array([self.place > 0, self.place < 4] + [False] * (self.width - 2), np.int8)}


class ByMethod(Corridor):
    def told(self):
        return {}

    def action_masks(self):
        return np.array([self.place > 0, self.place < 4])


class ByAttribute(Corridor):
    def told(self):
        self.action_masks = np.array([self.place > 0, self.place < 4])
        return {}

    def __init__(self):
        super().__init__()
        self.action_masks = np.ones(2, bool)


class ByProperty(Corridor):
    def told(self):
        return {}

    @property
    def action_masks(self):
        return [self.place > 0, self.place < 4]


class Plain(Corridor):
    def told(self):
        return {}


@pytest.mark.parametrize("kind", [Corridor, ByMethod, ByAttribute, ByProperty])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_gymnasiums_masks_are_understood(kind, is_wrapped):
    env = GymnasiumPufferEnv(gymnasium.wrappers.TimeLimit(kind(), 50) if is_wrapped else kind())
    assert env.has_action_masks and env.action_masks.shape == (1, 2)
    env.reset(seed=3)
    random = np.random.default_rng(0)
    for _ in range(200):
        place = env.observations[0, 0]
        assert env.action_masks[0].tolist() == [place > 0, place < 4]
        env.step((random.random((1, 2)) * env.action_masks).argmax(1).astype(np.int32))


MODULES = {
    "function": """
def info_of(env):
    return {"action_mask": [env.place > 0, env.place < 4]}

class Env(Walled):
    def told(self):
        return info_of(self)
""",
    "constant": """
KEY = "action_mask"

class Env(Walled):
    def told(self):
        return {KEY: [self.place > 0, self.place < 4]}
""",
    "property": """
class Env(Walled):
    @property
    def info(self):
        return {"action_mask": [self.place > 0, self.place < 4]}

    def told(self):
        return self.info
""",
    "classmethod": """
class Env(Walled):
    @classmethod
    def info_of(cls, place):
        return {"action_mask": [place > 0, place < 4]}

    def told(self):
        return self.info_of(self.place)
""",
    "object": """
class Rules:
    @staticmethod
    def info_of(place):
        return {"action_mask": [place > 0, place < 4]}

class Env(Walled):
    rules = Rules()

    def told(self):
        return self.rules.info_of(self.place)
""",
}


@pytest.mark.parametrize("form", MODULES)
def test_an_info_may_be_made_anywhere_in_the_module_of_the_class(form, monkeypatch):
    module = types.ModuleType(f"masked_by_{form}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Walled = Walled
    exec(MODULES[form], vars(module))
    env = GymnasiumPufferEnv(module.Env())
    env.reset(seed=0)
    while env.observations[0, 0] > 0:
        env.step(np.zeros(1, np.int32))
    assert env.has_action_masks and env.action_masks.tolist() == [[False, True]]


def test_a_first_reset_with_the_first_seed_is_the_one_that_saw_the_mask():
    env = GymnasiumPufferEnv(env_creator=Corridor, seed=5)
    other = Corridor()
    assert env.reset()[0][0] == other.reset(seed=5)[0] and env.env.np_random_seed == 5


def test_an_environment_without_masks_is_not_reset_before_it_is_used():
    env = GymnasiumPufferEnv(Scripted())
    assert env.env.resets == [] and not env.has_action_masks and env.action_masks is None
    assert not GymnasiumPufferEnv(Plain()).has_action_masks


class Late(Corridor):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0], {}


def test_a_mask_that_first_comes_with_a_step_is_refused():
    env = GymnasiumPufferEnv(Late())
    assert env.reset(seed=1) and not env.has_action_masks
    with pytest.raises(APIUsageError, match=r"seen when an environment is made, .* give .* a method action_masks\(\)"):
        env.step(np.zeros(1, np.int32))


def test_a_mask_that_first_comes_with_a_reset_is_refused():
    env = GymnasiumPufferEnv(Plain())
    env.env.told = lambda: {"action_mask": [1, 0]}
    with pytest.raises(APIUsageError, match="got the first one in a later info of <Plain"):
        env.reset()


def test_a_mask_of_other_choices_is_refused():
    class Wide(Corridor):
        width = 3

    env = GymnasiumPufferEnv(Wide())
    with pytest.raises(APIUsageError, match="a number for each of 2 choices, got 3"):
        env.reset()


class Parts(Corridor):
    action_space = MultiDiscrete([2, 3])

    def told(self):
        return {"action_mask": (np.array([1, 0]), np.array([0, 1, 1]))}


def test_masks_of_parts_may_be_a_tuple():
    env = GymnasiumPufferEnv(Parts())
    env.reset()
    assert env.action_masks.tolist() == [[True, False, False, True, True]]


@pytest.mark.parametrize("kind", [Corridor, ByMethod])
@pytest.mark.parametrize("vector_kind", [SyncVectorEnv, AsyncVectorEnv])
def test_masks_of_a_gymnasium_vector_are_those_of_its_environments(kind, vector_kind):
    games = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector_kind([kind] * 3, **SAME_STEP))
    env = GymnasiumVectorPufferEnv(games)
    assert env.has_action_masks and env.action_masks.shape == (3, 2)
    env.reset(seed=3)
    random, ends = np.random.default_rng(0), 0
    for _ in range(100):
        places = env.observations
        assert np.array_equal(env.action_masks, np.hstack([places > 0, places < 4]))
        env.step((random.random((3, 2)) * env.action_masks).argmax(1).astype(np.int32))
        ends += env.terminals.sum()
    env.close()
    assert ends > 10


def test_an_environment_of_a_vector_that_tells_no_mask_may_do_everything():
    class Sometimes(Corridor):
        def told(self):
            return super().told() if self.place < 2 else {}

    env = GymnasiumVectorPufferEnv(SyncVectorEnv([Sometimes] * 2, **SAME_STEP), seed=1)
    env.reset()
    for step in range(30):
        assert np.array_equal(env.action_masks, np.hstack([env.observations > 0, env.observations < 9]))
        env.step(np.where(env.observations[:, 0] == 0, 1, step // 2 % 2).astype(np.int32))


def test_masks_of_parts_may_be_tuples_in_a_vector():
    env = GymnasiumVectorPufferEnv(SyncVectorEnv([Parts] * 2, **SAME_STEP))
    env.reset()
    assert env.action_masks.tolist() == [[True, False, False, True, True]] * 2


def test_a_vector_may_have_the_method_itself():
    class Own(SyncVectorEnv):
        def action_masks(self):
            return np.array([[True, False], [False, True]])

    class Kept(SyncVectorEnv):
        action_masks = np.array([[True, False], [False, True]])

    for kind in (Own, Kept):
        env = GymnasiumVectorPufferEnv(kind([Plain] * 2, **SAME_STEP))
        env.reset()
        assert env.action_masks.tolist() == [[True, False], [False, True]]


def test_a_vector_without_masks_is_not_reset_before_it_is_used_and_a_later_mask_is_refused():
    env = GymnasiumVectorPufferEnv(SyncVectorEnv([Scripted], **SAME_STEP))
    assert env.env.envs[0].resets == [] and env.action_masks is None
    env = GymnasiumVectorPufferEnv(SyncVectorEnv([Late] * 2, **SAME_STEP))
    env.reset()
    with pytest.raises(APIUsageError, match=r"seen when an environment is made, .* give .* a method action_masks\(\)"):
        env.step(np.zeros(2, np.int32))


@pytest.mark.parametrize(
    "make",
    [
        lambda: vector.make(lambda buf, seed: GymnasiumPufferEnv(Corridor(), buf=buf), num_envs=4, backend="Serial"),
        lambda: SyncVectorEnv([Corridor] * 4, **SAME_STEP),
    ],
    ids=["puffer", "gymnasium"],
)
def test_a_run_with_gymnasiums_masks_heeds_them(make, tmp_path):
    sizes = {"batch_size": 128, "num_steps": 32, "minibatch_size": 64, "total_timesteps": 10**6}
    trainer = pufferlib.PuffeRL(env=make(), data_dir=str(tmp_path), logger=pufferlib.NoLogger(), **sizes)
    for _ in range(3):  # the environment asserts
        trainer.evaluate()
        trainer.train()
    trainer.close()


# --- PettingZoo


def parallel_env(spaces, action_spaces):
    pettingzoo = pytest.importorskip("pettingzoo", reason="pip install 'pufferlib[pettingzoo]'")

    class Masked(pettingzoo.ParallelEnv):
        metadata: dict = {"name": "masked"}  # noqa: RUF012
        possible_agents = ("a", "b")

        def observation_space(self, agent):
            return spaces[agent]

        def action_space(self, agent):
            return action_spaces[agent]

        def reset(self, seed=None, options=None):
            self.agents, self.time = list(self.possible_agents), 0
            return self.shown(), {}

        def step(self, actions):
            self.time += 1
            flags = dict.fromkeys(self.agents, False)
            return self.shown(), dict.fromkeys(self.agents, 0.0), flags, flags, dict.fromkeys(self.agents, {})

        def shown(self):
            masks = {each: np.arange(action_spaces[each].n) <= self.time for each in self.agents}
            parts = {"observation": np.full(3, self.time, np.float32)}
            return {each: {**parts, "action_mask": masks[each].astype(np.int8)} for each in self.agents}

        def close(self):
            pass

    return Masked()


def masked_space(choices):
    return Dict({"observation": Box(0, 100, (3,), np.float32), "action_mask": Box(0, 1, (choices,), np.int8)})


def test_pettingzoos_masks_are_taken_out_of_the_observation():
    env = PettingZooPufferEnv(parallel_env(dict.fromkeys("ab", masked_space(4)), dict.fromkeys("ab", Discrete(4))))
    assert env.single_observation_space == Box(0, 100, (3,), np.float32) and env.has_action_masks
    env.reset()
    assert env.action_masks.tolist() == [[True, False, False, False]] * 2
    env.step(np.zeros(2, np.int32))
    assert env.observations.tolist() == [[1.0] * 3] * 2
    assert env.action_masks.tolist() == [[True, True, False, False]] * 2
    agent = Agent(models.Default(env), env)
    assert agent.act(np.ones(3, np.float32), action_masks=[False, False, True, False]) == 2


def test_agents_with_fewer_choices_may_not_take_the_others():
    spaces = {"a": masked_space(2), "b": masked_space(4)}
    env = PettingZooPufferEnv(parallel_env(spaces, {"a": Discrete(2), "b": Discrete(4)}))
    env.reset()
    for _ in range(3):
        env.step(np.zeros(2, np.int32))
    assert env.action_masks.tolist() == [[True, True, False, False], [True] * 4]


def test_pettingzoos_masks_in_infos_are_refused():
    inner = parallel_env(dict.fromkeys("ab", Box(0, 100, (3,), np.float32)), dict.fromkeys("ab", Discrete(4)))
    inner.shown = lambda: {each: np.zeros(3, np.float32) for each in inner.agents}
    PettingZooPufferEnv(inner).reset()
    masks = {"a": {"action_mask": np.ones(4, np.int8)}}
    inner.reset = lambda seed=None, options=None: (type(inner).reset(inner)[0], masks)
    with pytest.raises(APIUsageError, match="action_mask .* observations"):
        PettingZooPufferEnv(inner).reset()


# --- Ocean's environments in other libraries


def test_ocean_shows_its_masks_as_gymnasium_does():
    env = pufferlib.make_gymnasium("puffer_connect4", bot_depth=0)
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8 and info["action_mask"].tolist() == [1] * 7
    env.action_space.seed(0)
    ended = False
    while not ended:
        assert env.action_masks().tolist() == info["action_mask"].astype(bool).tolist()
        _, _, ended, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
    assert info == {}
    assert not hasattr(pufferlib.make_gymnasium("puffer_squared"), "action_masks")


def test_what_ocean_shows_is_understood_again():
    env = GymnasiumPufferEnv(pufferlib.make_gymnasium("puffer_connect4", bot_depth=0))
    assert env.has_action_masks
    env.reset(0)
    assert env.action_masks.all()


def test_a_vector_of_ocean_shows_masks_of_all():
    envs = pufferlib.make_gymnasium_vec("puffer_connect4", 3)
    _, infos = envs.reset(seed=0)
    assert infos["action_mask"].shape == (3, 7) and infos["_action_mask"].all()
    assert "action_mask" not in pufferlib.make_gymnasium_vec("puffer_squared", 3).reset()[1]


def test_ocean_shows_its_masks_as_pettingzoo_does(tmp_path):
    parallel_test = pytest.importorskip("pettingzoo.test.parallel_test", reason="pip install 'pufferlib[pettingzoo]'")
    from nim_game import nim_class

    nim = nim_class(tmp_path)
    env = pufferlib.make_pettingzoo(nim)
    observations, _ = env.reset(seed=0)
    assert observations["agent_0"]["action_mask"].tolist() == [1, 1, 1]
    assert env.observation_space("agent_0").contains(observations["agent_0"])
    parallel_test.parallel_api_test(pufferlib.make_pettingzoo(nim), num_cycles=50)


@pytest.mark.slow
def test_maskable_ppo_of_stable_baselines_trains_on_ocean():
    sb3_contrib = pytest.importorskip("sb3_contrib", reason="pip install sb3-contrib")
    env = pufferlib.make_gymnasium("puffer_connect4", bot_depth=0)
    model = sb3_contrib.MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=0)
    model.learn(256)
