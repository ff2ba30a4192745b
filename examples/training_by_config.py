"""Train with an environment's own tuned settings, and change some of them, here or by the flags of `puffer train`.

Usage: python examples/training_by_config.py [--train.learning-rate 0.02 --env.num-envs 512 ...]
On many processes: torchrun --nproc-per-node=2 examples/training_by_config.py [flags]
"""

import sys

from pufferlib import pufferl

args = pufferl.load_config("puffer_breakout", argv=["--train.total-timesteps", "2e6", *sys.argv[1:]])
args["train"]["checkpoint_interval"] = 50  # a nested dict, which you may edit

vecenv = pufferl.load_env("puffer_breakout", args)
policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_breakout"}, vecenv, policy)

while trainer.epoch < trainer.total_epochs:
    trainer.evaluate()
    trainer.train()
    trainer.print_dashboard()

print("weights in", trainer.close())
