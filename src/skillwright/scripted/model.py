"""What every scripted model is: a program that answers as a chat model would, offline."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling, Usage
from skillwright.core.seeds import SEED_BITS, derive_seed

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


# The random draws of one turn: every kind of choice has its own, so none disturbs another.
#
# Two agents with the same seed that differ in one rule still make all other choices alike.


class Randomness:
    """What a turn draws from its seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def chance(self, kind: str) -> float:
        """Draw a number in [0, 1); the same one for the same kind of choice."""
        return derive_seed("household", kind, self._seed) / (1 << SEED_BITS)

    def pick(self, kind: str, options: Iterable[str]) -> str:
        """Choose one of several options, which must not be empty.

        Each option draws a number of its own and the lowest is chosen: leaving
        another one out does not change that.
        """
        prefix = f"{kind}|{self._seed}|"
        return min(options, key=lambda option: blake2b((prefix + option).encode()).digest())
