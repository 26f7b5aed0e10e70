"""Begin a run, or go on with one; what is looked at and estimated before."""
