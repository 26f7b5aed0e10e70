"""Look at runs that there are: summaries, comparisons, regrading, exports."""
