"""What each kind of endpoint is sent, and how its answers are read."""
