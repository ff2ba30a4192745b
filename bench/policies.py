"""Policies as people write them in torch, by the kernel and by torch.

    python -m pytest -n0 bench/policies.py --benchmark-enable
    python bench/record.py policies -- python -m pytest -q -n0 bench/policies.py --benchmark-enable

One round is one iteration, `evaluate()` and `train()`, with one pass over each batch, of breakout; or, with fewer
steps, of observations that are drawn from their space. Both compute in float32, and once more in bfloat16, which is
autocast by torch. A policy that the kernel does not take fails here with the reason: what is measured is never torch
twice.
"""

from __future__ import annotations

import pytest
import torch

from bench.policy_corpus import CORPUS
from pufferlib import NoLogger, PuffeRL

POLICIES = [name for name, case in CORPUS.items() if case.by_torch is None]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # of torch's RMSNorm in bfloat16, which is what it measures
@pytest.mark.parametrize("by", ["kernel", "torch", "kernel in bfloat16", "torch in bfloat16"])
@pytest.mark.parametrize("policy", POLICIES)
def test_train(benchmark, policy, by, tmp_path):
    precision = "bfloat16" if by.endswith("bfloat16") else "float32"
    case = CORPUS[policy]
    is_breakout = case.observations is None
    env = case.make_env(1024 if is_breakout else 64)
    torch.manual_seed(0)
    sizes = {"batch_size": 65_536, "minibatch_size": 16_384} if is_breakout else {"batch_size": 4_096}
    given = {"logger": NoLogger(), "data_dir": str(tmp_path), "device": "cpu", "precision": precision}
    trainer = PuffeRL(env, case.make_policy(env), n_epochs=1, fused=by.startswith("kernel"), **sizes, **given)
    assert trainer.computed_by.startswith("C kernel") == by.startswith("kernel"), trainer.computed_by

    def iterate():
        trainer.evaluate()
        trainer.train()

    benchmark.extra_info["steps"] = trainer.config.batch_size
    benchmark.pedantic(iterate, rounds=3, warmup_rounds=1)
    trainer.release()
