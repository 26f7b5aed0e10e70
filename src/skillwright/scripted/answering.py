"""What every scripted model is: a program that answers as a chat model would, offline."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling, Usage

_CHARS_PER_TOKEN: Final = 4
_SKILL_MARK: Final = "## Skill\n"


class ScriptedModel(ABC):
    """A program in the place of a language model.

    It looks at the text of its messages and at ``sampling.seed``, and at nothing else; equal
    questions get equal answers. Its identity begins with ``scripted:``.
    """

    identity: str
    is_scripted = True

    @abstractmethod
    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return what it says."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer, with about the tokens that a language model would have taken."""
        del tools, purpose
        text = self.reply(messages, sampling.seed or 0)
        read = sum(len(message["content"]) for message in messages)
        usage = Usage(
            calls=1,
            input_tokens=read // _CHARS_PER_TOKEN,
            output_tokens=len(text) // _CHARS_PER_TOKEN,
        )
        return Completion(text, model=self.identity, usage=usage)


def skill_in(messages: Sequence[Message]) -> str:
    """Return the text under the skill heading of the first system message, or ""."""
    return first_of(messages, "system").partition(_SKILL_MARK)[2]


def first_of(messages: Sequence[Message], role: str) -> str:
    """Return the first message of a role, or ""; what follows it is a complaint about the answer.

    Half a surrogate pair is no text, and nothing could be derived from it: it is replaced.
    """
    text = next((m["content"] for m in messages if m["role"] == role), "")
    return text.encode(errors="replace").decode()


def heading_of(prompt: str) -> str:
    """Return the first line of a prompt, which says what is asked for."""
    return prompt.strip().partition("\n")[0].strip()
