import asyncio

import pytest

from skillwright.core import Completion, ModelRefused, Purpose, Sampling, TurnContext, Usage
from skillwright.models import ChatAgent


class SessionModel:
    identity = "model"

    def __init__(self, answer=None):
        self.asked = []
        self._answer = answer or (lambda text: Completion(text.upper()))

    async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
        self.asked.append((sampling, purpose))
        # The later a context stands, the sooner it is answered.
        for _ in range(10 - len(self.asked)):
            await asyncio.sleep(0)
        return self._answer(messages[-1]["content"])


def context(text, seed=0):
    return TurnContext([{"role": "user", "content": text}], seed=seed)


async def test_acts_come_back_in_the_order_of_their_contexts():
    acts = await ChatAgent(SessionModel()).act_batch([context(text) for text in "abc"])
    assert [act.text for act in acts] == ["A", "B", "C"]
    assert await ChatAgent(SessionModel()).act_batch([]) == []


async def test_an_act_carries_what_the_model_said_and_consumed():
    llm = SessionModel(lambda text: Completion(text, "length", usage=Usage(1, 7, 3)))
    (act,) = await ChatAgent(llm).act_batch([context("go")])
    assert (act.text, act.finish_reason, act.usage) == ("go", "length", Usage(1, 7, 3))


async def test_each_turn_is_asked_with_its_own_seed():
    llm = SessionModel()
    await ChatAgent(llm, Sampling(temperature=0.3, seed=99)).act_batch(
        [context("a", seed=1), context("b", seed=2)]
    )
    assert llm.asked == [
        (Sampling(temperature=0.3, seed=1), Purpose.ROLLOUT),
        (Sampling(temperature=0.3, seed=2), Purpose.ROLLOUT),
    ]


def test_identity_tells_decoding_settings_apart_but_not_seeds():
    llm = SessionModel()
    assert ChatAgent(llm).identity == ChatAgent(llm, Sampling(seed=4)).identity == "model"
    warm = ChatAgent(llm, Sampling(temperature=1.0)).identity
    assert warm.startswith("model+")
    assert warm != ChatAgent(llm, Sampling(temperature=0.0)).identity


async def test_a_fault_of_one_context_is_the_fault_of_the_batch():
    def answer(text):
        if text == "bad":
            raise ModelRefused("no")
        return Completion(text)

    for batch in (["bad"], ["good", "bad", "bad"]):
        with pytest.raises(ModelRefused, match="no"):
            await ChatAgent(SessionModel(answer)).act_batch([context(text) for text in batch])


async def test_a_bug_is_not_dressed_up_as_a_fault():
    def answer(text):
        raise KeyError(text)

    with pytest.raises(KeyError):
        await ChatAgent(SessionModel(answer)).act_batch([context("a"), context("b")])


async def test_an_answer_withheld_by_a_filter_is_a_fault_and_not_a_clumsy_move():
    blocked = SessionModel(lambda text: Completion("", "content_filter"))
    with pytest.raises(ModelRefused, match="content filter"):
        await ChatAgent(blocked).act_batch([context("a")])
    partly = SessionModel(lambda text: Completion("I will not.", "content_filter"))
    assert (await ChatAgent(partly).act_batch([context("a")]))[0].text == "I will not."
