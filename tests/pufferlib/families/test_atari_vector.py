"""ale-py's vector environment, beside the same games one by one."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from rollouts import digest, rollout

import pufferlib
from pufferlib import NoLogger, PuffeRL
from pufferlib.errors import APIUsageError
from pufferlib.families import catalog
from pufferlib.play.scores import ConfiguredEnv

pytest.importorskip("ale_py")


def make_games(env_id, num_envs, settings=None, **keywords):
    """Games in ale-py's vector environment, with their settings and keywords of the vector."""
    return catalog.find(env_id).make_vector(settings or {}, backend="GymnasiumVector", num_envs=num_envs, **keywords)


def single_game(env_id):
    """The reference: Gymnasium's wrappers, with black frames before the first one."""
    raw = gymnasium.make(env_id, frameskip=1, obs_type="rgb", repeat_action_probability=0.0)
    return FrameStackObservation(AtariPreprocessing(raw, noop_max=0, frame_skip=4), 4, padding_type="zero")


@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", pytest.param("ALE/Pong-v5", marks=pytest.mark.slow)])
def test_pictures_and_rewards_are_those_of_gymnasiums_preprocessing(env_id):
    pytest.importorskip("cv2")
    with make_games(env_id, 1, {"noop_max": 0, "episodic_life": False, "clip_rewards": False}) as vecenv:
        game = single_game(env_id)
        assert vecenv.single_observation_space.shape == (4, 84, 84)
        assert vecenv.single_action_space == game.action_space
        expected, _ = game.reset()
        np.testing.assert_array_equal(vecenv.reset()[0][0], expected)
        rewards = 0.0
        for action in np.random.default_rng(1).integers(0, game.action_space.n, 220):
            observations, found, terminals, truncations, _ = vecenv.step(np.array([action]))
            expected, reward, terminal, truncation, _ = game.step(action)
            assert (found[0], terminals[0], truncations[0]) == (reward, terminal, truncation)
            rewards += abs(reward)
            if terminal:
                break
            np.testing.assert_array_equal(observations[0], expected)
        assert rewards > 0
        game.close()


def test_a_lost_life_ends_an_episode_and_the_score_belongs_to_the_whole_game():
    env = make_games("ALE/Breakout-v5", 4, seed=3)
    env.reset()
    random, lives, scores, clipped, total = np.random.default_rng(0), 0, [], set(), 0.0
    for _ in range(420):
        _, rewards, terminals, truncations, infos = env.step(random.integers(0, 4, 4))
        clipped |= set(rewards.tolist())
        total += float(rewards.sum())  # in the lower rows of Breakout every brick is worth 1
        lives += int(terminals.sum())
        scores += [info["score"] for info in infos]
        assert not truncations.any()
    env.close()
    assert clipped <= {0.0, 1.0}
    assert 4 < len(scores) * 5 <= lives <= len(scores) * 5 + 4 * 4
    assert sum(scores) > 0
    assert total <= sum(scores) + 4 * 20


@pytest.mark.slow
def test_one_seed_gives_one_rollout_however_the_games_are_stepped():
    def run(seed, **keywords):
        return digest(rollout(make_games("ALE/Pong-v5", 2, {"noop_max": 8}, seed=seed, **keywords), steps=8))

    assert run(3, num_workers=1) == run(3, num_workers=2)
    assert run(3) != run(4)


@pytest.mark.slow
def test_two_vector_environments_share_the_games():
    with make_games("ALE/Pong-v5", 4, batch_size=2) as vecenv:
        assert (vecenv.num_agents, vecenv.agents_per_batch) == (4, 2)
        vecenv.async_reset()
        received = [vecenv.recv()[5].tolist() for _ in range(2)]
        assert received == [[0, 1], [2, 3]]
        vecenv.send(np.zeros(2, int))
        vecenv.send(np.zeros(2, int))


def test_what_ale_pys_vector_does_not_take_is_refused():
    with pytest.raises(APIUsageError, match="batch_size must be a divisor of num_envs 8, got 3"):
        make_games("ALE/Pong-v5", 8, batch_size=3)
    with pytest.raises(APIUsageError, match="takes the settings clip_rewards, .*, got mode; use the backend"):
        make_games("ALE/Pong-v5", 8, {"mode": 4})
    with pytest.raises(APIUsageError, match="num_envs must be an integer of at least 1, got 0"):
        make_games("ALE/Pong-v5", 0)
    with pytest.raises(APIUsageError, match="num_workers must be 'auto' or an integer from 1 to 1024, got -1"):
        make_games("ALE/Pong-v5", 8, num_workers=-1)
    with pytest.raises(APIUsageError, match="takes the settings .*, got step_timeout_seconds; use the backend 'auto'"):
        make_games("ALE/Pong-v5", 8, step_timeout_seconds=3.0)


@pytest.mark.parametrize(("given", "expected"), [({}, False), ({"episodic_life": True, "clip_rewards": True}, True)])
def test_policies_are_scored_by_whole_games_unless_the_settings_say_otherwise(given, expected):
    vecenv = ConfiguredEnv(catalog.find("ALE/Breakout-v5"), given).make(episodes=1, seed=0)
    game = vecenv.driver_env.env
    assert (game._episodic_life, game._clip_rewards) == (expected, expected)
    vecenv.close()


TINY_EVALUATION = {"evaluations": 1, "evaluation_envs": 2, "batch_size": 8, "device": "cpu"}


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize(("given", "expected"), [({}, False), ({"clip_rewards": True}, True)])
def test_evaluations_while_training_are_of_whole_games_too(given, expected):
    trainer = PuffeRL(pufferlib.make("ALE/Breakout-v5", num_envs=2, **given), **TINY_EVALUATION, logger=NoLogger())
    made = trainer._evaluation._make_vecenv(3)
    game = made.driver_env.env
    assert (made.num_agents, game._episodic_life, game._clip_rewards) == (2, False, expected)
    made.close()
    trainer.release()


@pytest.mark.usefixtures("in_tmp_path")
def test_evaluations_while_training_by_ale_pys_vector_are_of_whole_games_too():
    trainer = PuffeRL("ALE/Breakout-v5", num_envs=2, num_workers=1, **TINY_EVALUATION, logger=NoLogger())
    made = trainer._evaluation._make_vecenv(3)
    assert made.num_agents == 2 and not made.driver_env._clips_rewards
    made.close()
    trainer.release()


def test_a_game_is_cut_after_the_frames_that_are_asked_for_in_ale_pys_vector_too():
    with make_games("ALE/Breakout-v5", 1, {"noop_max": 0, "max_num_frames_per_episode": 40}) as vecenv:
        vecenv.reset()
        assert [bool(vecenv.step(np.zeros(1, int))[3][0]) for _ in range(10)] == [False] * 9 + [True]
    assert "Frames" in catalog.find("ALE/Breakout-v5").settings["max_num_frames_per_episode"].meaning
