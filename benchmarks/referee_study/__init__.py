"""Trainers side by side on agents whose true success rate under any skill is known."""
