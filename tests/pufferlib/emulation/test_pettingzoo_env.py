import os

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text

pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test  # noqa: E402
from pettingzoo_environments import Different, Leaving  # noqa: E402

from pufferlib import PuffeRL, vector  # noqa: E402
from pufferlib.emulation import PettingZooPufferEnv, unpack  # noqa: E402
from pufferlib.errors import APIUsageError, MissingExtraError, PufferWarning  # noqa: E402


def steps_of(env, count):
    """What every step gave: copies of the arrays, and the infos."""
    found = []
    for step in range(count):
        *arrays, infos = env.step(np.arange(env.num_agents, dtype=np.int32) + step % 2)
        found.append([*(array.tolist() for array in arrays), env.masks.tolist(), infos])
    return found


# --- agents that leave


def test_an_agent_that_ends_early_is_masked_until_all_begin_again():
    env = PettingZooPufferEnv(Leaving())
    env.reset(seed=1)
    first, leaving, alone, last, again = steps_of(env, 5)
    assert first == [[[0, 0, 1], [0, 1, 1], [0, 2, 1]], [1, 11, 21], [False] * 3, [False] * 3, [True] * 3, []]
    assert leaving == [
        *([[0, 0, 0], [0, 1, 2], [0, 2, 2]], [2, 12, 22], [True, False, False], [False] * 3),
        *([False, True, True], []),
    ]
    assert alone[1:] == [[0, 13, 23], [False] * 3, [False] * 3, [False, True, True], []]
    assert last[:5] == [
        *([[1, 0, 0], [1, 1, 0], [1, 2, 0]], [0, 14, 24]),
        *([False, False, True], [False, True, False], [True] * 3),
    ]
    assert again[1:] == [[1, 11, 21], [False] * 3, [False] * 3, [True] * 3, []]


class Joining(Leaving):
    """One agent takes no part in an episode, another one in each; the others leave after a step and after two."""

    def reset(self, seed=None, options=None):
        _, infos = super().reset(seed, options)
        out = self.possible_agents[self.episode % 3]
        self.agents.remove(out)
        self.lengths = dict(zip([self.possible_agents.index(agent) for agent in self.agents], (1, 2), strict=True))
        return self.observe(), infos


def test_an_agent_that_takes_no_part_ends_with_the_last_one():
    env = PettingZooPufferEnv(Joining(ends=("terminated",) * 3))
    env.reset(seed=1)
    flags = [(terminals, masks) for _, _, terminals, _, masks, _ in steps_of(env, 4)]
    assert flags == [
        ([False, True, False], [False, False, True]),
        ([True, False, True], [True, False, True]),  # the next episode is without the second
        ([True, False, False], [False, False, True]),
        ([False, True, True], [True, True, False]),
    ]


def test_agents_that_are_gone_do_not_act_and_every_action_of_the_others_counts():
    env = PettingZooPufferEnv(Leaving())
    env.reset(seed=1)
    steps_of(env, 8)
    assert [sorted(actions) for actions in env.env.taken[:5]] == [
        *([["agent_0", "agent_1", "agent_2"]] * 2 + [["agent_1", "agent_2"]] * 2),
        ["agent_0", "agent_1", "agent_2"],
    ]
    assert [actions["agent_2"] for actions in env.env.taken] == [2, 3] * 4


def test_infos_hold_final_observations_and_the_means_of_the_agents_last_infos():
    env = PettingZooPufferEnv(Leaving(ends=("truncated", "truncated", "terminated")))
    env.reset(seed=1)
    infos = [step[-1] for step in steps_of(env, 4)]
    assert infos[0] == infos[2] == []
    assert [(info["agent_id"], info["final_observation"].tolist()) for info in infos[1]] == [(0, [0, 0, 2])]
    assert [(info["agent_id"], info["final_observation"].tolist()) for info in infos[3][:-1]] == [(1, [0, 1, 4])]
    assert infos[3][-1] == {"place": 1.0}


