"""A standing attack on the command line: damaged files, kills, full disks, little memory.

``python -m tools.attack`` prints a table of all cases. Every case is made from its name and a seed
alone, so a failure is replayed with ``python -m tools.attack --replay NAME:SEED``.
"""
