"""Answers that begin at different times are those that each conversation gets by itself."""

import math
import queue

import pytest

from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import TurnContext
from skillwright.plugins.serve.batching import Closed, ContinuousBatch, Wanted
from skillwright.policy.hf import HfPolicy, HfSettings

LONGEST = 16


def policy(**changes):
    settings = HfSettings(max_new_tokens=LONGEST, device="cpu")
    return HfPolicy(tiny_model(**changes), tiny_tokenizer(), settings)


def window():
    """Layers that see the last few tokens only."""
    return {
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 0,
        "initializer_range": 0.3,
    }


class Heard:
    """What a conversation hears, in a queue that a test reads."""

    def __init__(self):
        self.queue = queue.Queue()

    def __call__(self, spoken):
        self.queue.put(spoken)

    def next(self):
        spoken = self.queue.get(timeout=60)
        if isinstance(spoken, Exception):
            raise spoken
        return spoken

    def rest(self):
        found = [self.next()]
        while not found[-1].is_last:
            found.append(self.next())
        return found


@pytest.fixture
def batches():
    made = []

    def make(of, rows=4):
        made.append(ContinuousBatch(of, rows))
        return made[-1]

    yield make
    for one in made:
        one.close()


def talk(number):
    return [{"role": "user", "content": "go to the mug " * (number % 4) + str(number)}]


@pytest.mark.parametrize("changes", [{}, window()], ids=["all", "window"])
def test_a_conversation_that_joins_later_says_what_it_says_alone(batches, changes):
    contexts = [TurnContext(talk(number), seed=number) for number in range(5)]
    alone = [policy(**changes).sample([one], temperature=1.0)[0].act for one in contexts]
    served = policy(**changes)
    batch, heard, begun = batches(served, rows=2), [], []
    for one in contexts:
        heard.append(Heard())
        wanted = Wanted(served.speech.prompt_of(one.messages), LONGEST, seed=one.seed)
        batch.ask(wanted, heard[-1])
        if len(heard) == 1:  # the first has begun when the others come
            begun = [heard[0].next(), heard[0].next()]
    said = [([*begun] if one is heard[0] else []) + one.rest() for one in heard]
    for tokens, act in zip(said, alone, strict=True):
        assert tuple(one.token for one in tokens) == act.token_ids
        assert [one.logprob for one in tokens] == pytest.approx(act.logprobs, abs=5e-5)


def test_temperatures_bounds_and_alternatives_are_each_conversations_own(batches):
    served = policy()
    batch, prompt = batches(served), served.speech.prompt_of(talk(1))
    asked = [
        Wanted(prompt, 8, temperature=0.0),
        Wanted(prompt, 8, temperature=1.0, top_p=1e-9, seed=1),  # leaves the likeliest alone
        Wanted(prompt, 3, temperature=1.0, seed=2, alternatives=5),
    ]
    heard = [Heard() for _ in asked]
    for wanted, one in zip(asked, heard, strict=True):
        batch.ask(wanted, one)
    likeliest, narrow, free = ([*one.rest()] for one in heard)
    assert [one.token for one in narrow] == [one.token for one in likeliest]
    assert {one.logprob for one in narrow} == {0.0}  # nothing else could be drawn
    assert (len(free), {len(one.alternatives) for one in free}) == (3, {5})
    for one in free:
        chances = [math.exp(logprob) for _, logprob in one.alternatives]
        assert chances == sorted(chances, reverse=True)
        named = dict(one.alternatives)
        assert named.get(one.token, one.logprob) == pytest.approx(one.logprob, abs=1e-5)


def test_the_next_turn_reads_only_what_is_new(batches):
    served = policy()
    batch, first, second = batches(served), Heard(), Heard()
    prompt = served.speech.prompt_of(talk(1))
    batch.ask(Wanted(prompt, 4, seed=1), first)
    said = tuple(one.token for one in first.rest())
    ticket = batch.ask(Wanted((*prompt, *said, *prompt), 4, seed=1), second)
    second.rest()
    assert ticket.answer.cached == len(prompt) + len(said) - 1  # the last token was never read


def test_who_is_not_wanted_any_more_makes_room(batches):
    served = policy()
    batch, leaving, waiting = batches(served, rows=1), Heard(), Heard()
    prompt = served.speech.prompt_of(talk(1))
    ticket = batch.ask(Wanted(prompt, 1000, temperature=0.0), leaving)
    leaving.next()
    batch.ask(Wanted(prompt, 2, seed=1), waiting)
    ticket.is_wanted = False
    assert len(waiting.rest()) == 2


def test_whoever_waits_when_the_batch_ends_hears_of_it(batches):
    served = policy()
    batch, going = batches(served), Heard()
    batch.ask(Wanted(served.speech.prompt_of(talk(1)), 1000, temperature=0.0), going)
    going.next()
    batch.close()
    with pytest.raises(Closed):
        going.rest()
    with pytest.raises(Closed):
        batch.ask(Wanted((1,), 1), Heard())


def test_a_fault_ends_the_answers_on_their_way_and_no_others(batches):
    served = policy()
    batch, broken, whole = batches(served), Heard(), Heard()
    batch.ask(Wanted((10**6,), 4), broken)  # no such token
    with pytest.raises(IndexError):
        broken.rest()
    batch.ask(Wanted(served.speech.prompt_of(talk(1)), 4, seed=1), whole)
    assert len(whole.rest()) == 4
