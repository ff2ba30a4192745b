import copy

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import pufferlib
from pufferlib import PuffeRL, vector
from pufferlib.environment import Keys, PufferEnv
from pufferlib.errors import APIUsageError
from pufferlib.runs.making import environment_name
from pufferlib.wrappers import (
    ClipReward,
    EpisodeStatistics,
    FrameStack,
    ObservationWrapper,
    PufferWrapper,
    ResizeObservation,
)

AGENTS = 3


class Clock(PufferEnv):
    """Agent `a` shows 100 a + the time in its episode, everywhere; its episodes are a + 2 steps, cut at their end.

    Where told to, the last agent is absent at odd times of the whole run. Rewards are 10 a + the number of the step.
    """

    def __init__(self, shape=(2,), low=0, high=1000, dtype=np.float32, has_absent=False, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Box(low, high, shape, dtype), Discrete(2)
        self.num_agents = AGENTS
        super().__init__(buf)
        self.start, self.rows = seed % 7, np.arange(AGENTS)
        self.options, self.has_absent = None, has_absent

    def reset(self, seed=None, options=None):
        self.times, self.steps, self.options = np.zeros(AGENTS, int), 0, options
        self.show()
        return self.observations, []

    def show(self):
        self.observations[:] = self.shown().reshape(-1, *[1] * (self.observations.ndim - 1))
        self.masks[-1] = self.steps % 2 == 0 or not self.has_absent

    def shown(self):
        return 100 * self.rows + self.times

    def step(self, actions):
        self.times += 1
        self.steps += 1
        self.rewards[:] = 10 * self.rows + self.times
        self.truncations[:] = ended = self.times == self.rows + 2
        finals = self.shown()
        infos = [
            {"final_observation": np.full_like(self.observations[agent], finals[agent]), "agent_id": int(agent)}
            for agent in ended.nonzero()[0]
        ]
        self.times[ended] = 0
        self.show()
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def snapshot(self):
        return np.array([*self.times, self.steps]).tobytes()

    def restore(self, snapshot):
        *self.times, self.steps = np.frombuffer(snapshot, int)
        self.times = np.array(self.times)


ACTIONS = np.zeros(AGENTS, np.int32)


def walk(env, steps):
    """The results of a reset and some steps, as they were then."""
    observations, infos = env.reset(seed=1)
    history = [(observations.copy(), infos)]
    for _ in range(steps):
        history.append(copy.deepcopy(env.step(ACTIONS)))
    return history


def arrays_of(history):
    return [array for results in history for array in results[:-1]]


def same(first, second):
    return all(np.array_equal(*pair) for pair in zip(arrays_of(first), arrays_of(second), strict=True))


# --- the base


def test_a_wrapper_is_the_environment_inside():
    env = PufferWrapper(Clock())
    assert env.num_agents == AGENTS and env.start == 0
    assert env.single_observation_space == env.env.single_observation_space and env.emulated is None
    assert env.observations is env.env.observations and env.masks is env.env.masks and env.actions.shape == (AGENTS,)
    assert env.observation_space.shape == (AGENTS, 2) and env.driver_env is env
    assert same(walk(env, 9), walk(Clock(), 9))
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = env.no_such_thing
    assert copy.copy(env).start == 0


class Replacing(Clock):
    """Makes new action masks in each step, and is one of a bot and of keys."""

    has_action_masks = has_bot_moves = True
    simulator, keys = "a library", Keys({"left": 0})

    def show(self):
        super().show()
        self.action_masks = np.tile([self.steps % 2 == 0, True], (AGENTS, 1))


def test_what_a_puffer_env_has_a_value_for_is_that_of_the_environment_inside():
    env = ClipReward(Replacing())
    for steps in range(3):
        _ = env.step(np.zeros(AGENTS, int)) if steps else env.reset()
        np.testing.assert_array_equal(env.action_masks[:, 0], steps % 2 == 0)
    assert env.has_action_masks and env.has_bot_moves
    assert (env.simulator, env.keys) == ("a library", Replacing.keys)
    assert type("Own", (ClipReward,), {"keys": None})(Replacing()).keys is None
    env.action_masks = None
    assert env.action_masks is None


def test_options_of_a_reset_pass_through():
    env = EpisodeStatistics(ClipReward(FrameStack(Clock(), 2)))
    env.reset(options={"level": 3})
    assert env.env.env.env.options == env.options == {"level": 3}


def test_closing_closes_what_is_inside():
    closed = []
    env = Clock()
    env.close = lambda: closed.append(1)
    ClipReward(EpisodeStatistics(env)).close()
    assert closed == [1]


def test_a_structure_is_still_described_where_it_is_still_shown():
    class Packed(Clock):
        emulated = "a structure"

    assert ClipReward(Packed()).emulated == "a structure"
    with pytest.raises(APIUsageError, match="FrameStack takes .* one Box, got packed structures; use Gymnasium's"):
        FrameStack(Packed(), 2)


@pytest.mark.parametrize("env", [gymnasium.Env(), 3, Clock])
@pytest.mark.parametrize("wrap", [ClipReward, lambda env: FrameStack(env, 2)])
def test_only_puffer_environments_are_wrapped(env, wrap):
    with pytest.raises(APIUsageError, match="env must be a PufferEnv"):
        wrap(env)


class Bare:
    """Has no more than the parts of a PufferEnv."""

    single_observation_space, single_action_space, num_agents = Box(0, 1, (2,)), Discrete(2), 2

    def reset(self, seed=None):
        return np.zeros((2, 2), np.float32), []

    def step(self, actions):
        return self.reset()[0] + 1, np.ones(2, np.float32), np.ones(2, bool), np.zeros(2, bool), []

    def close(self):
        pass


@pytest.mark.parametrize("wrap", [lambda env: FrameStack(env, 2), EpisodeStatistics])
def test_what_has_no_more_than_the_parts_of_one_is_wrapped(wrap):
    with vector.adopt(wrap(Bare())) as vecenv:
        vecenv.reset()
        assert vecenv.step(np.zeros(2, int))[1].tolist() == [1, 1]
        assert vecenv.driver_env.masks.tolist() == [True, True]


def test_a_run_is_named_after_the_environment_inside():
    env = ClipReward(FrameStack(pufferlib.make("puffer_squared", num_envs=2), 2))
    assert environment_name(env) == "puffer_squared"
    env.close()


# --- observations


class Halves(ObservationWrapper):
    def __init__(self, env):
        super().__init__(env, Box(0, 500, (1,)))

    def transform(self, observations):
        return observations[:, :1] / 2


def test_an_observation_wrapper_changes_final_observations_too():
    history, inside = walk(Halves(Clock()), 9), walk(Clock(), 9)
    for (observations, *_, infos), (expected, *_, plain) in zip(history, inside, strict=True):
        assert np.array_equal(observations, expected[:, :1] / 2)
        assert [info["final_observation"] for info in infos] == [info["final_observation"][:1] / 2 for info in plain]
        assert [info["agent_id"] for info in infos] == [info["agent_id"] for info in plain]
    assert sum(len(results[-1]) for results in history) == 4 + 3 + 2


def stacked(agent, time, frames):
    """What an agent shows at a time of its episode."""
    return [100 * agent + max(time - back, 0) for back in reversed(range(frames))]


class Shown(ObservationWrapper):
    def __init__(self, env, change, dtype=np.uint8):
        super().__init__(env, Box(0, 255, (2,), dtype))
        self.transform = change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows * 0.5, "observations of uint8, as its space says, got float"),
        (lambda rows: rows.astype(np.int64) + 300, "observations of uint8, as its space says, got int64 from"),
        (lambda rows: rows[0].astype(np.uint8), r"observations of shape \(3, 2\), got \(2,\); return one row"),
    ],
)
def test_observations_that_would_be_cut_or_repeated_are_refused(change, found):
    env = Shown(Clock(), change)
    with pytest.raises(APIUsageError, match=f"Shown must return {found}"):
        env.reset(0)
    vecenv = vector.adopt(Shown(Clock(), lambda rows: rows.astype(np.int64) % 256))
    assert vecenv.reset()[0].dtype == np.uint8
    vecenv.close()


