"""What is around the algorithm in a run: how a trainer is called and made, what it leaves on disk, how it goes on.

Of several processes the first alone writes; a file is written whole or not at all, and compared before it is used.
"""
