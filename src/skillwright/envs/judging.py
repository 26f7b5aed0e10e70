"""A model that judges an episode: by sentences that are true of it or not, or in another form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

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


class Finding(BaseModel):
    """What a judge says of one sentence: whether it is true, and why."""

    met: bool
    reasoning: str = ""


class _Findings(BaseModel):
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
