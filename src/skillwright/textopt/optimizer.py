"""The model that reads trajectories and proposes edits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from skillwright.asking import Answer, Question, ask
from skillwright.core import ChatModel, Purpose, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.rollout.transcript_text import estimate_tokens
from skillwright.textopt.prompts import load_prompt

ReplyT = TypeVar("ReplyT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Call:
    """One question to the optimizer model.

    Attributes:
        name: Prefix of the ids of proposals that it gives (``s3.f0``).
        prompt: Name of the system prompt.
        user: The user message.
        purpose: What its tokens are counted under.
        seed: Seeds the sampling, together with ``name``; ``None`` leaves it to the endpoint.
        max_tokens: How long the reply may be; ``None`` is the optimizer's own limit.
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
class Optimizer:
    """A chat model in the role of the optimizer.

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
        question = Question(
            name=call.name,
            system=self._system(call.prompt, call.addendum),
            user=call.user,
            purpose=call.purpose,
            role="optimiser",  # stored name
            if_too_long=(
                "Raise it, or lower minibatch_size, merge_batch_size or the limits on edits."
            ),
            seed=None if call.seed is None else derive_seed("optimizer", call.seed, call.name),
            max_tokens=call.max_tokens,
        )
        return await ask(self, question, reply_type)
