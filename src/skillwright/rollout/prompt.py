"""Put the agent's prompts together: system text with the skill, opening, exchanges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import ConfigError, Message, Turn
from skillwright.core.agent import sendable

SKILL_HEADING = "## Skill"


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """The format of the conversation in a prompt.

    Attributes:
        history_turns: Number of latest exchanges kept after the opening, at least 1; ``None``
            keeps all.

    Raises:
        ConfigError: ``history_turns`` is below 1.
    """

    history_turns: int | None = None

    def __post_init__(self) -> None:
        if self.history_turns is not None and self.history_turns < 1:
            raise ConfigError(
                f"prompt.history_turns is {self.history_turns}; keep at least 1 exchange, "
                "or leave it out to keep them all"
            )

    def identity(self) -> dict[str, Any]:
        """Return the settings as a JSON object, for the episode key."""
        return {"history_turns": self.history_turns}


def render(
    style: PromptStyle,
    opening_messages: Sequence[Message],
    turns_so_far: Sequence[Turn],
    skill_text: str,
) -> tuple[Message, ...]:
    """Build the next prompt of an episode.

    Each turn stores its prompt, so a new prompt adds one exchange to the last and shares its
    messages.

    Args:
        style: The same style for every prompt of the episode.
        opening_messages: The environment's first messages.
        turns_so_far: All turns of the episode, in order, with the prompts that this function built.
        skill_text: Skill for the agent; a blank text adds nothing.
    """
    if not turns_so_far:
        return _with_skill(opening_messages, skill_text)
    last = turns_so_far[-1]
    conversation = (*last.prompt, _said(last), *last.messages)
    if style.history_turns is None or len(turns_so_far) <= style.history_turns:
        return conversation
    # The last prompt had one exchange too many: drop the oldest, right after the opening.
    start = len(turns_so_far[0].prompt)
    oldest = turns_so_far[-style.history_turns - 1]
    return conversation[:start] + conversation[start + 1 + len(oldest.messages) :]


def _said(turn: Turn) -> Message:
    """Return the agent's message for later prompts; of native calls, only those answered."""
    said, act = Message(role="assistant", content=turn.act.text), turn.act
    results = sum(message["role"] == "tool" for message in turn.messages)
    answered = sendable(act.tool_calls, turn.prompt)[:results] if act.tool_calls else ()
    if answered:
        said["tool_calls"] = [call.to_dict() for call in answered]
    if act.native is not None and (answered or act.text.strip()):
        said["native"] = act.native
    return said


def _with_skill(opening: Sequence[Message], skill_text: str) -> tuple[Message, ...]:
    if not skill_text.strip():
        return tuple(opening)
    section = f"{SKILL_HEADING}\n\n{skill_text}"
    for index, message in enumerate(opening):
        if message["role"] == "system":
            extended = message.copy()
            extended["content"] = f"{message['content']}\n\n{section}"
            return (*opening[:index], extended, *opening[index + 1 :])
    return (Message(role="system", content=section), *opening)


def skill_in(prompt: Sequence[Message]) -> str:
    """Return the skill text of a prompt that `render` built, or ``""``."""
    written = next((one["content"] for one in prompt if one["role"] == "system"), "")
    head = f"{SKILL_HEADING}\n\n"
    if written.startswith(head):
        return written.removeprefix(head)
    return written.partition(f"\n\n{head}")[2]


def with_other_skill(prompt: Sequence[Message], given: str, instead: str) -> tuple[Message, ...]:
    """Return a prompt that `render` built, with skill ``given`` replaced by ``instead``."""
    messages = list(prompt)
    section = f"{SKILL_HEADING}\n\n{given}"
    index = next((at for at, one in enumerate(messages) if one["role"] == "system"), None)
    if given.strip() and index is not None:
        bare = messages[index].copy()
        bare["content"] = bare["content"].removesuffix(section).removesuffix("\n\n")
        messages[index : index + 1] = [bare] if bare["content"] else []
    return _with_skill(messages, instead)


def recorded_skill(prompt: Sequence[Message], opening: Sequence[Message]) -> str | None:
    """Return the skill text that `render` put into the first prompt of an episode.

    Returns:
        ``""`` without a skill; ``None`` if the prompt does not start with this opening.
    """
    if tuple(prompt) == tuple(opening):
        return ""
    index = next((at for at, one in enumerate(opening) if one["role"] == "system"), None)
    before = "" if index is None else f"{opening[index]['content']}\n\n"
    written = [message["content"] for message in prompt[index or 0 :][:1]]
    text = "".join(written).removeprefix(f"{before}{SKILL_HEADING}\n\n")
    return text if tuple(prompt) == _with_skill(opening, text) else None
