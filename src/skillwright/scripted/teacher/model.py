"""A scripted teacher as a chat model: it reads the prompt and lets a mind answer."""

from collections.abc import Sequence
from typing import Any, Protocol

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.scripted.answering import answered
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.teacher.prompt import Assignment, read_assignment

_PROSE = (
    "I am a scripted teacher. I read trajectories and write skills; I cannot tell what this "
    "message asks for, or there is nothing in it that I can read."
)

Written = dict[str, Any]
"""A skill, a lesson or a change, as the prompt asks for it."""


class Mind(Protocol):
    """What a teacher knows about one kind of world. ``None`` means that it can read nothing."""

    def successes(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write the principles that successes of a category show."""
        ...

    def failures(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write the lessons that failures of a category teach."""
        ...

    def general(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write what helps in every category."""
        ...

    def place(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write what holds in one place."""
        ...

    def evolve(self, asked: Assignment, luck: Luck) -> list[Written] | None:
        """Write the changes of a bank that failures ask for."""
        ...


class ScriptedTeacher:
    """Writes skills from trajectories, as a language model would.

    It stands in for a strong model where none is at hand. It looks at the text of its messages and
    at ``sampling.seed``, and at nothing else; equal questions get equal answers.

    Args:
        identity: Names it in records.
        mind: What it knows.
    """

    is_scripted = True

    def __init__(self, identity: str, mind: Mind) -> None:
        self.identity = identity
        self._mind = mind

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with the JSON that the prompt asks for, or with prose where it asks for none."""
        del tools, purpose
        said = {message["role"]: message["content"] for message in reversed(messages)}
        # Half a surrogate pair is no text, and nothing could be derived from it.
        user = said.get("user", "").encode(errors="replace").decode()
        reply = self._reply(said.get("system", ""), user, sampling.seed or 0)
        text = _PROSE if reply is None else dumps(reply, indent=1)
        return answered(text, messages, self.identity)

    def _reply(self, system: str, user: str, seed: int) -> Written | None:
        title = system.strip().partition("\n")[0].strip()
        asked = read_assignment(user)
        luck = Luck(derive_seed("teacher", title, seed, digest([t.id for t in asked.trajectories])))
        match title:
            case "# Distil: successes":
                return _under("skills", self._mind.successes(asked, luck))
            case "# Distil: failures":
                return _under("lessons", self._mind.failures(asked, luck))
            case "# Distil: general":
                return _under("skills", self._mind.general(asked, luck))
            case "# Distil: place":
                return _under("skills", self._mind.place(asked, luck))
            case "# Evolve":
                changes = self._mind.evolve(asked, luck)
                told = f"{len(asked.trajectories)} failures were read."
                reply = _under("changes", changes)
                return reply if reply is None else {"reasoning": told, **reply}
        return None


def _under(name: str, written: list[Written] | None) -> Written | None:
    return None if written is None else {name: written}
