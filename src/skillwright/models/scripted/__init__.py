"""The toolkit of scripted models: reading prompts of optimizers and teachers, seeded randomness."""
