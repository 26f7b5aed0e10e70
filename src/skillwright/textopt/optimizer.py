"""The optimizer model: its prompts, replies and calls."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator

from skillwright.asking import Answer, Question, ask
from skillwright.core import ChatModel, ConfigError, DataError, Purpose, Sampling, did_you_mean
from skillwright.core.fence import defuse, fenced
from skillwright.core.seeds import derive_seed
from skillwright.models.shapes import (
    LENIENT,
    NOT_MEANT,
    as_json,
    as_list,
    has_nothing,
    operation_group,
    snake_case,
)
from skillwright.rollout.transcript import estimate_tokens
from skillwright.textopt.edit_shapes import by_operation, gathered, is_item, with_known_names
from skillwright.textopt.proposal import UpdateMode

# Only the required part of a reply is checked here: a reply without it is requested once more, and
# then is a fault. Stages drop and report single invalid edits of a valid reply.


Prose = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
Remarks = Annotated[
    list[Any], BeforeValidator(lambda value: value if isinstance(value, list) else [])
]


_REMARKS = ("failure_summary", "success_patterns", "appendix_notes")

_LISTS = {
    *("edits", "revise_suggestions", "skill_candidates", "patch", "patches", "suggestions"),
    *("changes", "operations", "modifications", "more_edits", "additional_edits", "extra_edits"),
    *("further_edits", "other_edits", "new_edits"),
}
"""Names of edits that a reply may have next to its own list."""

_SKILL_TEXT: Final = re.compile(r"\s*(?:[-*+#]|\d+[.)])")
"""The start of a list or a heading in Markdown."""


def _with_others(edits: list[Any], value: dict[str, Any], read: Collection[str]) -> list[Any]:
    """Add the edits below other keys than those that were read, if a key says what they are."""
    found = [*edits]
    for key, item in value.items():
        inner = as_json(item) if isinstance(item, str) else item
        is_meant = key not in read and not NOT_MEANT.fullmatch(snake_case(key))
        if not is_meant or not isinstance(inner, dict | list):
            continue
        if key in _LISTS or operation_group(key):
            items = by_operation({key: inner}) or gathered(inner) or ()
            found += [one for one in items if one not in found and not _is_remark(one)]
    return found


def _is_remark(item: Any) -> bool:
    """Return whether an edit may only describe another one, or is set aside by its own words."""
    if not isinstance(item, dict):
        return False
    item = with_known_names(item, [])
    said = item.get("content")
    is_sentence = set(item) <= {"op", "content"} and not _SKILL_TEXT.match(str(said))
    words = [one for name, one in item.items() if name not in ("op", "content", "target")]
    return (is_sentence and item.get("op") == "append") or any(
        isinstance(one, str) and NOT_MEANT.fullmatch(snake_case(one)) for one in words
    )


def _as_edits(value: Any, info: ValidationInfo) -> Any:
    """Read the items of every update mode under one name; leniently, other lists of items too."""
    key = "edits"
    if isinstance(value, dict) and key not in value:
        key = next((mode.payload_key for mode in UpdateMode if mode.payload_key in value), key)
        value = {**value, "edits": value[key]} if key in value else value
    if isinstance(value, dict) and has_nothing(value, "edits", _REMARKS):
        return {**value, "edits": []}
    if info.context is not LENIENT:
        return value
    if not (isinstance(value, dict) and "edits" in value) and (found := gathered(value)):
        return {**(value if isinstance(value, dict) else {}), "edits": found}
    items = value.get("edits") if isinstance(value, dict) else None
    if isinstance(items, str):
        items = as_json(items)
    if isinstance(items, dict):
        items = gathered(items) or as_list(items)
        if not all(map(is_item, items)):
            raise ValueError("edits is neither a list nor an edit")
    if not isinstance(items, list):
        return value
    items = [(as_json(item) or item) if isinstance(item, str) else item for item in items]
    return {**value, "edits": _with_others(items, value, ("edits", "patch", key))}


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    reasoning: Prose = ""


class PatchReply(BaseModel):
    """The edits, suggestions or skills of an analyst's reply."""

    model_config = ConfigDict(extra="ignore", strict=True)

    edits: list[Any]

    _any_payload = model_validator(mode="before")(_as_edits)


