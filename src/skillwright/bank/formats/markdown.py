"""Skills as Markdown, for people and agents to read and write.

A skill is a heading of level 3 with its name, and bullets under it:

    ### Hold it first
    - Do: Have the object in hand before you use the microwave.
    - When: When a goal asks for something hot.
    - Category: heat

A lesson also has ``Avoid``, ``Mistaken belief`` and ``Instead``; ``Scope`` and
``Id`` may follow, and ``Details``, with indented text below it. A skill without a category is a
general one, unless it has ``Kind: task_specific``. Headings of other levels are ignored. In a text
without such skills every bullet outside code is a skill: ``- **Name:** what to do``. Evidence,
statistics and versions are not included.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from textwrap import indent

from skillwright.bank.bank import Bank
from skillwright.core import (
    BankSkill,
    Counterfactual,
    DataError,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
    did_you_mean,
)

_BELIEF = "Mistaken belief"
_FIELDS = ("Do", "When", "Category", "Kind", "Avoid", _BELIEF, "Instead", "Scope", "Id")
_HEADING = re.compile(r"^###\s+(?P<name>.+?)(?:\s+#+)?\s*$")
_OTHER_HEADING = re.compile(r"^#{1,6}\s")
_FIELD = re.compile(r"^[-*]\s+(?P<key>Mistaken belief|[A-Z][a-z]+):\s*(?P<text>.*)$")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?P<text>.+)$")
_LEAD = re.compile(r"^\*\*(?P<name>.+?)[:.]?\*\*[:.]?\s*(?P<text>.*)$")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_NAME_WORDS = 5
_DETAILS = "- Details:"


def to_markdown(bank: Bank) -> str:
    """Write the active skills of a bank as one Markdown document."""
    return "\n".join(["# Skills", "", *sections(bank.active)])


def from_markdown(text: str, where: str = "the document") -> tuple[BankSkill, ...]:
    """Read skills from Markdown, as pending drafts without ids.

    Args:
        text: The document; the ``Id`` of a skill is ignored.
        where: Its name in messages.

    Raises:
        DataError: A skill lacks a part or has an unknown one, or the document has no skill.
    """
    lines = text.replace("\r\n", "\n").lstrip("\ufeff").split("\n")
    found = [_skill(name, body, where) for name, body in _blocks(lines) if any(map(_is_do, body))]
    if not found:
        bullets = map(_BULLET.match, _outside_code(lines))
        found = [_from_bullet(match["text"]) for match in bullets if match]
    if not found:
        raise DataError(
            f"{where} has no skills: no heading of the third level with a bullet `- Do: ...`, and "
            "no bullets at all"
        )
    return tuple(found)


def sections(skills: Sequence[BankSkill], *, with_ids: bool = True) -> list[str]:
    """Format skills as lines, under a heading per kind, category and scope."""
    groups: dict[str, list[BankSkill]] = {}
    for skill in sorted(skills, key=_order):
        groups.setdefault(_heading(skill), []).append(skill)
    lines: list[str] = []
    for heading, members in groups.items():
        lines += [f"## {heading}", ""]
        for skill in members:
            lines += [*section(skill, with_ids=with_ids), ""]
    return lines


def section(skill: BankSkill, *, with_ids: bool = True) -> list[str]:
    """Format a skill as lines."""
    lesson = skill.counterfactual
    fields = {
        "Do": skill.principle,
        "When": skill.applicability,
        "Category": skill.category,
        # Only this distinguishes it from a general skill.
        "Kind": skill.kind if skill.kind == SkillKind.TASK_SPECIFIC and not skill.category else "",
        "Avoid": lesson.failure_point if lesson else "",
        _BELIEF: lesson.flawed_reasoning if lesson else "",
        # Without the line it is what "Do" says.
        "Instead": lesson.corrective_action
        if lesson and lesson.corrective_action != skill.principle
        else "",
        "Scope": skill.scope,
        "Id": skill.id if with_ids else "",
    }
    bullets = [f"- {key}: {_line(text)}" for key, text in fields.items() if text]
    if skill.details:
        bullets += [_DETAILS, *indent(skill.details, "  ").split("\n")]
    return [f"### {_line(skill.name)}", "", *bullets]


def _order(skill: BankSkill) -> tuple[int, str, str]:
    return list(SkillKind).index(skill.kind), skill.category, skill.scope


def _heading(skill: BankSkill) -> str:
    about = f" for {_line(skill.category)} tasks" if skill.category else ""
    place = f" in {_line(skill.scope)}" if skill.scope else ""
    match skill.kind:
        case SkillKind.GENERAL:
            return f"General skills{place}"
        case SkillKind.LESSON:
            return f"Lessons{about}{place}"
        case SkillKind.TASK_SPECIFIC:
            return f"Skills{about}{place}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _blocks(lines: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Split a document at headings of level 3."""
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if heading := _HEADING.match(line):
            blocks.append((heading["name"], []))
        elif _OTHER_HEADING.match(line):
            blocks.append(("", []))
        elif blocks:
            blocks[-1][1].append(line)
    return blocks


