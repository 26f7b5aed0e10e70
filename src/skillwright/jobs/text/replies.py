"""Count how many of the optimizer's replies a step could use, and why not the others.

A reply that proposes nothing is usable. A failed call, a reply that cannot be parsed, and one
whose edits are all dropped are unusable. If most are unusable, the run stops before it spends
more, and before the sealed test.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from skillwright.core import FailureCause
from skillwright.core.fence import one_line
from skillwright.core.jsonio import JsonRecord
from skillwright.models.leftovers import DROPPED
from skillwright.runs import EditRecord, PatchRecord
from skillwright.textopt import AnalystFault, StepProposal, was_applied

LEAST: Final = 3
"""Minimum number of replies of a first step that stop a run if all of them are unusable."""
LEAST_FOR_SHARE: Final = 10
"""Minimum number of replies for which a run may stop before its last step."""
MOST_CAUSES: Final = 3
"""Maximum number of causes of one kind in a message."""
_LONGEST = 200

# Kinds of unusable replies, in the words of a remark.
_FAILED = "optimizer calls failed"
_UNREAD = "optimizer replies could not be read"
_EMPTY = "optimizer replies held nothing that could be used"

_THINGS: Final = {"edit": "e", "reply part": "part", "reminder": "a reminder"}
"""What is dropped from a reply, with the start of the notes on it."""
_EDIT = re.compile(r"^e\d+: ")
_SENTENCE = re.compile(r"[.!?]\s+(?=[A-Z])")
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d[\d,.]*|\be\d+\b")


@dataclass(frozen=True, slots=True)
class Unusable:
    """An optimizer call without a usable reply.

    Attributes:
        call: Its name: ``s3.f0`` is failure minibatch 0 of step 3.
        kind: The kind of the fault, by which calls are counted.
        cause: Why, in a few words.
        prompt_digest: The digest of its prompt.
    """

    call: str
    kind: str
    cause: str
    prompt_digest: str = ""


@dataclass(frozen=True, slots=True)
class Replies(JsonRecord):
    """Numbers of optimizer replies; a retried call counts once."""

    asked: int = 0
    unusable: int = 0

    def __add__(self, other: "Replies") -> "Replies":
        return Replies(self.asked + other.asked, self.unusable + other.unusable)

    @property
    def line(self) -> str:
        """Say how many could not be used; "" if all could."""
        if not self.unusable:
            return ""
        return f"{self.unusable:,} of {self.asked:,} optimizer replies could not be used"

    def are_too_bad(self, earlier: "Replies", *, is_last: bool) -> bool:
        """Tell whether a run stops because of these replies of a step.

        Args:
            earlier: Replies of earlier steps, since the start or the last such stop.
            is_last: Whether it is the last step.
        """
        whole = self + earlier
        if is_last or whole.asked >= LEAST_FOR_SHARE:
            return 2 * whole.unusable > whole.asked
        return not earlier.asked and LEAST <= self.asked == self.unusable


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a step's replies.

    Attributes:
        remarks: What was unusable, dropped or repaired, and why, in sentences for people.
    """

    replies: Replies
    unusable: tuple[Unusable, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def why_unusable(self) -> str:
        """Say how many replies could not be used, and why."""
        return "; ".join(_said(self.unusable, self.replies.asked))


def account_of_step(
    proposal: StepProposal, patches: Sequence[PatchRecord], edits: Sequence[EditRecord]
) -> Account:
    """Return the account of a step, from the records of its calls and edits."""
    # Patches of an adapter's own analysts answer no prompt of ours.
    calls = [one for one in patches if one.prompt_digest]
    if proposal.made.rewrite is not None and not proposal.made.rewrite.call:  # an analyst wrote it
        calls = [one for one in calls if not one.id.endswith(".rewrite")]
    lost = [*filter(None, map(_unusable, calls))]
    replies = Replies(len(calls), len(lost))
    named = {one.call for one in lost}
    remarks = [
        *_said(lost, replies.asked),
        *_of_adapter(proposal.reflection.notes, patches),
        *_dropped([one for one in patches if one.id not in named]),
        *_repaired(patches),
        *_equal(proposal.merged.notes),
        *_not_made(edits),
    ]
    if not replies.asked and not remarks:
        remarks = list(_nothing_read(proposal))
    return Account(replies, tuple(lost), tuple(remarks))


def account_of_calls(faults: Mapping[str, AnalystFault | None]) -> Account:
    """Return the account of single calls by name, each with its fault."""
    lost = [_fault(fault) for fault in faults.values() if fault is not None]
    replies = Replies(len(faults), len(lost))
    return Account(replies, tuple(lost), tuple(_said(lost, replies.asked)))


def _unusable(record: PatchRecord) -> Unusable | None:
    """Return why a call's reply is unusable, or ``None``."""
    if record.failure is not None:
        return _fault(AnalystFault(record.id, record.failure, record.prompt_digest))
    details = record.details
    cause = ""
    if details.get("dropped") and not record.edits:
        cause = next(_causes_of_drops(record), "")
    elif details.get("ranked") is False:
        cause = next(iter(details.get("notes", ())), "")
    elif details.get("fallback"):
        cause = "it names no number of edits"
    elif details.get("unusable"):
        cause = str(details["unusable"])
    return Unusable(record.id, _EMPTY, _plain(cause), record.prompt_digest) if cause else None


def _fault(fault: AnalystFault) -> Unusable:
    kind = _UNREAD if fault.failure.cause is FailureCause.REPLY else _FAILED
    return Unusable(fault.call, kind, _first_sentence(fault.failure.message), fault.prompt_digest)


def _of_adapter(notes: Iterable[str], patches: Iterable[PatchRecord]) -> Iterator[str]:
    """Describe unusable answers of an adapter's own analysts; a ``None`` proposes nothing."""
    parts = [note.partition(DROPPED) for note in notes if "NoneType" not in note]
    lost = [(_plain(cause or note), note) for note, _, cause in parts]
    lost += [
        (_first_sentence(one.failure.message), one.id)
        for one in patches
        if one.failure is not None and not one.prompt_digest
    ]
    for cause, found in _grouped(lost):
        yield (
            f"{len(found)} of the adapter's patches could not be used: {cause} "
            f"(example: {one_line(found[0], _LONGEST)})"
        )


def _said(lost: Sequence[Unusable], asked: int) -> Iterator[str]:
    for kind in (_FAILED, _UNREAD, _EMPTY):
        for cause, found in _grouped((one.cause, one.call) for one in lost if one.kind == kind):
            yield f"{len(found)} of {asked} {kind}: {cause} (example: call {found[0]})"


def _dropped(calls: Sequence[PatchRecord]) -> Iterator[str]:
    for thing in _THINGS:
        drops = ((_plain(cause), one.id) for one in calls for cause in _causes_of_drops(one, thing))
        for cause, found in _grouped(drops):
            yield f"{_number(found, thing)} dropped: {cause} (example: call {found[0]})"


def _repaired(calls: Sequence[PatchRecord]) -> Iterator[str]:
    repairs = {
        (_plain(_EDIT.sub("", str(repair))), one.id): None
        for one in calls
        for repair in one.details.get("repaired", ())
        if DROPPED not in str(repair)
    }
    for cause, found in _grouped(repairs):
        replies = list(dict.fromkeys(found))
        number = "1 reply was" if len(replies) == 1 else f"{len(replies)} replies were"
        yield f"{number} repaired: {cause} (example: call {replies[0]})"


def _equal(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield f"{_number(notes, 'edit')} merged with an equal one (example: {notes[0]})"


def _not_made(edits: Sequence[EditRecord]) -> Iterator[str]:
    missed = (one for one in edits if one.status and not was_applied(one.status))
    for cause, found in _grouped((_plain(one.status), one.id) for one in missed):
        yield f"{_number(found, 'edit')} not made: {cause} (example: {found[0]})"


def _number(found: Sequence[str], thing: str) -> str:
    return f"1 {thing} was" if len(found) == 1 else f"{len(found)} {thing}s were"


def _nothing_read(proposal: StepProposal) -> Iterator[str]:
    skipped, rows = proposal.transcripts.skipped, proposal.transcripts.rows
    if skipped:
        # One without a conversation is in both.
        episodes = {one.id for one in skipped} | {one.id for one in rows}
        yield (
            f"{len(skipped)} of {len(episodes)} episodes cannot be read: "
            f"{_plain(skipped[0].reason)} (example: {skipped[0].id})"
        )
    elif rows and not proposal.failed:
        yield "every episode was solved, so there was nothing to analyze"


def _causes_of_drops(record: PatchRecord, thing: str = "edit") -> Iterator[str]:
    notes = (note for key in ("notes", "repaired") for note in record.details.get(key, ()))
    parts = (str(note).partition(DROPPED) for note in notes)
    return (why for what, _, why in parts if why and what.startswith(_THINGS[thing]))


def _grouped(causes: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    """Group names by cause, the most frequent first; quoted parts of causes are ignored."""
    groups: dict[str, tuple[str, list[str]]] = {}
    for cause, name in causes:
        groups.setdefault(_VARYING.sub("#", cause), (cause, []))[1].append(name)
    found = sorted(groups.values(), key=lambda group: -len(group[1]))
    others = list(chain.from_iterable(names for _, names in found[MOST_CAUSES:]))
    rest = len(found) - MOST_CAUSES
    return [*found[:MOST_CAUSES], *([(f"{rest} other causes", others)] if others else [])]


def _first_sentence(message: str) -> str:
    return _plain(_SENTENCE.split(one_line(message, 4 * _LONGEST))[0])


def _plain(cause: str) -> str:
    """Write a cause, or a status such as ``refused_too_long``, as part of a sentence."""
    text = one_line(cause, _LONGEST).rstrip(".")
    if re.fullmatch(r"[a-z_]+", text):
        text = re.sub(r"^(skipped|refused)_", "", text).replace("_", " ")
    return text[:1].lower() + text[1:] if re.match(r"(The|It|A|An|Nothing) ", text) else text
