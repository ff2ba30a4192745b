"""Disks that are full, folders that cannot be written, are removed or replaced: see disk_cases.py."""

import pytest
from disk_cases import CASES
from fault_suite import assert_noticed, assert_survived, broken, cases


@cases(CASES)
def test_it_is_survived(case, tmp_path):
    assert_survived(case, tmp_path)


@pytest.mark.slow
@broken(CASES)
def test_broken_code_is_noticed(case, saboteur, tmp_path):
    assert_noticed(case, saboteur, tmp_path)
