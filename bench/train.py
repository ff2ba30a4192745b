"""Training throughput: `python -m pytest -n0 bench/train.py --benchmark-enable`.

One round is one iteration of the default config, `evaluate()` and `train()`, environment, policy and update together.
"""

from __future__ import annotations

import pytest

from pufferlib import ocean, pufferl


@pytest.mark.parametrize("name", [name for name in ocean.names() if name != "puffer_template"])
def test_train(benchmark, name, tmp_path):
    args = pufferl.load_config(name)
    args["train"]["data_dir"] = str(tmp_path)
    args["train"]["checkpoint_interval"] = args["train"]["log_interval"] = 10**9
    vecenv = pufferl.load_env(name, args)
    policy = pufferl.load_policy(args, vecenv, name)
    trainer = pufferl.PuffeRL({**args["train"], "env": name}, vecenv, policy)

    def iterate():
        trainer.evaluate()
        trainer.train()

    benchmark.extra_info["steps"] = trainer.config.batch_size
    benchmark.pedantic(iterate, rounds=20, warmup_rounds=2)
    trainer.release()
