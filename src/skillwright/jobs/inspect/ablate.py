"""Ablate a skill: compare the skill with the same skill without each of its sections.

Both sides play the run's val tasks with equal seeds, as at the gate. Stored draws are reused, so a
stopped command continues, and a repeated one plays nothing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, Usage, skill_hash
from skillwright.core.concurrency import together
from skillwright.core.jsonio import dumps, write_text
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import AlphaLedger, BoundedGain, Draws, bound_gain, least_margin
from skillwright.jobs.inspect.provenance import StoredSkill
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.progress import Callback, EpisodeFinished, Event, RunStarted, StageStarted
from skillwright.jobs.run.resources import MakeModel
from skillwright.jobs.run.resume import TASKS, refuse_other_tasks
from skillwright.jobs.text import EvalPlan, Run, estimate_evaluation
from skillwright.jobs.text.sections import Section, split_document, without_sections
from skillwright.jobs.text.wiring import RunParts, assemble_session
from skillwright.models import make_model
from skillwright.runs import EpisodeSummary, RunStore
from skillwright.runs.folder import ABLATION_NAME, BEST_SKILL_NAME, SKILLS_NAME

MARGIN: Final = 0.1
"""Default margin: a section that is worth less is proposed for deletion, in success or reward."""


@dataclass(frozen=True, slots=True)
class AblationPlan:
    """How sections are measured.

    Attributes:
        draws: Draws per val task and side, at least 1.
        margin: A section that is proven to be worth less is proposed for deletion, in (0, 1).
        by_item: Measure each list item and paragraph by itself.
        joint: Also measure all proposed deletions together, on twice as many new draws.
    """

    draws: int = 2
    margin: float = MARGIN
    by_item: bool = False
    joint: bool = False


@dataclass(frozen=True, slots=True)
class AblationWork:
    """A planned ablation.

    Attributes:
        first: Number of each task's first draw.
        tasks: Number of val tasks; 0 for an adapter before it plays.
        stored: Number of its episodes that the run has stored.
    """

    run: Run
    skill: StoredSkill
    plan: AblationPlan
    sections: tuple[Section, ...]
    first: int
    tasks: int
    stored: int

    @property
    def to_play(self) -> int:
        """Number of rollouts to play, without a joint test."""
        return max(0, (1 + len(self.sections)) * self.tasks * self.plan.draws - self.stored)

    @property
    def ledger(self) -> AlphaLedger:
        """The run's alpha, shared evenly by the sections and the joint test."""
        return AlphaLedger(self.run.config.evaluation.alpha, len(self.sections) + 1)

    @property
    def least_margin(self) -> float:
        """The smallest margin at which anything can be proposed for deletion."""
        return least_margin(self.tasks, self.ledger.share)

    @property
    def can_propose(self) -> bool:
        """Whether any result could prove that a section is worth less than the margin."""
        return self.least_margin < self.plan.margin

    async def cost_usd(self) -> float | None:
        """Estimate the cost; ``None`` where a price or the environment's part is unknown."""
        try:
            found = await estimate_evaluation(self.run.config, self.skill.text, EvalPlan("val", 1))
        except ConfigError:  # an adapter calls its models by itself
            return None
        each = found.total.cost_usd
        return None if each is None else each / max(1, self.tasks) * self.to_play


def plan_ablation(run: Run, skill: StoredSkill, plan: AblationPlan) -> AblationWork:
    """Split a skill into sections, and count the stored episodes.

    Raises:
        ConfigError: The skill is empty, or the run never began or has no val tasks.
    """
    sections = tuple(split_document(skill.text, by_item=plan.by_item))
    if not sections:
        raise ConfigError(
            f"version {skill.version} of {run.folder.name!r} is empty: it has no section to measure"
        )
    made_of = run.store.events(TASKS)
    if not made_of:
        raise ConfigError(f"run {run.folder.name!r} has played nothing yet; resume it first")
    tasks = made_of[0].payload["val"]["tasks"]
    if tasks == 0:
        raise ConfigError(
            f"run {run.folder.name!r} has no val tasks, on which sections are measured; name the "
            "run that trained the skill"
        )
    texts = [skill.text, *(without_sections(skill.text, [one]) for one in sections)]
    first, stored = _stored(run.config, run.store, plan.draws, texts)
    return AblationWork(run, skill, plan, sections, first, tasks or 0, stored)


