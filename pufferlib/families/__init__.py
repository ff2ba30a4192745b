"""Families of environments: where the names of each lead, how it is configured, and what has to be installed for it.

`pufferlib.families.catalog` is how everybody else asks. A family's packages are imported when one of its names is
looked up.
"""
