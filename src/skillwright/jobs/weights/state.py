"""The state of the recipe, rebuilt from the event log. Weights lie in checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from skillwright.config.rl import RlConfig
from skillwright.core.jsonio import JsonRecord, encode
from skillwright.evaluation import AlphaLedger, Score, ScoreTable, SplitReport, Verdict
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.progress import Event
from skillwright.jobs.run.resume import rebuild
from skillwright.jobs.weights.verdicts import (
    InternalizedRecord,
    PolicyJudged,
    PolicyStepRecord,
    SkillsInternalized,
)
from skillwright.runs import RunStore

TIMING = "timing"
"""The key of an event's payload that holds what took how long; no decision reads it."""
TEST_EPISODES = "episodes"
"""The key of the test event's payload that holds the episodes' keys by artifact."""


Which = Literal["released", "final", "cold-start", "start"]
"""Names weights of a finished run: what it released, what it selected, what the cold start left,
and what it began with."""
Form = Literal["merged", "adapter", "q8_0", "f16", "f32"]
"""How weights are saved: safetensors with an adapter merged, or the adapter alone; or GGUF of that
precision."""
START, INTERNALIZED, CANDIDATE = -1, -2, -3
"""Name weights where an iteration is named: those that a run began with, those that skills were
distilled into, and those that the gate is judging; 0 is the cold start."""
_NAMES = {START: "start", INTERNALIZED: "internalized", CANDIDATE: "candidate"}


def checkpoint_name(iteration: int) -> str:
    """Return the name of the file that holds the weights after an iteration."""
    return f"{_NAMES.get(iteration, f'iteration_{iteration:05d}')}.ckpt"


def weights_name(iteration: int) -> str:
    """Say for people which weights a run has after an iteration."""
    return {**_NAMES, 0: "cold start"}.get(iteration, f"iteration {iteration}")


_FIELDS = {RlKind.BANK: "bank", RlKind.POLICY: "policy", RlKind.COLD_START: "cold_start"}


@dataclass(frozen=True, slots=True)
class IterationRecord(JsonRecord):
    """What an iteration played and did.

    Attributes:
        iteration: From 1.
        bank_version: Which skills were injected.
        episodes: Scored episodes.
        reward: Mean outcome of them.
        success: Share of them that was solved.
        task_types: (solved, scored) by task type.
        groups: Tasks with at least one scored episode.
        zero_variance: Zero-variance groups: equal outcomes; they teach nothing.
        lone: Groups with one survivor; it was dropped.
        failures: Episodes that the infrastructure failed.
        truncated: Episodes that a limit ended.
        malformed: Turns whose action was none of those on offer.
        turns: Mean turns of an episode.
        tokens: Mean tokens that the policy chose in an episode; for a scorer, choices.
        rows: Rows that were learned from.
        steps: Optimizer steps.
        skipped: Steps left out because their gradient was not finite.
        loss: Mean of the steps; ``None``, as in what follows, where it was no finite number.
        kl: Mean divergence from the reference per token, in nats.
        entropy: Mean entropy per token, in nats.
        clip_fraction: Share of tokens without gradient.
        drift: Largest change of a log-probability between sampling and training.
        grad_norm: Mean norm of the gradient before clipping; infinite ones left out.
        learning_rate: Of the steps.
        skills: Mean number of skills injected into an episode.
        injected: Ids of skills -> episodes that they were injected into.
        solved: Ids of tasks -> share of their episodes that was solved.
    """

    iteration: int
    bank_version: int
    episodes: int
    reward: float
    success: float
    task_types: Mapping[str, tuple[int, int]]
    groups: int
    zero_variance: int
    lone: int
    failures: int
    truncated: int
    malformed: int
    turns: float
    tokens: float
    rows: int
    steps: int
    skipped: int
    loss: float | None
    kl: float | None
    entropy: float | None
    clip_fraction: float
    drift: float | None
    grad_norm: float | None
    learning_rate: float
    skills: float
    injected: Mapping[str, int] = field(default_factory=dict)
    solved: Mapping[str, float] = field(default_factory=dict)

    @property
    def zero_variance_share(self) -> float:
        """Share of the groups that teach nothing."""
        return self.zero_variance / self.groups if self.groups else 0.0


