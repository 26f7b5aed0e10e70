"""Base classes of scripted models: prompt parsers and seeded randomness."""
