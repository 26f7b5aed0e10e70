"""A text-only expert for household games: it reads, remembers, and follows every good rule."""

from collections.abc import Sequence

from skillwright.worlds.alfworld.scripted import Belief, decide, hear
from skillwright.worlds.scripted.skilltext import EXPERT_CONDUCT, read_habits


class Searcher:
    """Plays one game from observations, commands and its skill, never from the world's state.

    Of the skill only the storage habits matter; the expert has rules of its own.
    """

    def __init__(self, skill: str = "") -> None:
        self._habits = read_habits(skill)
        self._belief = Belief()

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Choose the next command; ``look`` where none of the admissible ones helps."""
        shown = f"{observation}\n\nAdmissible commands: {', '.join(admissible)}"
        self._belief = hear(self._belief, shown)
        command = decide(self._belief, EXPERT_CONDUCT, self._habits, seed=0)
        self._belief.act(command)
        return command
