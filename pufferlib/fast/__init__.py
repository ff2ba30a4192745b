"""Computes the results of ppo/ faster, where it can: choose.py decides how, and says why."""
