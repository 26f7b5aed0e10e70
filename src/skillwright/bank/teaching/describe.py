"""Write a skill's description with a model, and ask which skill it would open for a request."""

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from skillwright.asking import Asked, AskFault, Question, ask
from skillwright.bank.triggers import (
    DESCRIPTION_LIMIT,
    Described,
    TaskWords,
    plain_prose,
    unfit_for_description,
)
from skillwright.core import Purpose
from skillwright.core.fence import fenced

_PROMPTS: Final = 12
_PROMPT_LENGTH: Final = 600
_REQUEST_LENGTH: Final = 4_000


def _fit(text: str) -> str:
    if problem := unfit_for_description(plain_prose(text)):
        raise ValueError(f"a description is shown to every agent, and this has {problem}")
    return plain_prose(text)


class DescriptionReply(BaseModel):
    """The JSON of a reply."""

    model_config = ConfigDict(extra="ignore", strict=True)

    description: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=20, max_length=DESCRIPTION_LIMIT),
        AfterValidator(_fit),
    ]


async def ask_for_description(
    asked: Asked, words: TaskWords, current: str = "", seed: int | None = None
) -> str | AskFault:
    """Ask a model for a description.

    Args:
        asked: The model and its limits.
        words: The tasks; only the first twelve prompts, and twelve of other skills, are shown.
        current: The description that is to be improved; "" for a first one.
        seed: Seed of the sampling.

    Returns:
        A description that passes lint, or the fault.
    """
    prompts = [plain_prose(one, _PROMPT_LENGTH) for one in words.prompts[:_PROMPTS]]
    parts = [
        f"## Tasks\n\n{fenced('task', words.subject)}",
        f"## Rules\n\n{fenced('skill', '; '.join(words.about) or '(none)')}",
        "## Prompts\n\n" + "\n".join(fenced("task", one) for one in prompts),
    ]
    if others := [plain_prose(one, _PROMPT_LENGTH) for one in words.others[:_PROMPTS]]:
        parts.append("## Not for these\n\n" + "\n".join(fenced("task", one) for one in others))
    if current:
        parts.append(f"## Description so far\n\n{fenced('skill', plain_prose(current))}")
    question = Question(
        name="describe",
        system=_prompt("describe"),
        user="\n\n".join(parts),
        purpose=Purpose.TEACHER,
        role="optimizer",
        if_too_long="Export with --no-model, which calls no model.",
        seed=seed,
    )
    answer = await ask(asked, question, DescriptionReply)
    reply = answer.reply
    return reply if isinstance(reply, AskFault) else reply.description


@cache
def _prompt(name: str) -> str:
    file = resources.files("skillwright.bank") / "prompts" / f"{name}.md"
    return file.read_text(encoding="utf-8")


class ChoiceReply(BaseModel):
    """The JSON of a choice."""

    model_config = ConfigDict(extra="ignore", strict=True)

    skill: str | None


async def ask_which_opens(
    asked: Asked, skills: Sequence[Described], request: str, seed: int
) -> str | AskFault:
    """Ask a model which skill it would open for a request; "" for none.

    Args:
        asked: The model and its limits.
        skills: The skills that it sees, in this order.
        request: The text of a user.
        seed: Seed of the sampling.
    """
    shown = "\n".join(fenced("skill", f"{one.name}: {one.description}") for one in skills)
    question = Question(
        name="choose",
        system=_prompt("choose"),
        user=f"## Skills\n\n{shown}\n\n## Request\n\n{fenced('task', request[:_REQUEST_LENGTH])}",
        purpose=Purpose.JUDGE,
        role="model",
        if_too_long="Leave --model out, which tests by words.",
        seed=seed,
    )
    reply = (await ask(asked, question, ChoiceReply)).reply
    return reply if isinstance(reply, AskFault) else (reply.skill or "").strip()
