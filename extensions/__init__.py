"""Kernels: the advantage, recurrences, whole small policies, Muon's iteration, and the torch code that defines each."""
