"""The memory of earlier steps, which keeps analysts from repeating rejected edits.

Source: SkillOpt (microsoft/SkillOpt), the step buffer. Its buffer is lost on resume and at the end
of an epoch, and joins failure labels by position; this one is stored, and joins by trajectory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from skillwright.core.fence import one_line
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord
from skillwright.rollout.transcript import Transcript, estimate_tokens
from skillwright.textopt.reflect import FailureNote
from skillwright.textopt.update import was_applied

_EDIT_CHARS = 300
_PATTERN_CHARS = 100
_PATTERNS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class TriedEdit(JsonRecord):
    """An edit that a step tried; ``status`` is its outcome."""

    __pydantic_config__ = REFUSE_UNKNOWN

    op: str
    target: str
    content: str
    status: str


@dataclass(frozen=True, slots=True)
class FailurePattern(JsonRecord):
    """A kind of failure seen in a step.

    Attributes:
        pattern: The analysts' name, or the start of the environment's reason.
        count: Number of trajectories that showed it.
        task_ids: Their tasks, if known.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    pattern: str
    count: int
    task_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepEntry(JsonRecord):
    """One step, as later analysts read it.

    Attributes:
        step: The global step, from 1.
        action: ``accept``, ``reject``, ``undecided``, or ``skip_...`` if nothing was judged.
        edits: The tried edits, in order.
        failures: Kinds of failure in the batch, the most frequent first.
        score_before: The incumbent's score at the gate, or ``None``.
        score_after: The candidate's score, or ``None``.
        p_value: The p-value of the gate's test, or ``None``.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    step: int
    action: str
    edits: tuple[TriedEdit, ...] = ()
    failures: tuple[FailurePattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    p_value: float | None = None
    n_total: int = 0
    n_fail: int = 0

    def render(self) -> str:
        """Format the step for analysts."""
        made = [e for e in self.edits if was_applied(e.status)]
        missed = [e for e in self.edits if not was_applied(e.status)]
        lines = [f"Step {self.step}: {self.action}{self._scores()}"]
        if made:
            verdict = next((word for key, word in _VERDICTS.items() if key in self.action), "Tried")
            lines.append(f"{verdict} edits:")
            lines += [f"- {_edit(edit)}" for edit in made]
        if self.failures:
            seen = self.failures[:_PATTERNS_SHOWN]
            named = [f"{one_line(f.pattern, _PATTERN_CHARS)} ({f.count})" for f in seen]
            lines.append(f"Failures seen: {', '.join(named)}")
        if missed:
            lines.append("Edits that could not be made:")
            lines += [f"- {_edit(edit)} [{edit.status}]" for edit in missed]
        return "\n".join(lines)

    def _scores(self) -> str:
        facts = []
        if self.score_before is not None and self.score_after is not None:
            facts.append(f"{self.score_before:.2f} -> {self.score_after:.2f}")
        if self.p_value is not None:
            facts.append(f"p = {self.p_value:.2f}")
        return f" ({', '.join(facts)})" if facts else ""


_VERDICTS = {"accept": "Accepted", "reject": "Rejected", "undecided": "Undecided"}


@dataclass(frozen=True, slots=True)
class StepMemory(JsonRecord):
    """The steps so far; immutable.

    Attributes:
        entries: The steps, oldest first.
        max_steps: Number of latest steps kept.
        across_epochs: Steps stay in a new epoch. SkillOpt drops them.
    """

    entries: tuple[StepEntry, ...] = ()
    max_steps: int = field(default=64, kw_only=True)
    across_epochs: bool = field(default=True, kw_only=True)

    def remember(self, entry: StepEntry) -> Self:
        """Return the memory with one more step."""
        return replace(self, entries=(*self.entries, entry)[-self.max_steps :])

    def start_epoch(self) -> Self:
        """Return the memory for a new epoch."""
        return self if self.across_epochs else replace(self, entries=())

    def render(self, max_tokens: int = 4_000) -> str:
        """Format the steps for analysts; drop the oldest that do not fit."""
        kept: list[str] = []
        for entry in reversed(self.entries):
            text = entry.render()
            max_tokens -= estimate_tokens(text) + 1
            if max_tokens < 0:
                break
            kept.append(text)
        left_out = len(self.entries) - len(kept)
        gap = [f"[... {left_out} earlier steps left out ...]"] if left_out else []
        return "\n\n".join(gap + kept[::-1])


def failure_patterns(
    failed: Sequence[Transcript], notes: Iterable[FailureNote]
) -> tuple[FailurePattern, ...]:
    """Count kinds of failure by name, the most frequent first.

    Analysts' names come first; any other trajectory counts under its ``fail_reason`` before the
    colon, if it has one.
    """
    tasks = {transcript.id: transcript.task_id for transcript in failed}
    names: dict[str, str] = {}
    members: dict[str, dict[str, None]] = {}
    unnamed: dict[str, int] = {}

    def count(name: str, trajectories: Iterable[str], others: int = 0) -> None:
        key = name.casefold()
        names.setdefault(key, name)
        members.setdefault(key, {}).update(dict.fromkeys(t for t in trajectories if t in tasks))
        unnamed[key] = unnamed.get(key, 0) + others

    for note in notes:
        count(note.failure_type, note.trajectories, 0 if note.trajectories else note.count)
    shown = {trajectory for group in members.values() for trajectory in group}
    for transcript in failed:
        reason = transcript.fail_reason.partition(":")[0].strip()
        if reason and transcript.id not in shown:
            count(reason, [transcript.id])
    patterns = [
        FailurePattern(
            pattern=name,
            count=len(members[key]) + unnamed[key],
            task_ids=tuple(dict.fromkeys(tasks[t] for t in members[key])),
        )
        for key, name in names.items()
    ]
    return tuple(sorted(patterns, key=lambda pattern: -pattern.count))


def _edit(edit: TriedEdit) -> str:
    target = f' "{one_line(edit.target, _EDIT_CHARS)}"' if edit.target else ""
    content = f": {one_line(edit.content, _EDIT_CHARS)}" if edit.content else ""
    return f"{edit.op}{target}{content}"
