"""What the stages at an epoch's end are given, and how they show it to the optimizer."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from skillwright.core import (
    ConfigError,
    ContractError,
    EpisodeResult,
    EpisodeSpec,
    Purpose,
    Task,
    skill_hash,
)
from skillwright.core.fence import attribute, defuse
from skillwright.core.jsonio import encode_fields
from skillwright.core.seeds import derive_seed
from skillwright.core.skill import (
    inject_empty_slow_update,
    replace_slow_update_field,
    slow_update_field,
    without_markers,
)
from skillwright.rollout.transcript import (
    Cut,
    Rendering,
    Skipped,
    Transcript,
    estimate_tokens,
    read_episodes,
    render_trajectories,
)
from skillwright.textopt.optimizer import (
    Call,
    MetaSkillReply,
    Optimizer,
    SlowUpdateReply,
    skill_section,
    user_message,
)
from skillwright.textopt.proposal import AnalystFault, EditLimits, parse_mode, text_refusal

# What a skill changed: the same tasks under the previous epoch's skill and under the current one.
#
# Source: SkillOpt (microsoft/SkillOpt), longitudinal pairs. Samples, policies and the order in
# which a sample is topped up match it; ours tops up in batches, which gives the same pairs, tells a
# success by a threshold instead of by any reward above zero, and leaves out what a fault has no
# score for.


EPOCH_STRIDE = 2_000
"""How far apart the seeds of two epochs' samples are."""


class Category(StrEnum):
    """How a task fared under the current skill, next to the previous one."""

    REGRESSED = "regressed"
    """It succeeded before and fails now."""
    PERSISTENT_FAIL = "persistent_fail"
    """It failed before and fails still."""
    IMPROVED = "improved"
    """It failed before and succeeds now."""
    STABLE_SUCCESS = "stable_success"
    """It succeeds under both."""


class PairPolicy(StrEnum):
    """Which pairs are looked at."""

    MIXED = "mixed"
    """All of the sample."""
    CHANGED = "changed"
    """Improved and regressed ones; the sample is topped up until there are enough."""
    UNCHANGED = "unchanged"
    """Persistent failures and stable successes, topped up likewise."""

    def keeps(self, category: Category) -> bool:
        """Tell whether pairs of a category are looked at."""
        has_changed = category in (Category.IMPROVED, Category.REGRESSED)
        return self is PairPolicy.MIXED or has_changed == (self is PairPolicy.CHANGED)


POLICY_ALIASES: Mapping[str, PairPolicy] = {
    **{policy.value: policy for policy in PairPolicy},
    **dict.fromkeys(("change", "delta", "10_01", "01_10"), PairPolicy.CHANGED),
    **dict.fromkeys(("stable", "same", "00_11"), PairPolicy.UNCHANGED),
}


