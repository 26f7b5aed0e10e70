"""Tool calls that models write as text, in every notation that is known: read, or refused."""

import json
import time

import pytest

from skillwright.core import Act, Completion, Lapse
from skillwright.core.agent import sendable
from skillwright.core.calls import MAX_CALL_CHARS, Unreadable, read_arguments, read_calls

ORDER = {"order_id": "#W1"}
J = json.dumps(ORDER)
FENCED = f"```json\n{J}\n```"
CALL = json.dumps({"name": "get_order", "arguments": ORDER})


def tool(name, **types):
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def deepseek(*marks):
    """Put texts between DeepSeek's marks, whose names are those between braces."""
    bar, low = "\uff5c", "\u2581"
    return "".join(f"<{bar}{m[1:-1].replace(' ', low)}{bar}>" if m[0] == "{" else m for m in marks)


TOOLS = [
    tool("get_order", order_id="string"),
    tool("list_types"),
    tool("pay", zip="string", n="integer"),
]

FORMS = {
    "Hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "Hermes, unclosed": f"<tool_call>{CALL}",
    "Hermes, in a fence": f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
    "Hermes, in a fence without a language": f"<tool_call>```\n{CALL}\n```</tool_call>",
    "Hermes, with a byte order mark": f"<tool_call>\ufeff{CALL}</tool_call>",
    "Hermes, a list": f"<tool_call>[{CALL}]</tool_call>",
    "encoded twice": f"<tool_call>{json.dumps({'name': 'get_order', 'arguments': J})}</tool_call>",
    "encoded three times": (
        f"<tool_call>{json.dumps({'name': 'get_order', 'arguments': json.dumps(J)})}</tool_call>"
    ),
    "parameters": f'<tool_call>{{"name": "get_order", "parameters": {J}}}</tool_call>',
    "kwargs": f'<tool_call>{{"name": "get_order", "kwargs": {J}}}</tool_call>',
    "input": f'<tool_call>{{"name": "get_order", "input": {J}}}</tool_call>',
    "args": f'<tool_call>{{"name": "get_order", "args": {J}}}</tool_call>',
    "function": f'<tool_call>{{"function": {CALL}}}</tool_call>',
    "type and function": f'<tool_call>{{"type": "function", "function": {CALL}}}</tool_call>',
    "function as the name": f'<tool_call>{{"function": "get_order", "arguments": {J}}}</tool_call>',
    "tool and tool_input": f'<tool_call>{{"tool": "get_order", "tool_input": {J}}}</tool_call>',
    "arguments in a fence": (
        f"<tool_call>{json.dumps({'name': 'get_order', 'arguments': FENCED})}</tool_call>"
    ),
    "a namespace": f'<tool_call>{{"name": "functions.get_order", "arguments": {J}}}</tool_call>',
    "Qwen3-Coder": (
        "<tool_call>\n<function=get_order>\n<parameter=order_id>\n#W1\n</parameter>\n</function>\n"
        "</tool_call>"
    ),
    "Qwen3-Coder without its tag": (
        "<function=get_order>\n<parameter=order_id>\n#W1\n</parameter>\n</function>"
    ),
    "Qwen3-Coder, a parameter unclosed": (
        "<tool_call><function=get_order><parameter=order_id>#W1</function></tool_call>"
    ),
    "Qwen3-Coder, the end missing": "<function=get_order><parameter=order_id>#W1</parameter>",
    "Llama's function": f"<function=get_order>{J}</function>",
    "Llama's function, ended by its tag": f"<function=get_order>{J}<function>",
    "Llama's function, unclosed": f"<function=get_order>{J}",
    "a function with a name": f'<function name="get_order">{J}</function>',
    "Mistral's list": f"[TOOL_CALLS] [{CALL}]",
    "Mistral's list, glued": f"[TOOL_CALLS][{CALL}]",
    "Mistral's name": f"[TOOL_CALLS]get_order{J}",
    "Mistral's arguments": f"[TOOL_CALLS]get_order[ARGS]{J}",
    "Mistral's id": f"[TOOL_CALLS]get_order[CALL_ID]a1b2c3d4e[ARGS]{J}",
    "Mistral with its end": f"[TOOL_CALLS] [{CALL}]</s>",
    "Granite": f"<|tool_call|>[{CALL}]",
    "Granite 4": f"<tool_call>[{CALL}]",
    "Phi": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "Phi mini": f"functools[{CALL}]",
    "Hunyuan": f"<tool_calls>[{CALL}]</tool_calls>",
    "MiniMax M1": f"<tool_calls>\n{CALL}\n</tool_calls>",
    "MiniMax M2": (
        '<minimax:tool_call>\n<invoke name="get_order">\n'
        '<parameter name="order_id">#W1</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "Llama 3 as JSON": f'<|python_tag|>{{"name": "get_order", "parameters": {J}}}',
    "Llama 3 as JSON, with its type": (
        f'<|python_tag|>{{"type": "function", "name": "get_order", "parameters": {J}}}<|eom_id|>'
    ),
    "Llama 3 as Python": '<|python_tag|>get_order.call(order_id="#W1")<|eom_id|>',
    "Llama 4": "[get_order(order_id='#W1')]",
    "Llama 3 as JSON alone": f'{{"name": "get_order", "parameters": {J}}}',
    "DeepSeek V3": deepseek(
        *("{tool calls begin}", "{tool call begin}", "function", "{tool sep}", "get_order\n"),
        *(FENCED, "{tool call end}", "{tool calls end}"),
    ),
    "DeepSeek V3.1": deepseek(
        *("{tool calls begin}", "{tool call begin}", "get_order", "{tool sep}", f" {J}"),
        *("{tool call end}", "{tool calls end}"),
    ),
    "DeepSeek V3.2": (
        '<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name="get_order">\n'
        '<\uff5cDSML\uff5cparameter name="order_id" string="true">#W1</\uff5cDSML\uff5cparameter>\n'
        "</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>"
    ),
    "Kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order:0"
        f"<|tool_call_argument_begin|>{J}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "GLM": (
        "<tool_call>get_order\n<arg_key>order_id</arg_key>\n<arg_value>#W1</arg_value>\n"
        "</tool_call>"
    ),
    "gpt-oss": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.get_order <|constrain|>json<|message|>{J}<|call|>"
    ),
    "gpt-oss, the recipient first": (
        f"<|start|>assistant to=functions.get_order<|channel|>commentary json<|message|>{J}<|call|>"
    ),
    "Command": (
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "get_order", "parameters": {J}}}]'
        "<|END_ACTION|>"
    ),
    "Gemma's code": '```tool_code\nget_order(order_id="#W1")\n```',
    "Gemma's printed code": '```tool_code\nprint(get_order(order_id="#W1"))\n```',
    "Function Gemma": (
        "<start_function_call>call:get_order{order_id:<escape>#W1<escape>}<end_function_call>"
    ),
    "Gemma 4": '<|tool_call>call:get_order{order_id:<|"|>#W1<|"|>}<tool_call|>',
    "Claude's text": (
        '<function_calls>\n<invoke name="get_order">\n<parameter name="order_id">#W1</parameter>\n'
        "</invoke>\n</function_calls>"
    ),
    "a tag called function_call": f"<function_call>{CALL}</function_call>",
    "Glaive": f"<functioncall> {CALL}",
    "children": (f"<tool_use><name>get_order</name><arguments>{J}</arguments></tool_use>"),
    "JSON alone": CALL,
    "JSON in a fence": f"```json\n{CALL}\n```",
    "a list of JSON": f"[{CALL}]",
    "the opening tag lost": f"{CALL}\n</tool_call>",
    "a thought before": f"<think>I look.</think>\n<tool_call>{CALL}</tool_call>",
    "a thought without its opening tag": f"I look.\n</think>\n\n<tool_call>{CALL}</tool_call>",
    "another call in a thought": (
        f'<think><tool_call>{{"name": "pay"}}</tool_call>? No.</think><tool_call>{CALL}</tool_call>'
    ),
    "marks around": f"<|im_start|>assistant\n<tool_call>{CALL}</tool_call><|im_end|>",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_any_notation_is_read_and_counted_where_tools_are_native(form):
    act = Act.of(Completion(FORMS[form]), offered_tools=True, tools=TOOLS)
    assert act.finish_reason == Lapse.WRITTEN_CALLS
    assert [(call.name, json.loads(call.arguments)) for call in act.tool_calls] == [
        ("get_order", ORDER)
    ]
    assert act.text == ""
    assert sendable(act.tool_calls, []) == act.tool_calls


