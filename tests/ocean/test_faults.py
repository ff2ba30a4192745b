"""The tests of all environments notice each fault of tests/c/faults.h, as do `check_env` and a training's first second.

None of them finds one where there is none.
"""

from __future__ import annotations

import inspect
import re
import time
import warnings

import gymnasium
import numpy as np
import pytest
import test_contract
import test_final_observations
import test_forged_snapshots
import test_headers
from compiled import compiled_binding
from contract import Case

import pufferlib
from pufferlib import ocean
from pufferlib.errors import APIUsageError, PufferWarning
from pufferlib.ocean import faults as finding
from pufferlib.ocean.environment import OceanEnv

HEADER = test_headers.ROOT / "tests/c/faults.h"
NAME = "puffer_faults"


@pytest.fixture
def faults(request, monkeypatch, tmp_path):
    """The environment with the fault that the test names, known to the tests of all environments by its name."""

    class Faults(OceanEnv):
        binding = compiled_binding("faults", tmp_path, f"-DFAULT={request.param}")
        agents_per_env = 2

        def __init__(self, num_envs=1024, longest=8, **kwargs):
            highest = np.array([longest if longest in range(1, 201) else 1, 1], np.uint8)
            self.single_observation_space = gymnasium.spaces.Box(np.zeros(2, np.uint8), highest, dtype=np.uint8)
            self.single_action_space = gymnasium.spaces.Discrete(2)
            super().__init__(num_envs, {"longest": longest}, **kwargs)

    monkeypatch.setattr(ocean, "env_class", lambda name: Faults)
    copy = tmp_path / "faults.h"
    copy.write_text(f'#pragma once\n#define FAULT {request.param}\n#include "{HEADER}"\n')
    monkeypatch.setitem(test_headers.HEADERS, "faults", copy)


def all_that_take_a_case():
    """The tests that take nothing but a case."""
    modules = (test_contract, test_final_observations)
    functions = [value for module in modules for name, value in vars(module).items() if name.startswith("test_")]
    return [function for function in functions if [*inspect.signature(function).parameters] == ["case"]]


@pytest.mark.parametrize("faults", ["NO_FAULT"], indirect=True)
def test_nothing_is_found_where_there_is_no_fault(faults, tmp_path):
    for test in all_that_take_a_case():
        test(Case(NAME))
    for extreme in (1, 200):
        test_contract.test_nothing_is_written_but_the_rows_and_not_the_actions(Case(NAME, {"longest": extreme}))
    test_contract.test_bad_keyword_values_raise_a_sentence_that_names_them(NAME, "longest")
    test_forged_snapshots.test_a_tampered_snapshot_is_refused_or_played(NAME)
    test_forged_snapshots.test_what_play_leads_to_is_accepted(NAME)
    test_headers.test_a_header_has_no_state_and_calls_nothing_but_math_and_memory("faults", tmp_path)


log_test = test_contract.test_play_at_random_stays_in_the_spaces_and_is_what_the_log_tells
rows_test = test_contract.test_nothing_is_written_but_the_rows_and_not_the_actions
seed_test = test_contract.test_one_seed_gives_one_rollout
snapshot_test = test_contract.test_snapshot_continues_identically_here_and_elsewhere
final_test = test_final_observations.test_they_are_in_the_space_written_at_ends_alone_and_change_nothing_else
NOTICED = {
    "TERMINAL_ERASED": [log_test],
    "LOG_ASSIGNED": [log_test],
    "OBSERVATION_OUTSIDE": [log_test, rows_test],
    "WRITE_PAST_ROW": [rows_test],
    "LIBC_RAND": [seed_test, snapshot_test],
    "STATE_OUTSIDE": [seed_test, snapshot_test],
    "FLAG_KEPT": [log_test],
    "REWARD_KEPT": [log_test],
    "EPISODES_MERGED": [log_test],
    "FINAL_FORGOTTEN": [final_test],
    "ACTION_WRITTEN": [rows_test],
    "ACTION_AS_FLOAT": [test_contract.test_what_agents_do_makes_a_difference],
}