def _outside_code(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that are not between fences."""
    mark = ""
    for line in lines:
        fence = _FENCE.match(line)
        if mark and fence and fence[1].startswith(mark):
            mark = ""
        elif not mark:
            mark = fence[1] if fence else ""
            if not mark:
                yield line


def _is_do(line: str) -> bool:
    field = _FIELD.match(line)
    return field is not None and field["key"] == "Do"


def _skill(name: str, body: Iterable[str], where: str) -> BankSkill:
    place = f"{where}: skill {name!r}"
    fields: dict[str, str] = {}
    lines = list(body)
    at = lines.index(_DETAILS) if _DETAILS in lines else len(lines)
    details = "\n".join(line.removeprefix("  ") for line in lines[at + 1 :]).strip("\n")
    for line in lines[:at]:
        if not (found := _FIELD.match(line)):
            continue
        key = found["key"]
        if key not in _FIELDS:
            raise DataError(f"{place}: unknown part {key!r}. {did_you_mean(key, _FIELDS)}")
        if key in fields:
            raise DataError(f"{place}: it has two parts {key!r}")
        fields[key] = found["text"].strip()
    parts = [fields.get(key, "") for key in ("Avoid", _BELIEF, "Instead")]
    if all(parts[:2]):
        parts[2] = parts[2] or fields.get("Do", "")
    if any(parts) and not all(parts):
        raise DataError(f"{place}: a lesson has all of Avoid, {_BELIEF} and Instead")
    drafted = _draft(name, fields, Counterfactual(*parts) if all(parts) else None)
    return replace(drafted, details=details)


def _draft(name: str, fields: dict[str, str], lesson: Counterfactual | None) -> BankSkill:
    category = fields.get("Category", "")
    is_general = not category and fields.get("Kind") != SkillKind.TASK_SPECIFIC
    kind = SkillKind.GENERAL if is_general else SkillKind.TASK_SPECIFIC
    return BankSkill(
        "",
        name,
        fields["Do"],
        fields.get("When", ""),
        SkillKind.LESSON if lesson else kind,
        category,
        fields.get("Scope", ""),
        lesson,
        status=SkillStatus.PENDING,
        provenance=Provenance(SkillOrigin.IMPORTED),
    )


def _from_bullet(text: str) -> BankSkill:
    name, said = lead_of(text)
    return _draft(name, {"Do": said}, None)


def lead_of(text: str) -> tuple[str, str]:
    """Return the name of a rule, which is bold or its first words, and the rest of its text."""
    if lead := _LEAD.match(text):
        return lead["name"].strip(), lead["text"].strip() or lead["name"].strip()
    return " ".join(text.split()[:_NAME_WORDS]).rstrip(".,;:"), text.strip()
