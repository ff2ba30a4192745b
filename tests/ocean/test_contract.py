"""The contract of DESIGN section 3, for every environment in C on disk and every switch and number it has."""

from __future__ import annotations

import ast
import configparser
from pathlib import Path

import numpy as np
import pytest
from checked_headers import quick_params
from contract import (
    COMPILED,
    NEVER,
    Case,
    Observer,
    assert_in_space,
    assert_same,
    assert_same_rollout,
    cases,
    corner_actions,
    each_case,
    each_name,
    extreme_cases,
    keyword_range,
    keywords,
    outrageous_actions,
    random_actions,
    random_actions_until,
    rollout,
)
from game import ARRAYS

from pufferlib import ocean
from pufferlib.config import load_config
from pufferlib.environment import Buffers
from pufferlib.errors import APIUsageError


def test_arrays_that_differ_are_told_in_a_sentence():
    with pytest.raises(
        AssertionError, match=r"^a rule; 2 of 6 numbers differ, the first at \(0, 1\): expected 1, found 7$"
    ):
        assert_same(np.array([[0, 7, 2], [3, 4, 8]]), np.arange(6).reshape(2, 3), "a rule")
    with pytest.raises(AssertionError, match=r"^a rule; expected the shape \(3,\), found \(2,\)$"):
        assert_same(np.zeros(2), np.zeros(3), "a rule")


@each_case
def test_play_at_random_stays_in_the_spaces_and_is_what_the_log_tells(case):
    env = case.make(report_interval=NEVER)
    observations, infos = env.reset(1)
    assert observations is env.observations and infos == []
    assert_in_space(env)
    observer = Observer(env)
    observer.play(random_actions_until(env, observer.has_seen_two_ends_of_one)).check_log()
    assert env.episode_statistics() == []  # read once, then cleared


@each_case
def test_what_agents_do_makes_a_difference(case):
    states = []
    for seed in (0, 1):
        env = case.make(report_interval=NEVER)
        env.reset(1)
        for actions in random_actions(env, 64, seed):
            env.step(actions)
        states.append(env.snapshot())
        env.close()
    assert states[0] != states[1], "all actions are one; does c_step read them with the type that c_layout says?"


@each_case
def test_an_action_that_is_held_leads_nowhere_else(case):
    """One environment for each corner of the action space."""
    one = case.make(1)
    corners = corner_actions(one.single_action_space)
    actions = np.asarray(corners, one.actions.dtype).repeat(one.num_agents, axis=0)
    env = case.make(len(corners), report_interval=NEVER)
    env.reset(1)
    Observer(env).play(actions for _ in range(1000)).check_log()


@each_case
def test_actions_outside_the_space_are_harmless(case):
    env = case.make(6, report_interval=NEVER)
    env.reset(1)
    Observer(env).play(outrageous_actions(env, 500)).check_log()


GUARD = 64  # rows before and after those of an array
POISON = 0xA5


def guarded(like):
    """Memory full of poison, and in its middle an array like another one."""
    whole = np.full((2 * GUARD + len(like), *like.shape[1:]), 0, like.dtype)
    whole.view(np.uint8)[:] = POISON
    rows = whole[GUARD:-GUARD]
    rows[...] = 0
    return whole, rows


def assert_guards_are_whole(whole):
    for guard in (whole[:GUARD], whole[-GUARD:]):
        assert np.all(guard.view(np.uint8) == POISON), "written outside the rows"


@pytest.mark.parametrize("case", quick_params([*cases(), *extreme_cases()]))
def test_nothing_is_written_but_the_rows_and_not_the_actions(case):
    """One environment, so that no neighbour's rows hide what lies beside its own."""
    like = case.make(1)
    names = (*ARRAYS, "masks", *(["action_masks"] if like.has_action_masks else []))
    memory = {name: guarded(getattr(like, name)) for name in names}
    env = case.make(1, buf=Buffers(**{name: rows for name, (_, rows) in memory.items()}), report_interval=NEVER)
    whole, final = memory["final_observations"] = guarded(env.observations)
    env.binding.vec_keep_final(env.handle, final)
    env.reset(1)
    observer = Observer(env)
    for actions in random_actions(env, 500):
        observer.play([actions])
        assert_same(env.actions, actions, "actions belong to the caller: c_step must not write to them")
    observer.check_log()
    for whole, _ in memory.values():
        assert_guards_are_whole(whole)
    env.close()


MASKED = [case for case in cases() if ocean.env_class(case.name).has_action_masks]


