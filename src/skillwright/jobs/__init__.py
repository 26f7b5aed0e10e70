"""The jobs, which are the only writers of runs.

`text` trains and evaluates a skill document, `weights` trains a policy, `bank` changes a bank of
skills, `inspect` reads runs, and `run` holds what every job shares.
"""
