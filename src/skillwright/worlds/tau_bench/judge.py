"""A model that judges sentences about an episode."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from skillwright.core import (
    JudgeError,
    Message,
    ModelError,
    ModelRefused,
    Purpose,
    RequestRefused,
    Sampling,
    Usage,
)
from skillwright.core.fence import fenced
from skillwright.core.seeds import derive_seed
from skillwright.envs.side_models import Counted, shared_model
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig
from skillwright.worlds.tau_bench.prompts import prompt

if TYPE_CHECKING:
    from skillwright.models import ModelConfig


def judge_endpoint(config: TauBenchEnvConfig) -> "ModelConfig":
    """Return the judge's endpoint: the simulated user's, with ``judge_settings``."""
    from skillwright.worlds.tau_bench.user_model import user_endpoint

    settings = {**config.user_settings, **config.judge_settings}
    return user_endpoint(replace(config, user_settings=settings))


class _Sentence(BaseModel):
    met: bool
    reasoning: str = ""


class _Verdict(BaseModel):
    results: list[_Sentence] = Field(min_length=1)


class Court:
    """Asks for the votes on one episode, and counts their usage.

    Attributes:
        usage: The usage so far.
    """

    def __init__(self, config: TauBenchEnvConfig, seed: Any) -> None:
        self._config, self._seed = config, seed or 0
        self.usage = Usage()

    async def votes(self, sentences: Sequence[str], transcript: str) -> list[list[dict[str, Any]]]:
        """Return per sentence the votes, each with ``met`` and ``reasoning``.

        Raises:
            JudgeError: It gave no verdict on every sentence, cannot be reached, or used more than
                ``judge_max_tokens``.
            ModelRefused: Its server refuses the key or the model.
        """
        from skillwright.models import make_model
        from skillwright.models.structured import ask_json

        listed = "\n".join(f"{at}. {one}" for at, one in enumerate(sentences, 1))
        asked = f"{fenced('task_conversation', transcript)}\n\nSentences:\n{listed}"
        messages: list[Message] = [
            {"role": "system", "content": prompt("assertions")},
            {"role": "user", "content": asked},
        ]
        model = Counted(await shared_model(judge_endpoint(self._config), make_model))
        given: list[list[dict[str, Any]]] = [[] for _ in sentences]
        for vote in range(self._config.judge_votes):
            seed = derive_seed("tau_bench judge", self._seed, vote)
            try:
                found = await ask_json(
                    model,
                    messages,
                    _Verdict,
                    sampling=Sampling(seed=seed),
                    purpose=Purpose.JUDGE,
                    repair_rounds=1,
                )
            except ModelError as error:
                if isinstance(error, ModelRefused) and not isinstance(error, RequestRefused):
                    raise
                raise JudgeError(f"the judge gave no verdict: {error}") from error
            finally:
                self.usage += model.usage
                model.usage = Usage()
            if len(found.results) != len(sentences):
                counts = f"{len(found.results)} verdicts on {len(sentences)} sentences"
                raise JudgeError(f"the judge gave {counts}")
            used = self.usage.input_tokens + self.usage.output_tokens
            if used > (most := self._config.judge_max_tokens):
                raise JudgeError(f"the judge used {used:,} tokens; judge_max_tokens is {most:,}")
            for votes, one in zip(given, found.results, strict=True):
                votes.append(one.model_dump())
        return given


def holds(votes: Sequence[dict[str, Any]]) -> bool:
    """Tell whether most votes say that a sentence is true."""
    return sum(bool(one["met"]) for one in votes) * 2 > len(votes)