def test_the_trainer_counts_what_every_agent_got():
    vecenv = vector.make(PettingZooPufferEnv, env_kwargs={"env_creator": Leaving}, backend="Serial")
    trainer = PuffeRL(vecenv, batch_size=3 * 8, num_steps=8, device="cpu")
    means = trainer.evaluate()
    masks = trainer.rollout.masks[:, :-1]
    vecenv.close()
    assert means["episode/count"] == 6 and means["episode/length_mean"] == pytest.approx((2 + 4 + 4) / 3)
    assert means["episode/return_mean"] == pytest.approx((3 + 50 + 90) / 3)
    assert masks.tolist() == [[True, True, False, False] * 2, [True] * 8, [True] * 8]
    assert trainer.global_step == 20


def returning(**changes):
    """The steps of an environment whose results are changed, by their names."""

    class Changed(Leaving):
        def step(self, actions):
            names = ("observations", "rewards", "terminations", "truncations", "infos")
            result = super().step(actions)
            self.agents.reverse()
            return [changes.get(name, lambda part: part)(part) for name, part in zip(names, result, strict=True)]

    env = PettingZooPufferEnv(Changed(ends=("truncated", "truncated", "terminated")))
    env.reset(seed=1)
    return [step[1:4] for step in steps_of(env, 4)]


def each(change):
    return lambda part: {agent: change(value) for agent, value in part.items()}


@pytest.mark.parametrize("of_one", [np.array, np.float64, lambda value: np.array([value])])
def test_rewards_and_flags_may_be_numbers_and_arrays_of_one_in_any_order(of_one):
    plain = returning()
    assert (
        returning(rewards=each(of_one), terminations=each(of_one), truncations=each(int), infos=each(lambda _: None))
        == plain
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": each(lambda _: None)}, "a reward must be a number, got None"),
        ({"rewards": each(lambda reward: np.array([reward] * 2))}, r"a reward must be a number, got array\(\["),
        (
            {"terminations": lambda _: False},
            r"step\(\) .* must return dicts, got dict, dict, bool, dict, dict from",
        ),
        ({"infos": lambda _: None}, r"got dict, dict, dict, dict, NoneType from"),
        ({"infos": each(lambda _: [1])}, r"the info of a step must be a dict, got \[1\]; return {}"),
    ],
)
def test_rewards_and_flags_that_are_none_of_these_are_told(changes, message):
    with pytest.raises(APIUsageError, match=message):
        returning(**changes)


def test_results_of_an_earlier_pettingzoo_are_told(monkeypatch):
    env = PettingZooPufferEnv(Leaving())
    env.reset()
    monkeypatch.setattr(Leaving, "step", lambda self, actions: None)
    with pytest.raises(APIUsageError, match=r"Leaving.step\(\) must return .*, terminations, .*, got NoneType"):
        env.step(np.zeros(3, int))
    monkeypatch.setattr(Leaving, "reset", lambda self, seed=None, options=None: self.observe())
    with pytest.raises(APIUsageError, match=r"Leaving.reset\(\) must return observations, infos, got dict"):
        env.reset()


def test_seeds_and_options_reach_the_environment():
    env = PettingZooPufferEnv(Leaving(lengths=(1,), ends=("terminated",)), seed=5, options={"a": 1})
    env.reset(), env.step(np.zeros(1, int)), env.reset(seed=7, options={"a": 2})
    assert env.env.resets == [(5, {"a": 1}), (None, {"a": 1}), (7, {"a": 2})]


# --- spaces


def test_equal_structures_are_packed():
    space = Dict({"x": Box(-1, 1, (2,), np.float32), "kind": Discrete(3)})
    samples = [{"x": np.array([0.5, -1], np.float32), "kind": 2}, {"x": np.zeros(2, np.float32), "kind": 1}]
    env = PettingZooPufferEnv(Different([space, space], [Discrete(2)] * 2, samples))
    found = unpack(env.reset(seed=0)[0], env.emulated)
    assert found["kind"].tolist() == [2, 1] and found["x"].tolist() == [[0.5, -1], [0, 0]]


