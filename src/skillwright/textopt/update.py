"""Update: apply the selected edits to get a candidate document, and record their outcomes.

Source: SkillOpt (microsoft/SkillOpt), patch mode. Edits are applied as there; ours also records
their lines, and refuses unlimited growth, hidden characters and new markers of protected regions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Edit, Patch, apply_patch_with_report, skill_hash
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    Span,
    protected_regions,
    with_line_feeds,
    without_markers,
)
from skillwright.textopt.proposal import TOO_LONG, EditLimits, Proposal, begun, refusal

FORGED = "refused_forged_region"
HELD = "skipped_already_in_the_skill"
REPAIRED = "repaired_"
_APPLIED = ("applied_", REPAIRED)
_NO_ANCHOR = ("_target_not_found", "_missing_target")
_FALLBACK = "applied_insert_after_fallback"
_MARKERS = (SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END)


@dataclass(frozen=True, slots=True)
class EditOutcome:
    """The outcome of one edit.

    Attributes:
        index: Its number in the patch, from 1.
        target: First 200 characters of the anchor.
        content_preview: First 200 characters of the new text.
        status: ``applied_...``, ``repaired_...`` (applied at another anchor), ``skipped_...``,
            ``refused_...`` or ``error``.
        lines: First and last line of the new text in the candidate, from 1; ``None`` if it has
            none.
    """

    proposal_id: str
    index: int
    op: str
    target: str
    content_preview: str
    status: str
    lines: tuple[int, int] | None = None

    @property
    def is_applied(self) -> bool:
        """Whether the edit was made."""
        return was_applied(self.status)

    @property
    def is_unanchored(self) -> bool:
        """Whether the edit was skipped because its anchor is not in the document."""
        return self.status.endswith(_NO_ANCHOR)


@dataclass(frozen=True, slots=True)
class Update:
    """A candidate with the outcomes of its edits; ``is_noop`` if the text is unchanged."""

    candidate: str
    candidate_hash: str
    outcomes: tuple[EditOutcome, ...]
    is_noop: bool

    @property
    def counts(self) -> dict[str, int]:
        """Count ``total``, ``applied`` (or repaired), ``skipped``, ``refused`` and ``errors``."""
        kinds = Counter(outcome.status.split("_")[0] for outcome in self.outcomes)
        return {
            "total": len(self.outcomes),
            "applied": sum(outcome.is_applied for outcome in self.outcomes),
            **{kind: kinds[kind] for kind in ("skipped", "refused")},
            "errors": kinds["error"],
        }


def was_applied(status: str) -> bool:
    """Tell whether the status is that of an edit that was made."""
    return status.startswith(_APPLIED)


def apply_proposals(
    skill: str,
    proposals: Sequence[Proposal],
    limits: EditLimits,
    *,
    insert_after_fallback: bool = True,
) -> Update:
    """Apply proposals in order to the evolving text; protected regions stay unchanged.

    Args:
        skill: The document.
        proposals: The edits.
        limits: The limits on edits and the document.
        insert_after_fallback: An ``insert_after`` without its anchor appends, as in SkillOpt;
            else it is skipped, as a ``replace`` is.
    """
    text = skill
    rows: list[dict[str, Any]] = []
    spans: list[Span] = []
    for proposal in proposals:
        changed, row = _apply(text, proposal.edit, limits)
        if not insert_after_fallback and row["status"].startswith(_FALLBACK):
            missing = "target_not_found" if proposal.edit.target else "missing_target"
            changed, row = text, {**row, "status": f"skipped_insert_after_{missing}"}
        old, new = _place(text, proposal.edit, row["status"])
        spans = [_moved(span, old, len(changed) - len(text)) for span in spans]
        spans.append(new)
        rows.append(row)
        if changed != text:
            blank = len(changed) - len(begun(changed, limits))
            changed = changed[blank:]
            spans = [Span(*(max(at - blank, 0) for at in span)) for span in spans]
        text = changed
    outcomes = tuple(
        EditOutcome(proposal_id=proposal.id, lines=_lines(text, span), **{**row, "index": index})
        for index, (proposal, row, span) in enumerate(zip(proposals, rows, spans, strict=True), 1)
    )
    return Update(text, skill_hash(text), outcomes, is_noop=text == skill)


def _apply(text: str, edit: Edit, limits: EditLimits) -> tuple[str, dict[str, Any]]:
    """Apply one edit, or refuse it; return the text and the report row."""
    changed, (row,) = apply_patch_with_report(text, Patch([edit]))
    if row["status"] == "error":  # a field of the wrong type cannot be measured either
        return text, row
    status = refusal(edit, limits)
    if status is None and edit.op == "append" and not limits.as_written and _holds(text, edit):
        status = HELD
    if status is None and len(changed) > max(limits.max_skill_chars, len(text)):
        status = TOO_LONG
    if status is None and _marker_counts(changed) != _marker_counts(text):
        status = FORGED
    return (changed, row) if status is None else (text, {**row, "status": status})


def _holds(text: str, edit: Edit) -> bool:
    """Return whether a document has the lines that an edit would append, in their order."""
    lines, new = (
        [line.rstrip() for line in one.splitlines() if line.strip()]
        for one in (text, without_markers(edit.content))
    )
    starts = range(len(lines) - len(new) + 1)
    return bool(new) and any(lines[at : at + len(new)] == new for at in starts)


def _marker_counts(text: str) -> list[int]:
    """Count markers; a single one would hide text as soon as its other half is added."""
    return [text.count(marker) for marker in _MARKERS]


def _place(before: str, edit: Edit, status: str) -> tuple[Span, Span]:
    """Return the span that an edit removed, and the span of its own text in the result."""
    end = len(before)
    if not status.startswith("applied_"):
        return Span(end, end), Span(0, 0)
    content = without_markers(edit.content)
    if status in ("applied_replace", "applied_delete"):
        start = before.index(edit.target)
        length = len(content) if status == "applied_replace" else 0
        return Span(start, start + len(edit.target)), Span(start, start + length)
    if status == "applied_insert_after":
        line_end = before.find("\n", before.index(edit.target) + len(edit.target))
        start = end if line_end < 0 else line_end + 1
        return Span(start, start), Span(start + 1, start + 1 + len(content))
    regions = protected_regions(before)
    end = regions[0].start if regions else end
    start = len(before[:end].rstrip())
    return Span(start, end), Span(start + 2, start + 2 + len(content))


def _moved(span: Span, old: Span, shift: int) -> Span:
    """Update a span after a later edit, without the text that the edit removed."""
    return Span(
        span.start if span.start < old.start else max(span.start, old.end) + shift,
        span.end + shift if span.end > old.end else min(span.end, old.start),
    )


def _lines(text: str, span: Span) -> tuple[int, int] | None:
    if span.start >= span.end:
        return None
    return text.count("\n", 0, span.start) + 1, text.count("\n", 0, span.end - 1) + 1


def plain_document(text: str) -> str:
    r"""Return a document with ``\n`` as its only line break, and without a byte order mark.

    Models quote with plain line breaks, so anchors over two lines need them in the document.
    """
    return with_line_feeds(text.lstrip("\ufeff"))
