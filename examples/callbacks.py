"""Let the trainer run the loop, and say by callbacks what to do in it and when to stop.

Usage: python examples/callbacks.py [iterations]
"""

import sys

from pufferlib import PuffeRL
from pufferlib.callbacks import EvaluateEvery, KeepBest, StopAtScore

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 60
learning_rates = {0: 3e-3, 20: 1e-3, 40: 3e-4}


def my_callback(trainer, logs):
    """A callback of your own: called after every iteration; it returns True to stop."""
    trainer.learning_rate = learning_rates.get(trainer.epoch, trainer.learning_rate)
    if "environment/score" in logs:  # some episodes have ended
        print(f"{logs['agent_steps']:9,} steps  score {logs['environment/score']:5.1f}")
    return logs["uptime"] > 300


trainer = PuffeRL(env="puffer_cartpole", learning_rate=learning_rates[0], gamma=0.98)
trainer.learn(
    total_timesteps=iterations * trainer.config.batch_size,
    callbacks=[my_callback, EvaluateEvery(200_000, episodes=20), KeepBest(), StopAtScore(495, "eval/score")],
    dashboard=False,
)
print("weights in", trainer.close())