def test_a_snapshot_that_is_too_short_is_told():
    with pytest.raises(APIUsageError, match="a snapshot of FrameStack has 51 bytes or more, got 3"):
        FrameStack(Clock(), 2).restore(b"abc")


def test_frames_are_those_of_the_episode_and_the_first_stands_for_missing_ones():
    env = FrameStack(Clock(), 3)
    assert env.single_observation_space == Box(0, 1000, (3, 2)) and env.observation_space.shape == (AGENTS, 3, 2)
    for step, (observations, *_, infos) in enumerate(walk(env, 12)):
        assert observations in env.observation_space
        for agent in range(AGENTS):
            expected = stacked(agent, step % (agent + 2), 3)
            assert observations[agent].tolist() == [[frame] * 2 for frame in expected]
        for info in infos:
            agent = info["agent_id"]
            expected = stacked(agent, agent + 2, 3)
            assert info["final_observation"].tolist() == [[frame] * 2 for frame in expected]


def test_frames_begin_anew_where_an_agent_comes_back():
    for step, (observations, *_) in enumerate(walk(FrameStack(Clock(has_absent=True), 3), 12)):
        if step % 2 == 0:
            assert observations[-1].tolist() == [[200 + step % 4] * 2] * 3
        assert observations[0, :, 0].tolist() == stacked(0, step % 2, 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_frames_are_joined_along_a_dimension(axis):
    class Patterned(Clock):
        def show(self):
            super().show()
            self.observations += np.arange(6).reshape(2, 3, 1) / 8

    apart, joined = FrameStack(Patterned((2, 3, 1)), 4), FrameStack(Patterned((2, 3, 1)), 4, axis)
    for (frames, *_, infos), (observations, *_, others) in zip(walk(apart, 9), walk(joined, 9), strict=True):
        assert observations in joined.observation_space
        assert np.array_equal(observations, np.concatenate(list(frames.swapaxes(0, 1)), 1 + axis % 3))
        for info, other in zip(infos, others, strict=True):
            assert np.array_equal(other["final_observation"], np.concatenate(list(info["final_observation"]), axis))


def test_bounds_are_those_of_every_frame():
    low = np.float32([0, -5])
    space = FrameStack(Clock((2,), low), 2, axis=0).single_observation_space
    assert space.low.tolist() == [0, -5, 0, -5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0,), "num_frames must be at least 1, got 0"), ((2, 1), r"axis must be None or a dimension of .*\(2,\), got 1")],
)
def test_impossible_stacks_are_refused(arguments, message):
    with pytest.raises(APIUsageError, match=message):
        FrameStack(Clock(), *arguments)


