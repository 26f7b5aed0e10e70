"""What attaches from outside, each by the entry points that a third party uses."""