@pytest.mark.quick("TERMINAL_ERASED", "WRITE_PAST_ROW", "STATE_OUTSIDE", "FINAL_FORGOTTEN")
@pytest.mark.parametrize(("faults", "tests"), NOTICED.items(), indirect=["faults"], ids=NOTICED)
def test_a_fault_is_noticed(faults, tests):
    for test in tests:
        with pytest.raises(AssertionError):
            test(Case(NAME))


@pytest.mark.parametrize("faults", ["STRUCT_UNCHECKED"], indirect=True)
def test_a_struct_that_nobody_checks_is_noticed(faults):
    with pytest.raises(AssertionError):
        test_forged_snapshots.test_a_tampered_snapshot_is_refused_or_played(NAME)


@pytest.mark.parametrize("faults", ["LIBC_RAND", "STATE_OUTSIDE"], indirect=True)
def test_what_lies_outside_the_struct_is_noticed_in_the_header(faults, tmp_path):
    with pytest.raises(AssertionError):
        test_headers.test_a_header_has_no_state_and_calls_nothing_but_math_and_memory("faults", tmp_path)


# What an author is told of, before a training and when it begins.
TOLD = {
    "NO_FAULT": None,
    "TERMINAL_ERASED": r"in log\.n, where 0 ended by a flag",
    "LOG_ASSIGNED": r"log\.episode_return",
    "OBSERVATION_OUTSIDE": r"observes 2 at \[1\], outside of Box",
    "LIBC_RAND": r"take chance from env->rng",
    "STATE_OUTSIDE": r"keep all that it remembers in the struct",
    "FLAG_KEPT": r"leaves terminals of an agent as they were in c_step",
    "REWARD_KEPT": r"leaves rewards of an agent as they were in c_step",
    "EPISODES_MERGED": r"in log\.n, where \d+ ended by a flag",
    "ACTION_AS_FLOAT": r"read them by the type that c_layout says",
    "ROW_OF_ANOTHER": r"leaves observations of an agent as they were in c_reset",
    "ADDRESS_KEPT": r"keeps an address in its struct",
}


@pytest.mark.quick("NO_FAULT", "EPISODES_MERGED", "ROW_OF_ANOTHER")
@pytest.mark.parametrize(("faults", "told"), TOLD.items(), indirect=["faults"], ids=TOLD)
def test_check_env_and_the_first_second_of_a_training_tell_of_a_fault(faults, told, in_tmp_path):
    env = ocean.env_class(NAME)(8)
    found = pufferlib.check_env(env)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pufferlib.PuffeRL(env).release()
    warned = [str(warning.message) for warning in caught if warning.category is PufferWarning]
    if told is None:
        assert found == [] == warned
    else:
        for (sentence,) in (found, warned):
            assert re.search(rf"^ocean/.*\.h .*{told}", sentence)


@pytest.mark.parametrize("faults", ["WRITE_PAST_ROW"], indirect=True)
def test_nothing_is_trained_that_writes_outside_of_its_rows(faults, in_tmp_path):
    for call in (pufferlib.check_env, pufferlib.PuffeRL):
        with pytest.raises(APIUsageError, match="must write only its rows of observations"):
            call(ocean.env_class(NAME)(8))


@pytest.mark.parametrize("faults", ["NO_FAULT"], indirect=True)
def test_a_call_that_does_not_return_is_told_of(faults, monkeypatch):
    monkeypatch.setattr(finding, "STUCK_SECONDS", 0.01)
    monkeypatch.setattr(finding, "_first_fault", lambda *arguments: time.sleep(0.1))
    with pytest.warns(PufferWarning, match=r"\.h does not return from c_reset or c_step"):
        pufferlib.check_env(ocean.env_class(NAME)(8))


def test_the_environments_that_are_played_stay_as_they_were():
    env = ocean.env_class("puffer_template")(4)
    env.reset(3)
    before, observations = env.snapshot(), env.observations
    assert finding.find_faults(env, steps=20) == []
    assert env.snapshot() == before and env.observations is observations
