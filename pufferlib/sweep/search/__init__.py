"""Proposals of trials: the space, the sampler and its models."""
