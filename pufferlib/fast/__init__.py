"""What computes the results of ppo/ faster, where it can: choose.py decides which, and says why."""