@dataclass(frozen=True, slots=True)
class EvolutionRecord(JsonRecord):
    """What became of an update of the bank.

    Attributes:
        iteration: After which one.
        version: The bank's version now.
        before: And before.
        action: ``accept``, ``reject``, ``undecided``, or why nothing was proposed: ``none_weak``,
            ``no_proposal``, ``nothing_new``, ``teacher_failed``.
        success: (solved, scored) by category, on the evolution split.
        weakest: The category with the lowest accuracy, or ``None``.
        growth: Active skills by category now (``""`` for general ones), with their number.
        added: Ids that were given out.
        refined: Ids with new words.
        retired: Ids that are injected no more.
        refused: Proposals that the limits, or what is there already, left out.
        verdict: The gate's, or ``None`` where it was not asked.
        earlier: Lines that tell a later teacher what was proposed.
        notes: What else is to be said.
    """

    iteration: int
    version: int
    before: int
    action: str
    success: Mapping[str, tuple[int, int]]
    weakest: str | None = None
    growth: Mapping[str, int] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    refined: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    refused: int = 0
    verdict: Verdict | None = None
    earlier: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation(JsonRecord):
    """A score on val.

    Attributes:
        iteration: After which one; 0 is the cold start, `START` what the run began with.
        bank_version: Which skills were injected.
        table: The scores.
        policy: The identity of the weights.
    """

    iteration: int
    bank_version: int
    table: ScoreTable
    policy: str = ""

    @property
    def success(self) -> float:
        """Share of the val tasks that was solved; 0 where none was scored."""
        return self.table.overall.success_rate or 0.0


