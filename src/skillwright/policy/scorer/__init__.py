"""A policy that learns on a laptop: it scores the commands that a text world offers."""

from skillwright.policy.scorer.backend import ScorerPolicy as ScorerPolicy
from skillwright.policy.scorer.backend import ScorerSettings as ScorerSettings
from skillwright.policy.scorer.encoding import Reading as Reading
from skillwright.policy.scorer.encoding import Vocabulary as Vocabulary
from skillwright.policy.scorer.encoding import read_turn as read_turn
from skillwright.policy.scorer.network import Architecture as Architecture
