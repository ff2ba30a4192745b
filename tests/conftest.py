"""What tests of all folders share."""

import gc
import os

import hypothesis
import pytest

# One thread for torch: tests run side by side on few cores, where threads that wait for each other are very slow.
os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, and inherited by subprocesses
os.environ.pop("PUFFER_FLAGS", None)  # what a developer's shell says is not tested

# The same examples in every run, so that a change is not blamed for what chance found; `make test-weekly` draws others.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.register_profile("drawn", print_blob=True)
hypothesis.settings.load_profile("same")


def pytest_collection_modifyitems(items):
    """Marks as slow the cases of a test that its mark `quick` does not name, by their id or by one parameter's."""
    for item in items:
        for mark in item.iter_markers("quick"):
            case = item.callspec.id
            if case not in mark.args and not {*mark.args} & {*case.split("-")}:
                item.add_marker(pytest.mark.slow)


def pytest_collection(session):
    """Collecting makes thousands of objects that stay to the end: nobody need look for garbage among them."""
    gc.disable()


def pytest_collection_finish(session):
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """Runs a test in its own folder, for what is kept under the current one."""
    monkeypatch.chdir(tmp_path)
