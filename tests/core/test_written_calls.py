"""Tool calls that models write as text, in every notation that is known: read, or refused."""

import json
import time

import pytest

from skillwright.core import Act, Completion, Lapse
from skillwright.core.agent import sendable
from skillwright.core.call_json import MAX_CALL_CHARS, Unreadable, read_arguments
from skillwright.core.calls import read_calls
from written_calls import CALL, FORMS, ORDER, TOOLS, UNREADABLE, J


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_any_notation_is_read_and_counted_where_tools_are_native(form):
    act = Act.of(Completion(FORMS[form]), offered_tools=True, tools=TOOLS)
    assert act.finish_reason == Lapse.WRITTEN_CALLS
    assert [(call.name, json.loads(call.arguments)) for call in act.tool_calls] == [
        ("get_order_details", ORDER)
    ]
    assert act.text == ""
    assert sendable(act.tool_calls, []) == act.tool_calls


SEVERAL = {
    "Hermes": f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"name": "list_types"}}</tool_call>',
    "Mistral": f"[TOOL_CALLS]get_order_details{J}[TOOL_CALLS]list_types{{}}",
    "Mistral's list": f'[TOOL_CALLS][{CALL}, {{"name": "list_types", "arguments": {{}}}}]',
    "Llama": f'<|python_tag|>{CALL}; {{"name": "list_types", "parameters": {{}}}}',
    "Llama 4": "[get_order_details(order_id='#W1'), list_types()]",
    "JSON on one line": f'{CALL}, {{"name": "list_types", "arguments": {{}}}}',
    "JSON without a separator": f'{CALL}{{"name": "list_types", "arguments": {{}}}}',
    "JSON on two lines": f'{CALL}\n{{"name": "list_types", "arguments": {{}}}}',
    "lines": f'<tool_calls>\n{CALL}\n{{"name": "list_types", "arguments": {{}}}}\n</tool_calls>',
    "Kimi": (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order_details:0"
        f"<|tool_call_argument_begin|>{J}<|tool_call_end|><|tool_call_begin|>functions.list_types:1"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "invoke": (
        '<function_calls><invoke name="get_order_details"><parameter name="order_id">#W1'
        '</parameter></invoke><invoke name="list_types"></invoke></function_calls>'
    ),
    "GLM": (
        "<tool_call>get_order_details\n<arg_key>order_id</arg_key><arg_value>#W1</arg_value></tool_call>"
        "<tool_call>list_types</tool_call>"
    ),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_several_calls_are_read_in_their_order(form):
    calls = read_calls(SEVERAL[form], TOOLS).calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_order_details", ORDER),
        ("list_types", {}),
    ]


@pytest.mark.parametrize("form", UNREADABLE)
def test_a_call_without_one_meaning_is_counted_and_not_carried_out(form):
    found = read_calls(UNREADABLE[form], TOOLS)
    assert found.calls[0].problem
    assert (found.is_readable, found.calls[0].name) == (False, "")
    act = Act.of(Completion(UNREADABLE[form]), offered_tools=True, tools=TOOLS)
    assert (act.finish_reason, act.tool_calls) == (Lapse.UNREAD_CALLS, ())


@pytest.mark.parametrize(
    "text",
    [
        "Your order is on its way.",
        "The formula is f(x) = {x + 1}.",
        '{"name": "Bob", "arguments": "none"}',
        '{"name": "no_such_tool", "arguments": {}}',
        '{"name": "get_order_details"}',
        "[get_order_details]",
        f"The call {CALL} looks up an order.",
        f"It is like {CALL}",
        'Here:\n{"name": "no_such_tool", "arguments": {}}\nDone.',
        "[other(x=1)]",
        "Use get_order_details(order_id='#W1') to look it up.",
        "A function = a rule; invoke name it.",
        "<b>Done</b>",
        "```python\nprint(1)\n```",
    ],
)
def test_other_text_is_no_call(text):
    found = read_calls(text, TOOLS)
    assert (found.said, found.calls) == (text, ())
    act = Act.of(Completion(text), offered_tools=True, tools=TOOLS)
    assert (act.text, act.finish_reason, act.tool_calls) == (text, "stop", ())


