"""A table of the differences between our defaults and SkillOpt's, and the mode ``run.parity``.

A run uses our defaults, because the original's were found to cost correctness. With ``run.parity``
it uses the original's, for comparison. Given keys apply in both modes.
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
        key: Dotted path.
        ours: Our default; ``None`` is unset.
        original: The original's behavior, as a value of the key.
        why: Reason for our default, as a sentence without its period.
        below: Path of the optional mapping that contains it, or ``""``.
        kind: Required ``kind`` of the containing mapping, or ``""`` for any.
    """

    key: str
    ours: Any
    original: Any
    why: str
    below: str = ""
    kind: str = ""


DIFFERENCES: Final = (
    Difference("evaluation.gate.kind", "explore", "strict",
        "one noisy measurement is no proof"),
    Difference("evaluation.gate.fresh_draws", True, False,
        "the draws that accepted a skill overestimate it",
        kind="strict"),
    Difference("evaluation.gate.fresh_draws", True, False,
        "the draws that chose the best skill overestimate it",
        kind="open"),
    Difference("evaluation.inherit_scores", False, True,
        "an unmeasured change may be worse"),
    Difference("evaluation.empty_baseline", True, False,
        "shows whether the skill is better than none"),
    Difference("gradient.success_threshold", None, 1e-9,
        "a small partial reward is no success"),
    Difference("gradient.analyst_budget", "scheduled", "initial",
        "more edits than the step's budget would be discarded"),
    Difference("optimizer.none_means_fixed", False, True,
        "`none` should mean no limit"),
    Difference("optimizer.rank_fallback", "support", "order",
        "support from trajectories is the better guess after a failed ranking"),
    Difference("optimizer.gate_slow_update", True, False,
        "unmeasured guidance can make the skill worse"),
    Difference("optimizer.repair_anchors", True, False,
        "an edit with a slightly wrong anchor is worth a retry"),
    Difference("optimizer.replies_as_written", False, True,
        "a reply that is nearly right is worth reading"),
    Difference("optimizer.insert_after_fallback", False, True,
        "misplaced text makes no sense"),
    Difference("optimizer.memory_across_epochs", True, False,
        "failed edits would be tried again"),
    Difference("optimizer.rewrite_max_tokens", None, 64_000,
        "many endpoints refuse this number or cut the answer"),
    Difference("optimizer.skill_aware.gated", True, False,
        "unmeasured reminders can make the skill worse",
        below="optimizer.skill_aware"),
)  # fmt: skip
"""Keys that differ by default."""


class KeptOut(NamedTuple):
    """Behavior of the original that no mode reproduces.

    Attributes:
        there: The original's behavior.
        here: Our behavior, and the reason.
    """

    there: str
    here: str


KEPT_OUT: Final = (
    KeptOut("a fault of the infrastructure scores zero",
        "it is a failure: retried, left out of averages, counted"),
    KeptOut("results come in the order of completion",
        "results come in the order of the requests"),
    KeptOut("a skipped step does not advance the schedule",
        "the budget depends on the step's number"),
    KeptOut("a resumed run forgets the memory of steps and reads a score of 0.0 as missing",
        "both are rebuilt from the store"),
    KeptOut("a slow update overwrites a stored skill",
        "versions are never changed"),
    KeptOut("the last skill is always played on val again at the end",
        "it is played only if it has no score"),
    KeptOut("skill-aware training starts with an empty appendix",
        "the appendix starts with the first reminder"),
    KeptOut("the memory of an epoch's steps is unbounded",
        "it holds the latest 64 steps"),
    KeptOut("failure notes are joined to rows by position",
        "they are joined by task id"),
    KeptOut("the model says how many trajectories support an edit",
        "support is counted from the merged edits"),
    KeptOut("a rewrite may lose the protected regions",
        "the code restores them"),
    KeptOut("prompts are never cut",
        "prompts have a token budget; omissions are stored"),
    KeptOut("unknown names of splits and modes are accepted",
        "they are errors"),
)  # fmt: skip
"""Behavior without a key."""


def fill_in(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add SkillOpt's defaults for keys that are not given, if ``run.parity`` is true.

    A mapping of another kind (such as another gate than the strict one) gets no defaults.
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
    """Return a section object as a mapping of the fields that were given."""
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
