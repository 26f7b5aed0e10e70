"""A gate that accepts a candidate by a sign test: ``evaluation.gate: {kind: sign_test}``."""

from math import comb
from typing import Literal

from pydantic import PositiveInt

from skillwright.core import Duel
from skillwright.evaluation import AlphaLedger, Decision, Gate, Terms, Verdict, measure_effect

MAX_LOST = 0.1


class SignTestGate(Gate):
    """Accepts what does better on more tasks than chance explains."""

    kind: Literal["sign_test"] = "sign_test"
    draws: PositiveInt = 1
    """Draws per task and side."""

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = Terms()) -> Verdict:
        """Draw each task ``draws`` times on both sides, and test the signs of the gains."""
        pairs = self.scores(terms).of(await duel.draw(duel.task_ids, n=self.draws))
        effect = measure_effect(pairs, tests=False)
        p_value = sign_test(effect.better, effect.worse)
        facts = f"{effect.better} tasks better, {effect.worse} worse, p = {p_value:.2g}"
        tested = effect.pairs > 0 and effect.lost <= MAX_LOST * len(pairs)
        if not tested:
            decision, reason = Decision.UNDECIDED, f"Undecided: {effect.lost} pairs failed."
        elif p_value <= ledger.share:
            decision, reason = Decision.ACCEPT, f"Accepted: {facts}."
        else:
            decision, reason = Decision.REJECT, f"Rejected: {facts}, above {ledger.share:.2g}."
        return Verdict(
            decision,
            reason,
            effect=effect.gain,
            p_value=p_value if tested else None,
            alpha=ledger.share if tested else None,
            pairs=effect.pairs,
            lost=effect.lost,
            rollouts=2 * len(pairs),
            better=effect.better,
            worse=effect.worse,
        )


def sign_test(better: int, worse: int) -> float:
    """Return the chance of at least ``better`` heads in ``better + worse`` throws of a coin."""
    n = better + worse
    return sum(comb(n, k) for k in range(better, n + 1)) / 2**n
