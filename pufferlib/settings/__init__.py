"""A setting of the configuration, of a command, or of an environment's class.

`setting` holds its name, type, default, bounds and the check that follows from them; `values` turns text into Python
values and these into the type that a setting declares. Which settings there are is for those who have them to say.
"""
