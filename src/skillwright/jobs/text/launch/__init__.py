"""Begin a run, or resume one; what is looked at and estimated before."""
