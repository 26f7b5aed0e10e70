"""What a distillation asks for: small requests, each about one section and one kind of evidence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from pydantic import BaseModel

from skillwright.bank.teaching.replies import LessonsReply, PlaceReply, SkillsReply
from skillwright.bank.teaching.teacher import NONE, Request
from skillwright.bank.teaching.transcripts import Evidence, round_robin


class Section(StrEnum):
    """What a request asks for."""

    SUCCESSES = "successes"
    FAILURES = "failures"
    GENERAL = "general"
    PLACE = "place"


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """How much is read and asked for.

    Attributes:
        batch_size: Episodes per request about one category.
        general_episodes: Episodes of the request for general skills, each category in turn; where
            there are more categories, one of each.
        place_episodes: Episodes per request about one place.
        general: General skills that are asked for.
        per_category: Principles that are asked for, per category.
        lessons: Lessons that are asked for, over all categories.
        per_place: Facts that are asked for, per place.
        success_threshold: The reward from which an episode counts as won.
        step: The training step or epoch, for the provenance.

    Raises:
        ValueError: A number is below 1.
    """

    batch_size: int = 4
    general_episodes: int = 12
    place_episodes: int = 48
    general: int = 12
    per_category: int = 6
    lessons: int = 12
    per_place: int = 24
    success_threshold: float = 1.0
    step: int | None = None

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if name in ("success_threshold", "step"):
                continue
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least 1")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and what its reply is about.

    Attributes:
        section: What it asks for.
        request: The request.
        reply_type: The form of its reply.
        count: How many skills are kept of it.
        category: The category of what it comes to, "" for every one.
        scope: The one place that it holds in, or "".
    """

    section: Section
    request: Request
    reply_type: type[BaseModel]
    count: int
    category: str = ""
    scope: str = ""


def plan_requests(evidence: Sequence[Evidence], settings: DistilSettings) -> Iterator[Asked]:
    """Plan what is asked: general skills, then successes, failures and places, in a fixed order."""
    if evidence:
        yield _general(evidence, settings)
    yield from _about_categories(Section.SUCCESSES, evidence, settings)
    yield from _about_categories(Section.FAILURES, evidence, settings)
    for place in sorted({one.scope for one in evidence} - {""}):
        there = [one for one in evidence if one.scope == place]
        for number, batch in enumerate(_batches(there, settings.place_episodes)):
            count = settings.per_place
            sections = (("Place", place), ("How many", f"At most {count}."))
            name = f"place.{place}.{number}"
            request = Request(name, "distil_place", sections, tuple(batch))
            yield Asked(Section.PLACE, request, PlaceReply, count, scope=place)


def _about_categories(
    section: Section, evidence: Sequence[Evidence], settings: DistilSettings
) -> Iterator[Asked]:
    succeeded = section is Section.SUCCESSES
    batches = [
        (category, number, batch)
        for category, group in sorted(_by_category(evidence).items())
        for number, batch in enumerate(
            _batches([one for one in group if one.succeeded == succeeded], settings.batch_size)
        )
    ]
    for category, number, batch in batches:
        own = sum(one[0] == category for one in batches)
        share = settings.per_category / own if succeeded else settings.lessons / len(batches)
        count = ceil(share)
        sections = (("Category", category), ("How many", f"At most {count}."))
        name = f"{section}.{category or NONE}.{number}"
        request = Request(name, f"distil_{section}", sections, tuple(batch))
        reply_type = SkillsReply if succeeded else LessonsReply
        yield Asked(section, request, reply_type, count, category)


def _general(evidence: Sequence[Evidence], settings: DistilSettings) -> Asked:
    groups = _by_category(evidence)
    # Won and lost take turns within a category, so that one of each is there to compare.
    mixed = [
        round_robin(
            [[one for one in group if one.succeeded], [one for one in group if not one.succeeded]],
            len(group),
        )
        for group in groups.values()
    ]
    shown = round_robin(mixed, max(settings.general_episodes, len(groups)))
    sections = (
        ("Categories", ", ".join(sorted(groups.keys() - {""}))),
        ("How many", f"At most {settings.general}."),
    )
    request = Request("general.0", "distil_general", sections, tuple(shown))
    return Asked(Section.GENERAL, request, SkillsReply, settings.general)


def _by_category(evidence: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    groups: dict[str, list[Evidence]] = {}
    for one in evidence:
        groups.setdefault(one.category, []).append(one)
    return groups


def _batches(evidence: Sequence[Evidence], size: int) -> list[Sequence[Evidence]]:
    """Cut into as few batches as the size allows, each as long as the others or one shorter."""
    count = ceil(len(evidence) / size)
    return [evidence[number::count] for number in range(count)]
