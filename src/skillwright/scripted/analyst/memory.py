"""What an analyst is told about earlier steps: what was tried, and what became of it."""

import re
from dataclasses import dataclass

from skillwright.scripted.analyst.meaning import are_alike, says
from skillwright.scripted.skilltext import Rule

_NEXT_STEP = re.compile(r"^(?=Step \d+: )", re.MULTILINE)
_STEP = re.compile(r"Step \d+: (\w+)")
_EDIT = re.compile(
    r"^- (?P<op>append|insert_after|replace|delete|[a-z]+_rules?|clarify|rewrite)"
    r'(?: "(?P<target>.*?)")?(?:: (?P<content>.*))?$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EarlierStep:
    """One step."""

    action: str  # what the gate decided (``accept``, ``reject``, ...), or that it was not asked
    texts: tuple[str, ...]  # what the step's edits said, each on one line
    deleted: tuple[str, ...]  # lines that they were to take out

    @property
    def was_refused(self) -> bool:
        """A candidate was judged and did not replace the skill."""
        return self.action in {"reject", "undecided"}

    @property
    def lessons(self) -> frozenset[Rule]:
        """The rules about which it taught something good, or took out something harmful."""
        taught = {say.rule for text in self.texts for say in says(text) if not say.is_harmful}
        cleared = {say.rule for text in self.deleted for say in says(text) if say.is_harmful}
        return frozenset(taught | cleared)


@dataclass(frozen=True, slots=True)
class Memory:
    """The steps so far, oldest first."""

    steps: tuple[EarlierStep, ...] = ()

    def has_tried(self, text: str) -> bool:
        """Tell whether a step said the same, in these or other words."""
        return any(are_alike(text, tried) for step in self.steps for tried in step.texts)

    def used_words(self, text: str) -> bool:
        """Tell whether a step that was refused used exactly these words."""
        return any(text in tried for step in self.steps if step.was_refused for tried in step.texts)

    @property
    def spoilt_lessons(self) -> frozenset[Rule]:
        """Lessons of the last step that was judged, where it was refused.

        If they still seem needed, something else in that step may have been to blame.
        """
        judged = [step for step in self.steps if step.was_refused or step.action == "accept"]
        return judged[-1].lessons if judged and judged[-1].was_refused else frozenset()


def read_memory(text: str) -> Memory:
    """Read the steps as they are told to analysts."""
    blocks = [(_STEP.match(block), block) for block in _NEXT_STEP.split(text)]
    return Memory(tuple(_step(head[1], block) for head, block in blocks if head))


def _step(action: str, block: str) -> EarlierStep:
    edits = list(_EDIT.finditer(block))
    texts = tuple(edit["content"] for edit in edits if edit["content"])
    deleted = tuple(edit["target"] for edit in edits if edit["op"] == "delete" and edit["target"])
    return EarlierStep(action, texts, deleted)
