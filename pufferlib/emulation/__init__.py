"""Environments of other libraries as PufferEnvs."""