@dataclass(frozen=True, slots=True)
class RlState:
    """What a run of the recipe knows.

    Attributes:
        ledger: The alpha that is left for changes of bank and weights.
        bank: Facts about the first bank, with its ``version``; ``None`` before it is there.
        policy: What the policy was built of; ``None`` before.
        cold_start: Facts about the cold start, with the digest of the ``reference``; ``None``
            before its end.
        iterations: By number.
        evolutions: By the iteration that they came after.
        policy_steps: By the iteration that they ended with.
        validations: By iteration.
        sealed: Whether the test split is still closed.
        test: The test report, or ``None``.
        release: Whether what the run ends with is proven better than the cold start with the first
            bank; ``None`` where that was not tested.
        internalized: What became of skills that were to be distilled into the weights; ``None``
            before.
        finished: Whether nothing is left to do.
    """

    ledger: AlphaLedger
    bank: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None
    cold_start: Mapping[str, Any] | None = None
    iterations: Mapping[int, IterationRecord] = field(default_factory=dict)
    evolutions: Mapping[int, EvolutionRecord] = field(default_factory=dict)
    policy_steps: Mapping[int, PolicyStepRecord] = field(default_factory=dict)
    validations: Mapping[int, Validation] = field(default_factory=dict)
    sealed: bool = True
    test: SplitReport | None = None
    release: Verdict | None = None
    internalized: InternalizedRecord | None = None
    finished: bool = False

    @property
    def first_version(self) -> int:
        """The version of the first bank; 0 before it is there."""
        return int(self.bank["version"]) if self.bank else 0

    @property
    def reference(self) -> str:
        """Digest of the weights that the cold start ended with; ``""`` before."""
        return str(self.cold_start["reference"]) if self.cold_start else ""

    @property
    def last_iteration(self) -> int:
        """The last iteration that was written down."""
        return max(self.iterations, default=0)

    @property
    def baseline(self) -> int:
        """Which weights the release test compares with: `START`, or 0 for the cold start."""
        return START if START in self.validations else 0

    @property
    def last_policy_step(self) -> int:
        """After which iteration the weights are that the next policy step has to beat."""
        return max(self.policy_steps, default=0)

    def policy_step_at(self, iteration: int) -> int:
        """Return the last policy step that had ended after an iteration; 0 is the cold start."""
        return max((one for one in self.policy_steps if one <= iteration), default=0)

    @property
    def accepts(self) -> int:
        """How often the gate has let a change of bank or weights through."""
        banks = [one.action == "accept" for one in self.evolutions.values()]
        return sum(banks) + sum(one.verdict.accepted for one in self.policy_steps.values())

    @property
    def verdicts(self) -> list[Verdict]:
        """What the gate said of changes of bank and weights, in no order."""
        of_bank = [one.verdict for one in self.evolutions.values() if one.verdict is not None]
        return of_bank + [one.verdict for one in self.policy_steps.values()]

    @property
    def best(self) -> Validation | None:
        """The best validation, the later among equals; ``None`` before the first."""
        known = self.validations.values()
        return max(known, key=lambda one: (one.success, one.iteration)) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return what happened as a JSON object."""
        return {
            "bank": encode(self.bank),
            "cold_start": encode(self.cold_start),
            "iterations": encode(list(self.iterations.values())),
            "evolutions": encode(list(self.evolutions.values())),
            "policy_steps": encode(list(self.policy_steps.values())),
            "validations": encode(list(self.validations.values())),
            "best_iteration": self.best.iteration if self.best else None,
            "ledger": encode(self.ledger),
            "test": encode(self.test),
            "release": encode(self.release),
            "internalized": encode(self.internalized),
            "finished": self.finished,
        }

    def version_after(self, iteration: int) -> int:
        """Return the version of the bank that is injected after an iteration."""
        done = [number for number in self.evolutions if number <= iteration]
        return self.evolutions[max(done)].version if done else self.first_version

    def success_rates(self, before: int) -> dict[str, float]:
        """Return the recent success rate of each task type, before an iteration.

        Returns:
            By task type: a running mean in which each iteration that played it counts a fifth,
            beginning at a half.
        """
        rates: dict[str, float] = {}
        for number in sorted(self.iterations):
            if number >= before:
                break
            counts = self.iterations[number].task_types
            for task_type, (solved, scored) in counts.items():
                old = rates.get(task_type, 0.5)
                rates[task_type] = 0.8 * old + 0.2 * solved / scored if scored else old
        return rates

    def undecided(self, before: int) -> tuple[str, ...]:
        """Return the tasks whose latest group had successes and failures.

        Returns:
            Their ids, sorted, before an iteration.
        """
        latest: dict[str, float] = {}
        for number in sorted(self.iterations):
            if number < before:
                latest |= self.iterations[number].solved
        return tuple(sorted(name for name, rate in latest.items() if 0 < rate < 1))

    def after(self, kind: str, payload: dict[str, Any]) -> Self:
        """Return the state after one more event; events of other kinds change nothing."""
        match kind:
            case RlKind.BANK | RlKind.POLICY | RlKind.COLD_START:
                fact: dict[str, Any] = {_FIELDS[RlKind(kind)]: payload}
                return replace(self, **fact)
            case RlKind.ITERATION:
                record = IterationRecord.from_dict(payload)
                return replace(self, iterations={**self.iterations, record.iteration: record})
            case RlKind.EVOLUTION | RlKind.POLICY_STEP | RlKind.RELEASE | RlKind.INTERNALIZED:
                return self._decided(RlKind(kind), payload)
            case RlKind.VALIDATION:
                score = Validation.from_dict(payload)
                return replace(self, validations={**self.validations, score.iteration: score})
            case RlKind.TEST_OPENED:
                return replace(self, sealed=False)
            case RlKind.TEST:
                return replace(self, test=SplitReport.from_dict(payload))
            case RlKind.FINISHED:
                return replace(self, finished=True)
            case _:
                return self

    def _decided(self, kind: RlKind, payload: dict[str, Any]) -> Self:
        """Return the state after a decision, which may have spent some of the run's alpha."""
        verdict: Verdict | None
        decided: Self
        match kind:
            case RlKind.EVOLUTION:
                bank = EvolutionRecord.from_dict(payload)
                decided = replace(self, evolutions={**self.evolutions, bank.iteration: bank})
                verdict = bank.verdict
            case RlKind.POLICY_STEP:
                step = PolicyStepRecord.from_dict(payload)
                decided = replace(self, policy_steps={**self.policy_steps, step.iteration: step})
                verdict = step.verdict
            case RlKind.INTERNALIZED:
                made = InternalizedRecord.from_dict(payload)
                decided, verdict = replace(self, internalized=made), made.verdict
            case _:
                verdict = Verdict.from_dict(payload)
                decided = replace(self, release=verdict)
        if verdict is None:
            return decided
        return replace(decided, ledger=self.ledger.spend(verdict))


