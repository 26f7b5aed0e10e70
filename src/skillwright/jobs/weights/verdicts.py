"""What the gate says of weights, and of skills that were distilled into them: values alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation import Verdict


@dataclass(frozen=True, slots=True)
class PolicyStepRecord(JsonRecord):
    """What became of a policy step: of the iterations since the one before it.

    Attributes:
        iteration: After which one.
        since: After which one the weights were that it was judged against; 0 is the cold start.
        bank_version: Which skills were injected on both sides.
        before: The identity of those weights.
        candidate: And of the weights that it made. Those that lose are taken back.
        verdict: The gate's.
    """

    iteration: int
    since: int
    bank_version: int
    before: str
    candidate: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class InternalizedRecord(JsonRecord):
    """What became of skills that were to be distilled into the weights.

    Attributes:
        base: After which iteration the weights were that it began with.
        before: The bank's version then.
        version: And now: without the skills, where they were retired.
        action: ``accept``, ``reject``, ``undecided``, or why nothing was learned: ``no_skill``,
            ``no_task`` (no train task gets the skills), ``no_success`` (none of theirs was solved).
        skills: Ids of the skills.
        margin: The loss that was to be ruled out.
        tasks: Train tasks that get these skills, and others that were also learned from.
        coverage: Facts about the episodes that were learned from.
        surprise: Mean cross-entropy per target token, in nats: in the first step, and in the last.
        candidate: The identity of the weights that came of it.
        verdict: The release test's: these weights without the skills, against those before with
            them; ``None`` where nothing was learned.
    """

    base: int
    before: int
    version: int
    action: str
    skills: tuple[str, ...]
    margin: float
    tasks: tuple[int, int] = (0, 0)
    coverage: Mapping[str, int] = field(default_factory=dict)
    surprise: tuple[float, float] | None = None
    candidate: str = ""
    verdict: Verdict | None = None

    @property
    def accepted(self) -> bool:
        """Whether the skills are retired, and the new weights released."""
        return self.action == "accept"


# What is said of it while a run works.


@dataclass(frozen=True, slots=True)
class PolicyJudged:
    """A policy step is decided.

    Attributes:
        record: The outcome.
    """

    record: PolicyStepRecord


@dataclass(frozen=True, slots=True)
class SkillsInternalized:
    """Whether skills are retired is decided.

    Attributes:
        record: The outcome.
    """

    record: InternalizedRecord
