"""Shares of the cores for processes side by side."""

import os

import pytest

from pufferlib.sweep.trial_process import core_shares


def shares(monkeypatch, num_workers, available, usable=None):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(available), raising=False)
    monkeypatch.setattr("pufferlib.sweep.trial_process.usable_cores", lambda: usable or len(available))
    return core_shares(num_workers)


def test_one_worker_has_all(monkeypatch):
    assert shares(monkeypatch, 1, [2, 3, 5]) == [[2, 3, 5]]
    assert shares(monkeypatch, 1, [0, 1, 2, 3], usable=2) == [[0, 1, 2, 3]]


def test_several_have_parts_that_differ_by_one_core_at_most(monkeypatch):
    assert shares(monkeypatch, 3, range(8)) == [[0, 1], [2, 3, 4], [5, 6, 7]]


def test_more_workers_than_cores_share_them(monkeypatch):
    assert shares(monkeypatch, 5, [4, 7]) == [[4], [4], [4], [7], [7]]


def test_a_quota_is_kept(monkeypatch):
    found = shares(monkeypatch, 2, range(16), usable=4)
    assert [len(share) for share in found] == [2, 2]
    assert len({core for share in found for core in share}) == 4


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="a system without affinity masks")
def test_the_cores_of_this_machine_are_all_given_away():
    assert sorted(core_shares(1)[0]) == sorted(os.sched_getaffinity(0))


def test_a_system_without_masks_has_no_shares(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert core_shares(2) == [[], []]
