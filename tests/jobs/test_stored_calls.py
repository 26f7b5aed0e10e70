"""Optimizer calls are paid for once, and always answered alike."""

import pytest

from fakes import ScriptedReplies
from skillwright.core import Completion, ModelError, ModelRefused, Purpose, Sampling, Usage
from skillwright.jobs import CallFinished
from skillwright.jobs.run.memory import StoredCalls
from skillwright.runs import Redactor, RunStore

KEY = "sk-the-very-key-of-this-run"
QUESTION = [{"role": "user", "content": "What now?"}]


class Listener:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


@pytest.fixture
def store(tmp_path):
    with RunStore.open(tmp_path / "run.sqlite", redactor=Redactor([KEY])) as opened:
        yield opened


async def ask(calls, seed=1, purpose=Purpose.REFLECT):
    return await calls.complete(QUESTION, sampling=Sampling(seed=seed), purpose=purpose)


async def test_an_equal_question_is_answered_from_the_store(store):
    model, listener = ScriptedReplies(["one", "two", "three"]), Listener()
    calls = StoredCalls(model, store, listener)
    first = await ask(calls)
    assert await ask(calls) == first
    assert (await ask(calls, seed=2)).text == "two"
    assert (await ask(calls, purpose=Purpose.MERGE)).text == "three"
    assert len(model.asked) == len(listener.events) == 3
    other = StoredCalls(ScriptedReplies([]), store, listener)
    assert await ask(other) == first


async def test_an_answer_is_given_as_it_was_stored_so_that_a_resumed_run_hears_the_same(store):
    said = Completion(f"Use {KEY}.", usage=Usage(calls=1, output_tokens=3))
    calls = StoredCalls(ScriptedReplies([said]), store, Listener())
    first = await ask(calls)
    assert first.text == "Use <redacted>."
    assert first.usage == said.usage
    assert await ask(calls) == first


async def test_a_fault_is_recorded_and_the_question_may_be_asked_again(store):
    error = ModelError("")
    error.failed_calls = 4
    listener = Listener()
    calls = StoredCalls(ScriptedReplies([error, "better"]), store, listener)
    with pytest.raises(ModelError):
        await ask(calls)
    assert calls.refusal is None
    assert (await ask(calls)).text == "better"
    assert listener.events[0] == CallFinished("reflect", Usage(failed_calls=4))
    spent = store.usage_by_purpose()["reflect"]
    assert (spent.calls, spent.failed_calls) == (1, 4)


async def test_a_refusal_of_every_question_alike_is_remembered(store):
    calls = StoredCalls(ScriptedReplies([ModelRefused("401")]), store, Listener())
    with pytest.raises(ModelRefused):
        await ask(calls)
    assert str(calls.refusal) == "401"
