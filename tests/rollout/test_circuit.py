"""When so much fails that running is vain: in a row, or too large a share of the latest."""

import asyncio

import pytest

from rollout_worlds import NO_SKILL, Bisector, Broken, Hanging, Worlds, guess_specs
from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    ModelError,
    RequestRefused,
    Task,
)
from skillwright.rollout import EngineDown, Limits, LocalEngine, MemoryRecorder
from skillwright.rollout.circuit import LEAST_EPISODES, WINDOW, Circuit

SPEC = EpisodeSpec(Task("t", env="toy"), seed=1)
FAILED = EpisodeResult(SPEC, failure=Failure(FailureCause.MODEL, "the line is dead."))
SCORED = EpisodeResult(SPEC, reward=1.0)
OUTCOMES = {"+": [SCORED], "-": [FAILED], ".": []}


def noted(circuit, outcomes, order=None):
    """Note episodes, and return how many had ended when it was down.

    Args:
        circuit: What counts them.
        outcomes: In the order in which they begin: ``+`` has a reward, ``.`` says nothing.
        order: Who ends when; by default in the same order.
    """
    tickets = [circuit.begin() for _ in outcomes]
    for ended, number in enumerate(order or range(len(outcomes)), start=1):
        try:
            circuit.note(tickets[number], OUTCOMES[outcomes[number]])
        except EngineDown:
            return ended
    return None


@pytest.mark.parametrize(
    ("outcomes", "down_at"),
    [
        ("-" * 100, LEAST_EPISODES),
        ("+-" * 50, None),  # half of them is not more than half
        ("+--" * 50, LEAST_EPISODES),
        ("+" * 10 + "-" * 10 + "+" * 80, None),
        ("+" * WINDOW + "-" * WINDOW, WINDOW + WINDOW // 2 + 1),  # what is long ago counts no more
        (".-" * 50, 2 * LEAST_EPISODES),
    ],
)
def test_too_large_a_share_of_failures_among_the_latest_episodes_is_down(outcomes, down_at):
    assert noted(Circuit(None, 0.5), outcomes) == down_at


def test_a_share_is_allowed_exactly():
    assert noted(Circuit(None, 0.0), "+" * 50 + "-") == 51
    assert noted(Circuit(None, 1.0), "-" * 50) is None
    assert noted(Circuit(None, None), "-" * 50) is None
    assert noted(Circuit(3, None), "--+---") == 6
    assert noted(Circuit(3, None), "--.-") == 4


def test_who_ends_first_does_not_decide():
    """What runs into a deadline ends last, and many of those in a row are no dead engine."""
    outcomes = "++++-" * 40
    slow_ones_last = sorted(range(len(outcomes)), key=lambda number: outcomes[number] == "-")
    assert noted(Circuit(20, 0.5), outcomes, slow_ones_last) is None
    assert noted(Circuit(20, 0.5), outcomes, reversed(range(len(outcomes)))) is None
    # And a row is one, whoever ends in between: it is counted when all before it have ended.
    dead = "+" * 5 + "-" * 20 + "+" * 5
    mixed = [*range(25, 30), *range(24, -1, -1)]
    assert noted(Circuit(20, None), dead) == 25
    assert noted(Circuit(20, None), dead, mixed) == 30


def test_the_message_says_which_bound_was_passed_and_what_to_do():
    circuit = Circuit(None, 0.25)
    late = EpisodeResult(SPEC, failure=Failure(FailureCause.TIMEOUT, "no answer."))
    for _ in range(LEAST_EPISODES - 1):
        circuit.note(circuit.begin(), [late])
    with pytest.raises(EngineDown) as caught:
        circuit.note(circuit.begin(), [late])
    assert str(caught.value) == (
        "20 of the last 20 episodes failed, and at most 25% may (rollout.max_failure_share), 20 of "
        "them with cause 'timeout'; the latest of these: no answer. Nothing was scored as zero. "
        "Mend it and resume: what was finished is not played again."
    )


class Refusing(Bisector):
    """Is refused whatever it asks."""

    async def act_batch(self, contexts):
        raise RequestRefused("a content filter")


class Dead(Bisector):
    """Gets no answer."""

    async def act_batch(self, contexts):
        raise ModelError("connection refused")


def engine(agent=None, worlds=None, recorder=None, give_up_after=3):
    limits = Limits(retries=0, give_up_after=give_up_after, max_concurrent=4)
    return LocalEngine(agent or Bisector(), worlds or Worlds(), limits=limits, recorder=recorder)


async def test_what_is_refused_alone_is_an_answer_and_no_sign_of_a_dead_engine():
    results = await engine(Refusing()).run(guess_specs(60), NO_SKILL)
    assert {result.failure.cause for result in results} == {FailureCause.MODEL_REFUSED}


async def test_episodes_that_are_known_to_fail_may_fail_again():
    """Those that went well come from the recorder: a row of failures is all that is played."""
    specs, recorder = guess_specs(40), MemoryRecorder()
    worlds = Worlds(**{f"t{number}": Broken for number in range(0, 36, 4)})
    for _ in range(3):
        results = await engine(worlds=worlds, recorder=recorder).run(specs, NO_SKILL)
        assert sum(result.failure is not None for result in results) == 9
    assert len(recorder.results) == 40 + 9 + 9


async def test_an_outage_does_not_excuse_the_failures_of_the_next_one():
    specs, recorder = guess_specs(20), MemoryRecorder()
    await engine(recorder=recorder).run(specs[:5], NO_SKILL)
    for _ in range(8):  # each resume would else get a little further, and call it decided
        with pytest.raises(EngineDown):
            await engine(Dead(), recorder=recorder).run(specs, NO_SKILL)
    assert {result.spec.task.id for result in recorder.results if result.failure} <= {
        spec.task.id for spec in specs[5:12]
    }


async def test_a_call_that_is_cancelled_holds_nobody_up():
    playing = engine(worlds=Worlds(t0=Hanging))
    hung = asyncio.create_task(playing.run(guess_specs(1), NO_SKILL))
    for _ in range(9):
        await asyncio.sleep(0)  # until it has begun
    hung.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hung
    playing.agent = Dead()
    with pytest.raises(EngineDown):
        await playing.run(guess_specs(4)[1:], NO_SKILL)
