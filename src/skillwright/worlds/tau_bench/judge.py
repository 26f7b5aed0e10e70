"""A model that judges sentences about an episode."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skillwright.core import JudgeError, Message
from skillwright.core.fence import fenced
from skillwright.envs.judging import Court, Finding, listed, majority
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig
from skillwright.worlds.tau_bench.prompts import prompt

if TYPE_CHECKING:
    from skillwright.models import ModelConfig


def judge_endpoint(config: TauBenchEnvConfig) -> "ModelConfig":
    """Return the judge's endpoint: the simulated user's, with ``judge_settings``."""
    from skillwright.worlds.tau_bench.user_model import user_endpoint

    settings = {**config.user_settings, **config.judge_settings}
    return user_endpoint(replace(config, user_settings=settings))


async def judged(
    court: Court, config: TauBenchEnvConfig, sentences: Sequence[str], transcript: str
) -> list[list[dict[str, Any]]]:
    """Return per sentence the votes, each with ``met`` and ``reasoning``.

    Raises:
        JudgeError: It gave no verdict on every sentence, cannot be reached, or used more than
            ``judge_max_tokens``.
        ModelRefused: Its server refuses the key or the model.
    """
    asked = f"{fenced('task_conversation', transcript)}\n\nSentences:\n{listed(sentences)}"
    messages: list[Message] = [
        {"role": "system", "content": prompt("assertions")},
        {"role": "user", "content": asked},
    ]
    given = []
    for _ in range(config.judge_votes):
        given.append(await court.findings(messages, len(sentences)))
        used = court.usage.input_tokens + court.usage.output_tokens
        if used > (most := config.judge_max_tokens):
            raise JudgeError(f"the judge used {used:,} tokens; judge_max_tokens is {most:,}")
    return [[one.model_dump() for one in of] for of in zip(*given, strict=True)]


def holds(votes: Sequence[dict[str, Any]]) -> bool:
    """Tell whether most votes say that a sentence is true."""
    return majority([Finding.model_validate(one) for one in votes]).met
