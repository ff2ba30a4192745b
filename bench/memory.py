"""Memory of training: `python -m pytest -n0 bench/memory.py --benchmark-enable`.

1,000 iterations of a small config after 100 to warm up: what the process holds before and after (resident memory), and
the growth. The time is that of all 1,000.
"""

from __future__ import annotations

import psutil
import pytest

from pufferlib import pufferl

EPOCHS = 1000
WARMUP_EPOCHS = 100


@pytest.mark.parametrize("name", ["puffer_squared", "puffer_breakout"])
def test_growth(benchmark, name, tmp_path):
    args = pufferl.load_config(name)
    args["env"]["num_envs"] = 128
    args["train"].update(device="cpu", bptt_horizon=8, minibatch_size=512, data_dir=str(tmp_path))
    vecenv = pufferl.load_env(name, args)
    trainer = pufferl.PuffeRL({**args["train"], "env": name}, vecenv, pufferl.load_policy(args, vecenv, name))
    process = psutil.Process()

    def train(epochs):
        for _ in range(epochs):
            trainer.evaluate()
            trainer.train()

    train(WARMUP_EPOCHS)
    before = process.memory_info().rss
    benchmark.pedantic(train, args=(EPOCHS,), rounds=1)
    after = process.memory_info().rss
    trainer.release()
    benchmark.extra_info["values"] = {
        f"MB after {WARMUP_EPOCHS} iterations": before / 2**20,
        f"MB after {WARMUP_EPOCHS + EPOCHS} iterations": after / 2**20,
        "growth": after / before - 1,
    }
