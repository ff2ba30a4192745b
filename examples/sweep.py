"""Search for settings of cartpole, then for the minimum of a function of your own.

Usage: python examples/sweep.py [TRIALS]
"""

import sys

from pufferlib import Protein, pufferl

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 20

args = pufferl.load_config("puffer_cartpole")
args["train"]["total_timesteps"] = 300_000  # of every trial
protein = Protein(
    env_name="puffer_cartpole",
    search_space={
        "learning_rate": {"distribution": "log_normal", "min": 1e-3, "max": 0.1},
        "update_epochs": [1, 2, 4],
    },
    num_trials=TRIALS,
    metric="perf",
    args=args,
    workers=2,
    confirm_best=1,
    confirm_seeds=1,
)
print(protein.optimize())  # protein.best_args is what pufferl.train takes

protein = Protein(search_space={"x": {"distribution": "uniform", "min": -2, "max": 2}}, goal="minimize")
for _ in range(TRIALS):
    values = protein.suggest()
    protein.observe(values, score=(values["x"] - 0.5) ** 2, cost=1.0)
print(protein.study.best_params)
