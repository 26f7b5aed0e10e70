"""The scripted teacher for WebShop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from skillwright.models.scripted.prompts import Assignment
from skillwright.models.scripted.teacher import Insight, InsightTeacher, Teaching
from skillwright.worlds.webshop.scripted.optimizer import (
    LESSONS,
    LONG_QUERY,
    WRITTEN,
    Purchase,
    read_purchase,
)
from skillwright.worlds.webshop.scripted.rules import ShopRule

_SHORT_VISIT: Final = 2
_CATEGORY_OPTIONS: Final[Mapping[str, str]] = WRITTEN["options"]


class WebShopTeacher(InsightTeacher):
    """Writes skills from episodes; some are spurious."""

    def __init__(self) -> None:
        super().__init__("scripted:webshop_teacher", _is_visit, INSIGHTS, _FALLBACK, _BELIEFS)

    def insights_about(self, asked: Assignment) -> Sequence[Insight]:
        """Return insights, including the options of a category if the request is about one."""
        category = asked.categories[0] if len(asked.categories) == 1 else ""
        if category not in _CATEGORY_OPTIONS:
            return INSIGHTS
        return (_own_options(category), *INSIGHTS[1:])


def _is_visit(text: str) -> bool:
    return "Instruction:" in text and ("[SEP]" in text or "[button]" in text)


def _teaching(key: str, category: str, name: str, wordings: list[str], *texts: str) -> Teaching:
    return Teaching(key, category, name, tuple(wordings), *texts)


def _insight(teaching: Teaching, kept: Callable[[Purchase], bool]) -> Insight:
    lesson = LESSONS[ShopRule(teaching.key)]
    return Insight(
        replace(teaching, key=ShopRule(teaching.key)),
        lambda text: bool(lesson.seen_in(text)),
        lambda text: kept(read_purchase(text)),
    )


def _own_options(category: str) -> Insight:
    options = _CATEGORY_OPTIONS[category]
    teaching = Teaching(
        ShopRule.OPTIONS,
        category,
        "Options of its kind",
        (
            f"Before you click buy now, click {options} that the instruction names.",
            f"Choose {options} of the instruction on the product's page; only then buy.",
        ),
        "when the page of a product shows options",
        f"buying without choosing {options}.",
        "The product alone would be what is wanted.",
        f"click {options} of the instruction, then buy.",
    )
    return Insight(teaching, INSIGHTS[0].was_missing, INSIGHTS[0].was_kept)


_KEPT: Final[tuple[Callable[[Purchase], bool], ...]] = (
    lambda visit: bool(visit.wanted) and visit.wanted <= visit.chosen,
    lambda visit: visit.bought and len(visit.opened) > 1,
    lambda visit: visit.bought and visit.looked_inside,
    lambda visit: visit.bought and visit.limit is not None and not visit.is_too_dear,
    lambda visit: visit.bought and len(visit.opened) <= _SHORT_VISIT,
    lambda visit: any(len(query.split()) <= LONG_QUERY for query in visit.queries[:1]),
)
INSIGHTS: Final = tuple(
    _insight(_teaching(*written), kept)
    for written, kept in zip(WRITTEN["insights"], _KEPT, strict=True)
)

_FALLBACK: Final = _teaching(*WRITTEN["fallback"])
_BELIEFS: Final = tuple(_teaching(*written) for written in WRITTEN["beliefs"])
