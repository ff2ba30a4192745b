import re
import subprocess
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text, Tuple
from gymnasium.utils.env_checker import check_env
from gymnasium_environments import Nested, Scripted

from pufferlib import vector
from pufferlib.emulation import GymnasiumPufferEnv, unpack
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError, PufferWarning, WorkerError


def act(env, *action):
    actions = np.array([action[0] if env.single_action_space.shape == () else action], env.actions.dtype)
    observations, rewards, terminals, truncations, infos = env.step(actions)
    return observations[0].tolist(), rewards[0], terminals[0], truncations[0], infos


# --- rewards


class Rewarding(Scripted):
    def __init__(self, reward):
        super().__init__()
        self.reward = reward

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.reward, *rest


@pytest.mark.parametrize("reward", [2, np.float64(2), np.array(2), np.array([2.0]), [2.0]])
def test_a_reward_may_be_an_array_of_one_number(reward):
    env = GymnasiumPufferEnv(Rewarding(reward))
    env.reset(seed=1)
    act(env, 1)
    assert env.rewards.tolist() == [2]


@pytest.mark.parametrize("reward", [None, np.zeros(2), "1"])
def test_a_reward_that_is_no_number_is_refused(reward):
    env = GymnasiumPufferEnv(Rewarding(reward))
    env.reset(seed=1)
    with pytest.raises(APIUsageError, match=f"a reward must be a number, got {re.escape(repr(reward))} from <Reward"):
        act(env, 1)


@pytest.mark.parametrize("info", [[1], "none", 0.5])
def test_an_info_that_is_no_dict_is_refused(info):
    class Telling(Scripted):
        def step(self, action):
            return *super().step(action)[:4], info

    env = GymnasiumPufferEnv(Telling(length=1))
    env.reset(seed=1)
    with pytest.raises(APIUsageError, match=f"info of a step must be a dict, got {re.escape(repr(info))}; return {{}}"):
        act(env, 1)


# --- episodes


def test_every_action_reaches_the_environment_and_none_is_swallowed_by_a_reset():
    env = GymnasiumPufferEnv(Scripted(length=3))
    env.reset(seed=1)
    for step in range(20):
        act(env, step % 5)
    assert env.env.actions == [step % 5 for step in range(20)]


def test_the_step_that_ends_an_episode_shows_the_first_observation_of_the_next():
    env = GymnasiumPufferEnv(Scripted(length=2, ends="terminated"))
    observations, infos = env.reset(seed=1)
    assert observations.tolist() == [[0, 0, 0]] and infos == []
    assert act(env, 1) == ([0, 1, 1], 0.5, False, False, [])
    assert act(env, 2) == ([1, 0, 3], 1.0, True, False, [])
    assert act(env, 3) == ([1, 1, 6], 0.5, False, False, [])
    assert env.masks.tolist() == [True]


def test_the_end_can_be_seen_before_the_environment_begins_anew():
    env = GymnasiumPufferEnv(Scripted(length=2))
    env.reset(seed=1)
    seen = []
    env.before_restart = lambda: seen.append((env.env.episode, env.env.time))
    for _ in range(5):
        act(env, 0)
    assert seen == [(0, 2), (1, 2)]


def test_a_truncated_episode_shows_its_final_observation_too():
    env = GymnasiumPufferEnv(Scripted(length=2))
    env.reset(seed=1)
    act(env, 1)
    observation, reward, terminal, truncation, infos = act(env, 2)
    assert (observation, reward, terminal, truncation) == ([1, 0, 3], 1.0, False, True)
    (info,) = infos
    assert info["agent_id"] == 0 and info["final_observation"].tolist() == [0, 2, 3]
    act(env, 0), act(env, 0)
    assert info["final_observation"].tolist() == [0, 2, 3]  # a copy


def test_an_episode_that_is_terminated_and_truncated_has_no_final_observation():
    env = GymnasiumPufferEnv(Scripted(length=1, ends="both"))
    env.reset()
    assert act(env, 0)[2:] == (True, True, [])


def test_the_numbers_of_the_last_info_are_reported_once():
    info = {"success": True, "score": np.float32(2.5), "count": np.array(3), "text": "x", "path": [1], "n": 9, "i": {}}
    env = GymnasiumPufferEnv(Scripted(length=2, ends="terminated", final_info=info))
    env.reset()
    assert act(env, 0)[4] == []
    assert act(env, 0)[4] == [{"success": 1.0, "score": 2.5, "count": 3.0}]


def test_an_info_may_be_left_out():
    class Silent(Scripted):
        def step(self, action):
            return (*super().step(action)[:4], None)

    env = GymnasiumPufferEnv(Silent(length=1, ends="terminated"))
    env.reset()
    assert env.step(env.actions)[4] == []