def test_different_observations_are_flattened_and_padded():
    env = PettingZooPufferEnv(
        Different([Box(-1, 3, (2, 2), np.float64), Discrete(3, start=1)], [Discrete(2)] * 2, [np.eye(2), 2])
    )
    observations, _ = env.reset(seed=0)
    assert observations.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]] and observations.dtype == np.float32
    assert env.emulated is None
    assert env.single_observation_space == Box(np.array([-1] * 4, np.float32), np.array([3] * 4, np.float32))


def test_the_padding_is_within_the_bounds():
    samples = [np.array([7], np.float32), np.array([8, 6], np.float32)]
    env = PettingZooPufferEnv(Different([Box(5, 9, (1,)), Box(5, 9, (2,))], [Discrete(2)] * 2, samples))
    observations, _ = env.reset(seed=0)
    assert observations.tolist() == [[7, 0], [8, 6]] and observations in env.observation_space
    assert env.single_observation_space.low.tolist() == [5, 0]


@pytest.mark.parametrize(
    ("spaces", "common", "rows", "actions"),
    [
        ([Discrete(2), Discrete(5, start=1)], Discrete(5), [4, 4], [1, 5]),
        ([Discrete(2), MultiDiscrete([3, 4])], MultiDiscrete([3, 4]), [[2, 3], [2, 3]], [1, [2, 3]]),
        (
            [Box(-1, 1, (1,), np.float32), Box(0, 2, (2,), np.float32)],
            Box(np.array([-1, 0], np.float32), np.array([2, 2], np.float32)),
            [[2, 2], [-1, 2]],
            [[1], [0, 2]],
        ),
    ],
)
def test_different_actions_have_the_widest_row_and_are_clipped(spaces, common, rows, actions):
    env = PettingZooPufferEnv(Different([Discrete(2)] * 2, spaces, [0, 1]))
    assert env.single_action_space == common
    env.reset(seed=0)
    env.step(np.array(rows, env.actions.dtype))
    (taken,) = env.env.taken
    for space, found, expected in zip(spaces, taken.values(), actions, strict=True):
        assert space.contains(found)
        np.testing.assert_array_equal(found, expected)


# --- misuse


class Anonymous(Leaving):
    def __init__(self):
        super().__init__()
        del self.possible_agents


class Deserted(Leaving):
    def reset(self, seed=None, options=None):
        self.agents = []
        return {}, {}


class Joined(Leaving):
    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        self.agents = [*self.agents, "late"]
        return observations, infos


@pytest.mark.parametrize("wrong", [3, 7, -1, 0])
def test_a_category_that_is_none_is_refused_where_spaces_differ(wrong):
    spaces = [Dict({"kind": Discrete(3, start=0 if wrong else 1)}), Box(0, 1, (4,))]
    samples = [{"kind": wrong}, np.zeros(4, np.float32)]
    env = PettingZooPufferEnv(Different(spaces, [Discrete(2)] * 2, samples))
    with pytest.raises(APIUsageError, match=rf"an observation must be in Discrete\(3.*\), got {wrong}; return one"):
        env.reset()


class Blind(Leaving):
    def observe(self):
        return {"agent_0": np.zeros(3, np.float32)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PettingZooPufferEnv(gymnasium.Env()),
            "takes a pettingzoo.ParallelEnv or AECEnv, got Env; a",
        ),
        (lambda: PettingZooPufferEnv(lambda: Leaving), "got the class Leaving"),
        (lambda: PettingZooPufferEnv(Anonymous()), "must list its possible_agents, got none"),
        (lambda: PettingZooPufferEnv(Deserted()).reset(), "must have agents after reset"),
        (
            lambda: PettingZooPufferEnv(Joined()).reset(),
            "possible_agents of a PettingZoo environment must hold all that act, got .*'agent_2'. without 'late' from",
        ),
        (lambda: PettingZooPufferEnv(Blind()).reset(), "must observe for all its agents, got none for 'agent_1'"),
        (
            lambda: PettingZooPufferEnv(Different([Text(3)], [Discrete(2)], ["a"])),
            r"an observation must hold a Box, .* got only observation \(Text\)",
        ),
        (
            lambda: PettingZooPufferEnv(Different([Discrete(2)] * 2, [Discrete(2), Box(0, 1, (1,))], [0, 0])),
            "agents must all act by choices, all by numbers, or all in the same way, got Discrete",
        ),
    ],
)
def test_misuse_is_answered_in_one_sentence(make, message):
    with pytest.raises(APIUsageError, match=message):
        make()


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pettingzoo", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pufferlib\[pettingzoo\]'"):
        PettingZooPufferEnv(env_creator=object)


