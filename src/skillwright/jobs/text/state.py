"""Where a training run stands, rebuilt from the event log in its store.

Nothing else decides how a run continues, so a resumed run takes the decisions that an uninterrupted
one would have taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from skillwright.config.run import BudgetSection, RunConfig
from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    ScoreTable,
    Seen,
    SelectionBias,
    SplitReport,
    Verdict,
    gain_text,
    why_refuted,
)
from skillwright.jobs.kinds import MADE, UNUSABLE, Kind
from skillwright.jobs.run.resume import rebuild, train_tasks
from skillwright.jobs.text.replies import Replies
from skillwright.runs import RunStore
from skillwright.textopt import StepEntry, StepMemory

LEVEL: Final = "release_level"
REPEAT: Final = "earlier_trainings"
"""What the first event of a repeated training of a skill folder says, or the one that continues it.
"""
_TESTS_OF_A_RUN: Final = 1_000

# The records of decisions, from which a run's state is rebuilt.


_ENTERING = ("accept_new_best", "accept", "force_accept", "inject_placeholder")


class Judged:
    """The verdicts on a candidate, and the action that followed.

    Training continues from the current skill; the best skill is the last that a gate accepted. They
    differ only where something enters the current skill without a gate. The actions:

        accept_new_best     it beat the current and the best skill, and is both now
        accept              it beat the current skill only, and is current now
        force_accept        it is current now, without a comparison
        inject_placeholder  an empty region entered the current skill
        reject, undecided   nothing changes
        skip_...            there was nothing to judge
    """

    __slots__ = ()

    action: str
    verdict: Verdict | None
    best_verdict: Verdict | None

    @property
    def enters(self) -> bool:
        """Whether the candidate became the current skill."""
        return self.action in _ENTERING

    @property
    def is_best(self) -> bool:
        """Whether the candidate became the best skill."""
        beat_best = self.best_verdict is not None and self.best_verdict.accepted
        return self.action == "accept_new_best" or beat_best

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The gate's judgments, in the order in which they were made."""
        return tuple(v for v in (self.verdict, self.best_verdict) if v is not None)

    @property
    def accepted(self) -> bool:
        """Whether the candidate was proven better than the current skill or the best one."""
        return any(verdict.accepted for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class StepRecord(Judged, JsonRecord):
    """A decided step.

    Attributes:
        action: See `Judged`.
        entry: The entry in the step buffer, for later steps.
        verdict: The gate's verdict against the current skill, if it was asked.
        skill_version: The version of the candidate, if there was one.
        best_verdict: The verdict against another best skill, if it was asked.
        noted_version: The current version after reminders were added without a gate, if any.
        replies: The optimizer's replies.
        remarks: What was unusable, dropped or repaired in them, and why.
    """

    step: int
    epoch: int
    action: str
    entry: StepEntry
    verdict: Verdict | None = None
    skill_version: int | None = None
    best_verdict: Verdict | None = field(default=None, kw_only=True)
    noted_version: int | None = field(default=None, kw_only=True)
    replies: Replies = field(default=Replies(), kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class EpochRecord(Judged, JsonRecord):
    """The update of an epoch.

    Attributes:
        steps_ended_with: The skill version after the epoch's last step, before its slow update.
        action: The outcome of the slow update, ``""`` without one; see `Judged`.
        meta_skill: The optimizer's notes for the next epoch.
        verdict: The gate's verdict on the slow update against the current skill, if it was asked.
        skill_version: The version of the slow update's candidate, if there was one.
        best_verdict: The verdict against another best skill, if it was asked.
        replies: The optimizer's replies.
        remarks: What was unusable or dropped in them, and why.
    """

    epoch: int
    steps_ended_with: int
    action: str = ""
    meta_skill: str = ""
    verdict: Verdict | None = None
    skill_version: int | None = None
    best_verdict: Verdict | None = field(default=None, kw_only=True)
    replies: Replies = field(default=Replies(), kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def ended_with(self) -> int:
        """The skill version after the epoch's slow update."""
        entered = self.skill_version if self.enters else None
        return self.steps_ended_with if entered is None else entered


@dataclass(frozen=True, slots=True)
class LinesRecord(JsonRecord):
    """What was taken out of the current skill before a release test.

    Attributes:
        step: The last decided step.
        judged: Number of lines that were judged by themselves.
        gone: Titles of those that were taken out.
        twice: Titles of lines that were there already.
        gain: The gain that is expected of taking lines out.
        characters: By how much the skill is shorter.
        rollouts: Rollouts for it.
        version: The version without the lines, 0 if the initial skill is left; ``None`` if all
            stay.
    """

    step: int
    judged: int
    gone: tuple[str, ...]
    twice: tuple[str, ...]
    gain: float
    characters: int
    rollouts: int
    version: int | None

    @property
    def sentence(self) -> str:
        """Say what was taken out, and what that gains."""
        said = []
        if self.judged and not self.gone:
            said.append(
                f"All {self.judged} lines that came in with others stay ({self.rollouts} rollouts)"
            )
        elif self.judged:
            said.append(
                f"{len(self.gone)} of {self.judged} lines that came in with others do not help and "
                f"are taken out (expected gain {gain_text(self.gain)}, {self.rollouts} rollouts)"
            )
        if self.twice:
            count = len(self.twice)
            said.append(f"{count} repeated line{' is' if count == 1 else 's are'} taken out")
        if self.characters > 0:
            said.append(f"the skill is {self.characters:,} characters shorter")
        return f"{'; '.join(said)}."


@dataclass(frozen=True, slots=True)
class Confirmation(JsonRecord):
    """The scores of the best skill on val tasks that no gate has drawn.

    Attributes:
        report: The scores of the initial and the best skill there.
        bias: The gain seen by the gates minus that gain: a gate selects what looks best.
    """

    report: SplitReport
    bias: SelectionBias


@dataclass(frozen=True, slots=True)
class MetBest:
    """A candidate met the best skill."""

    best_version: int
    version: int
    accepts: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TrainState:
    """The state of a training; reports are ``None`` before their stage has ended.

    Attributes:
        memory: The step buffer, for analysts.
        ledger: The alpha that is left.
        skill_version: The current skill, which training continues from.
        best_version: The best skill, which only a gate changes.
        accepts: Number of duels that were accepted; the gate's next draws depend on it.
        idle_steps: Steps since the last accept.
        replies: The optimizer's replies since the start, or since the run stopped for them.
        baseline: The initial skill's score on val.
        hints: What to change where that score is 0%.
        met_best: The latest candidate that was judged against a best skill other than the current.
        seen: What the gate has seen of the skills on val, for a gate with a belief.
        final: The gate's verdict on the last skill against the best, or of the latest release test.
        lines: What was taken out before release tests.
        tested: The versions that a release test has tested.
        proof: The verdict of the release test that the released skill has passed.
        sealed: Whether the test split is still closed.
        report: The test report.
        confirmation: The report on tasks that no gate has drawn.
        ran_out_of_patience: Whether training ended because nothing was accepted for too long.
        cut_by_budget: How many steps were planned, if the budget paid for fewer; else 0.
        cut_under: That budget.
        memorized: A sentence on tasks whose answers the released skill holds, or "".
        drift: A sentence on an endpoint whose level moved during the run, or "".
        restored_from: The version that was released by its proof, where a person restored another.
        repeat: Number of earlier trainings of the same skill folder that tested a release.
    """

    memory: StepMemory
    ledger: AlphaLedger
    skill_version: int = 0
    best_version: int = 0
    accepts: int = 0
    idle_steps: int = 0
    replies: Replies = field(default=Replies())
    baseline: ScoreTable | None = None
    hints: tuple[str, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    epochs: tuple[EpochRecord, ...] = ()
    met_best: MetBest | None = None
    seen: tuple[Seen, ...] = ()
    final: Verdict | None = None
    lines: tuple[LinesRecord, ...] = ()
    tested: tuple[int, ...] = ()
    proof: Verdict | None = None
    sealed: bool = True
    report: SplitReport | None = None
    confirmation: Confirmation | None = None
    finished: bool = False
    ran_out_of_patience: bool = False
    cut_by_budget: int = 0
    cut_under: BudgetSection | None = None
    memorized: str = ""
    drift: str = ""
    restored_from: int | None = None
    repeat: int = 0

    @property
    def next_test(self) -> int:
        """The number of the next release test; repeated trainings of a folder share no draws."""
        return self.repeat * _TESTS_OF_A_RUN + len(self.tested)

    @property
    def two_levels(self) -> bool:
        """Whether steps change the current skill only, and a release test what is released."""
        return bool(self.ledger.shares)

    @property
    def all_replies(self) -> Replies:
        """The optimizer's replies of all that is decided."""
        decided: tuple[StepRecord | EpochRecord, ...] = (*self.steps, *self.epochs)
        return sum((one.replies for one in decided), Replies())

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The gate's verdicts on steps, then on epochs."""
        return tuple(said for one in (*self.steps, *self.epochs) for said in one.verdicts)

    @property
    def release_text(self) -> str:
        """Say what is released, what was proven and what was taken out before.

        "" if every accept is a release.
        """
        said = [self._release_text, *(one.sentence for one in self.lines[-1:])]
        return " ".join(said) if said[0] else ""

    @property
    def _release_text(self) -> str:
        current, released = self.skill_version, self.best_version
        if self.restored_from is not None:
            return (
                f"Version {released} is released: it was restored by hand. Test scores of the "
                f"released skill are those of version {self.restored_from}."
            )
        if not self.two_levels:
            return ""
        if self.final is not None and self.final.accepted:
            return f"Version {current} is released. {self.final.reason}"
        if current == released:
            return f"Version {released} is current and released: nothing else was accepted."
        if self.final is None:
            return (
                f"Version {current} is current and not tested yet; version {released} is released."
            )
        return (
            f"Version {released} stays released; version {current} is current. {self.final.reason}"
        )

    @property
    def proven_version(self) -> int:
        """The version that the run released, whatever a person restored since."""
        return self.best_version if self.restored_from is None else self.restored_from

    @property
    def refuted(self) -> str:
        """See `why_refuted`, of the released version."""
        return self.refuted_of(self.best_version)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that readers of the run's result must know."""
        again = self.report.caveat if self.report else ""
        return tuple(filter(None, (self.refuted, again, self.memorized, self.drift)))

    def caveats_of(self, version: int) -> dict[str, str]:
        """Return the sentences against a version, by name: ``refuted``, ``memorized``."""
        copied = self.memorized if version == self.proven_version else ""
        said = {"refuted": self.refuted_of(version), "memorized": copied}
        return {name: one for name, one in said.items() if one}

    def refuted_of(self, version: int) -> str:
        """Say why what a release test proved of a version does not hold on test, or return ""."""
        found = self.report.judged.get("best") if self.report else None
        if self.proof is None or found is None or version != self.proven_version:
            return ""
        return why_refuted(self.proof, found)

    @property
    def outcome(self) -> str:
        """Say in one line which version is released and which is current."""
        current, released = self.skill_version, self.best_version
        said = f"Released: version {released}" if released else "Released: the initial skill"
        said += ", which does not hold on test" if self.refuted else ""
        if self.two_levels and current != released:
            tested = "is not proven better" if self.final is not None else "is not tested yet"
            return f"{said}; the current version {current} {tested}"
        return said if released else f"{said}; nothing was kept"

    @property
    def is_tested(self) -> bool:
        """Whether a release test has decided on the current version."""
        return self.final is not None and self.skill_version in self.tested

    @property
    def failed_to_prove(self) -> bool:
        """Whether the latest release test proved nothing."""
        return self.two_levels and self.final is not None and not self.final.accepted

    def continues_under(self, budget: BudgetSection) -> bool:
        """Whether a run that a budget had cut short continues under another, larger one.

        After a release test that proved nothing, it continues only if alpha is left for the next.
        """
        if not self.cut_by_budget or self.cut_under is None or not budget.is_set:
            return False
        if self.failed_to_prove and not self.ledger.share:
            return False
        before, now = self.cut_under.model_dump(), budget.model_dump()
        bounds = [(old, now[name]) for name, old in before.items() if old is not None]
        return before != now and all(new is None or new >= old for old, new in bounds)

    @property
    def last_step(self) -> int:
        """The last decided step, 0 before the first."""
        return self.steps[-1].step if self.steps else 0

    @property
    def last_epoch(self) -> int:
        """The last epoch that was updated, 0 before the first."""
        return self.epochs[-1].epoch if self.epochs else 0

    @property
    def meta_skill(self) -> str:
        """The optimizer's notes for itself, or ``""``."""
        return self.epochs[-1].meta_skill if self.epochs else ""

    @property
    def proofs(self) -> tuple[Verdict, ...]:
        """The judgments that led from the initial skill to the best one."""
        moved = [record for record in (*self.steps, *self.epochs) if record.is_best]
        judged = [record.best_verdict or record.verdict for record in moved]
        promoted = [self.final] if self.final is not None and self.final.accepted else []
        return tuple(verdict for verdict in (*judged, *promoted) if verdict is not None)

    def measured(self, version: int) -> int:
        """Return the version whose score a version inherits, if first scores hold for a run.

        That is an earlier version if only an empty region was inserted since; else the same.
        """
        for record in self.epochs:
            if record.action == "inject_placeholder" and record.skill_version == version:
                return record.steps_ended_with
        return version

    @property
    def unmeasured(self) -> frozenset[int]:
        """The versions that became current without having been judged: guidance and reminders."""
        forced = {one.skill_version for one in self.epochs if one.enters and not one.verdicts}
        noted = {one.noted_version for one in self.steps}
        return frozenset(version for version in forced | noted if version is not None)

    def memory_in(self, epoch: int) -> StepMemory:
        """Return the step buffer for the next step, which may be the first of an epoch."""
        is_new = bool(self.steps) and self.steps[-1].epoch < epoch
        return self.memory.start_epoch() if is_new else self.memory

    def after(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after one more event; events of other kinds change nothing."""
        match kind:
            case Kind.BASELINE:
                hints = tuple(payload.get("hints", ()))
                drawn = {one: (score, 1) for one, score in payload.get("drawn", {}).items()}
                seen = (Seen(drawn),) if drawn else ()
                return replace(self, baseline=ScoreTable.from_dict(payload), hints=hints, seen=seen)
            case Kind.STEP:
                return self._after_step(StepRecord.from_dict(payload))
            case Kind.EPOCH:
                return self._after_epoch(EpochRecord.from_dict(payload))
            case Kind.FINAL:
                return self._after_final(Verdict.from_dict(payload))
            case Kind.TEST_OPENED:
                return replace(self, sealed=False)
            case Kind.TEST:
                return replace(self, report=SplitReport.from_dict(payload))
            case Kind.CONFIRMED:
                return replace(self, confirmation=Confirmation.from_dict(payload))
            case _ if kind == UNUSABLE:  # the next replies are of a corrected model
                return replace(self, replies=Replies())
            case Kind.FINISHED | Kind.RESTORED | Kind.CONTINUED | Kind.LINES:
                return self._after_end(kind, payload)
            case _:
                return self

    def _after_end(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after an event that is no decision of a gate."""
        if kind == Kind.CONTINUED:
            return self._continued(payload)
        if kind == Kind.LINES:
            found = LinesRecord.from_dict(payload)
            now = self.skill_version if found.version is None else found.version
            return replace(self, lines=(*self.lines, found), skill_version=now)
        if kind == Kind.FINISHED:
            impatient = payload.get("ran_out_of_patience", False)
            said = {name: payload.get(name, "") for name in ("memorized", "drift")}
            cut, under = payload.get("cut_by_budget", 0), payload.get("cut_under")
            state = replace(self, ran_out_of_patience=impatient, cut_by_budget=cut, **said)
            budget = None if under is None else BudgetSection(**under)
            return replace(state, cut_under=budget, finished=True)
        version, proven = int(payload["version"]), self.proven_version
        left = None if version == proven else proven
        return replace(self, best_version=version, restored_from=left)

    def _continued(self, payload: dict[str, Any]) -> Self:
        """Return the state of a run that continues; what was not decided is tested again."""
        is_decided = self.final is None or self.final.decision is not Decision.UNDECIDED
        return replace(
            self.sharing(payload),
            finished=False,
            cut_by_budget=0,
            final=self.final if is_decided else None,
            sealed=True,
            report=None,
            confirmation=None,
        )

    def sharing(self, facts: Mapping[str, Any]) -> Self:
        """Return the state with the share of a repeated training, if facts name one."""
        if LEVEL not in facts:
            return self
        ledger = replace(self.ledger, total=facts[LEVEL])
        return replace(self, ledger=ledger, repeat=facts[REPEAT])

    def _after_step(self, record: StepRecord) -> Self:
        judged = self.judged(record, record.skill_version)
        noted = record.noted_version
        return replace(
            judged,
            skill_version=judged.skill_version if noted is None else noted,
            memory=self.memory_in(record.epoch).remember(record.entry),
            steps=(*self.steps, record),
            idle_steps=0 if record.accepted else self.idle_steps + 1,
            replies=self.replies + record.replies,
        )

    def _after_epoch(self, record: EpochRecord) -> Self:
        judged = self.judged(record, record.skill_version)
        idle = 0 if record.accepted else self.idle_steps
        replies = self.replies + record.replies
        return replace(judged, epochs=(*self.epochs, record), idle_steps=idle, replies=replies)

    def _after_final(self, verdict: Verdict) -> Self:
        best = self.skill_version if verdict.accepted else self.best_version
        restored = None if verdict.accepted else self.restored_from
        state = replace(
            self.spent(verdict),
            final=verdict,
            best_version=best,
            tested=(*self.tested, self.skill_version),
            restored_from=restored,
        )
        if verdict.accepted and self.two_levels:
            state = replace(state, proof=verdict)
        if self.report is None or not verdict.accepted:
            return state
        # Proven after the sealed test: the skill that was tested as current is released now.
        return replace(state, report=self.report.renamed("final", "best"), confirmation=None)

    def judged(self, record: Judged, version: int | None) -> Self:
        """Return the state after a decision on a candidate; without a version, nothing changes."""
        state = self.spent(*record.verdicts)
        if version is None:
            return state
        met = self.met_best
        if record.best_verdict is not None:
            before = state.accepts - record.best_verdict.accepted
            met = MetBest(self.best_version, version, before, record.best_verdict)
        return replace(
            state,
            met_best=met,
            skill_version=version if record.enters else self.skill_version,
            best_version=version if record.is_best else self.best_version,
        )

    def spent(self, *verdicts: Verdict) -> Self:
        """Return the state with the alpha and accepts of the gate's verdicts counted."""
        ledger = self.ledger
        for verdict in verdicts:
            ledger = ledger.spend(verdict)
        accepts = self.accepts + sum(verdict.accepted for verdict in verdicts)
        seen = tuple(verdict.seen for verdict in verdicts if verdict.seen is not None)
        return replace(self, ledger=ledger, accepts=accepts, seen=(*self.seen, *seen))


def restore(config: RunConfig, store: RunStore) -> TrainState:
    """Rebuild the state of a run from its configuration and its store."""
    return rebuild(beginning(config, store), store.events())


def beginning(config: RunConfig, store: RunStore) -> TrainState:
    """Return the state of a run before its first decision."""
    memory = StepMemory(across_epochs=config.optimizer.memory_across_epochs)
    ledger = config.ledger(train_tasks(store) or 1)
    made = store.events(MADE)
    return TrainState(memory, ledger).sharing(made[0].payload if made else {})
