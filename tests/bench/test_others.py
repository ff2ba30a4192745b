"""bench/others.py trains what can be installed, and names what cannot."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SCRIPT = """
import json, sys
assert sys.argv[1:4] == ["CartPole-v1", "200000", "1"] and float(sys.argv[4]) > 0
print("a library's own lines")
print(json.dumps({"steps": 1000, "seconds": 2.0, "start": 0.5, "score": 12.5}))
"""


@pytest.fixture
def others(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import others

    return others


@pytest.fixture
def folder(others, tmp_path, monkeypatch):
    """Of two trainers, one that works and one that fails while it trains; their interpreters are there already."""
    (tmp_path / "good.py").write_text(SCRIPT)
    (tmp_path / "bad.py").write_text("raise SystemError('no such game')")
    made = {}
    for name in ("good", "bad"):
        made[name] = others.Trainer(str(tmp_path / f"{name}.py"), (f"{name}==1",), (others.CARTPOLE,))
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
        (tmp_path / name / "installed").touch()
    monkeypatch.setattr(others, "TRAINERS", made)
    return tmp_path


@pytest.mark.slow
def test_a_trainer_gives_rows_and_one_that_fails_is_named(others, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["others.py", "--seeds", "1", "--no-rows", "--folder", str(folder)])
    others.main()
    printed = capsys.readouterr()
    assert "CartPole-v1, good, seed 1: throughput  500 steps/s" in printed.out
    assert "CartPole-v1, good, seed 1: score after 1,000 steps  12.5 return" in printed.out
    assert "CartPole-v1, bad, seed 1: did not train: SystemError: no such game" in printed.err


def test_what_cannot_be_installed_is_named_with_the_error(others, folder, monkeypatch, capsys):
    def fail(command, folder):
        raise RuntimeError("ERROR: no matching distribution")

    (folder / "good" / "installed").unlink()
    monkeypatch.setattr(others.venv, "create", lambda place, clear, with_pip: None)
    monkeypatch.setattr(others, "run", fail)
    monkeypatch.setattr(sys, "argv", ["others.py", "good", "--seeds", "1", "--no-rows", "--folder", str(folder)])
    others.main()
    assert "good: not installed: ERROR: no matching distribution" in capsys.readouterr().err


def test_an_unknown_trainer_is_refused(others, folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["others.py", "better"])
    with pytest.raises(SystemExit):
        others.main()
    assert "expected some of good, bad, got better" in capsys.readouterr().err


def test_every_trainer_has_its_script(others):
    for trainer in others.TRAINERS.values():
        assert (BENCH / "others" / trainer.script).exists()
