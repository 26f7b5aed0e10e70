"""A small store of our own, so that everything about tau_bench runs on first install.

The JSON files beside this one are what ``python -m skillwright.envs.tau_bench.built_in`` writes:
equal code gives equal bytes. ``wiki.md``, the policy, and ``rules.json`` are written by hand. The
layout is that of the official data, so that one reader serves both. All names, addresses and
numbers are invented; the scores are of no benchmark but this one.
"""
