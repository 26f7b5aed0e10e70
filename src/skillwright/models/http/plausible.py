"""Which numbers about what a call used are believed: a made-up one would end a run's budget."""

import logging

from skillwright.core import Usage

logger = logging.getLogger(__name__)

MOST_ADDED = 1_000_000
"""Tokens that an endpoint puts beside those of a request, of which none takes less than a byte."""
MOST_WRITTEN = 1_000_000
"""Tokens of one answer with its reasoning."""
MOST_USD = 10_000.0
"""What no call costs, nor a run of a program."""


class Doubt:
    """Believes what is plausible, and says once of an endpoint or program that it is not."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._was_said = False

    def believed(self, usage: Usage, most_input: int, most_output: int) -> Usage:
        """Return what a call used, or only that it was made."""
        tokens = usage.input_tokens <= most_input and usage.output_tokens <= most_output
        if tokens and (usage.cost_usd or 0.0) <= MOST_USD:
            return usage
        if not self._was_said:
            self._was_said = True
            logger.warning(
                "%s reports %d tokens read, %d written and a cost of %s USD for one call, which "
                "cannot be. Such numbers are left out, and what these calls cost is unknown.",
                self._where,
                usage.input_tokens,
                usage.output_tokens,
                usage.cost_usd,
            )
        return Usage(calls=usage.calls, failed_calls=usage.failed_calls, cost_usd=None)

    def believed_of_call(self, usage: Usage, sent: bytes) -> Usage:
        """Return what a call used to which so many bytes were sent; see `believed`."""
        return self.believed(usage, len(sent) + MOST_ADDED, MOST_WRITTEN)
