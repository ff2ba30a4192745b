"""The figures of a run: finished episodes, numbers that are not finite, time by phase, use of the machine."""
