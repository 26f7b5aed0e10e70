"""A tool call in every notation in which models write it as text, and calls that cannot be read."""

# ruff: noqa: E501 - a notation is easier to compare on one line.

import json

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
    "single quotes": "<tool_call>{'name': 'get_order_details'}</tool_call>",
    "a trailing comma": f'<tool_call>{{"name": "get_order_details", "arguments": {J},}}</tool_call>',
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
