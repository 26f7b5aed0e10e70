"""Embed texts as vectors: lexically, with a local model, or by an endpoint."""
