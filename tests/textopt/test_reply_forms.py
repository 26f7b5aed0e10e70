# ruff: noqa: E501, RUF001 - replies as they come, in the letters of many scripts
"""Forms in which models send their edits: what can mean one thing only is read, the rest is not."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import Completion, ReplyInvalid
from skillwright.core.chat import ToolCall
from skillwright.models import parse_reply
from skillwright.textopt import Optimizer, StepContext, StepSettings, StepStatus, propose
from skillwright.textopt.edit_shapes import passage
from skillwright.textopt.optimizer import AnalystReply, MergeReply, RankReply
from skillwright.textopt.proposal import EditLimits

SKILL = "# Skill\n\n- Look first.\n- Go home.\n"
RULE = "- Say the color."
EDIT = {"op": "append", "content": RULE}
REPLY = {"reasoning": "r", "patch": {"reasoning": "p", "edits": [EDIT]}}
STRICT = json.dumps(REPLY)
NEAR = STRICT[:-1] + ",}"  # a trailing comma


def appends(*contents):
    return json.dumps({"patch": {"edits": [{"op": "append", "content": c} for c in contents]}})


def edits(*items):
    return json.dumps({"reasoning": "r", "patch": {"edits": list(items)}})


DRAFT = appends("- A draft.")
FULL_DRAFT = json.dumps({**json.loads(DRAFT), "failure_summary": [], "success_patterns": []})

NOT_JSON = {
    "a comma too many": '{"reasoning":"r","patch":{"edits":[{"op":"append","content":"%s",},],}}',
    "a comment": '{// why "so"\n"patch":{"edits":[\n{"op":"append", # one\n"content":"%s"}]}}',
    "a block comment": '{/* a "note" */"patch":{"edits":[{"op":"append","content":"%s"}],},}',
    "Python": "{'reasoning': None, 'ok': True, 'patch': {'edits': [{'op': 'append', "
    "'content': '%s'}]}}",
    "unquoted keys": '{reasoning: "r", patch: {edits: [{op: "append", content: "%s"}]}}',
    "curled quotes": "{\u201creasoning\u201d: \u201cr\u201d, \u201cpatch\u201d: {\u201cedits\u201d: "
    "[{\u201cop\u201d: \u201cappend\u201d, \u201ccontent\u201d: \u201c%s\u201d}]}}",
    "German quotes": "{\u201epatch\u201c: {\u201eedits\u201c: [{\u201eop\u201c: \u201eappend\u201c, "
    "\u201econtent\u201c: \u201e%s\u201c}]}}",
    "French quotes": "{\u00abpatch\u00bb: {\u00abedits\u00bb: [{\u00abop\u00bb: \u00abappend\u00bb, "
    "\u00abcontent\u00bb: \u00ab%s\u00bb}]}}",
    "wide punctuation": '{"patch"\uff1a{"edits"\uff1a[{"op"\uff1a"append"\uff0c"content"\uff1a"%s"}]}}',
    "missing brackets": '{"patch":{"edits":[{"op":"append","content":"%s"',
    "a missing inner bracket": '{"patch":{"edits":[{"op":"append","content":"%s"]}}',
    "a missing comma": '{"reasoning":"r"\n"patch":{"edits":[{"op":"append"\n"content":"%s"}]}}',
    "quotes inside": '{"reasoning":"say "hi" now","patch":{"edits":[{"op":"append","content":"%s"}]}}',
    "a joined string": '{"patch":{"edits":[{"op":"append","content":"" + "%s"}]}}',
    "triple quotes": '{"patch":{"edits":[{"op":"append","content":"""%s"""}]}}',
    "backticks": '{"patch":{"edits":[{"op":"append","content":`%s`}]}}',
    "a tuple": "{'patch': {'edits': ({'op': 'append', 'content': '%s'},)}}",
    "curled values": '{"patch": {"edits": [{"op": “append”, "content": “%s”}]}}',
    "wide brackets": '｛"patch"：｛"edits"：［｛"op"："append"，"content"："%s"｝］｝｝',
    "wide quotes": "{＂patch＂: {＂edits＂: [{＂op＂: ＂append＂, ＂content＂: ＂%s＂}]}}",
    "HTML numbers": "{&#34;edits&#34;:[{&#34;op&#34;:&#34;append&#34;,&#34;content&#34;:&#34;%s&#34;}]}",
    "XML with a header": '<?xml version="1.0"?>\n<edits><edit><op>append</op><content>%s</content>'
    "</edit></edits>",
    "NaN": '{"score":NaN,"patch":{"edits":[{"op":"append","content":"%s"}]}}',
    "Ruby": '{"patch" => {"edits" => [{"op" => "append", "content" => "%s"}]}}',
    "JavaScript": "```javascript\nconst patch = {patch: {edits: [{op: 'append', content: '%s'}]}};\n```",
    "HTML": "{&quot;patch&quot;:{&quot;edits&quot;:[{&quot;op&quot;:&quot;append&quot;,"
    "&quot;content&quot;:&quot;%s&quot;}]}}",
    "YAML": "patch:\n  edits:\n    - op: append\n      content: |\n        %s\n",
    "fenced YAML": 'Sure!\n```yaml\nedits:\n- op: append\n  content: "%s"\n```\n',
    "tagged YAML": '<answer>\nedits:\n- op: append\n  content: "%s"\n</answer>\n',
    "YAML after prose": 'I saw [1].\n\n- op: append\n  content: "%s"\n',
    "XML": "<reply><reasoning>r</reasoning><edits><edit><op>append</op><content>%s</content>"
    "</edit></edits></reply>",
    "XML attributes": 'So:\n<edits>\n<edit op="append">%s</edit></edits>',
    "TOML": '[[edits]]\nop = "append"\ncontent = "%s"\n',
}

AROUND = {
    "a byte order mark": "\ufeff" + NEAR,
    "an end mark": NEAR + "<|im_end|>",
    "sentence marks": f"<s>{NEAR}</s>",
    "DeepSeek's end": NEAR + "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "harmony": f"<|channel|>analysis<|message|>{FULL_DRAFT}<|end|><|start|>assistant"
    f"<|channel|>final<|message|>{STRICT}<|return|>",
    "harmony with a format": f"<|channel|>final <|constrain|>json<|message|>{NEAR}<|return|>",
    "a fuller draft in the thoughts": f"<think>{FULL_DRAFT}</think>\n{STRICT}",
    "a stray end of thoughts": f"{FULL_DRAFT}\n</think>\n{NEAR}",
    "a half draft in the thoughts": f'<thinking>so {{"a"</thinking>\n```json\n{STRICT}\n```',
    "prose": f"I think {{a, b}} matter. So:\n{NEAR}\nThat is it {{done}}.",
    "a fence": f"Here:\n```json\n{NEAR}\n```\nHope that helps!",
    "a quotation": "> " + json.dumps(REPLY, indent=1).replace("\n", "\n> "),
    "tildes": f"~~~\n{NEAR}\n~~~",
    "a draft before": f"Draft:\n```json\n{DRAFT[:-1]},}}\n```\nFinal:\n```json\n{NEAR}\n```",
}

SHAPES = {
    "a list of edits": [EDIT],
    "one edit": EDIT,
    "a list of one reply": [REPLY],
    "a result": {"result": REPLY},
    "a deep result": {"response": {"data": REPLY}},
    "an edit for a list": {"patch": {"edits": EDIT}},
    "numbered edits": {"patch": {"edits": {"1": EDIT}}},
    "edits as a text": {"patch": {"edits": json.dumps([EDIT])}},
    "each edit as a text": {"patch": {"edits": [json.dumps(EDIT)]}},
    "a patch as a text": {"patch": json.dumps({"edits": [EDIT]})},
    "a list as the patch": {"patch": [EDIT]},
    "changes": {"changes": [EDIT]},
    "operations": {"patch": {"operations": [EDIT]}},
    "no patch, but edits as a text": {"patch": {}, "edits": json.dumps([EDIT])},
    "null edits, but operations": {"edits": None, "operations": [EDIT]},
    "no patch, but changes": {"patch": None, "changes": [EDIT]},
    "capitals": {"Patch": {"Edits": [{"Op": "Append", "Content": RULE}]}},
    "JSON twice": STRICT,
    "JSON three times": json.dumps(STRICT),
    "numbered keys": {"patch": {"edit_1": EDIT}},
    "edits below their operation": {"patch": {"append": [RULE]}},
    "Anthropic's message": {
        "role": "assistant",
        "content": [{"type": "text", "text": "ok"}, {"type": "tool_use", "input": REPLY}],
    },
    "a called tool": {"name": "submit", "arguments": REPLY},
    "a called tool's text": {"name": "submit", "arguments": STRICT},
    "OpenAI's calls": {"tool_calls": [{"type": "function", "function": {"arguments": STRICT}}]},
    "an action": {"action": "submit_patch", "action_input": STRICT},
    "a message": {"role": "assistant", "content": STRICT},
}

TOOL_TEXTS = {
    "a tag": f'<tool_call>\n{{"name": "submit", "arguments": {STRICT}}}\n</tool_call>',
    "Mistral": "[TOOL_CALLS]" + json.dumps([{"name": "submit", "arguments": REPLY}]),
    "Qwen": f"<function=submit>\n<parameter=edits>\n{json.dumps([EDIT])}\n</parameter>\n</function>",
    "Anthropic": '<function_calls><invoke name="submit"><parameter name="edits">'
    f"{json.dumps([EDIT])}</parameter></invoke></function_calls>",
    "ReAct": f"Thought: ok\nAction: submit\nAction Input: {STRICT}",
    "an escaped text": json.dumps(STRICT)[1:-1],
    "lines": f"{json.dumps(EDIT)}\n{json.dumps({**EDIT, 'content': '- Ask.'})}",
}


LIMITS = EditLimits()

ODD_TEXTS = (
    '- Use: `a`, `b`, { `c`}, [d], and "e".',
    "- See https://a.b/c#d, // not # a comment /* nor this */",
    "- 颜色，{ 红}，[ 蓝]，等等：“绿”。",
    "- Don't write 'x', it's \\\"y\\\", or C:\\temp\\new",
    "- Close with </think> or <|im_end|> and then ``` again",
    '- Answer {"a": 1} only, None, true, NaN ...',
)


async def stepped(reply, *more, limits=LIMITS, skill=SKILL, as_written=False, repair_rounds=0):
    step = await propose(
        Optimizer(
            ScriptedReplies([reply, *more]), repair_rounds=repair_rounds, as_written=as_written
        ),
        StepSettings(limits=limits, repair_anchors=False),
        StepContext("s3", skill, budget=4),
        in_one_batch([make_episode("T0")]),
    )
    json.dumps(step.to_dict())
    return step


def contents(step):
    return [one.edit.content for one in step.proposals]


def causes(step):
    notes = [note for patch in step.reflection.patches for note in patch.notes]
    return [fault.failure.message for fault in step.faults] + notes


def repairs(step):
    return [note for patch in step.reflection.patches for note in patch.repairs]


WORDINGS = (
    RULE,
    "- Назови цвет: красный.",
    "- 说出颜色，不要猜。",
    "- اذكر اللون، ولا تخمن",
    "- रंग बताओ",
)


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("form", NOT_JSON)
async def test_a_reply_that_is_nearly_json_is_read_and_noted(form, wording):
    step = await stepped(NOT_JSON[form] % wording)
    assert contents(step) == [wording]
    assert repairs(step)


@pytest.mark.parametrize("text", ODD_TEXTS)
@pytest.mark.parametrize(
    "write",
    [
        lambda reply: json.dumps(reply)[:-1] + ",}",
        lambda reply: json.dumps(reply, indent=1, ensure_ascii=False).replace("{", "{ // why\n", 1),
        lambda reply: json.dumps(reply, ensure_ascii=False).replace('"edits"', "edits"),
        lambda reply: f"```json\n{json.dumps(reply)[:-1]},}}\n```",
        lambda reply: json.dumps(reply)[:-2],
        lambda reply: repr({**reply, "reasoning": None}),
    ],
)
async def test_a_repair_leaves_the_texts_of_a_reply_alone(write, text):
    reply = {"patch": {"edits": [{"op": "append", "content": text}, EDIT]}}
    assert contents(await stepped(write(reply))) == [text, RULE]


@pytest.mark.parametrize("form", AROUND)
async def test_the_answer_is_found_among_marks_thoughts_and_drafts(form):
    assert contents(await stepped(AROUND[form])) == [RULE]


@pytest.mark.parametrize("form", SHAPES)
async def test_a_shape_of_one_meaning_is_read_and_noted(form):
    step = await stepped(json.dumps(SHAPES[form]))
    assert contents(step) == [RULE]
    assert bool(repairs(step)) == (form != "a list of one reply")  # which always counted


@pytest.mark.parametrize(
    "write",
    [
        repr,
        lambda call: yaml.safe_dump(call, width=40),
        lambda call: json.dumps(call)[:-1] + ",}",
        lambda call: f"The arguments are '{call['arguments']}'.",
    ],
)
async def test_json_in_a_string_of_another_notation_is_decoded_as_often_as_it_was_encoded(write):
    text = '- Say "red" → don\'t guess,\n  or ask.\n- C:\\new'
    call = {"name": "submit", "arguments": json.dumps({"edits": [{**EDIT, "content": text}]})}
    assert contents(await stepped(write(call))) == [text]


OTHER = {"op": "replace", "target": "- Go home.", "content": "- Go."}
SEVERAL = {
    "each in a block": "\n".join(f"```json\n{json.dumps(one)}\n```" for one in (EDIT, OTHER)),
    "each in a block with prose": "".join(
        f"Edit:\n```json\n{json.dumps(one)}\n```\n" for one in (EDIT, OTHER)
    ),
    "numbered": json.dumps({"edit_1": EDIT, "edit_2": OTHER}),
    "below two names": json.dumps({"patch": {"additions": [EDIT], "replacements": [OTHER]}}),
    "below their operations": json.dumps(
        {"patch": {"append": [RULE], "replace": [{"old": "- Go home.", "new": "- Go."}]}}
    ),
    "patches": json.dumps({"patches": [{"edits": [EDIT]}, {"edits": [OTHER]}]}),
    "replies": json.dumps([{"patch": {"edits": [EDIT]}}, {"patch": {"edits": [OTHER]}}]),
    "below each failure": json.dumps(
        {"failures": [{"id": "T0", "edits": [EDIT]}, {"id": "T1", "edits": [OTHER]}]}
    ),
}


@pytest.mark.parametrize("form", SEVERAL)
async def test_no_edit_is_lost_where_a_reply_has_several_lists(form):
    step = await stepped(SEVERAL[form])
    assert [(p.edit.op, p.edit.content) for p in step.proposals] == [
        ("append", RULE),
        ("replace", "- Go."),
    ]


NOT_PROPOSED = {
    "in a sentence": f"An edit such as {json.dumps(EDIT)} would not help. I propose none.",
    "in its reasoning": f"<think>Maybe {STRICT}, or not.</think> No edits are needed.",
    "rejected": json.dumps({"reasoning": "r", "rejected_edits": [EDIT], "accepted_edits": []}),
    "considered": json.dumps({"considered": [EDIT], "final": []}),
    "before a text": edits({"op": "insert", "before": "- Go home.", "content": RULE}),
    "before a line": edits(
        {"op": "add", "where": "Before it", "target": "- Go home.", "text": RULE}
    ),
    "at the top": edits({"op": "insert", "position": "at the top", "content": RULE}),
}


@pytest.mark.parametrize("form", NOT_PROPOSED)
async def test_no_edit_is_made_that_a_reply_does_not_propose(form):
    step = await stepped(NOT_PROPOSED[form])
    assert contents(step) == []
    assert causes(step)


def test_the_end_of_a_line_is_not_taken_for_a_quoted_line():
    skill = "- Never refund twice.\n1. Look at the date.\n"
    assert passage(skill, "- refund twice.") is None
    assert passage(skill, "* never refund twice") == "- Never refund twice"
    assert passage(skill, "- look at the date") == "Look at the date"


@pytest.mark.parametrize("form", TOOL_TEXTS)
async def test_a_call_of_a_tool_is_read_as_the_reply(form):
    assert contents(await stepped(TOOL_TEXTS[form]))[0] == RULE


async def test_a_reply_that_is_only_a_native_call_is_read_from_its_arguments():
    call = Completion("", "tool_calls", tool_calls=(ToolCall("c1", "submit", STRICT),))
    assert contents(await stepped(call)) == [RULE]


@pytest.mark.parametrize(
    ("item", "found"),
    [
        *(
            ({"op": op, "content": RULE}, ("append", "", RULE))
            for op in ("APPEND", "Add", "insert")
        ),
        *(
            ({"op": op, "content": RULE}, ("append", "", RULE))
            for op in ("append_text", "add_rule", "create")
        ),
        *(
            ({"op": op, "target": "- Go home.", "content": RULE}, ("replace", "- Go home.", RULE))
            for op in ("update", "Modify", "replace_text", "change")
        ),
        ({"op": "remove", "target": "- Go home."}, ("delete", "- Go home.", "")),
        ({"op": "insert-after", "target": "x", "content": RULE}, ("insert_after", "x", RULE)),
        ({"op": "insert", "after": "x", "content": RULE}, ("insert_after", "x", RULE)),
        ({"op": "replace", "old": "x", "new": RULE}, ("replace", "x", RULE)),
        ({"op": "replace", "before": "x", "after": RULE}, ("replace", "x", RULE)),
        ({"old_string": "x", "new_string": RULE}, ("replace", "x", RULE)),
        ({"search": "x", "replace": RULE}, ("replace", "x", RULE)),
        ({"replace": "x", "with": RULE}, ("replace", "x", RULE)),
        ({"op": "replace", "from": "x", "to": RULE}, ("replace", "x", RULE)),
        ({"op": "delete", "content": "- Go home."}, ("delete", "- Go home.", "")),
        ({"replace": "x", "content": RULE}, ("replace", "x", RULE)),
        ({"insert_after": "x", "content": RULE}, ("insert_after", "x", RULE)),
        ({"op": "replace", "find": "x", "replace_with": RULE}, ("replace", "x", RULE)),
        (
            {"command": "str_replace", "old_str": "x", "new_str": RULE},
            ("replace", "x", RULE),
        ),
        *(
            ({"op": "replace", old: "x", new: RULE}, ("replace", "x", RULE))
            for old, new in (
                ("target_text", "replacement_text"),
                ("original", "revised"),
                ("originalText", "updatedText"),
                ("existing", "proposed"),
                ("old_rule", "new_rule"),
                ("目标", "内容"),
            )
        ),
        ({"操作": "追加", "内容": RULE}, ("append", "", RULE)),
        ({"op": "ersetzen", "ziel": "x", "inhalt": RULE}, ("replace", "x", RULE)),
        ({"op": "delete", "line": "x"}, ("delete", "x", "")),
        ({"op": "rewrite", "target": "x", "content": RULE}, ("replace", "x", RULE)),
        ({"op": {"type": "append"}, "content": RULE}, ("append", "", RULE)),
        ({"op": "append", "params": {"text": RULE}}, ("append", "", RULE)),
        ({"op": "append", "content": {"text": RULE}}, ("append", "", RULE)),
        ({"name": "append", "arguments": json.dumps({"content": RULE})}, ("append", "", RULE)),
        ({"op": "append", "content": r"- a\n- b"}, ("append", "", "- a\n- b")),
        ({"edit": EDIT}, ("append", "", RULE)),
        ({"append": {"content": RULE}}, ("append", "", RULE)),
        ({"append": RULE}, ("append", "", RULE)),
        ({"delete": "- Go home."}, ("delete", "- Go home.", "")),
        ({"op": "append", "body": RULE}, ("append", "", RULE)),
        ({"action": "append", "text": RULE}, ("append", "", RULE)),
        ({"type": "append", "text": RULE}, ("append", "", RULE)),
        ({"op": "add", "path": "/rules/-", "value": RULE}, ("append", "", RULE)),
        ({"op": "append", "content": ["- a", "- b"]}, ("append", "", "- a\n- b")),
    ],
)
async def test_other_names_of_operations_and_fields_are_read_and_noted(item, found):
    step = await stepped(edits(item))
    assert [(p.edit.op, p.edit.target, p.edit.content) for p in step.proposals] == [found]
    assert any(note.startswith("e1: ") for note in repairs(step))


@pytest.mark.parametrize(
    "reply",
    [
        '{"reasoning": "r", "patch": null}',
        '{"patch": {}}',
        '{"patch": [], "failure_summary": [{"failure_type": "t", "count": 1}]}',
        '{"patch": {"reasoning": "fine", "edits": null}}',
        '{"edits": null}',
        "{'reasoning': 'r', 'patch': None}",
        "```json\n[]\n```",
        "[]",
    ],
)
async def test_a_reply_that_proposes_nothing_is_no_fault(reply):
    step = await stepped(reply)
    assert step.candidate == SKILL
    assert not causes(step)


CUT = '{"patch":{"edits":[{"op":"append","content":"x"},{"op":"append","content":"Say'


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (CUT, "unterminated string"),
        (CUT.replace('"', "'"), "no complete JSON object"),
        (CUT.partition('"Say')[0], "expecting value"),
        (CUT.partition('{"op":"append","content":"Say')[0], "expecting value"),
        (Completion(STRICT[:-2], "length"), "cut off by the token limit"),
        (Completion(NEAR.replace('"', "'")[:-3], "length"), "cut off by the token limit"),
        (
            Completion(f"{{'patch':{{'edits':[]}}}} or {CUT}", "length"),
            "cut off by the token limit",
        ),
        (f"First {json.dumps(EDIT)} but then {json.dumps({**EDIT, 'content': 'b'})}", "form asked"),
        ('{"patch": {"edits": [...]}}', "no complete JSON object"),
        ('{"op":"append"}', "does not have the form"),
        (
            '{"failure":{"edits":[{"op":"append","content":"a"}]},"success":{"edits":[]}}',
            "the form",
        ),
        (
            edits({"op": "insert", "position": "before", "target": "- Go home.", "content": "b"}),
            "op 'insert' is none of",
        ),
        (edits({"op": "replace", "target": "- Go home.", "by": "b"}), "replace has no content"),
        ('{"patch": null, "notes": [{"say": "the color"}]}', "does not have the form"),
        (edits({"op": "merge", "target": "a", "content": "b"}), "op 'merge' is none of"),
        (edits({"action": "delete", "command": "append", "target": "a"}), "'delete or append'"),
        (edits({"op": "insert_before", "target": "a", "content": "b"}), "op 'insert_before' is"),
        ("edits:\n- op: append\n  content: Use the # sign\n", "no complete JSON object"),
        ("a: &a x\nedits:\n- op: append\n  content: *a\n", "no complete JSON object"),
        ("<edits><edit>Please <b>append</b> this</edit></edits>", "no complete JSON object"),
        ('["Say the color."]', "no complete JSON object"),
        ("--- a/skill.md\n+++ b/skill.md\n@@\n+- Say the color.\n", "no complete JSON object"),
    ],
)
async def test_what_may_mean_something_else_is_not_read_and_the_cause_is_kept(reply, cause):
    step = await stepped(reply)
    assert step.candidate == SKILL
    assert cause in causes(step)[0]


@pytest.mark.parametrize("text", [NEAR, json.dumps([EDIT]), json.dumps({"result": REPLY})])
async def test_a_run_that_follows_skillopt_repairs_nothing(text):
    step = await stepped(text, limits=EditLimits(as_written=True), as_written=True)
    assert (step.status, step.candidate) == (StepStatus.FAULTS, SKILL)


async def test_a_reply_that_was_asked_for_again_says_why():
    step = await stepped("Sorry.", STRICT, repair_rounds=1)
    assert repairs(step) == [
        "it was asked for again: The reply holds no complete JSON object; it begins 'Sorry.'. "
        "Answer with one JSON object and nothing else."
    ]


# LaTeX


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"\boxed{x}, \frac{1}{2}, \beta", r"\boxed{x}, \frac{1}{2}, \beta"),
        (r"\boxed{\text{kg}} with \theta, \nu, \rho and \times\n- Next", r"*"),
        (r"In \text{kg}, \theta \times 2", r"In \text{kg}, \theta \times 2"),
        (r"Use \(y\), \alpha and \nu", r"Use \(y\), \alpha and \nu"),
        (r"Match \d+\.\d and \bword\b", r"Match \d+\.\d and \bword\b"),
        (r"\\boxed{x} and \\nu\n- nu", "\\boxed{x} and \\nu\n- nu"),
        (r"- uno\ne due\to tre", "- uno\ne due\to tre"),
        (r"Use snake\_case", "Use snake_case"),
    ],
)
@pytest.mark.parametrize("end", ["}]}}", ",}]}}"])
async def test_latex_and_patterns_keep_their_backslashes(written, meant, end):
    if meant == "*":
        meant = "\\boxed{\\text{kg}} with \\theta, \\nu, \\rho and \\times\n- Next"
    text = '{"patch":{"edits":[{"op":"append","content":"' + written + '"' + end
    assert contents(await stepped(text)) == [meant]


# The text of an edit


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("- a\r\n- b\rc", "- a\n- b\nc"),
        ("- a\u2028- b", "- a\n- b"),
        ("\ufeff- Donau\xaddampf", "- Donaudampf"),
        *(
            (text, text)
            for text in (
                "- می\u200cخواهم کوتاه",
                "- क्\u200dष और न्\u200cह",
                "- ශ්\u200dරී",
                "- ভাষা র\u200d্য",
                "- ភាសា\u200bខ្មែរ",
                "- \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525",
                "- \U0001f469\U0001f3fd\u200d\U0001f4bb 1\ufe0f\u20e3 \u26a0\ufe0f",
                "- \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
            )
        ),
    ],
)
async def test_the_letters_of_every_script_and_emoji_are_kept(text, kept):
    step = await stepped(appends(text))
    assert contents(step) == [kept]
    assert bool(repairs(step)) == (text != kept)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- zero\u200bwidth", "U+200B (ZERO WIDTH SPACE) in line 2, column 7"),
        ("- co\u200cop", "U+200C (ZERO WIDTH NON-JOINER) in line 1, column 5"),
        ("- x\u200dy", "U+200D (ZERO WIDTH JOINER) in line 1, column 4"),
        ("- \U0001f469\u200d", "U+200D (ZERO WIDTH JOINER) in line 1, column 4"),
        ("- م\u200c\u200cخ", "U+200C (ZERO WIDTH NON-JOINER) in line 1, column 5"),
        ("- \U0001f3f4\U000e0061", "U+E0061 (TAG LATIN SMALL LETTER A) in line 1, column 4"),
        ("- a\u202eb\u202c", "U+202E (RIGHT-TO-LEFT OVERRIDE) in line 1, column 4, and 1 more"),
        ("- a\ufeffb", "U+FEFF (ZERO WIDTH NO-BREAK SPACE) in line 1, column 4"),
        ("- bell\x07", "U+0007 (a control character) in line 1, column 7"),
        ("- half \ud83d", "U+D83D (half of a character) in line 1, column 8"),
    ],
)
async def test_a_hidden_character_is_refused_by_name_and_place(text, said):
    step = await stepped(appends(text))
    assert step.candidate == SKILL
    assert f"e1 is dropped: it holds the hidden character {said}" in causes(step)


# Equal edits


async def test_equal_edits_of_one_step_are_one_edit_with_the_evidence_of_both():
    step = await stepped(appends(RULE, RULE + "\n", "- Ask."))
    assert step.candidate == f"{SKILL}\n{RULE}\n\n- Ask.\n"
    assert step.notes == ("s3.f0.e2 is equal to s3.f0.e1: they are one edit",)


async def test_an_append_that_the_skill_holds_is_dropped_with_its_cause():
    step = await stepped(appends("- Look first.\n\n- Go home.", "- Look", "- Ask."))
    assert [one.status for one in step.update.outcomes] == [
        "skipped_already_in_the_skill",
        "applied_append",
        "applied_append",
    ]
    assert step.candidate == f"{SKILL}\n- Look\n\n- Ask.\n"


async def test_a_skill_does_not_begin_with_blank_lines():
    assert (await stepped(appends(RULE), skill="")).candidate == f"{RULE}\n"
    step = await stepped(edits({"op": "delete", "target": "# Skill\n"}, EDIT))
    assert step.candidate == f"- Look first.\n- Go home.\n\n{RULE}\n"
    assert step.update.outcomes[1].lines == (4, 4)


async def test_a_run_that_follows_skillopt_keeps_equal_edits_and_blank_lines():
    limits = EditLimits(as_written=True)
    assert (await stepped(appends("a", "a"), limits=limits, skill="")).candidate == "\n\na\n\na\n"


# Strict JSON in the form asked for means what it meant before. A backspace or a form feed is never
# meant: before a LaTeX command's letters it is the command, as in `\bm` (tested above).

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\b\f"))
PATCHES = st.fixed_dictionaries(
    {"edits": st.lists(st.fixed_dictionaries({"op": TEXTS, "content": TEXTS}), max_size=3)}
)
ANALYSES = st.fixed_dictionaries(
    {"patch": PATCHES}, optional={"reasoning": TEXTS, "failure_summary": st.lists(TEXTS)}
)
MERGES = st.fixed_dictionaries({"edits": st.lists(st.dictionaries(TEXTS, TEXTS), max_size=3)})
RANKS = st.fixed_dictionaries({"selected_indices": st.lists(st.integers())})


@pytest.mark.parametrize("indent", [None, 1])
@given(
    st.one_of(
        *(
            st.tuples(st.just(form), values)
            for form, values in ((AnalystReply, ANALYSES), (MergeReply, MERGES), (RankReply, RANKS))
        )
    ),
    st.booleans(),
)
def test_strict_json_is_read_as_it_is(indent, reply, ascii_only):
    form, value = reply
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse_reply(text, "stop", form) == form.model_validate(value)
    assert parse_reply(f"Here:\n```json\n{text}\n```", "stop", form) == form.model_validate(value)


@given(ANALYSES, st.data())
def test_a_reply_that_ends_inside_of_a_text_is_never_read(value, data):
    text = json.dumps({"reasoning": "r", **value, "end": "of the reply"})
    cut = data.draw(st.integers(len(text) - 12, len(text) - 3))
    with pytest.raises(ReplyInvalid):
        parse_reply(text[:cut], data.draw(st.sampled_from(["stop", "length"])), AnalystReply)
