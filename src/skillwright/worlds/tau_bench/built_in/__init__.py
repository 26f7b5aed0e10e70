"""A small store of our own, so that tau_bench runs without a download.

``tests/tau_built_in`` makes its JSON files, in the layout of the official data. All names,
addresses and numbers are invented; scores on it compare with no other benchmark.
"""
