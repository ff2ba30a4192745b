"""The contract of DESIGN section 3, for every environment on disk and every switch it has."""

from __future__ import annotations

import ast
import configparser

import numpy as np
import pytest
from contract import (
    COMPILED,
    Case,
    assert_in_space,
    assert_same_rollout,
    cases,
    keywords,
    outrageous_actions,
    random_actions,
    rollout,
)

from pufferlib import ocean
from pufferlib.config import load_config
from pufferlib.errors import APIUsageError

each_case = pytest.mark.parametrize("case", cases(), ids=str)
each_name = pytest.mark.parametrize("name", COMPILED)


@each_case
def test_arrays_stay_in_the_spaces_and_are_written_in_place(case):
    env = case.make()
    observations, infos = env.reset(1)
    assert observations is env.observations and infos == []
    assert_in_space(env)
    for actions in random_actions(env, 1000):
        arrays = env.step(actions)[:4]
        assert [id(array) for array in arrays] == [
            id(env.observations),
            id(env.rewards),
            id(env.terminals),
            id(env.truncations),
        ]
        assert_in_space(env)


@each_case
def test_actions_outside_the_space_are_harmless(case):
    env = case.make(6)
    env.reset(1)
    for actions in outrageous_actions(env, 500):
        env.step(actions)
        assert_in_space(env)


@each_case
def test_one_seed_gives_one_rollout(case):
    recorded = []
    for seed in (3, 3, 4):
        env = case.make(8, seed=9)
        first = env.reset(seed)[0].copy()
        recorded.append((first, rollout(env, random_actions(env, 200))))
    np.testing.assert_array_equal(recorded[0][0], recorded[1][0])
    assert_same_rollout(recorded[0][1], recorded[1][1])
    with pytest.raises(AssertionError):
        assert_same_rollout(recorded[0][1], recorded[2][1])


@each_case
def test_an_environment_does_not_depend_on_its_neighbours(case):
    few, many = case.make(3), case.make(7)
    few.reset(5)
    many.reset(5)
    rows = few.num_agents
    for actions in random_actions(many, 200):
        many.step(actions)
        few.step(actions[:rows])
        for name in ("observations", "rewards", "terminals", "truncations"):
            np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:rows])


@each_case
def test_environments_of_one_run_differ_from_each_other(case):
    env = case.make(8)
    env.reset(0)
    rows = [array.copy() for array, *_ in rollout(env, (np.zeros_like(env.actions) for _ in range(50)))]
    history = np.stack(rows, axis=1).reshape(8, -1)
    assert len(np.unique(history, axis=0)) > 1


@each_case
def test_reset_begins_anew_without_logging_the_unfinished_episode(case):
    env = case.make()
    first = env.reset(2)[0].copy()
    for actions in random_actions(env, 150):
        env.step(actions)
    env.episode_statistics()
    np.testing.assert_array_equal(env.reset(2)[0], first)
    assert not env.rewards.any() and not env.terminals.any() and not env.truncations.any()
    assert env.episode_statistics() == []


@each_case
def test_log_holds_the_sums_of_what_was_seen(case):
    env = case.make(report_interval=10**6)
    if env.agents_per_env != 1:
        pytest.skip("what a log counts with several agents in an environment is for its own test")
    env.reset(7)
    running_return, running_length = np.zeros(env.num_agents), np.zeros(env.num_agents)
    returns, lengths = [], []
    for actions in random_actions(env, 1000):
        env.step(actions)
        running_return += env.rewards
        running_length += 1
        ended = env.terminals | env.truncations
        returns += list(running_return[ended])
        lengths += list(running_length[ended])
        running_return[ended] = running_length[ended] = 0
    (statistics,) = env.episode_statistics()
    assert statistics["n"] == len(returns)
    assert statistics["episode_return"] == pytest.approx(np.mean(returns), rel=1e-4, abs=1e-4)
    assert statistics["episode_length"] == pytest.approx(np.mean(lengths), rel=1e-4)
    assert 0.0 <= statistics["perf"] <= 1.0
    assert np.isfinite(statistics["score"])
    assert env.episode_statistics() == []  # read once, then cleared


