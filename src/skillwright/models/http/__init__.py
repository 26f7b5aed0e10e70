"""How requests to endpoints are sent: pace, retries, limits, faults."""
