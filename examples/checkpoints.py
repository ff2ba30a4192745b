"""Keep the best policy in a file with notes, and go on from it later.

Usage: python examples/checkpoints.py [iterations]
"""

import sys

import pufferlib
from pufferlib import PuffeRL

iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 20


def make_trainer():
    return PuffeRL(env=pufferlib.make("puffer_cartpole", num_envs=256), learning_rate=3e-3)


trainer = make_trainer()
best = -1.0
for iteration in range(iterations):
    score = trainer.evaluate().get("score", 0.0)
    if score > best:  # of the policy as it is before this training step
        best = score
        trainer.save_checkpoint("best.pt", metadata={"iteration": iteration, "score": best})
    trainer.train()

# In another program, another day: weights, optimizer, learning rate and counts come back.
trainer = make_trainer()
notes = trainer.load_checkpoint("best.pt")
print(f"iteration {notes['iteration']} with a score of {notes['score']:.1f}; {trainer.global_step:,} steps behind it")
trainer.evaluate()
trainer.train()
print(f"{trainer.global_step:,} steps now")
