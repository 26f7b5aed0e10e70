"""Texts as vectors: words, encoders that run here, endpoints, and what is kept of them."""
