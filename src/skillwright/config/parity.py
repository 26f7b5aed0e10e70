"""How our defaults differ from SkillOpt's: one table, and the mode that follows the original.

By default a run takes our side of every row, because the original's was found to cost correctness.
With ``run.parity`` it takes the original's, to compare; keys that are given hold in both modes.
Keys that only this mode changes are left out of the schema (`SkipJsonSchema`).
What the original does by accident has no key: `KEPT_OUT` lists it.

Source: SkillOpt (microsoft/SkillOpt) 0.2; arXiv 2605.23904.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from skillwright.config.yaml_files import Values, merge, nested


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose default is not SkillOpt's.

    Attributes:
        key: Its dotted path.
        ours: Its default here; ``None`` is unset.
        original: What the original does, as a value of the key.
        why: Why ours is another, in a sentence without its full stop.
        below: The optional mapping that it is in, or ``""``; without that it means nothing.
        kind: The kind that the mapping has that it is in, or ``""`` for any.
    """

    key: str
    ours: Any
    original: Any
    why: str
    below: str = ""
    kind: str = ""


DIFFERENCES: Final = (
    Difference("evaluation.gate.kind", "explore", "strict",
        "a higher score in one noisy measurement is no proof; what is released should have one"),
    Difference("evaluation.gate.fresh_draws", True, False,
        "the draws that accepted a skill flatter it, so the next one is compared on fresh ones",
        kind="strict"),
    Difference("evaluation.gate.fresh_draws", True, False,
        "with an open gate too, the draws that chose the best skill flatter it",
        kind="open"),
    Difference("evaluation.inherit_scores", False, True,
        "what entered unmeasured may be worse, and the next change would be compared with a guess"),
    Difference("evaluation.empty_baseline", True, False,
        "a skill that is no better than none should be seen to be"),
    Difference("gradient.success_threshold", None, 1e-9,
        "a tenth of the reward is no success, and analysts should see what was missed"),
    Difference("gradient.analyst_budget", "scheduled", "initial",
        "analysts that may propose more than a step keeps write what is thrown away"),
    Difference("optimizer.none_means_fixed", False, True,
        "a mode that is called none should set no cap"),
    Difference("optimizer.rank_fallback", "support", "order",
        "where a ranking fails, what most trajectories speak for is the better guess"),
    Difference("optimizer.gate_slow_update", True, False,
        "guidance that nobody measured can make the skill worse"),
    Difference("optimizer.repair_anchors", True, False,
        "an edit that misses its anchor by a word is lost work"),
    Difference("optimizer.insert_after_fallback", False, True,
        "text that belongs after a line makes no sense at the end of the document"),
    Difference("optimizer.memory_across_epochs", True, False,
        "what an epoch tried in vain would be tried again in the next one"),
    Difference("optimizer.rewrite_max_tokens", None, 64_000,
        "many endpoints refuse to be asked for as much, or cut the answer silently"),
    Difference("optimizer.skill_aware.gated", True, False,
        "reminders that nobody measured can make the skill worse",
        below="optimizer.skill_aware"),
)  # fmt: skip
"""Keys that differ by default."""


class KeptOut(NamedTuple):
    """What the original does and no mode here does.

    Attributes:
        there: What it does.
        here: What is done instead, and why.
    """

    there: str
    here: str


KEPT_OUT: Final = (
    KeptOut("a fault of the infrastructure scores zero",
        "it is a failure: retried, left out, counted apart; else an outage rejects good skills"),
    KeptOut("results come in the order of completion",
        "they come in the order of the requests, so that equal answers give an equal run"),
    KeptOut("a skipped step does not advance the schedule",
        "the budget follows the step's number, so that a resumed run has the same one"),
    KeptOut("a resumed run forgets the memory of steps and reads a score of 0.0 as missing",
        "everything is rebuilt from the store, so a resumed run decides as an unbroken one would"),
    KeptOut("a slow update overwrites a stored skill",
        "versions are never changed"),
    KeptOut("the last skill is played on val once more at the end, whatever is known of it",
        "it is played where it never was; a second, luckier score is no better skill"),
    KeptOut("skill-aware training begins by putting an empty appendix into the skill",
        "an appendix comes with its first reminder, so that no agent reads an empty heading"),
    KeptOut("what an epoch's steps tried is remembered without a bound",
        "the latest 64 are, so that prompts stay bounded"),
    KeptOut("failure notes are joined to rows by position",
        "they are joined by task id, so that none speaks of another task"),
    KeptOut("the model says how many trajectories support an edit",
        "it is counted from the edits that were merged"),
    KeptOut("a rewrite may lose the protected regions",
        "they are put back by the code"),
    KeptOut("prompts are never cut",
        "they have a token budget, and what was left out is written down"),
    KeptOut("unknown names of splits and modes are taken for some other",
        "they are errors"),
)  # fmt: skip
"""Behavior without a key."""


def fill_in(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lay SkillOpt's defaults under given values, where ``run.parity`` is true there.

    A mapping of another kind (a gate that is not the strict one) takes nothing from them.
    """
    run = _plain(values.get("run"))
    if not isinstance(run, Mapping) or run.get("parity") is not True:
        return values
    sections = {row.key.partition(".")[0] for row in DIFFERENCES}
    given = {name: _plain(part) if name in sections else part for name, part in values.items()}
    defaults: Values = {}
    for row in DIFFERENCES:
        if row.below and not isinstance(_given(given, row.below), Mapping):
            continue
        mapping = row.key.rpartition(".")[0]
        if row.kind and row.kind == _given(given, f"{mapping}.kind"):
            defaults = merge(defaults, nested(f"{mapping}.kind", row.kind))
        if row.kind in ("", _given(defaults, f"{mapping}.kind")):
            defaults = merge(defaults, nested(row.key, row.original))
    return merge(defaults, given)


def _plain(value: Any) -> Any:
    """Return a section that was built in Python as the mapping of what was given to it."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if not isinstance(value, BaseModel):
        return value
    names = value.model_fields_set | ({"kind"} & type(value).model_fields.keys())
    return {name: _plain(getattr(value, name)) for name in names}


def _given(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