def parse_pair_policy(name: str) -> PairPolicy:
    """Read a pair policy or one of its aliases, whatever its case.

    Raises:
        ConfigError: There is no such policy; the message names the nearest.
    """
    return parse_mode("pair policy", name, POLICY_ALIASES)


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """One task under both skills, both with a reward."""

    task_id: str
    category: Category
    previous: EpisodeResult
    current: EpisodeResult

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trajectories as a JSON object."""
        return {
            "id": self.task_id,
            "task_type": self.current.task_type,
            "category": self.category.value,
            "prev_hard": self.previous.reward,
            "curr_hard": self.current.reward,
            "prev_key": self.previous.key,
            "curr_key": self.current.key,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pairs drawn so far; a value, so adding results returns a new one.

    The job plays `todo` under both skills and adds the results, until there is nothing to do.

    Attributes:
        wanted: How many pairs are looked at, at most.
        success_threshold: An episode with at least this reward is a success.
        queue: The tasks that were not played yet, in the order in which they are drawn.
        drawn: The pairs with two rewards, in the order in which they were drawn.
        lost: Tasks without a pair because a side ended in a fault.
        sampled: The sample was played; what is drawn from now on tops it up.
    """

    wanted: int
    policy: PairPolicy = PairPolicy.MIXED
    success_threshold: float = 1.0
    queue: tuple[Task, ...] = ()
    drawn: tuple[ComparedPair, ...] = ()
    lost: tuple[Skipped, ...] = ()
    sampled: bool = field(default=False, kw_only=True)

    @classmethod
    def plan(
        cls,
        tasks: Sequence[Task],
        *,
        wanted: int,
        seed: int,
        epoch: int,
        policy: PairPolicy = PairPolicy.MIXED,
        success_threshold: float = 1.0,
    ) -> Self:
        """Draw an epoch's sample.

        The sample is the head of the train tasks shuffled by ``Random(seed + epoch * 2000)``; the
        others follow in the order of ``Random(seed)``.

        Args:
            tasks: The train tasks, in file order.
            wanted: Size of the sample, and most pairs that are looked at; at least 1.
            seed: The run's.
            epoch: From 1.
            policy: Which pairs are looked at.
            success_threshold: What a success is.

        Raises:
            ConfigError: ``wanted`` is below 1.
        """
        if wanted < 1:
            raise ConfigError(f"slow_update_samples is {wanted}; it must be at least 1")
        pool = list(tasks)
        random.Random(seed + epoch * EPOCH_STRIDE).shuffle(pool)
        sample = pool[:wanted]
        taken = {task.id for task in sample}
        others = list(tasks)
        random.Random(seed).shuffle(others)
        queue = [*sample, *(task for task in others if task.id not in taken)]
        return cls(wanted, policy, success_threshold, tuple(queue))

    @property
    def todo(self) -> tuple[Task, ...]:
        """The tasks to play next, at most one sample at a time; empty at the end."""
        is_done = self.sampled and (
            self.policy is PairPolicy.MIXED or len(self.pairs) >= self.wanted
        )
        return () if is_done else self.queue[: self.wanted]

    @property
    def pairs(self) -> tuple[ComparedPair, ...]:
        """The pairs that are looked at: the first ones drawn that the policy keeps."""
        kept = [pair for pair in self.drawn if self.policy.keeps(pair.category)]
        return tuple(kept[: self.wanted])

    def add(self, previous: Sequence[EpisodeResult], current: Sequence[EpisodeResult]) -> Self:
        """Return the comparison with the results of `todo` in it.

        Raises:
            ContractError: The results are not those of `todo`.
        """
        asked = [task.id for task in self.todo]
        for results in (previous, current):
            if [result.task_id for result in results] != asked:
                raise ContractError(
                    f"a comparison of {len(asked)} tasks was given {len(results)} results that are "
                    "not theirs, in their order"
                )
        drawn: list[ComparedPair] = []
        lost: list[Skipped] = []
        for before, after in zip(previous, current, strict=True):
            category = self._category(before, after)
            if category is None:
                lost.append(Skipped(after.task_id, _why_lost(before, after)))
            else:
                drawn.append(ComparedPair(after.task_id, category, before, after))
        return replace(
            self,
            queue=self.queue[len(asked) :],
            drawn=(*self.drawn, *drawn),
            lost=(*self.lost, *lost),
            sampled=True,
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many of `pairs` each category has."""
        found = [pair.category for pair in self.pairs]
        return {category.value: found.count(category) for category in Category}

    @property
    def means(self) -> tuple[float, float] | None:
        """The mean rewards of `pairs` under the previous and the current skill, or ``None``."""
        pairs = self.pairs
        if not pairs:
            return None
        before = sum(pair.previous.reward or 0.0 for pair in pairs)
        after = sum(pair.current.reward or 0.0 for pair in pairs)
        return before / len(pairs), after / len(pairs)

    def _category(self, before: EpisodeResult, after: EpisodeResult) -> Category | None:
        if before.reward is None or after.reward is None:
            return None
        was_solved = before.is_success(self.success_threshold)
        if after.is_success(self.success_threshold):
            return Category.STABLE_SUCCESS if was_solved else Category.IMPROVED
        return Category.REGRESSED if was_solved else Category.PERSISTENT_FAIL


def comparison_specs(tasks: Sequence[Task], *, seed: int, epoch: int) -> list[EpisodeSpec]:
    """Return the episodes that play tasks for a comparison; both skills get the same seeds."""
    return [
        EpisodeSpec(task, derive_seed("slow_update", seed, epoch, task.id), phase="slow_update")
        for task in tasks
    ]


def render_comparison(comparison: Comparison, max_tokens: int) -> Rendering:
    """Show pairs by category, the most telling first, within a budget of tokens.

    Of a stable success only the name is shown; of any other pair both trajectories, previous one
    first. Categories share the budget by their numbers of pairs, and what one does not need goes
    to the next.
    """
    pairs = comparison.pairs
    stable_pairs = [pair for pair in pairs if pair.category is Category.STABLE_SUCCESS]
    shown = [pair for pair in pairs if pair.category is not Category.STABLE_SUCCESS]
    stable = [attribute(pair.task_id) for pair in stable_pairs]
    closing = f"### {Category.STABLE_SUCCESS}: {len(stable)}\n{', '.join(stable) or '(none)'}"
    room, left = max_tokens - estimate_tokens(closing), len(shown)
    texts: list[str] = []
    cuts: list[Cut] = []
    for category in Category:
        group = [pair for pair in shown if pair.category is category]
        if not group:
            continue
        heading = f"### {category}: {len(group)}\n"
        share = room * len(group) // left - estimate_tokens(heading)
        part = render_trajectories(_transcripts(group), category.value, share)
        texts.append(heading + part.text)
        cuts += part.cuts
        room, left = room - estimate_tokens(texts[-1]), left - len(group)
    return Rendering("\n\n".join([*texts, closing]), tuple(cuts))


def _transcripts(pairs: Sequence[ComparedPair]) -> list[Transcript]:
    before = read_episodes([pair.previous for pair in pairs]).rows
    after = read_episodes([pair.current for pair in pairs]).rows
    return [
        replace(row, id=f"{row.id} ({side})")
        for two in zip(before, after, strict=True)
        for row, side in zip(two, ("previous", "current"), strict=True)
    ]


def _why_lost(before: EpisodeResult, after: EpisodeResult) -> str:
    sides = [name for name, r in (("previous", before), ("current", after)) if r.reward is None]
    return f"it ended in a fault under the {' and the '.join(sides)} skill"


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The situation at an epoch's end.

    Attributes:
        name: Names the epoch in records of calls (``e2``).
        previous_skill: The document that the epoch before ended with.
        skill: The document that this epoch ended with.
        comparison: How the same tasks fared under both.
        seed: Seeds the model's sampling; ``None`` leaves it to the endpoint.
    """

    name: str
    previous_skill: str
    skill: str
    comparison: Comparison
    seed: int | None = None


def epoch_message(
    optimizer: Optimizer, prompt: str, context: EpochContext, earlier: tuple[str, str]
) -> tuple[str, tuple[Cut, ...]]:
    """Write the user message of an epoch-end stage, within the optimizer's token budget.

    Returns:
        The message, and what it leaves out of the trajectories.
    """
    comparison = context.comparison
    before, after = comparison.means or (0.0, 0.0)
    facts = [f"{name}: {count}" for name, count in comparison.counts.items()]
    facts.append(f"mean reward: {before:.2f} -> {after:.2f}")
    heading, text = earlier
    head = user_message(
        skill_section(context.skill),
        ("Previous skill", skill_section(context.previous_skill)[1]),
        (heading, defuse(text).strip()),
        ("Outcomes", "\n".join(facts)),
    )
    head = f"{head}\n\n## Comparison\n"
    shown = render_comparison(comparison, optimizer.room(prompt, head))
    return head + shown.text, shown.cuts


# Slow update: at an epoch's end, guidance that looks further than one batch.
#
# The optimizer compares the same tasks under the skill of the epoch before and the current one, and
# writes guidance into a region of the document that no edit of a step may touch. What comes out is
# a candidate; whether it replaces the skill is the gate's decision.
#
# Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904), its slow update, the momentum of text.


class SlowUpdateStatus(StrEnum):
    """The result of a slow update before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    PLACEHOLDER = "inject_placeholder"
    """The first epoch has nothing to compare; an empty region is in the document."""
    NO_PAIRS = "skip_no_pairs"
    """No task was scored under both skills, or none that the policy keeps."""
    NO_CONTENT = "skip_no_content"
    """The optimizer had nothing to say, or what it said may not enter a skill."""
    NO_CHANGE = "skip_no_change"
    """The guidance is what stands there already."""
    FAULT = "skip_fault"
    """The optimizer's answer could not be used."""


@dataclass(frozen=True, slots=True)
class SlowUpdate:
    """A slow update before the gate.

    Attributes:
        candidate: The document to judge; the skill itself where nothing changed.
        means: Mean rewards under the previous and the current skill, or ``None`` without pairs.
    """

    status: SlowUpdateStatus
    candidate: str
    content: str = ""
    reasoning: str = ""
    pairs: tuple[ComparedPair, ...] = ()
    means: tuple[float, float] | None = None
    cuts: tuple[Cut, ...] = ()
    notes: tuple[str, ...] = ()
    fault: AnalystFault | None = None
    prompt_digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trajectories as a JSON object, for the run's record."""
        record = encode_fields(self)
        content = record.pop("content")
        named = {"candidate_hash": skill_hash(self.candidate), "slow_update_content": content}
        return {**record, **named}


def placeholder(skill: str) -> SlowUpdate:
    """Return the first epoch's update, an empty region. It changes the text and is not measured."""
    return SlowUpdate(SlowUpdateStatus.PLACEHOLDER, inject_empty_slow_update(skill))


async def write_slow_update(
    optimizer: Optimizer, context: EpochContext, limits: EditLimits
) -> SlowUpdate:
    """Have the guidance of an epoch written, and put it into the skill."""
    skill, comparison = context.skill, context.comparison
    nothing = SlowUpdate(
        SlowUpdateStatus.NO_PAIRS, skill, pairs=comparison.pairs, means=comparison.means
    )
    if not comparison.pairs:
        return nothing
    guidance = ("Previous guidance", slow_update_field(skill))
    user, cuts = epoch_message(optimizer, "slow_update", context, guidance)
    call = Call(f"{context.name}.slow", "slow_update", user, Purpose.SLOW_UPDATE, context.seed)
    answer = await optimizer.ask(call, SlowUpdateReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, status=SlowUpdateStatus.FAULT, fault=answer.reply)
    content = without_markers(answer.reply.slow_update_content)
    asked = replace(
        asked,
        status=SlowUpdateStatus.NO_CONTENT,
        reasoning=answer.reply.reasoning,
        content=content,
    )
    candidate = replace_slow_update_field(skill, content)
    refused = text_refusal(content, candidate, skill, limits) if content else None
    if refused or not content:
        notes = (f"the guidance is dropped: {refused}",) if refused else ()
        return replace(asked, content="", notes=notes)
    if candidate == skill:
        return replace(asked, status=SlowUpdateStatus.NO_CHANGE)
    return replace(asked, status=SlowUpdateStatus.CANDIDATE, candidate=candidate)


# Meta skill: what the optimizer has learned about optimizing this skill.
#
# It is written at an epoch's end and read by analysts, merges, rankings and budget decisions of the
# next epoch. It never enters the skill itself.
#
# Source: SkillOpt (microsoft/SkillOpt), its meta skill.


class MetaSkillAction(StrEnum):
    """The result of writing the memory."""

    WRITTEN = "write_meta_skill"
    """There is new content."""
    NO_CONTENT = "no_content"
    """The optimizer had nothing to say, or nothing was compared; the old content stays."""
    FAULT = "skip_fault"
    """The optimizer's answer could not be used; the old content stays."""


@dataclass(frozen=True, slots=True)
class MetaSkill:
    """The optimizer's memory after an epoch.

    Attributes:
        content: What the next epoch is given, in its `StepContext.meta_skill`.
    """

    action: MetaSkillAction
    content: str
    reasoning: str = ""
    cuts: tuple[Cut, ...] = ()
    notes: tuple[str, ...] = ()
    fault: AnalystFault | None = None
    prompt_digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        record = encode_fields(self)
        return {**record, "meta_skill_content": record.pop("content")}


async def write_meta_skill(
    optimizer: Optimizer, context: EpochContext, previous: str, limits: EditLimits
) -> MetaSkill:
    """Have the memory of an epoch written."""
    nothing = MetaSkill(MetaSkillAction.NO_CONTENT, previous)
    if not context.comparison.pairs:
        return nothing
    earlier = ("Previous notes", previous)
    user, cuts = epoch_message(optimizer, "meta_skill", context, earlier)
    call = Call(f"{context.name}.meta", "meta_skill", user, Purpose.META_SKILL, context.seed)
    answer = await optimizer.ask(call, MetaSkillReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, action=MetaSkillAction.FAULT, fault=answer.reply)
    asked = replace(asked, reasoning=answer.reply.reasoning)
    content = answer.reply.meta_skill_content.strip()
    refused = text_refusal(content, content, previous, limits)
    if refused:
        return replace(asked, notes=(f"the notes are dropped: {refused}",))
    if not content:
        return asked
    return replace(asked, action=MetaSkillAction.WRITTEN, content=content)
