"""A text-only expert for household games: it reads, remembers, and follows every good rule."""

from collections.abc import Sequence

from skillwright.scripted.household import Belief, decide, hear
from skillwright.scripted.skilltext import EXPERT_CONDUCT, read_habits

_NO_LUCK = 0


class Searcher:
    """Plays one game from what it is told, as an agent would.

    It sees observations, commands and its skill, never the state of the world: it has to search.
    With the habits of a household in its skill it looks there first.

    Args:
        skill: Skill text. Only its storage habits matter; the expert has rules of its own.
    """

    def __init__(self, skill: str = "") -> None:
        self._habits = read_habits(skill)
        self._belief = Belief()

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Choose the next command; the first observation of a game tells the task.

        Args:
            observation: What the household says.
            admissible: The commands that it would accept.

        Returns:
            One of ``admissible``, unless there is none that helps; then ``look``.
        """
        told = f"{observation}\n\nAdmissible commands: {', '.join(admissible)}"
        self._belief = hear(self._belief, told)
        command = decide(self._belief, EXPERT_CONDUCT, self._habits, _NO_LUCK)
        self._belief.act(command)
        return command
