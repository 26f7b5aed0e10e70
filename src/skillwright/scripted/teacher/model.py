"""A scripted teacher as a chat model: it reads the prompt, and each world answers in its way."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from skillwright.core import Message
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.scripted.answering import ScriptedModel, first_of, heading_of
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.teacher.prompt import Assignment, read_assignment

_PROSE = (
    "I am a scripted teacher. I read trajectories and write skills; I cannot tell what this "
    "message asks for, or there is nothing in it that I can read."
)

Written = dict[str, Any]
"""A skill, a lesson or a change, as the prompt asks for it."""


class ScriptedTeacher(ScriptedModel):
    """Writes skills from trajectories, as a language model would.

    Its methods return ``None`` where they can read nothing. It is no better than a language model:
    now and then it takes chance for a lesson.
    """

    @abstractmethod
    def successes(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write the principles that successes of a category show."""

    @abstractmethod
    def failures(self, asked: Assignment) -> list[Written] | None:
        """Write the lessons that failures of a category teach."""

    @abstractmethod
    def general(self, asked: Assignment) -> list[Written] | None:
        """Write what helps in every category."""

    @abstractmethod
    def place(self, asked: Assignment) -> list[Written] | None:
        """Write what holds in one place."""

    @abstractmethod
    def evolve(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write the changes of a bank that failures ask for."""

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the JSON that the prompt asks for, or prose where it asks for none."""
        # The draws hang on the heading as it was first spelled.
        title = heading_of(first_of(messages, "system"))
        title = title.replace("# Distill: ", "# Distil: ")  # stored name
        asked = read_assignment(first_of(messages, "user"))
        luck = Luck(derive_seed("teacher", title, seed, digest([t.id for t in asked.trajectories])))
        name, preface, written = "skills", {}, None
        match title.removeprefix("# Distil: "):  # stored name
            case "successes":
                written = self.successes(asked, luck)
            case "failures":
                name, written = "lessons", self.failures(asked)
            case "general":
                written = self.general(asked)
            case "place":
                written = self.place(asked)
            case "# Evolve":
                preface = {"reasoning": f"{len(asked.trajectories)} failures were read."}
                name, written = "changes", self.evolve(asked, luck)
        return _PROSE if written is None else dumps({**preface, name: written}, indent=1)
