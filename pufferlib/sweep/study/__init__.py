"""The study, its results and its confirmations."""
