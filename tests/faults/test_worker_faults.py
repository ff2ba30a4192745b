"""Worker processes that die, stop or hang, and environments that raise: see worker_cases.py."""

from fault_suite import assert_survived, cases
from worker_cases import CASES


@cases(CASES)
def test_it_is_survived(case, tmp_path):
    assert_survived(case, tmp_path)
