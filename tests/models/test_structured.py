import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from skillwright.core import Completion, ModelRefused, Purpose, ReplyInvalid, Sampling, Usage
from skillwright.models import ask_json, extract_json, parse_reply


class Edits(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reasoning: str
    edits: list[dict[str, str]] = []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ('  {"a": 1}\n', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```JSON\n{"a": 1}\n```\nDone!', {"a": 1}),
        ('Here it is:\n```\n{"a": 1}\n```', {"a": 1}),
        ('First {"a": 0}, better:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('I use {braces} and {"a": 1}, you see?', {"a": 1}),
        ('{"a": 1} {"a": 2}', {"a": 1}),
        ('{"a": "}{"} trailing', {"a": "}{"}),
        ('{"a": "\\"}"} trailing', {"a": '"}'}),
        ('x {"a": "two\nlines"}', {"a": "two\nlines"}),
        ('x {"a": {"b": [1, {"c": 2}]}} y', {"a": {"b": [1, {"c": 2}]}}),
        ('{"text": "```json\\n{}\\n```"}', {"text": "```json\n{}\n```"}),
        ('So:\n{"text": "a\n```json\n{}\n```\n"}', {}),
        ("{}", {}),
        ('[{"a": 1}]', {"a": 1}),
        ("no json", None),
        ("", None),
        ('{"a": 1', None),
        ('{"a": NaN}', None),
        ('{"edits": [{"op": "append"}, {"op": ', None),
        ('```json\n{"edits": [{"op": "append"}', None),
        ('First {"edits": []}, better:\n```json\n{"edits": [{"op": "app', None),
        ('{"a": 1}\n```\nprint({"x")\n```', {"a": 1}),
        ("{'a': 1}", None),
    ],
)
def test_the_first_object_is_found(text, found):
    assert extract_json(text) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
PROSE = st.text(st.characters(blacklist_characters='{}[]"`', blacklist_categories=["Cs"]))


@given(st.dictionaries(st.text(), VALUES, max_size=4), PROSE, PROSE, st.booleans())
def test_any_object_is_found_among_words(value, before, after, fenced):
    body = json.dumps(value, indent=1)
    text = f"{before}\n```json\n{body}\n```\n{after}" if fenced else f"{before}{body}{after}"
    assert extract_json(text) == value


@given(st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=3), st.data())
def test_a_reply_that_breaks_off_gives_nothing(value, data):
    body = json.dumps(value)
    cut = data.draw(st.integers(0, len(body) - 1))
    assert extract_json("Here: " + body[:cut]) is None


@pytest.mark.parametrize(
    "text",
    ["{" * 200_000, '{"a":' * 40_000, '"\\' * 100_000, '{"' + '\\"' * 100_000, '{"a"} ' * 40_000],
)
def test_hostile_text_takes_linear_time(text):
    started = time.process_time()
    assert extract_json(text) is None
    assert time.process_time() - started < 1.0


def test_a_reply_with_long_blanks_is_read_in_linear_time():
    started = time.process_time()
    assert parse_reply(f"a{' ' * 50_000}b" + '{"reasoning": "x"}', "stop", Edits).reasoning == "x"
    assert time.process_time() - started < 1.0


def test_a_reply_is_read_into_its_type():
    assert parse_reply('{"reasoning": "x"}', "stop", Edits) == Edits(reasoning="x")


def test_a_complete_object_counts_even_where_the_words_after_it_were_cut():
    assert parse_reply('{"reasoning": "x"} and furth', "length", Edits).reasoning == "x"


@pytest.mark.parametrize(
    ("text", "finish_reason", "said"),
    [
        ('{"reasoning": "x', "length", "cut off by the token limit after 16 characters"),
        ("", "length", "after 0 characters, all of them spent on reasoning"),
        ('{"reasoning": "draft"}. Now: {"reasoning": "x', "length", "cut off by the token limit"),
        ("Sorry, no.", "stop", "begins 'Sorry, no.'"),
        ('{"reasonin": "x"}', "stop", "unknown key 'reasonin'. Did you mean 'reasoning'?"),
        ('{"edits": []}', "stop", "'reasoning' is missing"),
        ('{"reasoning": "x", "edits": [3]}', "stop", "edits[0]: Input should be a valid dict"),
    ],
)
def test_a_wrong_reply_is_refused_with_what_is_wrong(text, finish_reason, said):
    with pytest.raises(ReplyInvalid) as caught:
        parse_reply(text, finish_reason, Edits)
    assert said in str(caught.value)


