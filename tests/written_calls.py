"""A tool call in every notation in which models write it as text, and calls that cannot be read."""

# ruff: noqa: E501 - a notation is easier to compare on one line.

import json
import re

ORDER = {"order_id": "#W1"}
J = json.dumps(ORDER)
FENCED = f"```json\n{J}\n```"
CALL = json.dumps({"name": "get_order_details", "arguments": ORDER})


def tool(name, **types):
    properties = {key: {"type": kind} for key, kind in types.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def deepseek(*marks):
    """Put texts between DeepSeek's marks, whose names are those between braces."""
    bar, low = "\uff5c", "\u2581"
    return "".join(f"<{bar}{m[1:-1].replace(' ', low)}{bar}>" if m[0] == "{" else m for m in marks)


TOOLS = [
    tool("get_order_details", order_id="string"),
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
    "encoded twice": f"<tool_call>{json.dumps({'name': 'get_order_details', 'arguments': J})}</tool_call>",
    "encoded three times": (
        f"<tool_call>{json.dumps({'name': 'get_order_details', 'arguments': json.dumps(J)})}</tool_call>"
    ),
    "parameters": f'<tool_call>{{"name": "get_order_details", "parameters": {J}}}</tool_call>',
    "kwargs": f'<tool_call>{{"name": "get_order_details", "kwargs": {J}}}</tool_call>',
    "input": f'<tool_call>{{"name": "get_order_details", "input": {J}}}</tool_call>',
    "args": f'<tool_call>{{"name": "get_order_details", "args": {J}}}</tool_call>',
    "function": f'<tool_call>{{"function": {CALL}}}</tool_call>',
    "type and function": f'<tool_call>{{"type": "function", "function": {CALL}}}</tool_call>',
    "function as the name": f'<tool_call>{{"function": "get_order_details", "arguments": {J}}}</tool_call>',
    "tool and tool_input": f'<tool_call>{{"tool": "get_order_details", "tool_input": {J}}}</tool_call>',
    "arguments in a fence": (
        f"<tool_call>{json.dumps({'name': 'get_order_details', 'arguments': FENCED})}</tool_call>"
    ),
    "a namespace": f'<tool_call>{{"name": "functions.get_order_details", "arguments": {J}}}</tool_call>',
    "Qwen3-Coder": (
        "<tool_call>\n<function=get_order_details>\n<parameter=order_id>\n#W1\n</parameter>\n</function>\n"
        "</tool_call>"
    ),
    "Qwen3-Coder without its tag": (
        "<function=get_order_details>\n<parameter=order_id>\n#W1\n</parameter>\n</function>"
    ),
    "Qwen3-Coder, a parameter unclosed": (
        "<tool_call><function=get_order_details><parameter=order_id>#W1</function></tool_call>"
    ),
    "Qwen3-Coder, the end missing": "<function=get_order_details><parameter=order_id>#W1</parameter>",
    "Llama's function": f"<function=get_order_details>{J}</function>",
    "Llama's function, ended by its tag": f"<function=get_order_details>{J}<function>",
    "Llama's function, unclosed": f"<function=get_order_details>{J}",
    "a function with a name": f'<function name="get_order_details">{J}</function>',
    "Mistral's list": f"[TOOL_CALLS] [{CALL}]",
    "Mistral's list, glued": f"[TOOL_CALLS][{CALL}]",
    "Mistral's name": f"[TOOL_CALLS]get_order_details{J}",
    "Mistral's arguments": f"[TOOL_CALLS]get_order_details[ARGS]{J}",
    "Mistral's id": f"[TOOL_CALLS]get_order_details[CALL_ID]a1b2c3d4e[ARGS]{J}",
    "Mistral with its end": f"[TOOL_CALLS] [{CALL}]</s>",
    "Granite": f"<|tool_call|>[{CALL}]",
    "Granite 4": f"<tool_call>[{CALL}]",
    "Phi": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "Phi mini": f"functools[{CALL}]",
    "Hunyuan": f"<tool_calls>[{CALL}]</tool_calls>",
    "MiniMax M1": f"<tool_calls>\n{CALL}\n</tool_calls>",
    "MiniMax M2": (
        '<minimax:tool_call>\n<invoke name="get_order_details">\n'
        '<parameter name="order_id">#W1</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "Llama 3 as JSON": f'<|python_tag|>{{"name": "get_order_details", "parameters": {J}}}',
    "Llama 3 as JSON, with its type": (
        f'<|python_tag|>{{"type": "function", "name": "get_order_details", "parameters": {J}}}<|eom_id|>'
    ),
    "Llama 3 as Python": '<|python_tag|>get_order_details.call(order_id="#W1")<|eom_id|>',
    "Llama 4": "[get_order_details(order_id='#W1')]",
    "Llama 3 as JSON alone": f'{{"name": "get_order_details", "parameters": {J}}}',
    "DeepSeek V3": deepseek(
        *(
            "{tool calls begin}",
            "{tool call begin}",
            "function",
            "{tool sep}",
            "get_order_details\n",
        ),
        *(FENCED, "{tool call end}", "{tool calls end}"),
    ),
    "DeepSeek V3.1": deepseek(
        *("{tool calls begin}", "{tool call begin}", "get_order_details", "{tool sep}", f" {J}"),
        *("{tool call end}", "{tool calls end}"),
    ),
    "DeepSeek V3.2": (
        '<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name="get_order_details">\n'
        '<\uff5cDSML\uff5cparameter name="order_id" string="true">#W1</\uff5cDSML\uff5cparameter>\n'
        "</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>"
    ),
    "Kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order_details:0"
        f"<|tool_call_argument_begin|>{J}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "GLM": (
        "<tool_call>get_order_details\n<arg_key>order_id</arg_key>\n<arg_value>#W1</arg_value>\n"
        "</tool_call>"
    ),
    "gpt-oss": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.get_order_details <|constrain|>json<|message|>{J}<|call|>"
    ),
    "gpt-oss, the recipient first": (
        f"<|start|>assistant to=functions.get_order_details<|channel|>commentary json<|message|>{J}<|call|>"
    ),
    "Command": (
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "get_order_details", "parameters": {J}}}]'
        "<|END_ACTION|>"
    ),
    "Gemma's code": '```tool_code\nget_order_details(order_id="#W1")\n```',
    "Gemma's printed code": '```tool_code\nprint(get_order_details(order_id="#W1"))\n```',
    "Function Gemma": (
        "<start_function_call>call:get_order_details{order_id:<escape>#W1<escape>}<end_function_call>"
    ),
    "Gemma 4": '<|tool_call>call:get_order_details{order_id:<|"|>#W1<|"|>}<tool_call|>',
    "Claude's text": (
        '<function_calls>\n<invoke name="get_order_details">\n<parameter name="order_id">#W1</parameter>\n'
        "</invoke>\n</function_calls>"
    ),
    "a tag called function_call": f"<function_call>{CALL}</function_call>",
    "Glaive": f"<functioncall> {CALL}",
    "children": (f"<tool_use><name>get_order_details</name><arguments>{J}</arguments></tool_use>"),
    "JSON alone": CALL,
    "JSON in a fence": f"```json\n{CALL}\n```",
    "a list of JSON": f"[{CALL}]",
    "ReAct": f"Action: get_order_details\nAction Input: {J}",
    "action and action_input": (
        f'<tool_call>{{"action": "get_order_details", "action_input": {J}}}</tool_call>'
    ),
    "InternLM": f"<|action_start|><|plugin|>{CALL}<|action_end|>",
    "Nemotron": f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    "a tag in capitals": f"<TOOL_CALL>{CALL}</TOOL_CALL>",
    "LM Studio": f"[TOOL_REQUEST]{CALL}[END_TOOL_REQUEST]",
    "LFM": '<|tool_call_start|>[get_order_details(order_id="#W1")]<|tool_call_end|>',
    "Seed": (
        "<seed:tool_call><function=get_order_details><parameter=order_id>#W1</parameter></function>"
        "</seed:tool_call>"
    ),
    "a mark called function_call": f"<|function_call|>{CALL}",
    "a tag with a name": f'<tool_call name="get_order_details">{J}</tool_call>',
    "code in a tag": '<tool_code>\nget_order_details(order_id="#W1")\n</tool_code>',
    "code alone": 'get_order_details(order_id="#W1")',
    "GLM 4": f"get_order_details\n{J}",
    "OpenAI's message": f'{{"tool_calls": [{{"id": "x", "type": "function", "function": {CALL}}}]}}',
    "an opening tag at the end": f"<tool_call>{CALL}<tool_call>",
    "half a closing tag": f"<tool_call>{CALL}</tool_",
    "the closing tag of several": f"<tool_call>{CALL}</tool_calls>",
    "JSON on a line of its own": f"{CALL}\n",
    "JSON with a byte order mark": f"\ufeff{CALL}",
    "empty arguments beside others": (
        f'<tool_call>{{"name": "get_order_details", "arguments": {{}}, "parameters": {J}}}</tool_call>'
    ),
    "the opening tag lost": f"{CALL}\n</tool_call>",
    "a trailing comma": f'<tool_call>{{"name": "get_order_details", "arguments": {J},}}</tool_call>',
    "a trailing comma in arguments": (
        '<tool_call>{"name": "get_order_details", "arguments": {"order_id": "#W1",}}</tool_call>'
    ),
    "a trailing comma, alone": f'{{"name": "get_order_details", "arguments": {J},}}',
    "single quotes": f"<tool_call>{ {'name': 'get_order_details', 'arguments': ORDER} }</tool_call>",
    "single quotes in a mark": f"[TOOL_CALLS][{ {'name': 'get_order_details', 'arguments': ORDER} }]",
    "single quotes in arguments": f'[TOOL_CALLS]{{"name": "get_order_details", "arguments": "{ORDER}"}}',
    "curled quotes": re.sub('"(.*?)"', "\u201c\\1\u201d", f"<tool_call>{CALL}</tool_call>"),
    "bare keys": '<tool_call>{name: "get_order_details", arguments: {order_id: "#W1"}}</tool_call>',
    "a comment": (
        f'<tool_call>{{"name": "get_order_details", // I look, then\n"arguments": {J}}}</tool_call>'
    ),
    "Python's constants": (
        f'<tool_call>{{"name": "get_order_details", "arguments": {J}, "id": None}}</tool_call>'
    ),
    "a bracket too few": f'<tool_call>{{"name": "get_order_details", "arguments": {J}</tool_call>',
    "two brackets too few": (
        '<tool_call>{"name": "get_order_details", "arguments": {"order_id": "#W1"</tool_call>'
    ),
    "a bracket too many": f"<tool_call>{CALL}}}</tool_call>",
    "a bracket too many in a list": f"[TOOL_CALLS][{CALL}}}]",
    "a bracket too many behind a name": f"[TOOL_CALLS]get_order_details{J}}}",
    "a semicolon": f"<tool_call>{CALL};</tool_call>",
    "the opening tag twice": f"<tool_call><tool_call>{CALL}</tool_call></tool_call>",
    "a tag called tools": f"<tools>{CALL}</tools>",
    "a tag called tools, with a list": f"<tools>\n[{CALL}]\n</tools>",
    "a tag called tool": f"<tool>{CALL}</tool>",
    "a tag called call": f"<call>{CALL}</call>",
    "JSON between parentheses": f"<tool_call>get_order_details({J})</tool_call>",
    "JSON between parentheses, alone": f"get_order_details({J})",
    "JSON between parentheses, as code": f"```tool_code\nget_order_details({J})\n```",
    "the name as the key": f'<tool_call>{{"get_order_details": {J}}}</tool_call>',
    "the name as the key, alone": f'{{"get_order_details": {J}}}',
    "Apertus": f'<|tools_prefix|>[{{"get_order_details": {J}}}]<|tools_suffix|>',
    "arguments in a list": f'<tool_call>{{"name": "get_order_details", "arguments": [{J}]}}</tool_call>',
    "LongCat": (
        "<longcat_tool_call>get_order_details\n<longcat_arg_key>order_id</longcat_arg_key>\n"
        "<longcat_arg_value>#W1</longcat_arg_value>\n</longcat_tool_call>"
    ),
    "Olmo": '<function_calls>get_order_details(order_id="#W1")</function_calls>',
    "Functionary": f">>>get_order_details\n{J}",
    "Gemini's message": f'{{"functionCall": {{"name": "get_order_details", "args": {J}}}}}',
    "the wrapper function_call": f'{{"function_call": {CALL}}}',
    "the wrapper tool_call": f'{{"tool_call": {CALL}}}',
    "a heading": f"Tool call: {CALL}",
    "a heading in bold": f"**Tool call:**\n```json\n{CALL}\n```",
    "tau-bench's own prompt": f"Action:\n{CALL}",
    "an action on its line": f"Action: {CALL}",
    "brackets as tags": f"[tool_call]{CALL}[/tool_call]",
    "brackets as tags of functions": f"[FUNCTION_CALL]{CALL}[/FUNCTION_CALL]",
    "a thought before": f"<think>I look.</think>\n<tool_call>{CALL}</tool_call>",
    "a thought without its opening tag": f"I look.\n</think>\n\n<tool_call>{CALL}</tool_call>",
    "another call in a thought": (
        f'<think><tool_call>{{"name": "pay"}}</tool_call>? No.</think><tool_call>{CALL}</tool_call>'
    ),
    "marks around": f"<|im_start|>assistant\n<tool_call>{CALL}</tool_call><|im_end|>",
}

