"""The stages at an epoch's end: compare two epochs' skills, slow update, meta skill."""

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
from skillwright.textopt.proposal import (
    AnalystFault,
    EditLimits,
    begun,
    cleaned,
    parse_mode,
    text_refusal,
)

# Source: SkillOpt (microsoft/SkillOpt), longitudinal pairs, with its samples, policies and order.
# Unlike it, this plays in batches (with the same pairs), uses a success threshold, and leaves out
# tasks that failed without a score.


EPOCH_STRIDE = 2_000
"""Difference between the seeds of two epochs' samples."""


class Category(StrEnum):
    """The outcome of a task under the current skill, compared with the previous one."""

    REGRESSED = "regressed"
    """Success before, failure now."""
    PERSISTENT_FAIL = "persistent_fail"
    """Failure before and now."""
    IMPROVED = "improved"
    """Failure before, success now."""
    STABLE_SUCCESS = "stable_success"
    """Success before and now."""


class PairPolicy(StrEnum):
    """The pairs that are shown."""

    MIXED = "mixed"
    """The whole sample."""
    CHANGED = "changed"
    """Improved and regressed; more tasks are drawn until there are enough."""
    UNCHANGED = "unchanged"
    """Persistent failures and stable successes, likewise."""

    def keeps(self, category: Category) -> bool:
        """Tell whether pairs of a category are shown."""
        has_changed = category in (Category.IMPROVED, Category.REGRESSED)
        return self is PairPolicy.MIXED or has_changed == (self is PairPolicy.CHANGED)


POLICY_ALIASES: Mapping[str, PairPolicy] = {
    **{policy.value: policy for policy in PairPolicy},
    **dict.fromkeys(("change", "delta", "10_01", "01_10"), PairPolicy.CHANGED),
    **dict.fromkeys(("stable", "same", "00_11"), PairPolicy.UNCHANGED),
}


def parse_pair_policy(name: str) -> PairPolicy:
    """Parse a pair policy or alias, ignoring case.

    Raises:
        ConfigError: The policy is unknown; the message names the nearest.
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
    """The pairs drawn so far; immutable.

    The job plays `todo` under both skills and adds the results, until nothing is left to play.

    Attributes:
        wanted: Maximum number of pairs shown.
        success_threshold: The reward from which an episode is a success.
        queue: Unplayed tasks, in drawing order.
        drawn: Pairs with two rewards, in drawing order.
        lost: Tasks without a pair because an episode failed.
        sampled: Whether the initial sample was played; later tasks replace pairs that are left out.
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
            wanted: Size of the sample, and maximum number of pairs shown; at least 1.
            seed: The run's seed.
            epoch: Number of the epoch, from 1.
            policy: The pairs that are shown.
            success_threshold: The reward from which an episode is a success.

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
        """The next tasks to play, at most ``wanted``; none when the comparison is complete."""
        is_done = self.sampled and (
            self.policy is PairPolicy.MIXED or len(self.pairs) >= self.wanted
        )
        return () if is_done else self.queue[: self.wanted]

    @property
    def pairs(self) -> tuple[ComparedPair, ...]:
        """The first drawn pairs that the policy keeps."""
        kept = [pair for pair in self.drawn if self.policy.keeps(pair.category)]
        return tuple(kept[: self.wanted])

    def add(self, previous: Sequence[EpisodeResult], current: Sequence[EpisodeResult]) -> Self:
        """Return the comparison with the results of `todo`.

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
        """The number of `pairs` per category."""
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
    """Return the episodes of a comparison; both skills get the same seeds."""
    return [
        EpisodeSpec(task, derive_seed("slow_update", seed, epoch, task.id), phase="slow_update")
        for task in tasks
    ]


def render_comparison(comparison: Comparison, max_tokens: int) -> Rendering:
    """Render pairs by category, the most informative first, within a token budget.

    Stable successes are only named; other pairs show both trajectories, the previous one first. The
    categories share the budget by their numbers of pairs; unused budget goes to the next.
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
    """The context at an epoch's end.

    Attributes:
        name: Name of the epoch in records of calls (``e2``).
        previous_skill: The document at the end of the previous epoch.
        skill: The document at the end of this epoch.
        comparison: Outcomes of the same tasks under both.
        seed: Seed of the model's sampling, or ``None``.
        needs_pairs: Nothing is asked without a pair; SkillOpt asks all the same.
    """

    name: str
    previous_skill: str
    skill: str
    comparison: Comparison
    seed: int | None = None
    needs_pairs: bool = True

    @property
    def has_evidence(self) -> bool:
        """Whether there is something to ask about."""
        return bool(self.comparison.pairs) or not self.needs_pairs


