"""Too little shared memory, too few file handles and processes, no memory: see limit_cases.py."""

import pytest
from fault_suite import assert_noticed, assert_survived, broken, cases
from limit_cases import CASES


@cases(CASES)
def test_it_is_survived(case, tmp_path):
    assert_survived(case, tmp_path)


@pytest.mark.slow
@broken(CASES)
def test_broken_code_is_noticed(case, saboteur, tmp_path):
    assert_noticed(case, saboteur, tmp_path)
