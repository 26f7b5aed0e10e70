"""A policy that learns on a laptop: it scores the commands that a text world offers."""

from skillwright.policy.scorer.backend import ScorerPolicy, ScorerSettings
from skillwright.policy.scorer.encoding import Reading, Vocabulary, read_turn
from skillwright.policy.scorer.network import Architecture

__all__ = [
    "Architecture",
    "Reading",
    "ScorerPolicy",
    "ScorerSettings",
    "Vocabulary",
    "read_turn",
]