def test_final_observations_carry_the_index_among_all_agents_of_a_vector():
    creators = [lambda length=length, **kwargs: GymnasiumPufferEnv(Scripted(length), **kwargs) for length in (2, 3, 2)]
    vecenv = vector.make(creators, backend="Serial", num_envs=3)
    vecenv.reset()
    found = [[info["agent_id"] for info in vecenv.step(np.zeros(3, int))[4]] for _ in range(6)]
    vecenv.close()
    assert found == [[], [0, 2], [1], [0, 2], [], [0, 1, 2]]


# --- seeds and options


def test_seeds_reach_the_environment_at_resets_alone():
    env = GymnasiumPufferEnv(Scripted(length=1), seed=2**40 + 5)
    env.reset()
    act(env, 0), env.reset(), env.reset(seed=7), act(env, 0)
    assert [seed for seed, _ in env.env.resets] == [5, None, None, 7, None]


def test_a_seed_of_the_first_reset_comes_before_that_of_the_constructor():
    env = GymnasiumPufferEnv(Scripted(), seed=3)
    env.reset(seed=4), env.reset()
    assert [seed for seed, _ in env.env.resets] == [4, None]


def test_options_reach_every_reset():
    env = GymnasiumPufferEnv(Scripted(length=1), options={"level": 1})
    env.reset(), env.reset(options={"level": 2}), act(env, 0)
    assert [options for _, options in env.env.resets] == [{"level": 1}, {"level": 2}, {"level": 1}]


# --- actions


@pytest.mark.parametrize(
    ("space", "row", "action"),
    [
        (Discrete(4, start=-1), (0,), -1),
        (Discrete(4, start=-1), (9,), 2),
        (Discrete(4), (-3,), 0),
        (MultiDiscrete([2, 3]), (1, 7), [1, 2]),
        (Box(-1, 2, (2,), np.float32), (-5, 5), [-1, 2]),
        (Box(-1, 2, (1, 2), np.float64), (-5, 0.5), [[-1, 0.5]]),
    ],
)
def test_actions_come_in_the_environments_own_space(space, row, action):
    env = GymnasiumPufferEnv(Scripted(action_space=space))
    env.reset()
    act(env, *row)
    (found,) = env.env.actions
    assert space.contains(found)
    np.testing.assert_array_equal(found, action)


def test_nested_actions_and_observations():
    env = GymnasiumPufferEnv(env_creator=Nested)
    assert isinstance(env.single_action_space, Tuple) and env.single_observation_space.dtype == np.uint8
    observations, _ = env.reset(seed=3)
    own = Nested()
    expected, _ = own.reset(seed=3)
    found = unpack(observations, env.emulated)
    np.testing.assert_array_equal(found["car"]["body"]["speed"][0], expected["car"]["body"]["speed"])
    assert found["car"]["body"]["gear"][0] == expected["car"]["body"]["gear"]
    for _ in range(20):
        actions = env.action_space.sample()
        observations, rewards, *_ = env.step(actions)
        assert observations in env.observation_space
        assert 1 <= rewards[0] <= 4


# --- making, rendering, closing


def test_the_environment_is_made_with_the_given_arguments():
    env = GymnasiumPufferEnv(env_creator=Scripted, env_args=(4,), env_kwargs={"ends": "terminated"})
    assert (env.env.length, env.env.ends) == (4, "terminated")


def test_rendering_and_closing_are_passed_on():
    env = GymnasiumPufferEnv(Scripted())
    env.reset()
    assert env.render().shape == (2, 2, 3)
    env.close(), env.close()
    assert env.env.closed == 1


def test_arrays_that_are_given_are_filled():
    buf = Buffers.empty(Box(-np.inf, np.inf, (3,), np.float32), Discrete(5), 1)
    env = GymnasiumPufferEnv(Scripted(length=9), buf=buf)
    env.reset()
    act(env, 4)
    assert buf.observations.tolist() == [[0, 1, 4]] and buf.rewards.tolist() == [0.5]