Proposal = Literal["keep", "delete", "undecided"]


@dataclass(frozen=True, slots=True)
class SectionValue:
    """The value of one section, or of several together.

    Attributes:
        sections: The sections that were taken out.
        gain: Gain of the document without them over the whole document.
        proposal: ``delete`` if the loss is proven to be below the margin, ``keep`` if a loss is
            proven, else ``undecided``.
    """

    sections: tuple[Section, ...]
    gain: BoundedGain
    proposal: Proposal

    @classmethod
    def of(cls, sections: Sequence[Section], gain: BoundedGain, margin: float) -> Self:
        """Decide the proposal."""
        proposal: Proposal = "undecided"
        if gain.is_below(0.0):
            proposal = "keep"
        elif gain.is_above(-margin):
            proposal = "delete"
        return cls(tuple(sections), gain, proposal)

    @property
    def value(self) -> float | None:
        """Mean score of the whole document minus that of the rest."""
        return None if self.gain.gain is None else 0.0 - self.gain.gain

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the value."""
        return 0.0 - self.gain.interval.high, 0.0 - self.gain.interval.low

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as a JSON object."""
        return {
            "value": self.value,
            "interval": list(self.interval),
            "pairs": self.gain.effect.pairs,
            "lost": self.gain.effect.lost,
            "proposal": self.proposal,
        }


@dataclass(frozen=True, slots=True)
class Ablation:
    """The result of an ablation.

    Attributes:
        skill: The document's file, relative to the run's folder.
        skill_version: The document's hash.
        sections: One value per section, in order of the document.
        joint: The value of all proposed deletions together, if measured.
        shorter: The document without them.
        alpha: The chance that any proposal of a kind is wrong.
        rollouts: Episodes that were played, failures included.
    """

    skill: str
    skill_version: str
    sections: tuple[SectionValue, ...]
    joint: SectionValue | None
    shorter: str
    alpha: float
    rollouts: int
    usage: Usage

    @property
    def deletions(self) -> tuple[Section, ...]:
        """The sections that are proposed for deletion."""
        return _deletions(self.sections)

    def to_dict(self) -> dict[str, Any]:
        """Return what `ABLATION_NAME` holds."""
        return {
            "skill": self.skill,
            "skill_version": self.skill_version,
            "split": "val",
            "sections": [
                {
                    "title": section.title,
                    "first_line": section.first_line,
                    "last_line": section.last_line,
                    **one.to_dict(),
                }
                for one in self.sections
                for section in one.sections
            ],
        }


async def ablate(work: AblationWork, callback: Callback, make: MakeModel = make_model) -> Ablation:
    """Measure every section, and write the result into the run's folder.

    Raises:
        DataError: The tasks are not those that the run began with.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Every episode failed; finished episodes are stored.
        BudgetSpent: The run's budget is spent; finished episodes are stored.
    """
    run, plan = work.run, work.plan
    meter = Meter(run.store, callback)
    async with assemble_session(run.config, run.store, meter, make) as parts:
        refuse_other_tasks(run.store, parts.bench.facts)
        measuring = _Measuring(work, parts)
        callback.on_event(_introduction(work, parts))
        asked = 2 * len(work.sections) * work.tasks * plan.draws
        callback.on_event(StageStarted("ablation", episodes=asked))
        values = await together(
            measuring.value([one], work.first, plan.draws) for one in work.sections
        )
        deletions, joint = _deletions(values), None
        if plan.joint and len(deletions) > 1:
            draws = _JOINT_TIMES * plan.draws
            callback.on_event(StageStarted("joint test", episodes=2 * work.tasks * draws))
            joint = await measuring.value(deletions, _JOINT_FROM, draws)
        elif plan.joint and deletions:
            joint = next(one for one in values if one.proposal == "delete")
    found = Ablation(
        skill=_file_of(work),
        skill_version=skill_hash(work.skill.text),
        sections=tuple(values),
        joint=joint,
        shorter=without_sections(work.skill.text, deletions),
        alpha=work.ledger.total,
        rollouts=meter.rollouts,
        usage=meter.usage,
    )
    write_text(run.folder.path / ABLATION_NAME, dumps(found.to_dict(), indent=2) + "\n")
    return found


