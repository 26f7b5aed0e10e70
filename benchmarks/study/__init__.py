"""The parts of `benchmarks/rl_study.py`: its arms, one run of an arm, and what the runs say."""
