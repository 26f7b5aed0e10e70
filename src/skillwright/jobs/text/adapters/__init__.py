"""Train and evaluate on third-party `EnvAdapter` classes."""
