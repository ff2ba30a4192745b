"""Train with an environment's own tuned settings, and change some of them.

Usage: python examples/training_by_config.py [agent steps]
"""

import sys

from pufferlib import pufferl

args = pufferl.load_config("puffer_breakout")  # a nested dict to edit
args["env"]["num_envs"] = 1024
args["train"]["total_timesteps"] = int(float(sys.argv[1])) if len(sys.argv) > 1 else 2_000_000
args["train"]["learning_rate"] = 0.03

vecenv = pufferl.load_env("puffer_breakout", args)
policy = pufferl.load_policy(args, vecenv, "puffer_breakout")
trainer = pufferl.PuffeRL({**args["train"], "env": "puffer_breakout"}, vecenv, policy)

while trainer.epoch < trainer.total_epochs:
    trainer.evaluate()
    trainer.train()
    trainer.print_dashboard()

print("weights in", trainer.close())
