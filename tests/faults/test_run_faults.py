"""Disks, limits, outputs and signals that a run must survive: see the modules of cases that are imported here."""

import disk_cases
import limit_cases
import output_cases
import pytest
import signal_cases
from fault_suite import assert_noticed, assert_survived, broken, cases

ROOMS = (disk_cases, limit_cases, output_cases, signal_cases)


@cases(case for room in ROOMS for case in room.CASES)
def test_it_is_survived(case, tmp_path):
    assert_survived(case, tmp_path)


@pytest.mark.slow
@pytest.mark.weekly
@broken(*(room.CASES for room in ROOMS))
def test_broken_code_is_noticed(case, saboteur, tmp_path):
    assert_noticed(case, saboteur, tmp_path)
