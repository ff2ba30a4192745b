"""`puffer profile`: the split, the trace and the advice."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
import torch

from pufferlib import PuffeRL, cli
from pufferlib.reports import profiling
from pufferlib.reports.profiling import ProfileFacts, advice, parts, stepping_text
from pufferlib.runs.description import pretrained_path

EVEN = ProfileFacts(
    shares={"environment": 0.3, "forward": 0.2, "store": 0.1, "learn": 0.3, "advantage": 0.05, "other": 0.05},
    **{"device": "cpu", "backend": "Native", "workers": 2, "cores": 2, "agents": 1024, "update_epochs": 4.0},
    why_torch=None,
)


def dominated(phase, share=0.7, **changes):
    return dataclasses.replace(EVEN, shares={phase: share, "other": 0.05, "evaluation": 0.95 - share}, **changes)


def test_the_parts_add_up_to_the_whole():
    found = parts(EVEN.shares)
    assert found == pytest.approx({"environment": 0.3, "acting": 0.3, "learning": 0.35, "the rest": 0.05})


def test_where_nothing_dominates_that_is_the_advice():
    assert advice(EVEN).startswith("No part dominates (learning 35%, ")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (dominated("environment"), "The environment takes 70% of the time: all 2 cores step it already"),
        (dominated("environment", workers=1), "1 of 2 cores step it; take all of them, by --vec.num-workers 2."),
        (dominated("environment", workers=1, cores=1), "the one core steps it already"),
        (dominated("environment", backend="Multiprocessing"), "it is in Python; written in C"),
        (dominated("environment", backend="Serial", workers=1), "--vec.backend Multiprocessing --vec.num-workers 2"),
        (dominated("environment", backend="GymnasiumVector", workers=1), "it steps itself"),
        (dominated("forward"), "Acting takes 70% of the time: have a smaller policy, by --policy.hidden-size."),
        (dominated("store", device="cuda"), "the cuda device is asked in every step for 1,024 agents"),
        (
            dominated("learn"),
            "the time: learn fewer times from each step, by --train.update-epochs (now 4)",
        ),
        (dominated("advantage", update_epochs=0.5), "have larger minibatches, by --train.minibatch-size"),
        (
            dominated("learn", why_torch="[train] fused is False"),
            "torch computes the policy, as [train] fused is False; change that for the C kernel, or learn fewer times",
        ),
        (dominated("learn", why_torch="it is for CPUs", device="cuda"), "the time: learn fewer times"),
        (dominated("communicate"), "Communication takes 70% of the time: exchange gradients less often"),
        (dominated("other", 0.1), "Evaluation takes 85% of the time: evaluate less often"),
        (dominated("nothing of ours"), "The rest takes 75% of the time: log less often"),
    ],
)
def test_what_dominates_is_told_with_a_remedy(facts, told):
    sentence = advice(facts)
    assert told in sentence and sentence.endswith(".") and sentence.count(". ") == 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "2 threads on 2 cores"),
        ({"workers": 1, "cores": 1}, "1 thread on 1 core"),
        ({"backend": "Multiprocessing"}, "2 processes on 2 cores"),
    ],
)
def test_who_steps_is_told(changes, text):
    assert stepping_text(dataclasses.replace(EVEN, **changes)) == text


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
        assert trainer._learner.gradients._chunks.count == 2
        trainer.evaluate(), trainer.train()
        table = profiling.trace(trainer, Path("trace.json"))
        trainer.release()
    finally:
        torch.set_num_threads(before)
    calls = {line.split()[0]: int(line.split()[-1]) for line in table.splitlines() if line.split()[-1].isdigit()}
    assert calls["aten::addmm"] > 2 * calls["learn"]


def test_a_trace_that_cannot_be_written_is_told_first(in_tmp_path, capsys):
    assert cli.main(["profile", "puffer_cartpole", "--output", "gone/trace.json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "gone/trace.json cannot be written, there is no folder gone" in err