SEVERAL = {
    "Hermes": f'<tool_call>{CALL}</tool_call>\n<tool_call>{{"name": "list_types"}}</tool_call>',
    "Mistral": f"[TOOL_CALLS]get_order{J}[TOOL_CALLS]list_types{{}}",
    "Mistral's list": f'[TOOL_CALLS][{CALL}, {{"name": "list_types", "arguments": {{}}}}]',
    "Llama": f'<|python_tag|>{CALL}; {{"name": "list_types", "parameters": {{}}}}',
    "Llama 4": "[get_order(order_id='#W1'), list_types()]",
    "lines": f'<tool_calls>\n{CALL}\n{{"name": "list_types", "arguments": {{}}}}\n</tool_calls>',
    "Kimi": (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order:0"
        f"<|tool_call_argument_begin|>{J}<|tool_call_end|><|tool_call_begin|>functions.list_types:1"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "invoke": (
        '<function_calls><invoke name="get_order"><parameter name="order_id">#W1</parameter>'
        '</invoke><invoke name="list_types"></invoke></function_calls>'
    ),
    "GLM": (
        "<tool_call>get_order\n<arg_key>order_id</arg_key><arg_value>#W1</arg_value></tool_call>"
        "<tool_call>list_types</tool_call>"
    ),
}


@pytest.mark.parametrize("form", SEVERAL)
def test_several_calls_are_read_in_their_order(form):
    calls = read_calls(SEVERAL[form], TOOLS).calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_order", ORDER),
        ("list_types", {}),
    ]


