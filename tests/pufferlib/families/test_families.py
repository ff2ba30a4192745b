import importlib

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.families.atari import AtariGame, AtariVectorPufferEnv


class Game(gymnasium.Env):
    """Three lives, one lost at every third step; rewards are the number of the step."""

    observation_space = Box(0, 255, (1,), np.uint8)
    action_space = Discrete(3)

    def __init__(self):
        self.steps, self.games, self.actions = 0, 0, []

    def _result(self):
        return np.array([self.steps], np.uint8), {"lives": 3 - self.steps // 3}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.games = 0, self.games + 1
        return self._result()

    def step(self, action):
        self.steps += 1
        self.actions.append(action)
        observation, info = self._result()
        return observation, float(self.steps), info["lives"] == 0, False, info


def play(env, steps):
    """Rewards, terminals and infos, with resets in between as emulation does them."""
    results = []
    for _ in range(steps):
        observation, reward, terminal, truncation, info = env.step(1)
        results.append((int(observation[0]), reward, terminal, info))
        if terminal or truncation:
            env.reset()
    return results


def test_a_lost_life_ends_an_episode_and_the_game_goes_on():
    game = Game()
    env = AtariGame(game, episodic_life=True, clip_rewards=True)
    env.reset(seed=1)
    results = play(env, 7)
    assert [step for step, *_ in results] == [1, 2, 3, 5, 6, 8, 9]  # a step without action after each life
    assert [terminal for *_, terminal, _ in results] == [False, False, True, False, True, False, True]
    assert game.games == 2 and game.actions.count(0) == 2
    assert {reward for _, reward, *_ in results} == {1}
    assert [info for *_, info in results] == [{}] * 6 + [{"score": float(sum(range(1, 10)))}]


def test_without_episodic_life_an_episode_is_a_game():
    env = AtariGame(Game(), episodic_life=False, clip_rewards=False)
    env.reset(seed=1)
    results = play(env, 9)
    assert [terminal for *_, terminal, _ in results] == [False] * 8 + [True]
    assert [reward for _, reward, *_ in results] == [float(step) for step in range(1, 10)]
    assert results[-1][3] == {"score": 45.0}


def test_a_seed_begins_a_new_game_after_a_lost_life():
    game = Game()
    env = AtariGame(game, episodic_life=True, clip_rewards=True)
    env.reset(seed=1)
    play(env, 2)
    env.step(1)
    env.reset(seed=2)
    assert game.games == 2 and game.steps == 0


def test_atari_observations_are_stacked_grey_pictures():
    pytest.importorskip("cv2")
    if not next(family for family in catalog.families() if family.name == "atari").is_installed:
        pytest.skip("needs ale_py")
    env = catalog.find("ALE/Breakout-v5").creator(buf=None, seed=0, frame_stack=3, screen_size=60)
    first, _ = env.reset(5)
    assert first.shape == (1, 3, 60, 60) and first.dtype == np.uint8 and first.max() > 0
    for _ in range(4):
        observations, *_ = env.step(np.ones(env.actions.shape, np.int32))
    assert not (observations[0, 0] == observations[0, 2]).all()  # the ball moves
    assert env.env.unwrapped.ale.getFloat("repeat_action_probability") == 0.0
    env.close()


@pytest.mark.slow
def test_atari_trains_in_ale_pys_own_vector_where_that_has_the_settings():
    if not next(family for family in catalog.families() if family.name == "atari").is_installed:
        pytest.skip("needs ale_py and cv2")
    entry = catalog.find("ALE/Breakout-v5")
    small = {"screen_size": 20, "frame_stack": 2}
    with entry.make_vector(small, num_envs=4, batch_size=2, num_workers=1, seed=3) as vecenv:
        assert isinstance(vecenv.driver_env, AtariVectorPufferEnv)
        assert (vecenv.num_agents, vecenv.agents_per_batch) == (4, 2)
        assert vecenv.single_observation_space.shape == (2, 20, 20)
        with vecenv.again(3, seed=1) as other:
            assert other.num_agents == 3
    for setting, backend in (({}, "Serial"), ({"mode": 4}, "auto")):
        with entry.make_vector({**small, **setting}, backend=backend, num_workers=1) as vecenv:
            assert isinstance(vecenv.driver_env, GymnasiumPufferEnv) and vecenv.num_agents == 1
    with pytest.raises(APIUsageError, match="takes the settings clip_rewards, .*, got mode; use the backend 'auto'"):
        entry.make_vector({"mode": 4}, backend="GymnasiumVector")


def test_minigrid_observations_are_categories_and_know_the_direction():
    require_family("minigrid")
    env = catalog.find("MiniGrid-Empty-5x5-v0").creator(buf=None, seed=0, agent_view_size=3)
    observations, _ = env.reset(1)
    assert observations.shape == (1, 3 * 3 * 3 + 1)  # and no mission, which is always the same
    assert env.single_observation_space.high.tolist() == [*([10, 5, 2] * 9), 3]
    constants = importlib.import_module("minigrid.core.constants")
    kinds = [len(getattr(constants, name)) for name in ("OBJECT_TO_IDX", "COLOR_TO_IDX", "STATE_TO_IDX")]
    assert kinds == [11, 6, 3]
    view = observations[0, :-1].reshape(3, 3, 3)
    assert np.array_equal(view, env.env.unwrapped.gen_obs()["image"]) and observations[0, -1] == 0
    observations, *_ = env.step(np.full(env.actions.shape, 1, np.int32))  # turn right
    assert observations[0, -1] == 1
    env.close()


@pytest.mark.parametrize(
    ("name", "most"),
    [("MiniGrid-Fetch-5x5-N2-v0", 6), ("MiniGrid-PutNear-6x6-N2-v0", 8), ("BabyAI-PickupLoc-v0", 32)],
)
def test_missions_that_differ_are_seen_word_by_word(name, most):
    require_family("minigrid")
    from pufferlib.families.envpool_family import WORDS

    env = catalog.find(name).creator(buf=None, seed=0)
    for seed in range(20):
        observations, _ = env.reset(seed)
        words = observations[0, 148:]
        assert words.shape == (most,)
        shown = " ".join(WORDS[number - 1] for number in words if number)
        assert shown == env.env.unwrapped.mission
    env.close()


def test_a_word_that_no_mission_is_known_to_have_is_one_of_its_own():
    from pufferlib.families.envpool_family import WORDS, word_numbers

    assert len({*WORDS}) == len(WORDS)
    go, to = WORDS.index("go") + 1, WORDS.index("to") + 1
    assert word_numbers(b"go to zanzibar, go\0\0", 6).tolist() == [go, to, len(WORDS) + 1, len(WORDS), go, 0]
    assert word_numbers(b"go to zanzibar", 2).tolist() == [go, to]


def require_family(name):
    if not next(family for family in catalog.families() if family.name == name).is_installed:
        pytest.skip(f"needs {name}")


def test_names_of_pettingzoo_need_no_import_of_their_modules():
    family = next(family for family in catalog.families() if family.name == "pettingzoo")
    if not family.is_installed:
        pytest.skip("needs pettingzoo")
    names = family.names()
    assert "pettingzoo:butterfly/pistonball_v6" in names and all(catalog.slug(name) != name for name in names)
    assert catalog.lookup("pettingzoo:butterfly/pistonball_v99") is None
    assert catalog.lookup("pettingzoo:utils/env") is None
