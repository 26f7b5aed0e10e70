"""Tokenize conversations: the chat template, previous answers, and admissible answers.

Answers keep their sampled tokens: the next prompt is the last one, those tokens, and the tokens of
the new text, unless the template rewrites earlier text.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import TemplateError

from skillwright.core import Message
from skillwright.core.jsonio import digest
from skillwright.policy.backend import NoChatTemplate, TargetRefused

_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation in the template's form, up to the start of the answer."""

    messages: tuple[Message, ...]
    rendered: str
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    prompt: Prompt
    ids: tuple[int, ...]
    text: str
    ending: str


@dataclass(slots=True)
class Node:
    """A node in the tree of admissible answers.

    Attributes:
        children: By token; empty at the end of an answer.
        text: The answer that ends here; not every tokenizer reproduces texts.
    """

    children: dict[int, "Node"] = field(default_factory=dict)
    text: str = ""

    @property
    def allowed(self) -> tuple[int, ...]:
        """The ids that may come next, ascending."""
        return tuple(sorted(self.children))


class Speech:
    """A tokenizer with its chat template."""

    def __init__(
        self,
        tokenizer: Any,
        stop_ids: Sequence[int] = (),
        template_settings: Mapping[str, Any] | None = None,
    ) -> None:
        name = getattr(tokenizer, "name_or_path", "") or "the tokenizer"
        if not getattr(tokenizer, "chat_template", None):
            raise NoChatTemplate(
                f"{name!r} has no chat template, so it does not say how a conversation is written. "
                "Take the instruction-tuned model, or put a chat_template.jinja next to the "
                "tokenizer's files."
            )
        if tokenizer.eos_token_id is None:
            raise NoChatTemplate(f"{name!r} has no eos_token; name the token that ends a turn")
        self.tokenizer = tokenizer
        self.end_id: int = tokenizer.eos_token_id
        self.stop_ids = frozenset({self.end_id, *stop_ids})
        self._template_settings = dict(template_settings or {})
        self._said: OrderedDict[int, list[_Said]] = OrderedDict()
        # Episodes of a group begin alike, and have the same commands.
        self._ids = lru_cache(_MOST_REMEMBERED)(self._encoded)
        self._tree = lru_cache(_MOST_REMEMBERED)(self._grown)
        self.encoding = self._digest()

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """Tokenize a conversation."""
        rendered = self._render(messages)
        for said in reversed(self._said.get(id(messages[0]), [])):
            past = said.prompt.rendered + said.text + said.ending
            if _continues(messages, said) and rendered.startswith(past):
                ids = said.ids + self._ids(rendered[len(past) :])
                return Prompt(tuple(messages), rendered, ids)
        return Prompt(tuple(messages), rendered, self._ids(rendered))

    def prompt_of(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[int, ...]:
        """Tokenize a conversation of another agent, without caching it.

        Args:
            messages: The conversation, including native tool calls.
            tools: Available tools in OpenAI's form; see `takes_tools`.

        Raises:
            NoChatTemplate: The template refuses it.
        """
        return self._encoded(self._render(messages, tools))

    @cached_property
    def takes_tools(self) -> bool:
        """Whether the chat template supports tools."""
        asked: list[Message] = [{"role": "user", "content": "?"}]
        tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
        return self._render(asked, [tool]) != self._render(asked)

    def remember(self, prompt: Prompt, token_ids: tuple[int, ...], text: str) -> None:
        """Keep an answer for the next prompt of the episode."""
        ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        ending = self.tokenizer.decode([token_ids[-1]]) if ended else ""
        first = id(prompt.messages[0])
        mine = self._said.setdefault(first, [])
        # Only the latest answer of an episode is needed.
        mine[:] = [one for one in mine if not _continues(prompt.messages, one)]
        mine.append(_Said(prompt, prompt.ids + token_ids, text, ending))
        self._said.move_to_end(first)
        while len(self._said) > _MOST_REMEMBERED:
            self._said.popitem(last=False)

    def forget(self) -> None:
        """Drop all kept answers."""
        self._said.clear()

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of an answer, without its end token."""
        kept = token_ids[:-1] if token_ids and token_ids[-1] in self.stop_ids else token_ids
        return str(self.tokenizer.decode(list(kept), skip_special_tokens=False))

    def answer_ids(self, text: str) -> tuple[int, ...]:
        """Return the tokens of an answer with its end token: a target, or a command."""
        return (*self._ids(text), self.end_id)

    def tree(self, commands: Sequence[str]) -> Node:
        """Return the tree of admissible answers."""
        return self._tree(tuple(commands))

    def walk(
        self, root: Node | None, token_ids: Sequence[int], text: str
    ) -> tuple[tuple[int, ...] | None, ...]:
        """Return the choices of each token of an answer."""
        if root is None:
            return (None,) * len(token_ids)
        choices, node = [], root
        for token in token_ids:
            if token not in node.children:
                raise TargetRefused(
                    f"{text!r} is not among the admissible commands there; a policy that is held "
                    "to them cannot learn to say it"
                )
            choices.append(node.allowed)
            node = node.children[token]
        return tuple(choices)

    def _render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        plain: list[dict[str, Any]] = [
            {"role": one["role"], "content": one["content"]} for one in messages
        ]
        settings = dict(self._template_settings)
        if tools:
            settings["tools"] = list(tools)
            plain = [
                {**one, **_called(message)} for one, message in zip(plain, messages, strict=True)
            ]
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    plain, tokenize=False, add_generation_prompt=True, **settings
                )
            )
        except TemplateError as error:
            roles = ", ".join(dict.fromkeys(one["role"] for one in messages))
            raise NoChatTemplate(
                f"the chat template refuses a conversation of the roles {roles}: {error}"
            ) from error

    def _grown(self, commands: tuple[str, ...]) -> Node:
        root = Node()
        for command in commands:
            node = root
            for token in self.answer_ids(command):
                node = node.children.setdefault(token, Node())
            node.text = command
        return root

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _digest(self) -> str:
        inner = getattr(self.tokenizer, "backend_tokenizer", None)
        vocabulary = self.tokenizer.get_vocab()
        if inner is not None:
            vocabulary = json.loads(inner.to_str())
            # The library changes these at run time; they do not affect ids.
            vocabulary |= {"truncation": None, "padding": None}
        facts = {"template": self.tokenizer.chat_template, "settings": self._template_settings}
        return digest({**facts, "vocabulary": vocabulary, "stop": sorted(self.stop_ids)})


def _called(message: Message) -> dict[str, Any]:
    """Return the native calls of a message for templates: arguments are an object."""
    calls = [
        {**call, "function": {**call["function"], "arguments": _object(call["function"])}}
        for call in message.get("tool_calls") or ()
    ]
    answered = {"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}
    return {**({"tool_calls": calls} if calls else {}), **answered}


def _object(function: Mapping[str, Any]) -> Any:
    try:
        return json.loads(function["arguments"])
    except ValueError:
        return function["arguments"]


def _continues(messages: Sequence[Message], said: _Said) -> bool:
    # Identical, not equal messages, which another episode may have.
    before = said.prompt.messages
    size = len(before)
    if len(messages) <= size or messages[size]["content"] != said.text:
        return False
    return all(one is other for one, other in zip(messages, before, strict=False))
