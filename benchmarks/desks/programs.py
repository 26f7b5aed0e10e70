"""Programs beside the language model: what they solve of the same tickets."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from desks.forms import SAYS, to_says
from rows_study.baselines import majority, tfidf_lr
from skillwright.worlds.scripted.clerk import SUPERSTITIONS

Items = Sequence[Mapping[str, Any]]


def programs(splits: Mapping[str, Items], released: str) -> dict[str, Any]:
    """Return the share of test tickets that each program solves, and what else is counted.

    ``keyword_answers`` is to how many test tickets the keyword program has an answer, and
    ``useless_lines`` how many planted useless rules the sheet has.

    Args:
        splits: The items of train, val and test; each has one ticket.
        released: The sheet that text training ended with.
    """
    known = [_row(item) for split in ("train", "val") for item in splits[split]]
    test = [_row(item) for item in splits["test"]]
    right = [row["label"] for row in test]

    def solved(answers: Sequence[str | None]) -> float:
        return round(sum(a == b for a, b in zip(answers, right, strict=True)) / len(right), 4)

    usual = majority(known, test)
    keywords = [by_keywords(row["text"], released) for row in test]
    return {
        "majority": solved(usual),
        "keyword program": solved(keywords),
        "keywords, else majority": solved([a or b for a, b in zip(keywords, usual, strict=True)]),
        "tf-idf and logistic regression": solved(tfidf_lr(known, test)),
        "keyword_answers": len(test) - keywords.count(None),
        "useless_lines": sum(released.count(line) for line in SUPERSTITIONS),
    }


def by_keywords(text: str, sheet: str) -> str | None:
    """Answer as most rules of the sheet do whose word the ticket has; ``None`` without any."""
    said = set(re.findall(r"[a-z]+", text.lower()))
    votes = Counter(
        desk
        for words, desk in SAYS.findall(to_says(sheet))
        for word in re.findall(r'"([^"]+)"', words)
        if word in said
    )
    return votes.most_common(1)[0][0] if votes else None


def _row(item: Mapping[str, Any]) -> dict[str, str]:
    ((text, desk),) = item["tickets"]
    return {"text": text, "label": desk, "options": ""}
