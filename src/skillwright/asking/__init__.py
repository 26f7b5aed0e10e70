"""Request JSON from a model, for all learners, with repair, faults and provenance.

A reply of another form is requested once more; then it is an `AskFault`. A fault is never treated
as an empty answer: an unreachable model does not mean that there was nothing to learn.
"""

from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from skillwright.core import (
    ChatModel,
    Failure,
    FailureCause,
    Message,
    ModelError,
    Purpose,
    Sampling,
)
from skillwright.core.jsonio import digest
from skillwright.models.leftovers import DROPPED
from skillwright.models.structured import ask_for_reply
from skillwright.rollout.transcript import estimate_tokens

ReplyT = TypeVar("ReplyT", bound=BaseModel)

__all__ = ["Answer", "AskFault", "Asked", "Question", "ask"]


class Asked(Protocol):
    """A model in a role, such as the optimizer or the teacher, with the limits of that role."""

    @property
    def model(self) -> ChatModel:
        """The model to ask."""

    @property
    def sampling(self) -> Sampling:
        """The decoding settings; the seed is set per question."""

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum tokens of a prompt (by `estimate_tokens`); longer ones are not sent."""

    @property
    def repair_rounds(self) -> int:
        """Maximum number of further requests after an unusable reply."""

    @property
    def as_written(self) -> bool:
        """Whether replies are not repaired: only strict JSON of the requested form is accepted."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        name: Its name in faults.
        system: The system message.
        user: The user message.
        purpose: The purpose under which its usage is counted.
        role: The name of the model's role in messages.
        if_too_long: Advice if the prompt exceeds the limit.
        seed: The seed of the sampling; ``None`` leaves it to the endpoint.
        max_tokens: Maximum tokens of the reply; ``None`` is the role's own limit.
    """

    name: str
    system: str
    user: str
    purpose: Purpose
    role: str
    if_too_long: str
    seed: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AskFault:
    """A question without a usable reply. It never means that there was nothing to say.

    Attributes:
        call: The question's name.
        failure: The cause and the message.
        prompt_digest: The digest of its prompt.
    """

    call: str
    failure: Failure
    prompt_digest: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "call": self.call,
            "failure": self.failure.to_dict(),
            "prompt_digest": self.prompt_digest,
        }


@dataclass(frozen=True, slots=True)
class Answer(Generic[ReplyT]):
    """A reply in the requested form, or the fault instead.

    Attributes:
        repairs: One note per repair of the reply, and per part of it that was not read.
    """

    reply: ReplyT | AskFault
    prompt_digest: str
    repairs: tuple[str, ...] = ()

    @property
    def left_edits(self) -> int:
        """The number of edits in the reply that were not read."""
        return sum(note.startswith("edit" + DROPPED) for note in self.repairs)


async def ask(asked: Asked, question: Question, reply_type: type[ReplyT]) -> Answer[ReplyT]:
    """Ask, and return the reply or the fault; a fault does not cancel other questions.

    Args:
        asked: The model, with its limits.
        question: The question.
        reply_type: The form of the reply.
    """
    messages: list[Message] = [
        {"role": "system", "content": question.system},
        {"role": "user", "content": question.user},
    ]
    prompt_digest = digest(messages)

    def fault(failure: Failure) -> Answer[ReplyT]:
        return Answer(AskFault(question.name, failure, prompt_digest), prompt_digest)

    tokens = sum(estimate_tokens(message["content"]) for message in messages)
    if tokens > asked.max_prompt_tokens:
        said = (
            f"nothing was sent: the prompt has about {tokens} tokens, over the {question.role}'s "
            f"max_prompt_tokens = {asked.max_prompt_tokens}. {question.if_too_long}"
        )
        return fault(Failure(FailureCause.MODEL_REFUSED, said))
    max_tokens = question.max_tokens or asked.sampling.max_tokens
    try:
        read = await ask_for_reply(
            asked.model,
            messages,
            reply_type,
            sampling=replace(asked.sampling, seed=question.seed, max_tokens=max_tokens),
            purpose=question.purpose,
            repair_rounds=asked.repair_rounds,
            as_written=asked.as_written,
        )
    except ModelError as error:
        return fault(Failure.of(error))
    return Answer(read.value, prompt_digest, read.repairs)