def epoch_message(
    optimizer: Optimizer, prompt: str, context: EpochContext, earlier: tuple[str, str]
) -> tuple[str, tuple[Cut, ...]]:
    """Return the user message of an epoch-end stage, within the token budget, and its cuts."""
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


# Slow update: the optimizer compares the same tasks under the skills of two epochs and writes
# guidance into a region that no step's edit may touch. The result is a candidate for the gate.
# Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904), slow update.


class SlowUpdateStatus(StrEnum):
    """The outcome of a slow update before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    PLACEHOLDER = "inject_placeholder"
    """The first epoch: nothing to compare; the document has an empty region."""
    NO_PAIRS = "skip_no_pairs"
    """No pair has two scores, or the policy keeps none."""
    NO_CONTENT = "skip_no_content"
    """The optimizer wrote no guidance, or the guidance was refused."""
    NO_CHANGE = "skip_no_change"
    """The guidance did not change."""
    FAULT = "skip_fault"
    """The optimizer's answer was unusable."""


@dataclass(frozen=True, slots=True)
class SlowUpdate:
    """A slow update before the gate.

    Attributes:
        candidate: The document to judge; the skill itself if nothing changed.
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


def placeholder(skill: str, limits: EditLimits) -> SlowUpdate:
    """Return the first epoch's update: an empty region, which is not measured."""
    return SlowUpdate(SlowUpdateStatus.PLACEHOLDER, begun(inject_empty_slow_update(skill), limits))


async def write_slow_update(
    optimizer: Optimizer, context: EpochContext, limits: EditLimits
) -> SlowUpdate:
    """Ask for an epoch's guidance and put it into the skill."""
    skill, comparison = context.skill, context.comparison
    nothing = SlowUpdate(
        SlowUpdateStatus.NO_PAIRS, skill, pairs=comparison.pairs, means=comparison.means
    )
    if not context.has_evidence:
        return nothing
    guidance = ("Previous guidance", slow_update_field(skill))
    user, cuts = epoch_message(optimizer, "slow_update", context, guidance)
    call = Call(f"{context.name}.slow", "slow_update", user, Purpose.SLOW_UPDATE, context.seed)
    answer = await optimizer.ask(call, SlowUpdateReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, status=SlowUpdateStatus.FAULT, fault=answer.reply)
    content = cleaned(without_markers(answer.reply.slow_update_content), limits)
    asked = replace(
        asked,
        status=SlowUpdateStatus.NO_CONTENT,
        reasoning=answer.reply.reasoning,
        content=content,
        notes=answer.repairs,
    )
    candidate = begun(replace_slow_update_field(skill, content), limits)
    refused = text_refusal(content, candidate, skill, limits) if content else None
    if refused or not content:
        notes = (f"the guidance is dropped: {refused}",) if refused else ()
        return replace(asked, content="", notes=(*asked.notes, *notes))
    if candidate == skill:
        return replace(asked, status=SlowUpdateStatus.NO_CHANGE)
    return replace(asked, status=SlowUpdateStatus.CANDIDATE, candidate=candidate)


# Meta skill: the optimizer's memory, written at an epoch's end and read by the model calls of the
# next epoch. It never enters the skill. Source: SkillOpt (microsoft/SkillOpt).


class MetaSkillAction(StrEnum):
    """The outcome of writing the memory."""

    WRITTEN = "write_meta_skill"
    """There is new content."""
    NO_CONTENT = "no_content"
    """The optimizer wrote nothing, or nothing was compared; the old content stays."""
    FAULT = "skip_fault"
    """The optimizer's answer was unusable; the old content stays."""


@dataclass(frozen=True, slots=True)
class MetaSkill:
    """The optimizer's memory after an epoch: its content is the next `StepContext.meta_skill`."""

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
    """Ask for the memory of an epoch."""
    nothing = MetaSkill(MetaSkillAction.NO_CONTENT, previous)
    if not context.has_evidence:
        return nothing
    earlier = ("Previous notes", previous)
    user, cuts = epoch_message(optimizer, "meta_skill", context, earlier)
    call = Call(f"{context.name}.meta", "meta_skill", user, Purpose.META_SKILL, context.seed)
    answer = await optimizer.ask(call, MetaSkillReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, action=MetaSkillAction.FAULT, fault=answer.reply)
    asked = replace(asked, reasoning=answer.reply.reasoning, notes=answer.repairs)
    content = cleaned(answer.reply.meta_skill_content.strip(), limits)
    refused = text_refusal(content, content, previous, limits)
    if refused:
        return replace(asked, notes=(*asked.notes, f"the notes are dropped: {refused}"))
    if not content:
        return asked
    return replace(asked, action=MetaSkillAction.WRITTEN, content=content)