UNREADABLE = {
    "half of it": '<tool_call>{"name": "get_order_details", "argu',
    "no JSON": "<tool_call>get the order</tool_call>",
    "an apostrophe in single quotes": "<tool_call>{'name': 'pay', 'arguments': {'zip': 'it's'}}</tool_call>",
    "a quote in a text": '<tool_call>{"name": "pay", "arguments": {"zip": "a "b" c"}}</tool_call>',
    "half of it, without a tag behind it": "<tool_call>{'name': 'pay', 'arguments': {'n': 1}",
    "a comment up to the end": '<tool_call>{"name": "pay", "arguments": {"n": 1 // one }}</tool_call>',
    "a definition of a tool": f"<tools>{json.dumps(TOOLS[:1])}</tools>",
    "a tag without a call": '<tools>[{"hammer": 1}]</tools>',
    "JSON alone that breaks off": '{"name": "get_order_details", "arguments": {"order_id": "#W',
    "JSON alone with arguments that are a list": '{"name": "get_order_details", "arguments": [1, 2]}',
    "JSON beside a question": f"I would send this:\n{CALL}\nShall I do that?",
    "another name as the key": '<tool_call>{"no_such_tool": {"order_id": "#W1"}}</tool_call>',
    "two objects of arguments": '<tool_call>{"name": "pay", "arguments": [{"n": 1}, {"n": 2}]}</tool_call>',
    "an escape that JSON lacks": '<tool_call>{"name": "pay", "arguments": {"zip": "\\_"}}</tool_call>',
    "a bracket too many inside": '<tool_call>{"name": "pay", "arguments": {"n": 1]}}</tool_call>',
    "no name": f'<tool_call>{{"arguments": {J}}}</tool_call>',
    "two keys of arguments": '[TOOL_CALLS][{"name": "pay", "args": {"n": 1}, "input": {"n": 2}}]',
    "an unknown key": '<tool_call>{"name": "get_order_details", "order_id": "#W1"}</tool_call>',
    "arguments that are a list": '<|tool_call|>{"name": "get_order_details", "arguments": ["#W1"]}',
    "arguments that are a text": '<|tool_call|>{"name": "get_order_details", "arguments": "#W1"}',
    "values without names": "<|python_tag|>get_order_details('#W1')",
    "an expression": "<|python_tag|>get_order_details(order_id=open('x').read())",
    "code": "<|python_tag|>import os; os.system('ls')",
    "a value that was cut": "<function=get_order_details><parameter=order_id>#W",
    "a tag that was cut": "<function=get_order_details>",
    "a mark alone": "[TOOL_CALLS]",
    "a closing tag alone": "Done.</tool_call>",
    "text behind it": f"<tool_call>{CALL} and so on",
    "a number without end": '<tool_call>{"name": "pay", "arguments": {"n": 1e999}}</tool_call>',
    "DeepSeek, cut": deepseek("{tool calls begin}", "{tool call begin}", "function", "{tool sep}"),
    "Kimi, cut": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_order_details:0<|tool_",
}

