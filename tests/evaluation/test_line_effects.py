"""What lines of a bundle are worth, by draws that leave out a random part of them."""

from random import Random

import numpy as np
import pytest

from skillwright.evaluation.gates.belief import Belief, Drawn
from skillwright.evaluation.gates.lines import Bundle, LineEffects

TRUE = (0.3, 0.0, -0.25, 0.2)


def belief(rate=0.6, tasks=40):
    return Belief.of_draws(Drawn(np.full(tasks, 2 * rate), np.full(tasks, 2.0)))


def drawn(effects, count, seed=1, rate=0.6):
    random = Random(seed)
    for _ in range(count):
        out = effects.leave_out(random)
        now = rate - sum(gain for gain, gone in zip(TRUE, out, strict=True) if gone)
        yield out, rate - float(random.random() < now)


def test_draws_tell_the_lines_of_a_bundle_apart():
    effects = LineEffects([Bundle(4, 0.25, 0.1)], belief())
    assert effects.gains == pytest.approx([0.0625] * 4)
    before = effects.errors
    effects.add(drawn(effects, 400))
    assert list(effects.gains > 0) == [True, bool(effects.gains[1] > 0), False, True]
    assert effects.gains[[0, 2, 3]] == pytest.approx([0.3, -0.25, 0.2], abs=0.2)
    assert all(effects.errors < before)


def test_further_draws_are_bought_while_they_are_worth_their_price():
    effects = LineEffects([Bundle(4, 0.1, 0.1)], belief())
    assert effects.more(2e-6, 100) >= 20
    assert effects.more(2e-6, 19) == 0  # too few to tell anything
    assert effects.more(0.01, 100) == 0
    sure = LineEffects([Bundle(2, 0.8, 0.01)], belief())
    assert sure.more(1e-4, 100) == 0


def test_a_level_that_was_believed_wrongly_is_no_effect_of_lines():
    effects = LineEffects([Bundle(4, 0.25, 0.1)], belief())
    random = Random(3)
    low = [(effects.leave_out(random), 0.1) for _ in range(200)]  # all draws score .1 too low
    effects.add(low)
    assert max(abs(effects.gains - 0.0625)) < 0.07
