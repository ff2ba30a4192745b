"""Trained policies in your own code."""
