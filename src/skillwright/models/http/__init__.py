"""Requests to endpoints: pace, retries, limits, faults."""