@pytest.mark.parametrize("creator", [Scripted, lambda length=3: Scripted(length)], ids=["class", "function"])
def test_a_class_or_function_makes_the_environment_that_is_emulated(creator):
    env = GymnasiumPufferEnv(creator, env_kwargs={"length": 7})
    assert isinstance(env.env, Scripted) and env.env.length == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GymnasiumPufferEnv(), "pass exactly one of env and env_creator, got neither"),
        (lambda: GymnasiumPufferEnv(Scripted(), Scripted), "pass exactly one of env and env_creator, got both"),
        (lambda: GymnasiumPufferEnv(Scripted(), env_args=(1,)), "env_args and env_kwargs are for env_creator"),
        (lambda: GymnasiumPufferEnv(env_creator="CartPole-v1"), "env_creator must be callable, got str"),
        (lambda: GymnasiumPufferEnv(3), "takes a gymnasium.Env, got int"),
        (lambda: GymnasiumPufferEnv(Scripted, Scripted), "pass exactly one of env and env_creator, got both"),
        (lambda: GymnasiumPufferEnv(lambda: Scripted), "takes a gymnasium.Env, got the class Scripted"),
        (lambda: GymnasiumPufferEnv(env_creator=dict), "takes a gymnasium.Env, got dict"),
        (lambda: GymnasiumPufferEnv(gymnasium.Env()), "Env.observation_space must be a gymnasium.Space; set it"),
        (lambda: GymnasiumPufferEnv(Scripted(action_space=Text(3))), "action_space must be .*got Text"),
    ],
)
def test_misuse_is_answered_in_one_sentence(make, message):
    with pytest.raises(APIUsageError, match=message):
        make()


# --- environments that fail


class Raising(Scripted):
    def step(self, action):
        raise ZeroDivisionError("the wheel came off")


class Misshapen(Scripted):
    def observe(self):
        return np.zeros(4, np.float32)


class Outdated(Scripted):
    def __init__(self, results):
        super().__init__()
        self.results = results

    def step(self, action):
        return self.results(super().step(action))


def test_an_exception_of_the_environment_passes_through():
    env = GymnasiumPufferEnv(Raising())
    env.reset()
    with pytest.raises(ZeroDivisionError, match="the wheel came off") as raised:
        act(env, 0)
    assert raised.traceback[-1].name == "step" and raised.value.__cause__ is None


def test_an_exception_in_a_worker_comes_with_the_environments_traceback():
    vecenv = vector.make(
        GymnasiumPufferEnv, env_kwargs={"env_creator": Raising}, backend="Multiprocessing", num_envs=1, num_workers=1
    )
    vecenv.reset()
    with pytest.raises(WorkerError, match="(?s)in step.*the wheel came off"):
        vecenv.step(np.zeros(1, int))


def test_observations_that_do_not_fit_are_named():
    with pytest.raises(APIUsageError, match=r"observation must be float32 of shape \(3,\), got float32 of shape"):
        GymnasiumPufferEnv(Misshapen()).reset()


@pytest.mark.parametrize(("results", "found"), [(lambda step: step[1:], "4 of them"), (lambda step: None, "NoneType")])
def test_a_step_of_other_results_is_told_from_a_current_one(results, found):
    env = GymnasiumPufferEnv(Outdated(results))
    env.reset()
    with pytest.raises(APIUsageError, match=rf"Outdated.step\(\) must return .*terminated, truncated, .*, got {found}"):
        act(env, 0)


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        (lambda self, seed=None, options=None: self.observe(), r"Scripted.reset\(\) must return .*, got ndarray"),
        (lambda self, seed=None, options=None: None, "got NoneType"),
        (lambda self, seed=None: (self.observe(), {}), r"'options'; define reset\(self, seed=None, options"),
        (lambda self: (self.observe(), {}), r"'seed'; define reset\(self, seed=None, options=None\)"),
    ],
)
def test_a_reset_of_an_earlier_gym_is_told_from_a_current_one(reset, message, monkeypatch):
    env = GymnasiumPufferEnv(Scripted())
    env.reset()
    monkeypatch.setattr(Scripted, "reset", reset)
    with pytest.raises(APIUsageError, match=message):
        env.reset()


def test_environments_of_different_structures_make_no_vector():
    def creator(names, buf=None, seed=0):
        env = Scripted()
        env.observation_space = Dict({name: Discrete(3) for name in names})
        return GymnasiumPufferEnv(env, buf=buf, seed=seed)

    with pytest.raises(APIUsageError, match="the same observation structure, environment 0 and environment 1 differ"):
        vector.make(creator, [("ab",), ("ac",)], num_envs=2, backend="Serial")


# --- what Gymnasium says


class Unpacked(gymnasium.Env):
    """The rows of an emulated environment as an environment of one agent again."""

    def __init__(self, creator):
        self.emulated = GymnasiumPufferEnv(env_creator=creator)
        self.observation_space = self.emulated.single_observation_space
        self.action_space = self.emulated.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observations, _ = self.emulated.reset(seed=seed, options=options)
        return observations[0].copy(), {}

    def step(self, action):
        row = np.asarray(action, self.emulated.actions.dtype)[None]
        observations, rewards, terminals, truncations, _ = self.emulated.step(row)
        return observations[0].copy(), float(rewards[0]), bool(terminals[0]), bool(truncations[0]), {}


