"""A scripted optimizer for small models: each step it proposes another kind of text."""

import re
from collections import Counter
from collections.abc import Mapping

from skillwright.models.scripted.prompts import Reading
from skillwright.worlds.scripted.lesson_analyst import Lesson, LessonAnalyst

_TASK = re.compile(r"<task>(.*?)(?:Answer with one of|</task>)", re.DOTALL)
_RIGHT = re.compile(r'Expected "([^"\n]+)"')
_WRONG = Lesson("gave another answer", "", ())
_EXAMPLES, _EXAMPLE_WORDS = 4, 20

KINDS = ("wording", "examples", "most frequent", "order")
"""What is proposed in turn: the labels in words, solved examples, the label that failures expect
most, and the order in which to look at the labels."""

WORDING = {
    "acq": "one company buys another, or shares of it",
    "crude": "oil and gas",
    "earn": "profits, losses and dividends of a company",
    "grain": "wheat, corn and other crops",
    "interest": "rates of banks and bonds",
    "money-fx": "currencies and exchange rates",
    "ship": "ships and ports",
    "trade": "imports, exports and tariffs between countries",
    "son": "a boy of the other person",
    "daughter": "a girl of the other person",
    "father": "a man who has the other person as a child",
    "mother": "a woman who has the other person as a child",
    "husband": "a man married to the other person",
    "wife": "a woman married to the other person",
    "grandfather": "the father of a parent",
    "grandmother": "the mother of a parent",
}


class SmallAnalyst(LessonAnalyst):
    """Proposes one kind of text that neither the skill has nor an earlier step proposed."""

    def __init__(self) -> None:
        super().__init__("scripted:small_analyst", ())

    def _found(
        self, reading: Reading, episodes: Mapping[str, str]
    ) -> list[tuple[Lesson, str, tuple[str, ...]]]:
        failed = [
            (name, " ".join(task[1].split()), right[1])
            for name, body in episodes.items()
            if (task := _TASK.search(body)) and (right := _RIGHT.search(body))
        ]
        known = reading.skill + reading.earlier
        for kind in KINDS if failed else ():
            text = text_of(kind, [(asked, right) for _, asked, right in failed])
            if text and text.split("\n")[0] not in known:
                return [(_WRONG, text, tuple(name for name, _, _ in failed))]
        return []


def text_of(kind: str, failed: list[tuple[str, str]]) -> str:
    """Return the text of a kind, from the questions and right answers of failures, or ""."""
    labels = [label for label, _ in Counter(right for _, right in failed).most_common()]
    match kind:
        case "wording":
            said = [f'"{label}" means: {WORDING.get(label, _spelled(label))}.' for label in labels]
            return "What the answers mean:\n" + "\n".join(said)
        case "examples":
            shown = {right: asked for asked, right in reversed(failed)}
            lines = [
                f'"{" ".join(shown[label].split()[:_EXAMPLE_WORDS])}" -> {label}'
                for label in labels[:_EXAMPLES]
            ]
            return "Solved examples:\n" + "\n".join(lines)
        case "most frequent":
            return f'Most often the answer is "{labels[0]}".'
        case _:
            return f"Look at the answers in this order: {', '.join(labels)}."


def _spelled(label: str) -> str:
    """Spell a function's name in words: ``Weather_1_GetWeather`` is get weather."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+", label)).lower() or label
