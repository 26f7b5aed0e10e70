"""Something that a teacher can teach, as a principle and as a lesson."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Evidence = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Teaching:
    """Something worth knowing."""

    key: str  # what it is about: a rule, or the name of another insight
    category: str  # the category that it is for, "" for every one
    name: str  # two to five words
    principles: tuple[str, ...]  # Sentences, any of which teaches it; the first is used first
    applicability: str  # when it applies; reads well after "Apply"
    failure_point: str  # the mistake; reads well after "Avoid:"
    flawed_reasoning: str  # what whoever makes it believes
    corrective_action: str  # what to do; reads well after "Instead:"

    def principle(self, evidence: Evidence, wording: int = 0) -> dict[str, Any]:
        """Write it as a skill."""
        return {
            "name": self.name,
            "principle": self.principles[wording % len(self.principles)],
            "applicability": self.applicability,
            "evidence": evidence,
        }

    def lesson(self, evidence: Evidence, wording: int = 0) -> dict[str, Any]:
        """Write it as a lesson."""
        return {
            **self.principle(evidence, wording),
            "failure_point": self.failure_point,
            "flawed_reasoning": self.flawed_reasoning,
            "corrective_action": self.corrective_action,
        }


def cited(shown: Mapping[str, Sequence[int]]) -> Evidence:
    """Cite turns, as the prompts ask for it."""
    return [{"id": name, "turns": list(turns)} for name, turns in shown.items()]


def whole(names: Iterable[str]) -> Evidence:
    """Cite whole trajectories, each once."""
    return [{"id": name, "turns": []} for name in dict.fromkeys(names)]
