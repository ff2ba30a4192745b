"""`puffer export`, as it is typed."""

import subprocess
import warnings

import pytest
import torch

from pufferlib import cli
from pufferlib.export import c_format

SQUARED = "puffer_squared"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's, of TorchScript
        return torch.jit.load(path)


@pytest.mark.slow
def test_a_file_is_named_for_the_environment_or_as_asked(folder, capsys):
    words = ["export", SQUARED, "--pretrained", "--format", "torchscript"]
    (folder / "there").mkdir()
    for output, path in (
        ([], "squared.pt"),
        (["--output", "mine.pt"], "mine.pt"),
        (["--output", "there"], "there/squared.pt"),
    ):
        assert cli.main([*words, *output]) == 0
        assert capsys.readouterr().out == f"wrote {path}, which takes observations and returns logits, value\n"
        logits, values = load(path)(torch.zeros(3, 121, dtype=torch.uint8))
        assert logits.shape == (3, 5) and values.shape == (3,)


@pytest.mark.slow
@pytest.mark.skipif(c_format.compiler() is None, reason="needs a C compiler")
def test_the_command_that_is_printed_compiles_and_plays(folder, capsys):
    assert cli.main(["export", SQUARED, "--pretrained", "--format", "c", "--env.size", "11"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("wrote squared_c, a program that plays; there:\n\n    cc -O3 ")
    command = out.split("\n\n")[1].strip()
    done = subprocess.run(["bash", "-c", command], cwd="squared_c", capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "perf             1.000 +- 0.000 (n = 1000)\n" in done.stdout


@pytest.mark.slow
def test_onnx_is_what_is_written_unless_told(folder, capsys):
    onnx = pytest.importorskip("onnx", reason="pip install -e '.[test]'")
    assert cli.main(["export", SQUARED, "--pretrained"]) == 0
    assert capsys.readouterr().out.startswith("wrote squared.onnx, which takes observations and returns ")
    notes = {each.key: each.value for each in onnx.load("squared.onnx").metadata_props}
    assert notes["environment"] == SQUARED and notes["action_space"] == "Discrete(5)"
    assert notes["model"].endswith("pretrained.pt") and '"size": 11' in notes["settings"]


def test_weights_must_be_named(capsys):
    assert cli.main(["export", SQUARED]) == 2
    assert "needs trained weights, found none; say --pretrained, or --load-model-path" in capsys.readouterr().err


def test_what_other_packages_are_for_is_said(monkeypatch, capsys):
    monkeypatch.setattr("pufferlib.errors.is_installed", lambda package: package != "onnxscript")
    assert cli.main(["export", SQUARED, "--pretrained"]) == 2
    assert "onnxscript is not installed; run `pip install 'pufferlib[export]'`" in capsys.readouterr().err


@pytest.mark.slow
def test_an_environment_of_python_is_exported_as_a_header_alone(folder, capsys):
    words = ["--train.total-timesteps", "2048", "--train.batch-size", "1024", "--train.minibatch-size", "256"]
    assert cli.main(["train", "CartPole-v1", "--vec.backend", "Serial", "--vec.num-envs", "2", *words]) == 0
    capsys.readouterr()
    assert cli.main(["export", "CartPole-v1", "--load-model-path", "latest", "--format", "c"]) == 0
    assert "a header to include, cartpole_v1_policy.h; puffernet.h beside it" in capsys.readouterr().out
    assert sorted(path.name for path in (folder / "cartpole_v1_c").iterdir()) == ["cartpole_v1_policy.h", "puffernet.h"]