class AnalystReply(_Reply):
    """An analyst's findings and proposed edits."""

    patch: PatchReply
    failure_summary: Remarks = []
    success_patterns: Remarks = []
    appendix_notes: Any = None

    @model_validator(mode="before")
    @classmethod
    def _bare_patch(cls, value: Any, info: ValidationInfo) -> Any:
        """Accept ``edits`` at the top level, as the documented raw patches allow."""
        written, value = value, _as_edits(value, info)
        if isinstance(value, dict) and has_nothing(value, "patch", _REMARKS):
            return {**value, "patch": {"edits": []}}
        if info.context is LENIENT and isinstance(value, dict):
            patch = value.get("patch")
            patch = as_json(patch) if isinstance(patch, str) else patch
            patch = _as_edits(patch, info) if isinstance(patch, dict | list) else None
            if isinstance(patch, dict) and isinstance(patch.get("edits"), list):
                patch = {"edits": _with_others(patch["edits"], written, ("patch",))}
            value = {**value, "patch": patch} if patch else value
        if isinstance(value, dict) and not value.get("patch") and value.get("edits") is not None:
            return {**value, "patch": {"edits": value["edits"]}}
        return value


class MergeReply(_Reply):
    """Merged edits, each with the ids of its source edits."""

    edits: list[dict[str, Any]]

    _any_payload = model_validator(mode="before")(_as_edits)


class RankReply(_Reply):
    """The edits to make, the most valuable first."""

    selected_indices: list[Any]


class RepairReply(_Reply):
    """New anchors of edits whose anchor was not found."""

    anchors: list[Any]


class SlowUpdateReply(_Reply):
    """Guidance from comparing two epochs' skills."""

    slow_update_content: str


class MetaSkillReply(_Reply):
    """The optimizer's memory."""

    meta_skill_content: str


class BudgetReply(_Reply):
    """The number of edits of a step."""

    edit_budget: Any


class RewriteReply(_Reply):
    """A whole skill and its changes."""

    new_skill: str
    change_summary: Any


class ConsolidateReply(_Reply):
    """Fewer execution notes."""

    notes: list[Any]


PROMPT_NAMES = (
    "analyst_error",
    "analyst_success",
    "merge_failure",
    "merge_success",
    "merge_final",
    "ranking",
    *(
        f"{name}{mode}"
        for mode in ("_rewrite", "_full_rewrite")
        for name in (
            "analyst_error",
            "analyst_success",
            "merge_failure",
            "merge_success",
            "merge_final",
        )
    ),
    "ranking_rewrite",
    "rewrite_skill",
    "lr_autonomous",
    "skill_aware_error",
    "skill_aware_success",
    "appendix_consolidate",
    "repair",
    "slow_update",
    "meta_skill",
)


def load_prompt(name: str, env_prompts: Mapping[str, str] | None = None) -> str:
    """Return the environment's own prompt of a name, if not blank, or else the generic one.

    Raises:
        ConfigError: There is no such prompt; the message names the nearest.
    """
    own = (env_prompts or {}).get(name, "")
    if own.strip():
        return own
    if name not in PROMPT_NAMES:
        raise ConfigError(f"there is no prompt {name!r}. {did_you_mean(name, PROMPT_NAMES)}")
    file = resources.files("skillwright.textopt") / "prompts" / f"{name}.md"
    return file.read_text(encoding="utf-8").strip()


def user_message(*sections: tuple[str, str]) -> str:
    """Join sections under their headings; an empty one says ``(none)``."""
    return "\n\n".join(f"## {heading}\n{body or '(none)'}" for heading, body in sections)