@pytest.mark.filterwarnings("ignore::UserWarning")  # advice on bounds and scales, which are those of the environments
@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", "MountainCarContinuous-v0"]
)
def test_gymnasium_finds_nothing_wrong_with_emulated_rows(name):
    check_env(Unpacked(lambda: gymnasium.make(name)), skip_render_check=True)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_actions_may_be_lists_and_nothing_else_than_numbers(name):
    env, twin = GymnasiumPufferEnv(gymnasium.make(name)), GymnasiumPufferEnv(gymnasium.make(name))
    for each in (env, twin):
        each.reset(0)
    actions = np.ones_like(env.actions)
    np.testing.assert_array_equal(env.step(actions.tolist())[0], twin.step(actions)[0])
    for wrong in (1, None, "text", [["text"]], actions[None]):
        with pytest.raises(APIUsageError, match="actions must (have shape|be) .*, got .*; "):
            env.step(wrong)


# --- parts that are no numbers


class Worded(gymnasium.Env):
    """A number, its mission in words, and a graph."""

    def __init__(self):
        self.observation_space = Dict(
            {
                "mission": Text(20),
                "seen": Box(-1, 1, (2,), np.float32),
                "graph": gymnasium.spaces.Graph(Box(0, 1, (1,)), None),
            }
        )
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        return {"mission": "find the key", "seen": np.float32([0.5, -0.5]), "graph": None}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


def test_what_is_no_number_is_left_out_with_a_warning_that_names_it():
    with pytest.warns(PufferWarning, match=r"observation\['graph'\] \(Graph\), observation\['mission'\] \(Text\)"):
        env = GymnasiumPufferEnv(Worded())
    env.reset(seed=1)
    assert act(env, 0)[0] == [0.5, -0.5]


def test_workers_do_not_repeat_the_warning():
    with pytest.warns(PufferWarning) as caught:
        envs = vector.make(Worded, num_envs=2, num_workers=2, backend="Multiprocessing", context="fork")
    with envs:
        envs.reset(seed=1)
    assert len(caught) == 1


def test_an_id_that_an_imported_package_registered_is_known_to_workers():
    pytest.importorskip("minigrid")
    with pytest.warns(PufferWarning, match=r"observation\['mission'\] \(MissionSpace\)"):
        envs = vector.make(lambda: gymnasium.make("MiniGrid-DoorKey-5x5-v0"), num_envs=2, backend="Multiprocessing")
    with envs:
        observations, _ = envs.reset(seed=1)
        assert unpack(observations, envs.emulated)["image"].shape == (2, 7, 7, 3)


@pytest.mark.parametrize("kind", ["NormalizeObservation", "NormalizeReward"])
def test_a_wrapper_whose_statistics_no_saved_agent_has_is_named_with_the_setting_instead(kind):
    wrapped = gymnasium.wrappers.TimeLimit(getattr(gymnasium.wrappers, kind)(gymnasium.make("CartPole-v1")), 5)
    with pytest.warns(PufferWarning, match=f"{kind} .*leave it out.* normalize_(observations|rewards)=True") as caught:
        GymnasiumPufferEnv(wrapped)
    assert len(caught) == 1


class Circular(Scripted):
    """An environment and its simulator that know each other."""

    def __init__(self):
        super().__init__()
        self.env = SimpleNamespace(env=self)


def test_layers_that_lead_back_are_no_endless_loop():
    env = GymnasiumPufferEnv(Circular())
    env.reset(0)
    env.close()


PROGRAM = """
import gymnasium, numpy
from pufferlib import PufferEnv, vector

class Odd:
    name = "odd"

class Mine(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), 1.0, True, False, {"score": 3.0}

class Telling(PufferEnv):
    def __init__(self, buf=None, seed=0):
        self.single_observation_space, self.single_action_space = Mine.observation_space, Mine.action_space
        self.num_agents = 1
        super().__init__(buf)

    def reset(self, seed=None):
        return self.observations, []

    def step(self, actions):
        return self.observations, self.rewards, self.terminals, self.truncations, [{"odd": Odd()}]

gymnasium.register("Mine-v0", entry_point=Mine)
gymnasium.register("Mine-v1", entry_point="__main__:Mine")
if __name__ == "__main__":
    makes = {"Mine-v0": lambda: gymnasium.make("Mine-v0"), "Mine-v1": lambda: gymnasium.make("Mine-v1"), "own": Telling}
    for name, make in makes.items():
        with vector.make(make, num_envs=2, num_workers=2, backend="Multiprocessing") as vecenv:
            vecenv.reset()
            infos = vecenv.step(numpy.zeros(2, int))[4]
            print(name, [info["odd"].name if "odd" in info else info["score"] for info in infos])
"""


def test_what_the_program_itself_registered_or_told_is_known_to_workers_and_back(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.stdout == "Mine-v0 [3.0, 3.0]\nMine-v1 [3.0, 3.0]\nown ['odd', 'odd']\n", done.stderr