@each_case
def test_infos_report_every_interval(case):
    env = case.make(report_interval=400)
    env.reset(7)
    reports = [env.step(actions)[4] for actions in random_actions(env, 800)]
    assert [step for step, infos in enumerate(reports, 1) if infos] == [400, 800]


@each_case
def test_snapshot_continues_identically_here_and_elsewhere(case):
    env, other = case.make(), case.make(seed=1)
    env.reset(3)
    other.reset(4)
    for actions in random_actions(env, 100):
        env.step(actions)
    snapshot = env.snapshot()
    expected = rollout(env, random_actions(env, 200, seed=1))
    for restored in (env, other):
        restored.restore(snapshot)
        assert_same_rollout(rollout(restored, random_actions(env, 200, seed=1)), expected)


@each_case
def test_closing_twice_is_harmless_and_stepping_afterwards_says_so(case):
    env = case.make(2)
    env.reset(0)
    env.close()
    env.close()
    with pytest.raises(ValueError, match="closed"):
        env.step(np.zeros_like(env.actions))


@each_case
def test_actions_of_another_shape_are_refused(case):
    env = case.make(3)
    env.reset(0)
    with pytest.raises(APIUsageError, match="actions must have shape"):
        env.step(np.zeros((4, *env.actions.shape[1:]), env.actions.dtype))


@each_name
def test_actions_may_be_lists_and_nothing_else_than_numbers(name):
    env, twin = Case(name).make(1), Case(name).make(1)
    for each in (env, twin):
        each.reset(0)
    actions = next(random_actions(env, 1))
    np.testing.assert_array_equal(env.step(actions.tolist())[0], twin.step(actions)[0])
    for wrong in (1, None, "text", [["text"]]):
        with pytest.raises(APIUsageError, match="actions must (have shape|be) .*, got .*; "):
            env.step(wrong)


@each_name
def test_unknown_keywords_and_empty_vectors_are_refused(name):
    with pytest.raises(TypeError, match="frobnicate"):
        Case(name, {"frobnicate": 1}).make()
    with pytest.raises(APIUsageError, match="num_envs"):
        Case(name).make(0)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in COMPILED for key in keywords(name)])
def test_bad_keyword_values_raise_a_sentence_that_names_them(name, key):
    is_switch = isinstance(keywords(name)[key], bool)
    for value in (2, None) if is_switch else (-1, 2**40, "many", 1.5, None):
        with pytest.raises((TypeError, ValueError), match=f"{key} must be .* got"):
            Case(name, {key: value}).make()


@each_name
def test_ini_names_the_keyword_defaults(name):
    ini = configparser.ConfigParser()
    ini.read(ocean.config_path(name))
    arguments = dict(ini["env"])
    num_envs = arguments.pop("num_envs")  # many agents in one environment need fewer of those
    assert num_envs == "auto" or int(num_envs) >= 1
    assert {key: ast.literal_eval(value) for key, value in arguments.items()} == keywords(name)
    if "solve" in ini:  # when it counts as solved need not be known
        assert ini["solve"]["metric"] in ("perf", "score")
        assert float(ini["solve"]["threshold"]) > 0.0


@each_name
def test_no_line_of_an_ini_repeats_what_would_hold_without_it(name, tmp_path, monkeypatch):
    path, settings = ocean.config_path(name), load_config(name)
    lines = path.read_text().splitlines()
    copy = tmp_path / path.name
    monkeypatch.setattr(ocean, "config_path", lambda name: copy)
    for index, line in enumerate(lines):
        if "=" in line:
            copy.write_text("\n".join(lines[:index] + lines[index + 1 :]))
            assert load_config(name) != settings, f"{path.name}: {line!r} changes nothing; leave it out"
