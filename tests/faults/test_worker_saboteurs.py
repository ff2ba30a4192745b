"""The cases of worker processes by code that is broken on purpose: see worker_cases.py."""

import pytest
from fault_suite import assert_noticed, broken
from worker_cases import CASES


@pytest.mark.slow
@pytest.mark.weekly
@broken(CASES)
def test_broken_code_is_noticed(case, saboteur, tmp_path):
    assert_noticed(case, saboteur, tmp_path)
