"""Train the skills and the weights of LLM agents, behind a gate that proves improvements."""

__version__ = "0.1.0"
