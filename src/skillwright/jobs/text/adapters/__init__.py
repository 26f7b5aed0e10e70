"""Other people's `EnvAdapter` classes behind the bench of our jobs."""