# Messages to a customer that hold JSON, code, prices, tags or markup, and call no tool.
MESSAGES = [
    '{"name": "Ann", "zip": "02134"}',
    '```json\n{"name": "Ann", "zip": "02134"}\n```',
    '```json\n{"name": "shirt", "args": {"size": "M"}}\n```',
    "The price is $5.99 [incl. tax] for <b>2</b> items.",
    "Prices: [5.99, 7.50]",
    "[5.99, 7.50]",
    "[]",
    "{}",
    "null",
    '"ok"',
    "Use <function=...> in your model.",
    "We tag it as <tool> in our shop.",
    "Buy the <tool> set (hammer, saw).",
    "The <tools> section of our site has it.",
    'Our product is named tool_call; see <a href="x">here</a>.',
    "Action: your order will be cancelled. Is that fine?",
    "Next action: pay the bill.",
    'I will call pay(zip="02134", n=3) for you; is it fine?',
    'print("hello")',
    '```python\nprint("hello")\n```',
    'Example:\n```python\npay(zip="02134", n=3)\n```\nOK?',
    'To do this, you would send:\n```json\n{"zip": "02134"}\n```',
    "pay the bill (n=3)",
    'pay {"n": 3} please',
    "Note: pay{n}",
    "`pay(n=3)` is what I would run.",
    "I <3 you",
    "a < b and c > d",
    "</b>",
    "<br>",
    "<br/>Your order",
    "The total: x = {y: 5}",
    "Hello {name}, your order is ready",
    "Do not send <script>alert(1)</script>",
    "call:pay{n:3}",
    "functools is a Python module",
    "to=functions.pay",
    "Your function call failed",
    "tool_calls: none",
    "[TOOL] hammer",
    "[TOOL_BOX] is included",
    "[ACTION] needed",
    "Press <Enter>",
    '<order id="W1"/>',
    "<name>Ann</name>",
    "<action>pay</action>",
    "The <function> key",
    'Options:\n[{"name": "shirt", "arguments": {}}, {"name": "shoe", "arguments": {}}]',
    '{"tool": "hammer", "args": ["a"]}',
    "https://x.com/?tool=pay&action=start",
    '#W1 {"a"',
    'emoji 😀 {"a": "😀"}',
    "Use <action> tags.",
    "<actions> menu",
    'Your order is {"order_id": "#W1", "status": "shipped"}.',
    '{"order_id": "#W1", "status": "shipped"}',
    'Should I look it up with {"name": "get_order_details", "arguments": {"order_id": "#W1"}}?',
    "It is `get_order_details(order_id='#W1')` that I would call.",
    'Our form:\n```json\n{"name": "Ann", "arguments": {"zip": "02134"}}\n```\nFill it in, please.',
    '{"name": "Ann", "order": {"id": 1}}',
    "{'name': 'Ann', 'args': 'none'}",
    'Options:\n- {"size": "M"}\n- {"size": "L"}',
    "Tool call: 555-0100",
    "Action: nothing {to} do.",
    "Function call {x}",
    "**Action:** please pay.",
    ">>> print(1)",
    '>>>quote "of" you',
    "Choose one of <tools>: hammer, saw.",
    "Ring <call> us.",
    "Wir haben „{5}“ für 5,99 € [netto].",
    "価格は{5000}円です。",
    "Preis: 5 < 6 && 7 > 6; {a: 1}",
]
