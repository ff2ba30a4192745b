"""Everything around the algorithm of a run: the arguments of a trainer, the files that it writes, how it is resumed.

Of several processes the first alone writes; a file is written whole or not at all, and compared before it is used.
"""
