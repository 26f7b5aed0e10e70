"""A model that judges an episode: by sentences that are true of it or not, or in another form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, create_model, model_validator

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
from skillwright.core.seeds import derive_seed
from skillwright.envs.side_models import Counted, shared_model

if TYPE_CHECKING:
    from skillwright.models import ModelConfig

_REPAIRS = 2


_WRAPPER = ("role", "type", "name", "id")
"""Keys of messages and tool calls around a verdict."""


def as_text(value: Any) -> str:
    """Write what a judge says in a list or an object as lines of text."""
    if isinstance(value, dict):
        lines = (f"{name}: {said}" for name, one in value.items() if (said := as_text(one)))
        return "\n".join(lines)
    if isinstance(value, list):
        return "\n".join(filter(None, map(as_text, value)))
    return "" if value is None else str(value).strip()


class Verdict(BaseModel):
    """A judge's answer: its text has all that it says besides the other fields.

    Attributes:
        text_field: The name of the field for that text.
        one_answer: A reply with two different ones is asked for again: one may be quoted from the
            agent that is judged.
    """

    text_field: ClassVar[str]
    one_answer: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _with_all_words(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = {name: one for name, one in value.items() if name in cls.model_fields}
        more = {name: one for name, one in value.items() if name not in (*known, *_WRAPPER)}
        said = as_text([known.get(cls.text_field), more])
        return {**known, cls.text_field: said}


class Finding(Verdict):
    """What a judge says of one sentence: whether it is true, and why."""

    text_field: ClassVar[str] = "reasoning"

    met: bool
    reasoning: str = ""


class _Findings(BaseModel):
    one_answer: ClassVar[bool] = True

    results: list[Finding]


Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(slots=True)
class Court:
    """Collects the votes on one episode, and counts their usage.

    Attributes:
        name: Names the seeds.
        seed: The episode's seed, from which the seed of every vote derives.
        settings: Returns the settings of the judge's model.
        usage: The usage so far.
    """

    name: str
    seed: Any
    settings: "Callable[[], ModelConfig]"
    usage: Usage = field(default_factory=Usage)
    _asked: int = 0

    async def vote(self, asked: Sequence[Message], form: type[Answer]) -> Answer:
        """Ask for one vote.

        Raises:
            JudgeError: It gave no valid vote, not even when asked again, or cannot be reached.
            ModelRefused: Its server refuses the key or the model.
        """
        from skillwright.models import make_model
        from skillwright.models.structured import ask_json

        self._asked += 1
        model = Counted(await shared_model(self.settings(), make_model))
        sampling = Sampling(seed=derive_seed(self.name, self.seed, self._asked))
        try:
            return await ask_json(
                model, asked, form, sampling=sampling, purpose=Purpose.JUDGE, repair_rounds=_REPAIRS
            )
        except ModelError as error:
            refused = isinstance(error, ModelRefused) and not isinstance(error, RequestRefused)
            if refused or getattr(error, "for_good", False):  # the run stops for these
                raise
            raise JudgeError(f"the judge gave no verdict: {error}") from error
        finally:
            self.usage += model.usage

    async def findings(self, asked: Sequence[Message], sentences: int) -> list[Finding]:
        """Ask once for a finding on each of some sentences; another number is asked for again.

        Raises as `vote`.
        """
        exact = Annotated[list[Finding], Field(min_length=sentences, max_length=sentences)]
        form = create_model("Findings", __base__=_Findings, results=(exact, ...))
        return (await self.vote(asked, form)).results


def listed(sentences: Sequence[str]) -> str:
    """Return numbered sentences, one per line."""
    return "\n".join(f"{at}. {one}" for at, one in enumerate(sentences, start=1))


def majority(votes: Sequence[Finding]) -> Finding:
    """Return a finding that says what most votes say; a tie is not met."""
    met = 2 * sum(one.met for one in votes) > len(votes)
    return next(one for one in votes if one.met is met)
