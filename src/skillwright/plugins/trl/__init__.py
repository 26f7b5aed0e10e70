"""Training through TRL."""
