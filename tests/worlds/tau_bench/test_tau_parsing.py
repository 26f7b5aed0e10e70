"""What the agent meant: every case of the protocol."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.worlds.tau_bench.parsing import (
    MAX_CALL_CHARS,
    MAX_DEPTH,
    Call,
    Misfit,
    Speech,
    parse,
    utf8_safe,
    visible_text,
)

THINK = {"name": "think", "arguments": {"thought": "x"}}
MEANT = Call("think", {"thought": "x"})


def tagged(call=THINK):
    return f"<tool_call>{call if isinstance(call, str) else json.dumps(call)}</tool_call>"


def refused(action, mode="default"):
    meant = parse(action, mode)
    assert isinstance(meant, Misfit)
    return meant.error


@pytest.mark.parametrize(
    ("action", "visible"),
    [
        ("<think>a</think> Hello ", "Hello"),
        ("a thought </think>Hello", "Hello"),
        ("<think>a</think>b</think>c", "c"),
        ("<think><think>a</think>b", "b"),
        ("<think>a</think>Hi<think>b</think> you", "Hi you"),
        ("<think>cut off", ""),
        ("Hi <think>cut off", ""),
        (f"<think>{tagged()}", ""),
        ("  \n", ""),
    ],
)
def test_thoughts_are_not_visible(action, visible):
    assert visible_text(action) == visible


@pytest.mark.parametrize(
    "action",
    [
        tagged(),
        f"\n {tagged()} \n",
        f"<think>{tagged({'name': 'calculate'})}</think>{tagged()}",
        tagged(' {"name": "think", "arguments": {"thought": "x"}}\n'),
        tagged({"name": "think", "arguments": '{"thought": "x"}'}),
        f"<tool_call>{json.dumps(THINK)}",
        tagged('{"name": "y", "name": "think", "arguments": {"thought": "x"}}'),
    ],
)
def test_one_call_is_a_call(action):
    assert parse(action) == MEANT


def test_arguments_may_be_missing_or_null():
    assert parse(tagged({"name": "x"})) == parse(tagged({"name": "x", "arguments": None}))
    assert parse(tagged({"name": "x"})) == Call("x", {})


def test_a_closing_tag_inside_a_text_does_not_close_the_call():
    call = {"name": "respond", "arguments": {"content": "a </tool_call> b"}}
    assert parse(tagged(call)) == Call("respond", call["arguments"])


def test_text_beside_a_call_is_dropped_and_counted_or_refused():
    for action in (f"One moment. {tagged()}", f"{tagged()} Done."):
        assert parse(action) == Call("think", {"thought": "x"}, mixed=True)
        assert parse(action, "strict") == Misfit(
            "Error: could not parse tool call (no text beside a call)", mixed=True
        )


def test_the_first_of_several_calls_is_run_or_all_are_refused():
    action = f"{tagged()}\n{tagged({'name': 'y'})}{tagged('junk')}"
    assert parse(action) == Call("think", {"thought": "x"}, extra_calls=2)
    assert parse(f"{action} and") == Call("think", {"thought": "x"}, mixed=True, extra_calls=2)
    assert "one call per turn" in refused(action, "strict")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("", "Expecting value"),
        ("{'name': 'it's'}", "Expecting property name enclosed in double quotes"),
        ('{"name": "think", "arg', "Unterminated string"),
        ("[1]", "it is not a JSON object"),
        ("null", "it is not a JSON object"),
        ("{}", "it has no name"),
        ('{"name": ""}', "it has no name"),
        ('{"name": null}', "it has no name"),
        ('{"name": ["x"]}', "it has no name"),
        ('{"name": "x", "arguments": [1]}', "its arguments are not a JSON object"),
        ('{"name": "x", "arguments": "[1]"}', "its arguments are not a JSON object"),
        ('{"name": "x", "arguments": "y"}', "its arguments are a string that is no JSON"),
        ('{"name": "x", "arguments": {"a": NaN}}', "NaN is not JSON"),
        ('{"name": "x", "arguments": {"a": -Infinity}}', "-Infinity is not JSON"),
        ('{"name": "x", "arguments": {"a": 1e999}}', "1e999 is too large a number"),
        ('{"name": "x", "arguments": {"a": ' + "9" * 5000 + "}}", "Exceeds the limit"),
        ('{"name": "x"} junk', "there is more before </tool_call>"),
        ('{"name": "x"}{"name": "x"}', "there is more before </tool_call>"),
        ('{"name": "x", "args": {"a": 1}, "kwargs": {"a": 2}}', "under 'args' and 'kwargs'"),
        ('{"name": "x", "order": "y"}', "its key 'order' is unknown; arguments go in 'arguments'"),
        ('{"function": {"arguments": {}}}', "it has no name"),
    ],
)
def test_a_malformed_call_is_refused_with_the_reason(call, reason):
    error = refused(tagged(call))
    assert error.startswith("Error: could not parse tool call (")
    assert reason in error


def test_a_call_that_was_cut_off_never_reaches_the_user():
    assert "Unterminated" in refused('I will look. <tool_call>{"name": "get_order')
    assert "there is more" in refused('<tool_call>{"name": "x"} and so on')


@pytest.mark.parametrize(
    "call",
    [
        {"name": "think", "parameters": {"thought": "x"}},
        {"name": "think", "args": {"thought": "x"}},
        {"function": {"name": "think", "arguments": {"thought": "x"}}},
        {"type": "function", "function": {"name": "think", "arguments": '{"thought": "x"}'}},
    ],
)
def test_other_keys_are_read_unless_parsing_is_strict(call):
    assert parse(tagged(call)) == parse(tagged(call), "lenient") == MEANT
    assert parse(tagged(call)).suspect
    assert "a call stands between" in refused(tagged(call), "strict")


def test_deep_and_huge_calls_are_refused():
    deep = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    assert "nested deeper" in refused(tagged(f'{{"name": "x", "arguments": {deep}}}'))
    assert "recursion" in refused(tagged("[" * 50_000))
    long = json.dumps({"name": "x", "arguments": {"a": "b" * MAX_CALL_CHARS}})
    assert "longer than" in refused(tagged(long))
    assert "longer than" in refused(f"<tool_call>{long}")
    within = '{"a":' * (MAX_DEPTH - 2) + "1" + "}" * (MAX_DEPTH - 2)
    assert isinstance(parse(tagged(f'{{"name": "x", "arguments": {within}}}')), Call)


@pytest.mark.parametrize(
    "action",
    [
        json.dumps(THINK),
        f"```json\n{json.dumps(THINK)}\n```",
        f"{json.dumps(THINK)}</tool_call>",
        f"Wait.\n{json.dumps(THINK)}\n</tool_call>",
    ],
)
def test_a_call_without_tags_is_run_and_counted(action):
    meant = parse(action, tools=[{"function": {"name": "think"}}])
    assert (meant.name, meant.arguments, meant.suspect) == ("think", {"thought": "x"}, True)
    assert "could not parse" in refused(action, "strict")


@pytest.mark.parametrize("action", ["</tool_call>", 'x {"name": }</tool_call>', "Hi.</tool_call>"])
def test_a_closing_tag_alone_goes_to_nobody(action):
    assert "a call stands between" in refused(action)


def test_json_that_names_no_tool_goes_to_the_user_and_is_counted():
    action, tool = json.dumps(THINK), {"type": "function", "function": {"name": "other"}}
    assert parse(action, tools=[tool]) == Speech(action, suspect=True)


@pytest.mark.parametrize("action", ["Hello", '{"name": "x"}', "{broken", "```json\n{}\n```"])
def test_other_text_goes_to_the_user(action):
    assert parse(action) == parse(action, "strict") == Speech(action)


def test_an_empty_message_is_no_call_and_goes_to_nobody():
    assert parse("<think>hm") == parse("") == parse(" \n")
    meant = parse("")
    assert isinstance(meant, Misfit)
    assert not meant.is_call


def test_half_surrogate_pairs_are_replaced_and_whole_ones_mended():
    assert utf8_safe("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert utf8_safe("\ud83d\ude00 \ufeffä") == "\U0001f600 \ufeffä"


@pytest.mark.parametrize(
    "piece",
    ["<think>", "</think>", "<think></think>", "<tool_call>", "</tool_call>", "{", "[", "`"],
)
def test_a_long_text_of_one_tag_is_understood(piece):
    # With a search that starts again at every tag, this would take minutes.
    assert isinstance(parse(piece * 50_000), Speech | Misfit)
    assert parse(f"{tagged()}{piece * 50_000}").mixed or piece.endswith(("ink>", "_call>"))


@given(
    st.lists(
        st.sampled_from(
            [
                "<think>",
                "</think>",
                "<tool_call>",
                "</tool_call>",
                '{"name"',
                ': "think"',
                "}",
                ",",
                '"arguments": ',
                "{}",
                "Hi",
                " ",
                "\ud800",
            ]
        )
    ),
    st.sampled_from(["default", "strict", "lenient"]),
)
def test_any_text_means_something_that_is_never_blank(pieces, mode):
    meant = parse("".join(pieces), mode)
    assert isinstance(meant, Call | Misfit) or meant.text.strip()
