"""Marks and reasoning that a server should have cut are cut where their place is certain."""

import pytest

from mock_openai import completion
from skillwright.core import Act, Completion, Lapse
from skillwright.core.marks import spoken, visible
from skillwright.models import ClaudeChatConfig, OpenAIChatConfig
from skillwright.models.dialects.chat_completions import to_completion
from skillwright.models.dialects.claude import to_completion as to_claude_completion

CONFIG = OpenAIChatConfig(model="m", base_url="http://host/v1")
BAR, LOW = "\uff5c", "\u2581"

CUT = {
    "ChatML": "red<|im_end|>",
    "ChatML, on its own line": "red\n<|im_end|>\n",
    "ChatML, behind a blank": "red <|im_end|>",
    "Llama 2 and Mistral": "red</s>",
    "Llama 2, as SentencePiece decodes it": "red </s>",
    "Llama 3": "red<|eot_id|>",
    "Llama 3, a message that goes on": "red<|eom_id|>",
    "Llama 4": "red<|eot|>",
    "Gemma": "red<end_of_turn>\n<eos>",
    "Gemma 4": "red<turn|>",
    "GPT-2": "red<|endoftext|>",
    "Phi": "red<|end|>",
    "GLM": "red<|user|>",
    "Granite": "red<|end_of_text|>",
    "Command": "red<|END_OF_TURN_TOKEN|>",
    "DeepSeek": f"red<{BAR}end{LOW}of{LOW}sentence{BAR}>",
    "two marks": "red<|im_end|><|endoftext|>",
    "an unknown mark": "red<|end_of_answer|>",
    "ChatML around": "<|im_start|>assistant\nred<|im_end|>",
    "Llama 3's header": "<|start_header_id|>assistant<|end_header_id|>\n\nred<|eot_id|>",
    "Gemma's header": "<start_of_turn>model\nred<end_of_turn>",
    "the end of the prompt": "[/INST] red</s>",
    "a beginning alone": "<s> red",
    "the next turn": "red<|im_end|>\n<|im_start|>user\nAnd the next?<|im_end|>",
    "Llama 3's next turn": "red<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhat?",
    "Mistral's next turn": "red</s><s>[INST] What? [/INST] blue</s>",
    "gpt-oss": (
        "<|channel|>analysis<|message|>maybe blue<|end|><|start|>assistant<|channel|>final"
        "<|message|>red"
    ),
    "gpt-oss with its end": "<|channel|>final<|message|>red<|return|>",
    "gpt-oss with its start": "<|start|>assistant<|channel|>final<|message|>red<|end|>",
    "gpt-oss, its first mark in the prompt": (
        "maybe blue<|end|><|start|>assistant<|channel|>final<|message|>red<|return|>"
    ),
    "gpt-oss with a commentary": (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>final"
        "<|message|>red"
    ),
    "a box": "<|begin_of_box|>red<|end_of_box|>",
    "a response": "<|START_RESPONSE|>red<|END_RESPONSE|>",
}
REASONING = {
    "think": "<think>blue?</think>\n\nred",
    "think in capitals": "<THINK>blue?</THINK>red",
    "two": "<think>blue?</think>\n<think>green?</think>\nred",
    "an answer in it": "<think><answer>blue</answer>?</think>red",
    "the opening tag in the prompt": "blue? No.\n</think>\n\nred",
    "thinking": "<thinking>blue?</thinking>\nred",
    "reasoning": "<reasoning>blue?</reasoning>\nred",
    "thought": "<thought>blue?</thought>red",
    "Seed": "<seed:think>blue?</seed:think>red",
    "Magistral": "[THINK]blue?[/THINK]red",
    "Kimi": "◁think▷blue?◁/think▷red",
    "OpenThinker": (
        "<|begin_of_thought|>blue?<|end_of_thought|>\n\n<|begin_of_solution|>red<|end_of_solution|>"
    ),
    "Command": ("<|START_THINKING|>blue?<|END_THINKING|><|START_RESPONSE|>red<|END_RESPONSE|>"),
    "gpt-oss without its marks": "analysisblue?assistantfinalred",
    "marks around it": "<|im_start|>assistant\n<think>blue?</think>red<|im_end|>",
    "a tag in quotes in it": 'I close with "</think>" later.</think>red',
    "code in it": "<think>```\nx = '</think>'\n```</think>red",
}


@pytest.mark.parametrize("form", CUT)
def test_marks_at_a_certain_place_are_cut_and_counted(form):
    answer = to_completion(completion(CUT[form]), CONFIG)
    assert (answer.text, answer.marks) == ("red", "cut")
    assert Act.of(answer).finish_reason == Lapse.MARKS_CUT
    assert spoken(CUT[form]) == "red"


