"""Rows of published data sets, read out of installed packages: `benchmarks/real_rows.py`."""