def skill_section(skill: str) -> tuple[str, str]:
    """Return the skill between its tags."""
    return "Current skill", fenced("skill", skill.rstrip("\n") if skill.strip() else "(empty)")


def notes_section(meta_skill: str) -> tuple[str, str]:
    """Return the section with the optimizer's memory."""
    return "Optimizer notes", defuse(meta_skill).strip()


def budget_section(verb: str, budget: int | None, noun: str = "edits") -> tuple[str, str]:
    """State how many edits may be made; ``None`` is no limit."""
    if budget is None:
        return "Edit budget", f"{verb} as many {noun} as the evidence supports."
    return "Edit budget", f"{verb} at most {budget} {noun}."


ReplyT = TypeVar("ReplyT", bound=BaseModel)

MOST_PROMPT_TOKENS: Final = 60_000
_FEWEST_TOKENS: Final = 2_000  # of instructions and episodes


def refuse_long_skill(skill: str) -> None:
    """Refuse an initial skill that leaves no room for episodes in an optimizer's prompt.

    Raises:
        DataError: It does.
    """
    tokens = estimate_tokens(skill)
    if tokens > MOST_PROMPT_TOKENS - _FEWEST_TOKENS:
        raise DataError(
            f"the initial skill has about {tokens:,} tokens, and a prompt of the optimizer has "
            f"{MOST_PROMPT_TOKENS:,}, episodes included. Move parts of it to other files, such as "
            "references/, and train the rest"
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the optimizer model.

    Attributes:
        name: Prefix of the ids of its proposals (``s3.f0``).
        prompt: Name of the system prompt.
        user: The user message.
        purpose: The purpose under which its tokens are counted.
        seed: Seed of the sampling, together with ``name``, or ``None``.
        max_tokens: Maximum tokens of the reply; ``None`` is the optimizer's own limit.
        addendum: Name of a prompt added to the system prompt, or ``""``.
    """

    name: str
    prompt: str
    user: str
    purpose: Purpose
    seed: int | None = None
    max_tokens: int | None = None
    addendum: str = ""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A chat model in the role of the optimizer.

    Attributes:
        env_prompts: An environment's own prompts by name; others are the generic prompts.
        sampling: Decoding options; the seed is set per call.
        max_prompt_tokens: Longer prompts are not sent (by `estimate_tokens`).
        repair_rounds: Maximum number of repeated requests after an unusable reply.
        as_written: Replies are not repaired, as in SkillOpt.
    """

    model: ChatModel
    env_prompts: Mapping[str, str] = field(default_factory=dict)
    sampling: Sampling = Sampling(max_tokens=16_384)
    max_prompt_tokens: int = MOST_PROMPT_TOKENS
    repair_rounds: int = 1
    as_written: bool = False

    def room(self, prompt: str, user: str, addendum: str = "") -> int:
        """Return the number of tokens that may be added to a user message."""
        used = estimate_tokens(self._system(prompt, addendum)) + estimate_tokens(user)
        return self.max_prompt_tokens - used

    def _system(self, prompt: str, addendum: str) -> str:
        names = (prompt, addendum) if addendum else (prompt,)
        return "\n\n".join(load_prompt(name, self.env_prompts) for name in names)

    async def ask(self, call: Call, reply_type: type[ReplyT]) -> Answer[ReplyT]:
        """Ask, and return the reply or the fault; a fault does not affect concurrent calls."""
        question = Question(
            name=call.name,
            system=self._system(call.prompt, call.addendum),
            user=call.user,
            purpose=call.purpose,
            role="optimizer",
            if_too_long=("Lower minibatch_size or merge_batch_size, or shorten the skill."),
            seed=None if call.seed is None else derive_seed("optimizer", call.seed, call.name),
            max_tokens=call.max_tokens,
        )
        return await ask(self, question, reply_type)