@pytest.mark.parametrize("form", REASONING)
def test_reasoning_at_the_beginning_is_cut(form):
    answer = to_completion(completion(REASONING[form]), CONFIG)
    assert answer.text == "red"
    assert answer.reasoning
    assert spoken(REASONING[form]) == "red"


@pytest.mark.parametrize(
    "content",
    [
        *("</think>red", "\n</think>\n\nred", "<think>\n</think>\n\nred", "red\n</think>"),
        *("blue?\n</think>\n\nred", "<think>green?</think>red"),
    ],
)
def test_a_stray_tag_beside_reasoning_is_cut(content):
    answer = to_completion(completion(content, reasoning_content="blue?"), CONFIG)
    assert (answer.text, answer.reasoning) == ("red", "blue?")


def test_an_answer_that_ended_in_its_reasoning_has_no_text():
    for text in ("<think>blue? Or", "<thinking>blue? Or", "<|channel|>analysis<|message|>blue? Or"):
        answer = to_completion(completion(text, finish_reason="length"), CONFIG)
        assert (answer.text, answer.reasoning) == ("", "blue? Or")
        assert Act.of(answer).finish_reason == Lapse.CUT


def test_reasoning_without_an_end_is_left_and_counted():
    answer = to_completion(completion("<think>blue? <answer>red</answer>"), CONFIG)
    assert (answer.text, answer.marks) == ("<think>blue? <answer>red</answer>", "left")
    assert Act.of(answer).finish_reason == Lapse.MARKS_LEFT


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("<s>old</s>", "left"),
        ("<|im_end|>", "left"),
        ("</s>", "left"),
        ("ChatML ends a turn with <|im_end|>", "left"),
        ("The tag is </s>", "left"),
        ("A turn ends with <|im_end|>, and Llama's with </s>.", "left"),
        ("Write <s>old</s>", ""),
        ("Write <s>old</s> and <s>older</s>.", ""),
        ("Use `</think>` to end it.", ""),
        ("`<|im_end|>`", ""),
        ('He wrote "</think>" there.', ""),
        ("```html\n<s>a</s>\n</s>\n```", ""),
        ("```\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n```", ""),
        ('{"end": "</think> is the tag", "next": "<|im_end|>"}', "left"),
        ("if a < b | c > d: <think about it>", ""),
        ('{"text": "Write <|channel|>final<|message|>red<|return|> then."}', "left"),
        ("It writes `<|channel|>final<|message|>red`.", ""),
        ("f <| x |> g", ""),
        ("<b>bold</b> <i>it</i> <reason>", ""),
        ("The final analysis: red", ""),
        ("analysis of red", ""),
    ],
)
def test_an_answer_about_marks_stays_whole(text, marks):
    found = visible(text)
    assert (found.text, found.cut) == (text, ())
    assert ("left" if found.left else "") == marks


@pytest.mark.parametrize(
    "text",
    [
        "<reasoning>hm</reasoning><answer>red</answer>",
        "red<|im_end|>",
        "<|channel|>final<|message|>red",
        "<thinking>hm</thinking>red",
        "red</s>",
    ],
)
def test_what_the_prompt_mentions_stays(text):
    request = {"messages": [{"role": "user", "content": f"Explain this: {text}"}]}
    answer = to_completion(completion(text), CONFIG, request)
    assert (answer.text, answer.marks) == (text, "")
    claude = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    config = ClaudeChatConfig(model="c")
    assert to_claude_completion(claude, config, request).text == text
    assert to_claude_completion(claude, config).text != text


def test_a_second_tag_in_the_answer_stays():
    assert visible("hm</think>Use </think> to end it.").text == "Use </think> to end it."
    assert visible("<think>hm</think>Use </think> to end it.").text == "Use </think> to end it."


def test_thoughts_are_cut_where_the_prompt_asks_for_them():
    request = {"messages": [{"role": "user", "content": "Think in <think> tags."}]}
    assert to_completion(completion("<think>hm</think>red"), CONFIG, request).text == "red"


def test_marks_do_not_keep_an_answer_from_being_counted_otherwise():
    assert Act.of(Completion("", marks="cut")).finish_reason == Lapse.EMPTY
    assert Act.of(Completion("x", "length", marks="left")).finish_reason == Lapse.CUT
    assert Act.of(Completion("x", "content_filter", marks="cut")).finish_reason == "content_filter"