PHASE: Final = "ablation"
_DRAWS_FROM: Final = 2_000_000
_JOINT_FROM: Final = 3_000_000
_JOINT_TIMES: Final = 2


def _stored(
    config: RunConfig, store: RunStore, draws: int, texts: Iterable[str]
) -> tuple[int, int]:
    """Return the first draw of the range with most stored episodes, and their number."""
    wanted = {skill_hash(text) for text in texts}
    played: dict[int, set[tuple[str, str]]] = {}
    for one in store.episodes(split="val"):
        name = one.skill_version.split("+")[0]  # below a document there may be a bank
        if name in wanted and _pairs(config, one):
            played.setdefault(one.draw, set()).add((name, one.task_id))
    found = {
        first: sum(len(played.get(first + more, ())) for more in range(draws)) for first in played
    }
    first = max(found, key=lambda one: (found[one], one), default=_DRAWS_FROM)
    return first, found.get(first, 0)


def _pairs(config: RunConfig, one: EpisodeSummary) -> bool:
    return one.reward is not None and one.seed == evaluation_seed(
        config.run.seed, one.task_id, one.draw
    )


@dataclass(frozen=True, slots=True)
class _Measuring:
    work: AblationWork
    parts: RunParts

    async def value(self, sections: Collection[Section], first: int, count: int) -> SectionValue:
        """Measure the values of sections on a range of draws."""
        work, config = self.work, self.parts.config
        shorter = without_sections(work.skill.text, sections)
        draws = Draws(config.run.seed, first, PHASE)
        duel = self.parts.bench.duel(work.skill.text, shorter, draws)
        pairs = await duel.draw(duel.task_ids, n=count)
        scored = config.evaluation.gate.scores(terms_of(config)).of(pairs)
        gain = bound_gain(scored, len(duel.task_ids), work.ledger.share)
        return SectionValue.of(tuple(sections), gain, work.plan.margin)


def _introduction(work: AblationWork, parts: RunParts) -> RunStarted:
    path, what = work.run.folder.path, "items" if work.plan.by_item else "sections"
    return RunStarted(
        name=work.run.folder.name,
        folder=str(path),
        llms={"target": parts.bench.target_identity},
        facts=(f"{len(work.sections)} {what} of {_file_of(work)} on {work.tasks} val tasks",),
        episodes=2 * len(work.sections) * work.tasks * work.plan.draws,
    )


def _deletions(values: Iterable[SectionValue]) -> tuple[Section, ...]:
    return tuple(s for one in values if one.proposal == "delete" for s in one.sections)


def _file_of(work: AblationWork) -> str:
    """Return the released file if the texts are equal, else the version's own."""
    best = work.run.folder.path / BEST_SKILL_NAME
    if best.is_file() and best.read_bytes() == work.skill.text.encode():
        return BEST_SKILL_NAME
    return f"{SKILLS_NAME}/skill_v{work.skill.version:04d}.md"


class Meter:
    """Passes events on, and counts episodes played and tokens consumed from now on."""

    def __init__(self, store: RunStore, callback: Callback) -> None:
        self.rollouts = 0
        self._store = store
        self._latest = store.usage_since()[1]
        self._callback = callback

    def on_event(self, event: Event) -> None:
        """Count an episode, and pass every event on."""
        self.rollouts += isinstance(event, EpisodeFinished) and not event.reused
        self._callback.on_event(event)

    @property
    def usage(self) -> Usage:
        """Usage since the meter was made."""
        return self._store.usage_since(self._latest)[0]
