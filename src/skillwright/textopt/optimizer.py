"""The mind that reads trajectories and proposes edits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

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
from skillwright.core.seeds import derive_seed
from skillwright.models import ask_json
from skillwright.rollout.transcript_text import estimate_tokens
from skillwright.textopt.prompts import load_prompt
from skillwright.textopt.proposal import AnalystFault

ReplyT = TypeVar("ReplyT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Call:
    """One question to the optimiser model.

    Attributes:
        name: Prefix of the ids of proposals that come of it (``s3.f0``).
        prompt: Name of the system prompt.
        user: The user message.
        purpose: What its tokens are counted under.
        seed: Seeds the sampling, together with ``name``; ``None`` leaves it to the endpoint.
        max_tokens: How long the reply may be; ``None`` is the optimiser's own limit.
        addendum: Name of a prompt that is added to the system prompt, or ``""``.
    """

    name: str
    prompt: str
    user: str
    purpose: Purpose
    seed: int | None = None
    max_tokens: int | None = None
    addendum: str = ""


@dataclass(frozen=True, slots=True)
class Answer(Generic[ReplyT]):
    """A reply in the form that was asked for, or the fault in its place."""

    reply: ReplyT | AnalystFault
    prompt_digest: str


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A chat model in the role of the optimiser.

    Attributes:
        model: Who is asked.
        env_prompts: An environment's own prompts by name; an absent one means the generic prompt.
        sampling: How it decodes; the seed is set per call.
        max_prompt_tokens: A prompt that is longer is not sent (by `estimate_tokens`).
        repair_rounds: How often an unusable reply is asked for again.
    """

    model: ChatModel
    env_prompts: Mapping[str, str] = field(default_factory=dict)
    sampling: Sampling = Sampling(max_tokens=16_384)
    max_prompt_tokens: int = 60_000
    repair_rounds: int = 1

    def room(self, prompt: str, user: str, addendum: str = "") -> int:
        """Return how many tokens may be added to a user message."""
        used = estimate_tokens(self._system(prompt, addendum)) + estimate_tokens(user)
        return self.max_prompt_tokens - used

    def _system(self, prompt: str, addendum: str) -> str:
        names = (prompt, addendum) if addendum else (prompt,)
        return "\n\n".join(load_prompt(name, self.env_prompts) for name in names)

    async def ask(self, call: Call, reply_type: type[ReplyT]) -> Answer[ReplyT]:
        """Ask, and return the reply or the fault; a fault leaves sibling calls alone."""
        system = self._system(call.prompt, call.addendum)
        messages: list[Message] = [
            {"role": "system", "content": system},
            {"role": "user", "content": call.user},
        ]
        prompt_digest = digest(messages)
        tokens = estimate_tokens(system) + estimate_tokens(call.user)
        if tokens > self.max_prompt_tokens:
            failure = Failure(
                FailureCause.MODEL_REFUSED,
                f"nothing was sent: the prompt has about {tokens} tokens, over the optimiser's "
                f"max_prompt_tokens = {self.max_prompt_tokens}. Raise it, or lower "
                "minibatch_size, merge_batch_size or the limits on edits.",
            )
            return Answer(AnalystFault(call.name, failure, prompt_digest), prompt_digest)
        seed = None if call.seed is None else derive_seed("optimizer", call.seed, call.name)
        max_tokens = call.max_tokens or self.sampling.max_tokens
        try:
            reply = await ask_json(
                self.model,
                messages,
                reply_type,
                sampling=replace(self.sampling, seed=seed, max_tokens=max_tokens),
                purpose=call.purpose,
                repair_rounds=self.repair_rounds,
            )
        except ModelError as error:
            fault = AnalystFault(call.name, Failure.of(error), prompt_digest)
            return Answer(fault, prompt_digest)
        return Answer(reply, prompt_digest)