class Script:
    """A model that says these things in turn, and remembers what it was asked."""

    identity = "script"

    def __init__(self, *said: Completion | str):
        self._left = [Completion(each) if isinstance(each, str) else each for each in said]
        self.asked = []

    async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
        self.asked.append((list(messages), sampling, purpose))
        return self._left.pop(0)


ASK = [{"role": "user", "content": "propose"}]


async def test_a_right_reply_is_asked_for_once():
    llm = Script('{"reasoning": "x"}')
    assert (await ask_json(llm, ASK, Edits, purpose=Purpose.MERGE)).reasoning == "x"
    assert llm.asked == [(ASK, Sampling(), Purpose.MERGE)]


async def test_a_wrong_reply_is_repaired_with_the_error():
    llm = Script('{"reason": "x"}', '{"reasoning": "x"}')
    assert (await ask_json(llm, ASK, Edits, purpose=Purpose.MERGE)).reasoning == "x"
    second = llm.asked[1][0]
    assert second[:2] == [*ASK, {"role": "assistant", "content": '{"reason": "x"}'}]
    assert "'reasoning' is missing" in second[2]["content"]


def test_a_withheld_reply_is_told_from_one_without_json():
    with pytest.raises(ReplyInvalid, match="content filter withheld the reply"):
        parse_reply("", "content_filter", Edits)


async def test_a_cut_off_reply_may_be_longer_the_second_time():
    llm = Script(Completion('{"reaso', "length"), '{"reasoning": "x"}')
    await ask_json(llm, ASK, Edits, sampling=Sampling(max_tokens=100), purpose=Purpose.MERGE)
    assert llm.asked[1][1].max_tokens == 200


async def test_the_endpoints_own_limit_is_doubled_where_none_was_asked_for(caplog):
    cut = Completion('{"reaso', "length", model="m", usage=Usage(1, 10, 4000))
    llm = Script(cut, '{"reasoning": "x"}')
    await ask_json(llm, ASK, Edits, purpose=Purpose.MERGE)
    assert llm.asked[1][1].max_tokens == 8000
    assert "merge: model 'm' was cut off at its limit of 4000 tokens" in caplog.text


async def test_a_reply_that_stays_cut_off_is_invalid_and_never_empty():
    draft = Completion('{"reasoning": "none", "edits": []} or rather {"reas', "length")
    with pytest.raises(ReplyInvalid, match="cut off by the token limit"):
        await ask_json(Script(draft, draft), ASK, Edits, purpose=Purpose.MERGE)


async def test_an_endpoint_that_takes_no_longer_answer_leaves_the_reply_cut_off():
    class Short(Script):
        async def complete(self, messages, *, tools=(), sampling=Sampling(), purpose):
            if sampling.max_tokens > 100:
                raise ModelRefused("at most 100")
            return await super().complete(messages, sampling=sampling, purpose=purpose)

    llm = Short(Completion('{"reaso', "length"))
    with pytest.raises(ReplyInvalid, match=r"cut off.*refused: at most 100"):
        await ask_json(llm, ASK, Edits, sampling=Sampling(max_tokens=100), purpose=Purpose.MERGE)


async def test_a_reply_that_stays_wrong_is_invalid():
    llm = Script("no", "no again")
    with pytest.raises(ReplyInvalid, match="no again"):
        await ask_json(llm, ASK, Edits, purpose=Purpose.MERGE)
    with pytest.raises(ReplyInvalid):
        await ask_json(Script("no"), ASK, Edits, purpose=Purpose.MERGE, repair_rounds=0)


class Proposal(BaseModel):
    patch: Edits | None = None
    note: str = ""


REAL = '{"patch": {"reasoning": "r", "edits": [{"a": "b"}]}}'
EXAMPLE = '{"patch": {"reasoning": "", "edits": []}}'


@pytest.mark.parametrize(
    "text",
    [
        f"The form is {EXAMPLE}. My answer:\n{REAL}",
        f"```json\n{EXAMPLE}\n```\nMine:\n```json\n{REAL}\n```",
        f"The form is {EXAMPLE}.\n```json\n{REAL}\n```\nElse it were {EXAMPLE}",
        f'{REAL}\n\nMeta: {{"confidence": 1}}',
        f'{{"thought": 1}} {REAL}',
        f"{EXAMPLE} {{broken}} {REAL}",
    ],
)
def test_the_object_that_answers_is_read_and_not_an_example_of_the_form(text):
    found = parse_reply(text, "stop", Proposal)
    assert found.patch.edits == [{"a": "b"}]
