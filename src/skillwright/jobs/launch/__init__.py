"""Begin a run, or continue with one; what is looked at and estimated before."""
