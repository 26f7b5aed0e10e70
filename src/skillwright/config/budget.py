"""What a run may use up, as a configuration says it."""

from pydantic import PositiveFloat, PositiveInt

from skillwright.config.section import Section


class BudgetSection(Section):
    """Bounds of the whole run, over all its resumes; what is reached first stops it, resumable.

    In a study of several seeds each seed's run has the whole budget.
    """

    usd: PositiveFloat | None = None
    """Money, in US dollars; every model needs known prices."""
    tokens: PositiveInt | None = None
    """Tokens, prompts and answers together."""
    minutes: PositiveFloat | None = None
    """Time in which processes worked on the run."""

    @property
    def is_set(self) -> bool:
        """Whether there is any bound."""
        return any(bound is not None for bound in (self.usd, self.tokens, self.minutes))
