"""Built-in benchmarks: environments, their tasks, and their scripted models."""
