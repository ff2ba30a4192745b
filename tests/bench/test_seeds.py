import argparse
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def seeds(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import seeds

    kept = []
    monkeypatch.setattr(seeds, "calibration", lambda: 10.0)
    monkeypatch.setattr(seeds, "keep", lambda *given: kept.append(given))
    monkeypatch.setattr(seeds, "kept", kept, raising=False)
    return seeds


def test_what_follows_two_dashes_are_settings(seeds, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench/x.py", "--seeds", "4", "5", "--", "--train.gamma", "0.5"])
    options, settings = seeds.parse(argparse.ArgumentParser())
    assert options.seeds == [4, 5] and settings == ["--train.gamma", "0.5"]
    monkeypatch.setattr(sys, "argv", ["bench/x.py"])
    options, settings = seeds.parse(argparse.ArgumentParser())
    assert options.seeds == [1, 2, 3] and settings == []


def test_every_name_runs_from_every_seed_and_its_rows_are_kept(seeds, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench/x.py", "a", "b", "--", "it's"])
    folders = []

    def run(name, seed, folder):
        folders.append(Path(folder))
        assert folders[-1].is_dir()
        return [(f"{name} {seed}", 2.5, "s")]

    seeds.measure("x", ["a", "b"], [1, 2], run)
    names = ["a 1", "a 2", "b 1", "b 2"]
    command = """python bench/x.py a b -- 'it'"'"'s'"""
    assert seeds.kept == [("x", [(name, 2.5, "s")], command, 10.0) for name in names]
    assert capsys.readouterr().out == "".join(f"{name}  2.5 s\n" for name in names)
    assert not any(folder.exists() for folder in folders)
    seeds.measure("x", ["a"], [1], run, is_kept=False)
    assert len(seeds.kept) == len(names)
