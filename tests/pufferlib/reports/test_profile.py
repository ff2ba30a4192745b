"""`puffer profile`: the split, the trace and the advice."""

import json
import os
import resource
from pathlib import Path

import pytest
import torch

from pufferlib import PuffeRL, cli
from pufferlib.errors import StorageError
from pufferlib.reports import profiling
from pufferlib.reports.profiling import advice
from pufferlib.runs.description import pretrained_path

EVEN = {"environment": 0.25, "forward": 0.2, "store": 0.1, "learn": 0.3, "advantage": 0.05, "other": 0.1}


def test_where_nothing_dominates_that_is_the_advice_and_the_parts_add_up_to_the_whole():
    told = "No part dominates (learning 35%, acting 30%, environment 25%, the rest 10%): only making all of them"
    assert advice(EVEN).startswith(told)


@pytest.mark.parametrize(
    ("phase", "why_torch", "told"),
    [
        ("environment", "fused is False", "Environment takes 70% of the time: step it by all cores"),
        ("forward", None, "Acting takes 70% of the time: have more environments"),
        ("advantage", None, "Learning takes 70% of the time: have fewer passes (--train.update-epochs)"),
        ("learn", "fused is False", "torch computes the policy, as fused is False; change that for the C kernel, or "),
        ("nothing of ours", None, "The rest takes 75% of the time: log less often"),
    ],
)
def test_what_dominates_is_told_with_a_remedy(phase, why_torch, told):
    assert told in advice({phase: 0.7, "other": 0.05, "evaluation": 0.25}, why_torch)


def test_a_profile_tells_and_leaves_a_trace_alone(in_tmp_path, capfd):
    sizes = ("--env.num-envs", "64", "--train.batch-size", "2048", "--train.minibatch-size", "1024")
    weights = ("--load-model-path", str(pretrained_path("puffer_cartpole")))
    assert cli.main(["profile", "puffer_cartpole", "--seconds", "0.2", "--output", "trace.json", *sizes, *weights]) == 0
    out, err = capfd.readouterr()
    assert err == "" and os.listdir() == ["trace.json"]
    lines = out.splitlines()
    assert "steps/s over" in lines[1] and "64 agents at a time" in lines[1]
    assert lines[2].startswith("computed by C kernel")
    shares = {line.split()[0]: int(line.split()[1].rstrip("%")) for line in lines[5 : lines.index("", 5)]}
    assert {"environment", "forward", "learn", "advantage", "other"} <= shares.keys()
    assert sum(shares.values()) == pytest.approx(100, abs=4)
    assert "Self CPU" in out and (" of the time: " in out or "No part dominates" in out)
    names = {event.get("name") for event in json.loads(Path("trace.json").read_text())["traceEvents"]}
    assert {"environment", "forward", "learn"} <= names


@pytest.mark.slow
def test_operations_of_threads_that_share_a_minibatch_are_seen(in_tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        trainer = PuffeRL("puffer_squared", fused=False, num_envs=64, batch_size=2048, log_interval=10**9, device="cpu")
        assert trainer._learner.gradients._num_chunks == 2
        trainer.evaluate(), trainer.train()
        table = profiling.trace(trainer, Path("trace.json"))
        trainer.release()
    finally:
        torch.set_num_threads(before)
    calls = {line.split()[0]: int(line.split()[-1]) for line in table.splitlines() if line.split()[-1].isdigit()}
    assert calls["aten::addmm"] > 2 * calls["learn"]


@pytest.mark.slow
def test_a_trace_that_a_disk_has_no_room_for_is_an_error(in_tmp_path):
    trainer = PuffeRL("puffer_squared", num_envs=64, batch_size=2048, log_interval=10**9, device="cpu")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StorageError, match=r"trace\.json"):
            profiling.trace(trainer, Path("trace.json"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    trainer.release()
    assert not os.listdir()


def test_a_trace_that_cannot_be_written_is_told_first(in_tmp_path, capsys):
    assert cli.main(["profile", "puffer_cartpole", "--output", "gone/trace.json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "gone/trace.json cannot be written, there is no folder gone" in err