@pytest.mark.parametrize(
    "text",
    [
        f"I look it up.\n{CALL}",
        f"I look it up.\n\n```json\n{CALL}\n```",
        f"```json\n{CALL}\n```\nI look it up.",
        f"{CALL}\n\nI look it up.",
    ],
)
def test_json_on_its_own_lines_that_names_a_known_tool_is_a_call(text):
    found = read_calls(text, TOOLS)
    assert found.said == "I look it up."
    assert [(one.name, one.arguments) for one in found.calls] == [("get_order_details", ORDER)]
    assert read_calls(text).calls == ()  # without the tools it may be an example


@pytest.mark.parametrize("question", ["OK?", "好吗\uff1f", "هل هذا جيد؟", "Συμφωνείτε\u037e"])
def test_json_beside_a_question_is_neither_carried_out_nor_said(question):
    found = read_calls(f"{CALL}\n{question}", TOOLS)
    assert [(one.name, one.problem) for one in found.calls] == [
        ("", "the text around it asks something")
    ]


def test_text_beside_a_call_stays():
    found = read_calls(f"I look.\n<tool_call>{CALL}</tool_call> One moment.", TOOLS)
    assert found.said.split() == ["I", "look.", "One", "moment."]
    act = Act.of(
        Completion(f"I look. [TOOL_CALLS]get_order_details{J}"), offered_tools=True, tools=TOOLS
    )
    assert (act.text, len(act.tool_calls)) == ("I look.", 1)


@pytest.mark.parametrize(
    "thought",
    ["</think> end", "<think> begin", "<think>a</think>", "</tool_call>", "a <|im_end|> b", "}]"],
)
@pytest.mark.parametrize("begin", ["", "<think>hm</think>", "hm</think>\n"])
def test_a_tag_in_an_argument_is_part_of_it(thought, begin):
    call = json.dumps({"name": "think", "arguments": {"thought": thought}})
    tags = f"<function=think><parameter=thought>{thought}</parameter></function>"
    for text in (f"<tool_call>{call}</tool_call>", f"[TOOL_CALLS][{call}]", tags):
        act = Act.of(Completion(begin + text), offered_tools=True)
        assert json.loads(act.tool_calls[0].arguments) == {"thought": thought}


def test_values_without_types_have_those_of_the_tool():
    values = (
        "<parameter=zip>02134</parameter><parameter=n>3</parameter><parameter=note>4</parameter>"
    )
    (call,) = read_calls(f"<function=pay>{values}</function>", TOOLS).calls
    assert call.arguments == {"zip": "02134", "n": 3, "note": "4"}


@pytest.mark.parametrize(
    "written", ["", " \n", "null", "{}", '"{}"', '"null"', '""', "```json\n{}\n```", None]
)
def test_no_arguments_are_an_empty_object(written):
    assert read_arguments(written) == {}


@pytest.mark.parametrize(
    "written",
    ["[]", "7", '"x"', "{", '{"a": NaN}', '{"a":' * 99, "9" * 9999, "x" * MAX_CALL_CHARS * 2],
)
def test_other_arguments_are_refused(written):
    with pytest.raises(Unreadable):
        read_arguments(written)


@pytest.mark.parametrize(
    "written", [J, json.dumps(J), json.dumps(json.dumps(J)), f"\ufeff{J}", f"```json\n{J}\n```"]
)
def test_native_arguments_are_read_as_those_in_a_text(written):
    assert read_arguments(written) == ORDER


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<tool_call>",
            "<tool_call>{",
            "[TOOL_CALLS]a{",
            "<function=a>",
            "</tool_call>",
            "<think>",
        ),
        *("<function=a><parameter=b>", "<|python_tag|>f(", "</think>", "<|a|>", "<think></think>"),
        *("<|tool_call>call:a{", "to=functions.a<|message|>", "<tool_call>a<arg_key>", "\n{"),
        *("<function=a><parameter=b>x</parameter>", "<tool_use><name>a</name><input>", "</s> "),
        *("\n{'a': ", "\n{a: 1,", "\n{/*", "\n{//", "\n[{}, ", "<tools>[", "\nAction: {"),
        *("<|channel|>a<|message|>", "<|im_start|>assistant", "<|im_end|><|im_start|>", "`", "<s>"),
    ],
)
def test_a_long_text_of_one_mark_is_read_in_time(piece):
    # With a search that begins again at every mark, this would take minutes.
    begun = time.process_time()
    Act.of(Completion(piece * 5_000), offered_tools=True)
    assert time.process_time() - begun < 10
