"""The gate's decisions about weights, and about skills that were distilled into them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation import Verdict


@dataclass(frozen=True, slots=True)
class PolicyStepRecord(JsonRecord):
    """The verdict on a policy step; weights that lose are taken back.

    Attributes:
        iteration: The last iteration of the step.
        since: The iteration whose weights it was judged against; 0 is the cold start.
        bank_version: The version whose skills were injected on both sides.
        before: The identity of the weights before the step.
        candidate: The identity of the weights after it.
    """

    iteration: int
    since: int
    bank_version: int
    before: str
    candidate: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class InternalizedRecord(JsonRecord):
    """The outcome of distilling skills into the weights.

    Attributes:
        base: The iteration of the weights before it.
        before: The bank's version before it.
        version: The bank's version after it, without the skills if they were retired.
        action: ``accept``, ``reject``, ``undecided``, or why nothing was learned: ``no_skill``,
            ``no_task`` (no train task gets the skills), ``no_success`` (none of theirs was solved).
        skills: Ids of the skills.
        margin: The loss that the test had to rule out.
        tasks: Numbers of train tasks that get these skills, and of others that were trained on.
        coverage: Facts about the episodes that were trained on.
        surprise: Mean cross-entropy per target token, in nats, of the first and the last step.
        candidate: The identity of the new weights.
        verdict: The release test of the new weights without the skills against the old with them.
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


@dataclass(frozen=True, slots=True)
class PolicyJudged:
    """A policy step is decided."""

    record: PolicyStepRecord


@dataclass(frozen=True, slots=True)
class SkillsInternalized:
    """It is decided whether skills are retired."""

    record: InternalizedRecord