class Image(Clock):
    def __init__(self, image):
        super().__init__(image.shape, high=255, dtype=image.dtype)
        self.image = image

    def show(self):
        super().show()
        self.observations[:] = self.image


@pytest.mark.parametrize("size", [(2, 3), (5, 7), (9, 4), (1, 1), (6, 8)])
def test_every_new_pixel_is_the_mean_of_its_area(size):
    image = np.random.default_rng(0).integers(0, 256, (2, 6, 8)).astype(np.float32)
    env = ResizeObservation(Image(image), *size)
    observations, _ = env.reset()
    fine = np.repeat(np.repeat(image, size[0], 1), size[1], 2)  # every new pixel is a block of 6 x 8 of these
    expected = fine.reshape(2, size[0], 6, size[1], 8).mean((2, 4))
    np.testing.assert_allclose(observations[0], expected, rtol=1e-5)
    assert observations in env.observation_space


def test_bytes_are_rounded_to_the_nearest():
    env = ResizeObservation(Image(np.array([[0, 1, 255], [0, 2, 255]], np.uint8)), 1, 3)
    observations, _ = env.reset()
    assert observations.dtype == np.uint8 and observations[0].tolist() == [[0, 2, 255]]


@pytest.mark.parametrize(
    ("env", "size", "message"),
    [
        (Clock((2,)), (1, 1), r"takes images .*, got shape \(2,\)"),
        (Clock((21, 16, 3)), (8, 8), r"got shape \(21, 16, 3\); use gymnasium.wrappers.ResizeObservation before emu"),
        (Clock((5, 5)), (0, 8), "height and width must be at least 1, got 0 and 8"),
    ],
)
def test_what_is_no_image_is_not_resized(env, size, message):
    with pytest.raises(APIUsageError, match=message):
        ResizeObservation(env, *size)


# --- rewards and episodes


