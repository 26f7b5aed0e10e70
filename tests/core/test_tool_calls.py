"""Native calls as any endpoint takes them back, and as one text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Act, Completion, Lapse, ToolCall
from skillwright.core.agent import sendable, tagged, untagged, with_ids_of

GOOD = ToolCall("call_x", "look", '{"at": "door"}')


def earlier(*ids):
    calls = [ToolCall(one, "look", "{}").to_dict() for one in ids]
    return [{"role": "assistant", "content": "", "tool_calls": calls}]


def test_what_is_well_formed_stays_as_it_is():
    kimi = ToolCall("functions.look:0", "look-2_a", "{}")
    assert sendable([GOOD, kimi], earlier("other")) == (GOOD, kimi)


def test_ids_are_there_once_in_a_conversation():
    calls = [ToolCall(call_id, "look", "{}") for call_id in ("a", "a", "b", "", "call_3", "a b")]
    ids = [call.id for call in sendable(calls, earlier("b"))]
    assert ids == ["a", "call_2", "call_3", "call_4", "call_5", "call_6"]
    assert len({*ids, "b"}) == 7


@pytest.mark.parametrize("name", ["", " ", "look around", "注文", "x" * 65, "a" * 10**6, "</x>"])
def test_a_name_is_one_that_endpoints_take(name):
    (call,) = sendable([ToolCall("a", name, "{}")], [])
    assert 1 <= len(call.name) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in call.name)


@pytest.mark.parametrize("blank", ["", " \n", "null"])
def test_no_arguments_are_an_empty_object(blank):
    assert sendable([ToolCall("a", "look", blank)], [])[0].arguments == "{}"


@pytest.mark.parametrize(
    "written",
    [
        "7",
        "[]",
        '"x"',
        "{",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a":' * 99 + "1" + "}" * 99,
        "9" * 9999,
    ],
)
def test_arguments_that_are_no_object_are_shown_inside_one(written):
    (call,) = sendable([ToolCall("a", "look", written)], [])
    assert json.loads(call.arguments) == {"arguments": written[:500]}


def test_results_name_the_ids_that_are_sent_and_the_call_stays_as_it_was_written():
    odd = ToolCall("", "look around", "7")
    (sent,) = sendable([odd], [])
    assert with_ids_of([odd], [sent]) == (ToolCall(sent.id, "look around", "7"),)


@given(
    st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"])),
    st.lists(st.tuples(st.text(), st.dictionaries(st.text(), st.integers())), max_size=3),
)
def test_what_is_tagged_can_be_read_again(text, called):
    calls = [
        ToolCall(f"call_{n}", name, json.dumps(given)) for n, (name, given) in enumerate(called)
    ]
    if any(
        "tool_call>" in name + call.arguments for call, (name, _) in zip(calls, called, strict=True)
    ):
        return
    said, read = untagged(tagged(text, calls))
    assert said == text.strip()
    assert [(one.name, json.loads(one.arguments)) for one in read] == called


def test_an_act_that_was_offered_tools_has_its_calls_and_all_of_it_as_text():
    answer = Completion("Hm.", "tool_calls", tool_calls=(GOOD,), native={"dialect": "d"})
    act = Act.of(answer, offered_tools=True)
    assert (act.tool_calls, act.native, act.finish_reason) == ((GOOD,), {"dialect": "d"}, "stop")
    assert act.written == (
        'Hm.\n<tool_call>{"name": "look", "arguments": {"at": "door"}}</tool_call>'
    )
    plain = Act.of(answer)
    assert (plain.tool_calls, plain.native, plain.finish_reason) == ((), None, Lapse.NATIVE_CALLS)
    assert plain.written == "Hm."


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (Completion("", "length", tool_calls=(GOOD,)), Lapse.CUT),
        (Completion("", "length"), Lapse.CUT),
        (Completion(" "), Lapse.EMPTY),
        (Completion("", reasoning="hm"), Lapse.REASONING),
        (Completion('<tool_call>{"name": "look"}</tool_call>'), Lapse.WRITTEN_CALLS),
        (Completion('[TOOL_CALLS] [{"name": "look"}]'), Lapse.WRITTEN_CALLS),
        (Completion("<|python_tag|>look()"), Lapse.WRITTEN_CALLS),
        (Completion("<function=look>{}</function>"), Lapse.WRITTEN_CALLS),
        (Completion("Hello.", "tool_calls"), "stop"),
        (Completion("<tool_call>", tool_calls=(GOOD,)), "stop"),
    ],
)
def test_how_an_answer_ended_that_was_offered_tools(answer, ending):
    assert Act.of(answer, offered_tools=True).finish_reason == ending
