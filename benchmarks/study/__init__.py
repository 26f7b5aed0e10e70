"""The parts of `benchmarks/rl_study.py`: its ablations, one run of each, and the summary."""
