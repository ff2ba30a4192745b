"""The algorithm in plain torch, from what an agent sees to a step of the optimizer: to be read, and edited."""
