"""One error budget over all release tests of a bank or folder, however many nights there are.

Source: LORD++ (Ramdas, Yang, Wainwright and Jordan, "Online control of the false discovery rate
with decaying memory", arXiv 1710.00499, 2017), which improves LORD (Javanmard and Montanari,
arXiv 1603.09000). The initial wealth is alpha; the weights of later tests fall as ``t ** -1.6``,
not as slowly as in the papers, which would leave the first test of a bank 0.001 of alpha .05.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from skillwright.evaluation.verdict import Decision, Verdict

_POWER: Final = 1.6
_SUM: Final = 2.28577  # of t ** -1.6 over all t, rounded up


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """The release tests so far, in order, and what they leave for the next one.

    If the draws of each test are new, at most ``alpha`` of the releases are expected to be without
    a gain: levels never add up to more than ``alpha`` times the number of releases (at least 1).

    Attributes:
        alpha: Maximum expected share of false releases, in (0, 1).
        levels: The level of each test, in order.
        released: Whether it released something.
    """

    alpha: float
    levels: tuple[float, ...] = ()
    released: tuple[bool, ...] = ()

    @classmethod
    def after(cls, alpha: float, verdicts: Iterable[Mapping[str, Any] | None]) -> Self:
        """Rebuild the budget from stored verdicts; those without a test spent nothing."""
        tested = [one for one in verdicts if one is not None and one.get("alpha") is not None]
        return cls(
            alpha,
            tuple(float(one["alpha"]) for one in tested),
            tuple(one["decision"] == Decision.ACCEPT for one in tested),
        )

    @property
    def left(self) -> float:
        """The alpha that no test has spent, releases so far included."""
        return max(self.alpha * max(1, sum(self.released)) - sum(self.levels), 0.0)

    @property
    def level(self) -> float:
        """The level of the next test; at most half of what is left, in case alpha was changed."""
        now = len(self.levels)
        began = [0, *(at + 1 for at, one in enumerate(self.released) if one)]
        # The first release earns nothing back: its share was there from the start.
        earned = [began[0], *began[2:]]
        lord = self.alpha * sum(math.pow(now - at + 1, -_POWER) for at in earned) / _SUM
        return min(lord, self.left / 2)

    def __str__(self) -> str:
        """Say in words which test is next, its level, and what is left."""
        return self._said(self.level, self.left)

    def _said(self, level: float, left: float) -> str:
        return (
            f"release test {len(self.levels) + 1} of an error budget that all of them share, at "
            f"level {level:.2g}; {left:.2g} is left of it (alpha {self.alpha:g})"
        )

    def explained(self, verdict: Verdict) -> Verdict:
        """Add to a verdict's reason what its test spent of the budget, and what is left."""
        if verdict.alpha is None:
            return verdict
        left = replace(
            self, levels=(*self.levels, verdict.alpha), released=(*self.released, verdict.accepted)
        ).left
        return replace(
            verdict,
            reason=f"{verdict.reason.rstrip('.')}. This was {self._said(verdict.alpha, left)}.",
        )
