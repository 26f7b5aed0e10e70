"""The dialect of Anthropic's messages. Source: Anthropic's API reference."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Completion, Message, ModelError, ModelRefused, Sampling
from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.dialects.claude_errors import fault_of_reply
from skillwright.models.dialects.claude_reply import DIALECT, join_events, to_completion
from skillwright.models.http.client import HttpReply, is_stream
from skillwright.models.http.endpoint import Dialect, bearer, chosen
from skillwright.models.http.wire import mapping, without_none

_Block = dict[str, Any]
_Turn = dict[str, Any]  # {"role", "content": [blocks]}

_BEGINNING = "(The conversation begins.)"
_ROOM = 1024  # tokens beside the thinking
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_NOTHING = "(nothing)"  # an empty block is an error


@dataclass(frozen=True, slots=True)
class ClaudeChat(Dialect[ClaudeChatConfig]):
    """Anthropic's messages."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of the key, the version and the betas."""
        by_name = {"x-api-key": key} if key else {}
        key_header = by_name if self.config.key_header == "x-api-key" else bearer(key)
        betas = {"anthropic-beta": ",".join(self.config.betas)} if self.config.betas else {}
        return {"anthropic-version": self.config.api_version, **key_header, **betas}

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Put a call into JSON; the API has no seeds, and these are left out.

        Leading system messages become the ``system`` field, later ones words of the user; turns of
        one role are merged, and a conversation that an assistant begins is given a first turn.
        """
        config = self.config
        self._refuse_what_is_missing(sampling)
        system, turns = _conversation(messages)
        body: dict[str, Any] = {
            "model": config.model,
            "max_tokens": self._max_tokens(sampling),
            "messages": turns,
            **without_none(
                {
                    "system": [{"type": "text", "text": system}] if system else None,
                    "tools": [_tool(tool) for tool in tools] or None,
                    "temperature": chosen("temperature", sampling, config),
                    "top_p": chosen("top_p", sampling, config),
                    "top_k": config.top_k,
                    "stop_sequences": list(sampling.stop) or None,
                    "thinking": self._thinking(),
                    "output_config": self._output_config(sampling) or None,
                    "stream": config.stream or None,
                }
            ),
        }
        if config.prompt_cache != "off":
            _mark_for_cache(body, config.prompt_cache)
        return body | config.extra_body

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error that a reply is, or ``None``."""
        return fault_of_reply(reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; see `skillwright.models.dialects.claude_reply.to_completion`."""
        del request
        payload = join_events(payload, self.config) if is_stream(payload) else payload
        return to_completion(payload, self.config)

    def _refuse_what_is_missing(self, sampling: Sampling) -> None:
        if sampling.logprobs is not None:
            raise ModelRefused("nothing was sent: Claude gives no log-probabilities.")
        if any(not stop.strip() for stop in sampling.stop):
            raise ModelRefused("nothing was sent: Claude takes no stop text of blanks only.")
        sampled = sampling.temperature is not None or sampling.top_p is not None
        if sampled and self.config.refuses_sampling:
            raise ModelRefused(
                f"nothing was sent: model {self.config.model!r} under api_version "
                f"{self.config.api_version} takes no temperature or top_p; leave them out."
            )
        if problem := self.config.why_not_while_thinking(sampling.temperature, sampling.top_p):
            raise ModelRefused(f"nothing was sent: {problem}.")
        if (sampling.temperature or 0) > 1:
            raise ModelRefused("nothing was sent: Claude takes temperatures from 0 to 1.")

    def _max_tokens(self, sampling: Sampling) -> int:
        asked: int = chosen("max_tokens", sampling, self.config)
        budget = self.config.thinking_budget or 0
        # The API demands more than the budget, and what is left of it has to hold an answer.
        return max(asked, budget + min(asked, _ROOM))

    def _thinking(self) -> dict[str, Any] | None:
        if self.config.thinking == "server_default":
            return None
        fields = {"type": self.config.thinking, "budget_tokens": self.config.thinking_budget}
        return without_none(fields)

    def _output_config(self, sampling: Sampling) -> dict[str, Any]:
        schema = sampling.json_schema
        form = None if schema is None else {"type": "json_schema", "schema": schema}
        return without_none({"effort": self.config.effort, "format": form})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = mapping(tool.get("function"))
    return {
        "name": function.get("name"),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
        **without_none({name: function.get(name) for name in ("description", "strict")}),
    }


def _conversation(messages: Sequence[Message]) -> tuple[str, list[_Turn]]:
    """Part a conversation into the system text and alternating turns that a user begins."""
    system: list[str] = []
    turns: list[_Turn] = []
    for message in messages:
        if message["role"] in ("system", "developer") and not turns:
            system.append(message["content"])
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_text(_BEGINNING)]})
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message)
    for turn in turns:
        # Results come first in a turn, as the API demands; the sort keeps their order.
        turn["content"].sort(key=lambda block: block.get("type") != "tool_result")
        turn["content"] = turn["content"] or [_text(_NOTHING)]
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last.get("type") == "text":
            turns[-1]["content"][-1] = {**last, "text": last["text"].rstrip() or _NOTHING}
    return "\n\n".join(filter(None, system)), turns


def _blocks(message: Message) -> Iterable[_Block]:
    native = message.get("native") or {}
    if native.get("dialect") == DIALECT:
        return _as_sent(native["content"], message.get("tool_calls") or ())
    if message["role"] == "tool":
        call_id = message.get("tool_call_id", "")
        result = message["content"] or _NOTHING
        return [{"type": "tool_result", "tool_use_id": call_id, "content": result}]
    said = [_text(message["content"])] if message["content"].strip() else []
    return said + [_tool_use(call) for call in message.get("tool_calls") or ()]


def _as_sent(content: Sequence[_Block], calls: Sequence[Mapping[str, Any]]) -> list[_Block]:
    """Return an answer's blocks with its calls as the conversation has them.

    From the first call on that nobody answered all is left out. So are blank texts and a thought
    at the end, which the API writes and does not take back.
    """
    # Copies, as marks for the cache may be written on them; thinking takes none.
    blocks: list[_Block] = []
    left = list(calls)
    for block in content:
        kind = block.get("type")
        if kind == "tool_use" and not left:
            break
        if kind == "tool_use":
            blocks.append({**block, **_tool_use(left.pop(0))})
        elif kind != "text" or block["text"].strip():
            blocks.append(dict(block))
    while blocks and blocks[-1].get("type") in _THOUGHTS:
        blocks.pop()
    return blocks


def _text(words: str) -> _Block:
    return {"type": "text", "text": words}


def _tool_use(call: Mapping[str, Any]) -> _Block:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):  # another dialect's model wrote it
        arguments = {"arguments": function["arguments"]}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _mark_for_cache(body: dict[str, Any], ttl: str) -> None:
    """Mark what later calls repeat: tools, system text, and a conversation that goes on.

    The first turn of a conversation is not marked: most calls have only that one, and writing
    what nobody reads again costs a quarter more.
    """
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}
    stable = body.get("system") or body.get("tools")
    if stable:  # the prefix is tools, then system, so one mark covers both
        stable[-1]["cache_control"] = mark
    turns = body["messages"]
    if len(turns) > 1 and turns[-1]["role"] == "user":
        turns[-1]["content"][-1]["cache_control"] = mark