def restore(config: RlConfig, store: RunStore) -> RlState:
    """Return where a run stands; nothing but its configuration and its store is needed."""
    return rebuild(RlState(config.ledger), store.events())


# What a run of the recipe has to show; nothing is asked, played or loaded for it.


@dataclass(frozen=True, slots=True)
class RlReport:
    """What a finished run has to show.

    Attributes:
        state: Where it stands.
        iteration: After which iteration the selected weights are.
    """

    state: RlState
    iteration: int

    @property
    def test(self) -> SplitReport | None:
        """Scores on test, or ``None`` where the run does not test."""
        return self.state.test

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "job": "rl",
            "selected_iteration": self.iteration,
            "released_iteration": self.released,
            "released_bank_version": self.bank_version,
            **self.state.to_dict(),
        }

    @property
    def released(self) -> int:
        """After which iteration the weights are that are released.

        0 is the cold start, `START` what the run began with, and `INTERNALIZED` what skills were
        distilled into and retired.
        """
        made = self.state.internalized
        return self.proven if made is None or not made.accepted else INTERNALIZED

    @property
    def proven(self) -> int:
        """The same before any skill was distilled into them: what the release test left."""
        test = self.state.release
        return self.iteration if test is None or test.accepted else self.state.baseline

    @property
    def bank_version(self) -> int:
        """The version of the bank that is released."""
        made = self.state.internalized
        if made is not None and made.accepted:
            return made.version
        return self.state.version_after(self.proven)


def selected(config: RlConfig, state: RlState) -> int:
    """Return after which iteration the weights are that a run ends with."""
    if config.evaluation.select == "last" or state.best is None:
        return config.grpo.iterations
    return state.best.iteration


# What the recipe says while it runs, besides the events of every job.


@dataclass(frozen=True, slots=True)
class FirstBankMade:
    """The bank that the recipe begins with is there.

    Attributes:
        version: Its version.
        headline: How many skills it has, of which kinds.
        notes: What else is to be said.
    """

    version: int
    headline: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStartStep:
    """A step of the cold start.

    Attributes:
        step: From 0.
        steps: How many there are.
        surprise: Mean cross-entropy per target token, in nats.
        grad_norm: Of the gradient before clipping.
    """

    step: int
    steps: int
    surprise: float
    grad_norm: float


@dataclass(frozen=True, slots=True)
class ColdStartEnded:
    """The policy has learned from the expert.

    Attributes:
        episodes: Of the expert.
        wins: Solved ones; their turns were learned from.
        rows: Turns that were learned from.
        surprise: Mean cross-entropy per target token at the end, in nats.
    """

    episodes: int
    wins: int
    rows: int
    surprise: float


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """An iteration is played and learned from.

    Attributes:
        record: The outcome.
        rollout_s: Seconds of the rollouts.
        learning_s: Seconds of the update.
    """

    record: IterationRecord
    rollout_s: float
    learning_s: float

    @property
    def episodes_per_s(self) -> float:
        """Episodes per second, rollout and update together."""
        return self.record.episodes / max(self.rollout_s + self.learning_s, 1e-9)

    @property
    def tokens_per_s(self) -> float:
        """Tokens that the policy chose, per second of the rollouts; choices of a scorer."""
        return self.record.tokens * self.record.episodes / max(self.rollout_s, 1e-9)


@dataclass(frozen=True, slots=True)
class BankEvolved:
    """An update of the bank is decided.

    Attributes:
        record: The outcome.
    """

    record: EvolutionRecord


@dataclass(frozen=True, slots=True)
class Validated:
    """The policy has its score on val.

    Attributes:
        iteration: After which one; 0 is the cold start.
        score: All of val.
        task_types: By task type.
        is_best: Whether none was better.
    """

    iteration: int
    score: Score
    task_types: Mapping[str, Score]
    is_best: bool


RlEvent = (
    Event
    | FirstBankMade
    | ColdStartStep
    | ColdStartEnded
    | IterationEnded
    | BankEvolved
    | PolicyJudged
    | SkillsInternalized
    | Validated
)


class RlCallback(Protocol):
    """Is called with every event of the recipe, in order. It must not change the run."""

    def on_event(self, event: RlEvent) -> None:
        """Take note of an event; must not block."""
        ...