UNREADABLE = {
    "half of it": '<tool_call>{"name": "get_order", "argu',
    "no JSON": "<tool_call>get the order</tool_call>",
    "single quotes": "<tool_call>{'name': 'get_order'}</tool_call>",
    "a trailing comma": f'<tool_call>{{"name": "get_order", "arguments": {J},}}</tool_call>',
    "no name": f'<tool_call>{{"arguments": {J}}}</tool_call>',
    "two keys of arguments": '[TOOL_CALLS][{"name": "pay", "args": {"n": 1}, "input": {"n": 2}}]',
    "an unknown key": '<tool_call>{"name": "get_order", "order_id": "#W1"}</tool_call>',
    "arguments that are a list": '<|tool_call|>{"name": "get_order", "arguments": ["#W1"]}',
    "arguments that are a text": '<|tool_call|>{"name": "get_order", "arguments": "#W1"}',
    "values without names": "<|python_tag|>get_order('#W1')",
    "an expression": "<|python_tag|>get_order(order_id=open('x').read())",
    "code": "<|python_tag|>import os; os.system('ls')",
    "a value that was cut": "<function=get_order><parameter=order_id>#W",
    "a tag that was cut": "<function=get_order>",
    "a mark alone": "[TOOL_CALLS]",
    "a closing tag alone": "Done.</tool_call>",
    "text behind it": f"<tool_call>{CALL} and so on",
    "a number without end": '<tool_call>{"name": "pay", "arguments": {"n": 1e999}}</tool_call>',
    "DeepSeek, cut": deepseek("{tool calls begin}", "{tool call begin}", "function", "{tool sep}"),
    "Kimi, cut": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order:0<|tool_",
}


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
        '{"name": "get_order"}',
        "[get_order]",
        "[other(x=1)]",
        "Use get_order(order_id='#W1') to look it up.",
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


def test_text_beside_a_call_stays():
    found = read_calls(f"I look.\n<tool_call>{CALL}</tool_call> One moment.", TOOLS)
    assert found.said.split() == ["I", "look.", "One", "moment."]
    act = Act.of(Completion(f"I look. [TOOL_CALLS]get_order{J}"), offered_tools=True, tools=TOOLS)
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
        *("<|channel|>a<|message|>", "<|im_start|>assistant", "<|im_end|><|im_start|>", "`", "<s>"),
    ],
)
def test_a_long_text_of_one_mark_is_read_in_time(piece):
    # With a search that begins again at every mark, this would take minutes.
    begun = time.process_time()
    Act.of(Completion(piece * 5_000), offered_tools=True)
    assert time.process_time() - begun < 10
