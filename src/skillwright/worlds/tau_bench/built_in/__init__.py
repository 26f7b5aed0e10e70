"""A small store of our own, so that everything about tau_bench runs on first install.

Its JSON files are made by ``tests/tau_built_in``. The layout is that of the official data, so that
one reader serves both. All names, addresses and numbers are invented; the scores are of no
benchmark but this one.
"""
