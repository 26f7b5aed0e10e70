"""Write a skill's description with a model, in one question."""

from functools import cache
from importlib import resources
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from skillwright.asking import Asked, AskFault, Question, ask
from skillwright.bank.triggers import (
    DESCRIPTION_LIMIT,
    TaskWords,
    plain_prose,
    unfit_for_description,
)
from skillwright.core import Purpose
from skillwright.core.fence import fenced

_PROMPTS: Final = 12
_PROMPT_LENGTH: Final = 600


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


async def ask_for_description(asked: Asked, words: TaskWords) -> str | AskFault:
    """Ask a model for a description.

    Args:
        asked: The model and its limits.
        words: The tasks; only the first twelve prompts are shown.

    Returns:
        A description that passes lint, or the fault.
    """
    prompts = [plain_prose(one, _PROMPT_LENGTH) for one in words.prompts[:_PROMPTS]]
    parts = [
        f"## Tasks\n\n{fenced('task', words.subject)}",
        f"## Rules\n\n{fenced('skill', '; '.join(words.about) or '(none)')}",
        "## Prompts\n\n" + "\n".join(fenced("task", one) for one in prompts),
    ]
    question = Question(
        name="describe",
        system=_system(),
        user="\n\n".join(parts),
        purpose=Purpose.TEACHER,
        role="optimizer",
        if_too_long="Export with --no-model, which calls no model.",
    )
    answer = await ask(asked, question, DescriptionReply)
    reply = answer.reply
    return reply if isinstance(reply, AskFault) else reply.description


@cache
def _system() -> str:
    file = resources.files("skillwright.bank") / "prompts" / "describe.md"
    return file.read_text(encoding="utf-8")
