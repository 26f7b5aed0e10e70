"""Request and reply formats of the endpoints."""
