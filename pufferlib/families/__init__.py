"""Families of environments: where the names of each lead, how it is configured, and what has to be installed for it.

Everybody else asks `pufferlib.families.catalog`; a family's packages are imported when one of its names is looked up.
"""
