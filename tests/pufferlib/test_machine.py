"""What a process may use, read from control groups of every version."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from pufferlib import machine

V1 = "4:memory:/job/step\n2:cpu,cpuacct:/job/step\n0::/job/step\n"
NO_V1_LIMIT = "9223372036854771712\n"  # pages of all addresses
MEMORY = 2**34


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Writes the files of control groups, and the groups that the process is in; the machine has 7 cores, 16 GiB."""

    def write(files, membership=None):
        for name, content in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        if membership is not None:
            (tmp_path / "membership").write_text(membership)

    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": MEMORY // 4096}
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)), raising=False)
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    return write


def v1_quota(quota, period=100_000):
    return {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": f"{period}\n"}


def under(folder, files):
    return {f"{folder}/{name}": content for name, content in files.items()}


@pytest.mark.parametrize(
    ("files", "membership", "share", "cores"),
    [
        pytest.param({}, None, 7, 7, id="no control groups"),
        pytest.param({}, "0::/\n", 7, 7, id="without their files"),
        pytest.param({"cpu.max": "max 100000\n"}, "0::/\n", 7, 7, id="no limit"),
        pytest.param({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5, 2, id="a broken quota"),
        pytest.param({"cpu.max": "20000 100000\n"}, "0::/\n", 0.2, 1, id="less than a core"),
        pytest.param({"cpu.max": "900000 100000\n"}, "0::/\n", 7, 7, id="more than the machine has"),
        pytest.param({"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 1\n"}, "0::/a/b\n", 3, 3, id="around it"),
        pytest.param({"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "2 1\n"}, "0::/a/b\n", 2, 2, id="its own"),
        pytest.param({"b/cpu.max": "1 1\n"}, "0::/a\n", 7, 7, id="a group of others"),
        pytest.param({"cpu.max": "2 1\n", "a/cpu.max": "1 1\n"}, "0::/../a\n", 2, 2, id="a path outside"),
        pytest.param(under("cpu", v1_quota(400_000)), V1, 4, 4, id="version 1, the container's own"),
        pytest.param(under("cpu/job", v1_quota(250_000)), V1, 2.5, 2, id="version 1, nested"),
        pytest.param(under("cpu", v1_quota(-1)), V1, 7, 7, id="version 1, no limit"),
        pytest.param(under("cpu", v1_quota(100_000, 0)), V1, 7, 7, id="version 1, no period"),
        pytest.param({"cpu.max": "what\n"}, "what\n", 7, 7, id="bad content"),
        pytest.param({"cpu.max": ""}, "", 7, 7, id="nothing written"),
        pytest.param(under("cpu", {"cpu.cfs_quota_us": "many", "cpu.cfs_period_us": "few"}), V1, 7, 7, id="no numbers"),
    ],
)
def test_cores_are_limited_by_the_control_groups(groups, files, membership, share, cores):
    groups(files, membership)
    assert machine.core_share() == share
    assert machine.usable_cores() == cores


@pytest.mark.parametrize(
    ("files", "membership", "limit"),
    [
        pytest.param({}, None, MEMORY, id="no control groups"),
        pytest.param({"memory.max": "max\n"}, "0::/\n", MEMORY, id="no limit"),
        pytest.param({"memory.max": "1048576\n"}, "0::/\n", 2**20, id="a limit"),
        pytest.param({"memory.max": str(2**40)}, "0::/\n", MEMORY, id="more than the machine has"),
        pytest.param({"a/memory.max": "1048576\n", "a/b/memory.max": "max\n"}, "0::/a/b\n", 2**20, id="an outer group"),
        pytest.param({"memory/memory.limit_in_bytes": "2097152\n"}, V1, 2**21, id="version 1"),
        pytest.param({"memory/memory.limit_in_bytes": NO_V1_LIMIT}, V1, MEMORY, id="version 1, no limit"),
        pytest.param({"memory/job/step/memory.limit_in_bytes": "2097152\n"}, V1, 2**21, id="version 1, nested"),
        pytest.param({"memory.max": "lots\n"}, "0::/\n", MEMORY, id="bad content"),
    ],
)
def test_memory_is_limited_by_the_control_groups(groups, files, membership, limit):
    groups(files, membership)
    assert machine.usable_memory_bytes() == limit


@pytest.mark.parametrize(
    ("processes", "cores", "share"), [("1", 7, 7), ("2", 3, 3.5), ("8", 1, 0.875), ("0", 7, 7), ("many", 7, 7)]
)
def test_processes_of_one_machine_share_its_cores(groups, monkeypatch, processes, cores, share):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
    assert (machine.usable_cores(), machine.core_share()) == (cores, share)


def test_without_affinity_masks_all_cores_count(groups, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1


def test_this_machine_has_something_to_use():
    assert 1 <= machine.usable_cores() <= os.cpu_count()
    assert 2**20 < machine.usable_memory_bytes() <= psutil.virtual_memory().total


def test_asking_needs_no_other_package():
    code = "import sys, pufferlib.machine; assert not {'torch', 'numpy', 'gymnasium', 'psutil'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