def test_rewards_are_clipped_and_those_inside_are_not():
    env, inside = ClipReward(Clock(), -1, 11.5), walk(Clock(), 5)
    for results, plain in zip(walk(env, 5)[1:], inside[1:], strict=True):
        assert results[1].dtype == np.float32 and np.array_equal(results[1], plain[1].clip(-1, 11.5))
        assert np.array_equal(results[0], plain[0])
    assert env.env.rewards.max() > 11.5
    with pytest.raises(APIUsageError, match="low must be at most high, got 1 and 0"):
        ClipReward(Clock(), 1, 0)


def test_every_finished_episode_is_reported():
    env = EpisodeStatistics(Clock(has_absent=True))
    reports = [info for *_, infos in walk(env, 12) for info in infos if "episode_return" in info]
    # Agent 0: 1 + 2 in each of 6 episodes; agent 1: 11 + 12 + 13 in 4; agent 2 at even times: 21 to 24 in 3.
    found = sorted((report["episode_return"], report["episode_length"]) for report in reports)
    assert found == [(3.0, 2)] * 6 + [(36.0, 3)] * 4 + [(90.0, 2)] * 3


def test_a_reset_begins_new_episodes():
    env = EpisodeStatistics(Clock())
    walk(env, 1)
    reports = [info for *_, infos in walk(env, 2) for info in infos if "episode_return" in info]
    assert reports == [{"episode_return": 3.0, "episode_length": 2}]


# --- in vectors and trainers


def creator(buf=None, seed=0):
    return EpisodeStatistics(FrameStack(ClipReward(Clock(seed=seed, has_absent=True)), 3))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the start method that is quick to test
@pytest.mark.parametrize("backend", ["Serial", "Multiprocessing"])
def test_a_vector_of_wrapped_environments_steps_like_the_wrapper_itself(backend):
    workers = {"num_workers": 2, "context": "fork"} if backend == "Multiprocessing" else {}
    with vector.make(creator, num_envs=2, backend=backend, **workers) as vecenv:
        assert vecenv.single_observation_space == Box(0, 1000, (3, 2))
        results = [(vecenv.reset()[0].copy(), [])]
        results += [copy.deepcopy(vecenv.step(np.zeros(2 * AGENTS, int))) for _ in range(7)]
    for found, expected in zip(results, walk(creator(), 7), strict=True):
        for array, alone in zip(found[:-1], expected[:-1], strict=True):
            assert np.array_equal(array, np.concatenate([alone, alone]))


def test_arrays_may_be_passed_on_to_the_environment_inside():
    passed = vector.make(lambda buf, seed: ClipReward(Clock(buf=buf, seed=seed)), backend="Serial")
    kept = vector.make(lambda buf, seed: ClipReward(Clock(seed=seed)), backend="Serial")
    for vecenv in (passed, kept):
        vecenv.reset()
    for _ in range(7):
        pair = [vecenv.step(ACTIONS) for vecenv in (passed, kept)]
        assert same(*[[results] for results in pair]) and pair[0][1].max() <= 1
    for vecenv in (passed, kept):
        vecenv.close()


def test_a_snapshot_holds_what_wrappers_remember():
    def vector_of_one():
        return vector.make(creator, backend="Serial")

    first, second = vector_of_one(), vector_of_one()
    for vecenv in (first, second):
        vecenv.reset()
    for _ in range(4):
        first.step(ACTIONS)
    second.restore(first.snapshot())
    for _ in range(6):
        *expected, reports = first.step(ACTIONS)
        *found, others = second.step(ACTIONS)
        assert all(np.array_equal(*pair) for pair in zip(expected, found, strict=True))
        assert str(reports) == str(others)
    for vecenv in (first, second):
        vecenv.close()


def test_without_a_snapshot_inside_there_is_none():
    class Forgetful(Clock):
        def snapshot(self):
            return None

    env = FrameStack(Forgetful(), 2)
    env.reset()
    assert env.snapshot() is None


def test_a_trainer_takes_wrapped_environments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = EpisodeStatistics(FrameStack(pufferlib.make("puffer_cartpole", num_envs=16), 2))
    trainer = PuffeRL(env, batch_size=16 * 64, num_steps=64)
    statistics = trainer.evaluate()
    trainer.train()
    trainer.close()
    assert trainer.env_name == "puffer_cartpole"
    assert statistics["episode_return"] == pytest.approx(statistics["episode/return_mean"])
    assert statistics["episode_length"] > 8