# --- environments of PettingZoo


@pytest.mark.quick("butterfly-cooperative_pong_v6-parallel_env", "classic-rps_v2-env")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of pygame and of the environments
@pytest.mark.parametrize(
    ("family", "name", "kind"),
    [
        ("classic", "rps_v2", "parallel_env"),
        ("classic", "rps_v2", "env"),
        ("butterfly", "knights_archers_zombies_v10", "parallel_env"),
        ("butterfly", "knights_archers_zombies_v10", "env"),
        ("butterfly", "cooperative_pong_v6", "parallel_env"),
    ],
)
def test_environments_of_pettingzoo_run(family, name, kind, monkeypatch):
    monkeypatch.setitem(os.environ, "SDL_VIDEODRIVER", "dummy")
    module = pytest.importorskip(f"pettingzoo.{family}.{name}", exc_type=ImportError)
    if kind == "parallel_env":
        parallel_api_test(module.parallel_env(), num_cycles=20)
    env = PettingZooPufferEnv(env_creator=getattr(module, kind))
    observations, _ = env.reset(seed=1)
    env.action_space.seed(2)
    for _ in range(100):
        observations, *_ = env.step(env.action_space.sample())
        assert not observations[~env.masks].any()
    env.close()


def test_agents_who_take_turns_act_one_at_a_time_and_the_others_wait():
    tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3", exc_type=ImportError)
    env = PettingZooPufferEnv(env_creator=tictactoe.raw_env)
    env.reset(seed=1)
    for place, turn in zip((0, 3, 1, 4), (0, 1) * 2, strict=True):
        assert env.masks.tolist() == [turn == 0, turn == 1]
        assert env.action_masks[turn, place] and env.action_masks[1 - turn].all()  # who waits does nothing by it
        _, rewards, terminals, _, _ = env.step(np.array([place, 0] if turn == 0 else [0, place], np.int32))
        assert not (rewards.any() or terminals.any() or env.action_masks[1 - turn, place])
    observations, rewards, terminals, _, _ = env.step(np.array([2, 0], np.int32))
    assert rewards.tolist() == [1, -1] and terminals.all() and not observations.any()
    assert env.masks.tolist() == [True, False] and env.action_masks.all()


def test_the_end_can_be_seen_before_the_environment_begins_anew():
    env = PettingZooPufferEnv(Leaving(lengths=(1, 3), ends=("terminated", "truncated")))
    env.reset(seed=1)
    seen = []
    env.before_restart = lambda: seen.append((env.env.episode, env.env.time))
    for _ in range(6):
        env.step(np.zeros(2, np.int32))
    assert seen == [(0, 3), (1, 3)]


def test_what_is_no_number_is_left_out_of_agents_that_differ():
    spaces = [Dict({"name": Text(3), "place": Box(0, 9, (2,), np.float32)}), Box(0, 9, (3,), np.float32)]
    samples = [{"name": "a", "place": np.float32([1, 2])}, np.float32([3, 4, 5])]
    with pytest.warns(PufferWarning, match=r"observation\['name'\] \(Text\)"):
        env = PettingZooPufferEnv(Different(spaces, [Discrete(2)] * 2, samples))
    observations, _ = env.reset(seed=1)
    assert observations.tolist() == [[1, 2, 0], [3, 4, 5]]