@pytest.mark.parametrize("game", MASKED, ids=str)
def test_action_masks_are_written_whole_and_allow_a_choice(game):
    env, random = game.make(5), np.random.default_rng(0)
    space = env.single_action_space
    counts = [space.n] if hasattr(space, "n") else space.nvec.tolist()
    env.action_masks.view(np.uint8)[:] = POISON
    env.reset(1)
    for step in range(300):
        assert env.action_masks.view(np.uint8).max() <= 1, "c_reset must write every byte of the masks, with 0 or 1"
        parts = np.split(env.action_masks, np.cumsum(counts)[:-1], axis=1)
        assert all(part[env.masks].any(1).all() for part in parts), "an agent that acts must have a choice in each part"
        legal = np.stack([(random.random(part.shape) * part).argmax(1) for part in parts], 1).reshape(env.actions.shape)
        actions = legal if step % 10 else next(random_actions(env, 1, step))
        env.step(actions.astype(np.int32))


@each_case
def test_one_seed_gives_one_rollout(case):
    recorded = []
    for seed in (3, 3, 4):
        env = case.make(8, seed=9)
        first = env.reset(seed)[0].copy()
        recorded.append((first, rollout(env, random_actions(env, 200))))
    assert_same(recorded[1][0], recorded[0][0], "one seed must give one first observation")
    assert_same_rollout(recorded[0][1], recorded[1][1])
    with pytest.raises(AssertionError, match="must be the same"):
        assert_same_rollout(recorded[0][1], recorded[2][1])
        pytest.fail("two seeds gave one rollout: nothing is drawn from env->rng")


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
            rule = f"the {name} of an environment must not depend on how many others there are"
            assert_same(getattr(few, name), getattr(many, name)[:rows], rule)


@each_case
def test_environments_of_one_run_differ_from_each_other(case):
    """All of them do the same, at random."""
    env, count = case.make(8), 8
    env.reset(0)
    same = (np.concatenate([actions] * count) for actions in random_actions(case.make(1), 50))
    played = rollout(env, same)
    for i in range(2):  # observations or rewards
        history = np.stack([arrays[i] for arrays in played], axis=1).reshape(count, -1)
        if len({row.tobytes() for row in history}) > 1:
            return
    raise AssertionError("every environment has the same stream of random numbers")


@each_case
def test_reset_begins_anew_without_logging_the_unfinished_episode(case):
    env = case.make(report_interval=NEVER)
    first = env.reset(2)[0].copy()
    for actions in random_actions(env, 150):
        env.step(actions)
    env.episode_statistics()
    assert_same(env.reset(2)[0], first, "a reset with one seed must begin anew: does c_reset set every member?")
    assert not env.rewards.any() and not env.terminals.any() and not env.truncations.any()
    assert env.episode_statistics() == [], "a reset must not log the episode that it breaks off"
    Observer(env).play(random_actions(env, 300)).check_log()  # which knows nothing of the steps before


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


def test_infos_report_every_interval():
    env = Case("puffer_template").make(report_interval=40)
    env.reset(7)
    reports = [env.step(actions)[4] for actions in random_actions(env, 80)]
    assert [step for step, infos in enumerate(reports, 1) if infos] == [40, 80]


@each_case
def test_closing_twice_is_harmless_and_stepping_afterwards_says_so(case):
    env = case.make(2)
    env.reset(0)
    env.close()
    env.close()
    with pytest.raises(APIUsageError, match="closed"):
        env.step(np.zeros_like(env.actions))
    with pytest.raises(APIUsageError, match="closed"):
        env.reset()


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
    assert_same(env.step(actions.tolist())[0], twin.step(actions)[0], "lists of actions must do what arrays do")
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
    bad = [2]  # for a switch
    if keyword_range(name, key) is not None:
        low, high = keyword_range(name, key)
        bad = [low - 1, high + 1, 2**40, np.nan, "many", *([1.5] if isinstance(low, int) else [])]
    for value in (*bad, None):
        with pytest.raises((TypeError, ValueError), match=f"{key} must be .* got"):
            Case(name, {key: value}).make()


@pytest.mark.parametrize("name", ocean.names())
def test_nothing_that_belongs_to_an_environment_is_missing(name):
    folder = ocean.config_path(name).parent
    parts = ["", "_render"] if name in COMPILED else []
    missing = [path for part in parts if not (path := folder / f"{folder.name}{part}.h").exists()]
    assert missing == [], "its simulation, and a picture of it"
    tests = [*Path(__file__).parents[1].rglob(f"test_{folder.name}.py")]
    assert tests, f"test_{folder.name}.py holds the rules of {name} to what is known of the game from elsewhere"


@pytest.mark.parametrize("name", COMPILED)
def test_ini_names_the_keyword_defaults(name):
    ini = configparser.ConfigParser()
    ini.read(ocean.config_path(name))
    arguments = dict(ini["env"])
    num_envs = arguments.pop("num_envs")  # many agents in one environment need fewer of those
    assert num_envs == "auto" or int(num_envs) >= 1
    words = {key for key, default in keywords(name).items() if isinstance(default, str)}
    found = {key: value if key in words else ast.literal_eval(value) for key, value in arguments.items()}
    assert found == keywords(name)
    assert ini["solve"]["metric"] in ("perf", "score")
    assert float(ini["solve"]["threshold"])


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
