"""The state of a run of the recipe, rebuilt from its event log; weights are in checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from skillwright.config.rl import RlConfig
from skillwright.core.jsonio import JsonRecord, encode
from skillwright.evaluation import AlphaLedger, Score, ScoreTable, SplitReport, Verdict, why_refuted
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
"""The key of the seconds that an iteration took; no decision reads it."""
TEST_EPISODES = "episodes"
"""The key of the test event that holds the episodes' keys by artifact."""

Which = Literal["released", "final", "cold-start", "start"]
"""Weights of a finished run: released, selected, after the cold start, or before it."""
Form = Literal["merged", "adapter", "q8_0", "f16", "f32"]
"""How weights are saved: safetensors, with the adapter merged or alone, or GGUF by precision."""
START, INTERNALIZED, CANDIDATE = -1, -2, -3
"""Numbers in place of an iteration: the weights that a run began with, those that skills were
distilled into, and those that the gate is judging; 0 is the cold start."""
_NAMES = {START: "start", INTERNALIZED: "internalized", CANDIDATE: "candidate"}


def checkpoint_name(iteration: int) -> str:
    """Return the name of the file that holds the weights after an iteration."""
    return f"{_NAMES.get(iteration, f'iteration_{iteration:05d}')}.ckpt"


def weights_name(iteration: int) -> str:
    """Return the display name of the weights after an iteration."""
    return {**_NAMES, 0: "cold start"}.get(iteration, f"iteration {iteration}")


_FIELDS = {RlKind.BANK: "bank", RlKind.POLICY: "policy", RlKind.COLD_START: "cold_start"}


@dataclass(frozen=True, slots=True)
class IterationRecord(JsonRecord):
    """The rollouts and the update of an iteration; figures that are not finite are ``None``.

    Attributes:
        iteration: From 1.
        episodes: Scored episodes, which ``reward`` and ``success`` are means of.
        task_types: (solved, scored) by task type.
        groups: Tasks with at least one scored episode.
        zero_variance: Groups with equal outcomes, which teach nothing.
        lone: Groups with a single scored episode, which are dropped.
        failures: Episodes that the infrastructure failed.
        truncated: Episodes that a limit ended.
        malformed: Turns with an invalid action.
        turns: Mean turns of an episode.
        tokens: Mean tokens, or choices of a scorer, in an episode.
        rows: Rows that were trained on.
        steps: Optimizer steps.
        skipped: Steps without a finite gradient.
        kl: Mean divergence from the reference per token, in nats.
        entropy: Mean entropy per token, in nats.
        clip_fraction: Share of tokens without gradient.
        drift: Largest change of a log-probability between sampling and training.
        grad_norm: Mean norm of the gradient before clipping.
        extra: Episodes of dynamic sampling's extra rounds, which are among ``episodes``.
        sampler_gap: Mean |log p of the policy - log p of an engine that sampled|, in nats.
        capped: Share of tokens whose importance weight was truncated.
        skills: Mean number of skills injected into an episode.
        injected: Episodes by the id of the injected skill.
        solved: Success rate by task id.
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
    extra: int = 0
    sampler_gap: float | None = None
    capped: float = 0.0

    @property
    def zero_variance_share(self) -> float:
        """Share of groups with equal outcomes."""
        return self.zero_variance / self.groups if self.groups else 0.0


@dataclass(frozen=True, slots=True)
class EvolutionRecord(JsonRecord):
    """The outcome of an update of the bank.

    Attributes:
        iteration: The iteration before it.
        version: The bank's version after the update.
        before: The bank's version before it.
        action: ``accept``, ``reject``, ``undecided``, or why nothing was proposed: ``none_weak``,
            ``no_proposal``, ``nothing_new``, ``teacher_failed``.
        success: (solved, scored) by category, on the evolution split.
        weakest: The category with the lowest success rate.
        growth: Number of active skills by category; ``""`` for general ones.
        added: Ids of new skills.
        refined: Ids of skills with a new text.
        retired: Ids of skills that are no longer injected.
        refused: Number of proposals that a limit, a duplicate or lint left out.
        verdict: The gate's; ``None`` where it was not asked.
        earlier: Lines that later tell the teacher what was proposed.
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
        iteration: The iteration before it; 0 is the cold start, `START` the beginning.
        policy: The identity of the weights.
    """

    iteration: int
    bank_version: int
    table: ScoreTable
    policy: str = ""

    @property
    def success(self) -> float:
        """Success rate on val; 0 where no task was scored."""
        return self.table.overall.success_rate or 0.0


@dataclass(frozen=True, slots=True)
class RlState:
    """The state of a run; records are by iteration, and ``None`` before their stage has ended.

    Attributes:
        ledger: The alpha that is left for changes of bank and weights.
        bank: Facts about the first bank, with its ``version``.
        policy: What the policy was built of.
        cold_start: Facts about the cold start, with the digest of the ``reference``.
        sealed: Whether the test split is still closed.
        release: The test of the selected weights and bank against the baseline.
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
    def refuted(self) -> str:
        """Say why what the release test proved on val does not hold on test, or return ""."""
        found = self.test.judged.get("final") if self.test else None
        if self.release is None or not self.release.accepted or found is None:
            return ""
        return why_refuted(self.release, found)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that readers of the run's result must know."""
        return tuple(filter(None, (self.refuted, self.test.caveat if self.test else "")))

    @property
    def first_version(self) -> int:
        """The version of the first bank, or 0."""
        return int(self.bank["version"]) if self.bank else 0

    @property
    def reference(self) -> str:
        """Digest of the weights after the cold start; ``""`` before."""
        return str(self.cold_start["reference"]) if self.cold_start else ""

    @property
    def last_iteration(self) -> int:
        """The number of the last iteration."""
        return max(self.iterations, default=0)

    @property
    def baseline(self) -> int:
        """The weights that the release test compares with: `START`, or 0 for the cold start."""
        return START if START in self.validations else 0

    @property
    def last_policy_step(self) -> int:
        """The iteration whose weights the next policy step has to beat."""
        return max(self.policy_steps, default=0)

    def policy_step_at(self, iteration: int) -> int:
        """Return the last policy step up to an iteration; 0 is the cold start."""
        return max((one for one in self.policy_steps if one <= iteration), default=0)

    @property
    def accepts(self) -> int:
        """Number of changes of bank or weights that the gate has accepted."""
        banks = [one.action == "accept" for one in self.evolutions.values()]
        return sum(banks) + sum(one.verdict.accepted for one in self.policy_steps.values())

    @property
    def verdicts(self) -> list[Verdict]:
        """The gate's verdicts on changes of bank and weights, in no order."""
        of_bank = [one.verdict for one in self.evolutions.values() if one.verdict is not None]
        return of_bank + [one.verdict for one in self.policy_steps.values()]

    @property
    def best(self) -> Validation | None:
        """The best validation, the latest among equals."""
        known = self.validations.values()
        return max(known, key=lambda one: (one.success, one.iteration)) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        once = ("bank", "cold_start", "ledger", "test", "release", "internalized", "finished")
        by_iteration = ("iterations", "evolutions", "policy_steps", "validations")
        return {
            **{name: encode(getattr(self, name)) for name in once},
            **{name: encode(list(getattr(self, name).values())) for name in by_iteration},
            "best_iteration": self.best.iteration if self.best else None,
        }

    def version_after(self, iteration: int) -> int:
        """Return the version of the bank that is injected after an iteration."""
        done = [number for number in self.evolutions if number <= iteration]
        return self.evolutions[max(done)].version if done else self.first_version

    def success_rates(self, before: int) -> dict[str, float]:
        """Return the recent success rate of each task type, before an iteration.

        It begins at a half; each iteration that played the type moves it by a fifth.
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
        """Return the ids of tasks whose latest group before an iteration had mixed outcomes."""
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
        """Return the state after a decision, whose verdict may have spent alpha."""
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
    """Rebuild the state of a run from its configuration and its store."""
    return rebuild(RlState(config.ledger), store.events())


@dataclass(frozen=True, slots=True)
class RlReport:
    """The report of a finished run; ``iteration`` is that of the selected weights."""

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
        """The iteration of the released weights; 0, `START` or `INTERNALIZED` for others."""
        made = self.state.internalized
        return self.proven if made is None or not made.accepted else INTERNALIZED

    @property
    def proven(self) -> int:
        """The iteration of the weights that the release test proved, before internalization."""
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
    """Return the iteration of the weights that a run selects."""
    if config.evaluation.select == "last" or state.best is None:
        return config.grpo.iterations
    return state.best.iteration


# The events of the recipe; those of every job are in `progress`.


@dataclass(frozen=True, slots=True)
class FirstBankMade:
    """The first bank is made; ``headline`` counts its skills by kind."""

    version: int
    headline: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStartStep:
    """A step of the cold start, from 0; ``surprise`` is the mean cross-entropy per target token."""

    step: int
    steps: int
    surprise: float
    grad_norm: float


@dataclass(frozen=True, slots=True)
class ColdStartEnded:
    """The policy has learned from the expert.

    Attributes:
        episodes: Episodes of the expert.
        wins: Solved ones, whose turns were trained on.
        rows: Turns that were trained on.
        surprise: Mean cross-entropy per target token at the end, in nats.
    """

    episodes: int
    wins: int
    rows: int
    surprise: float


@dataclass(frozen=True, slots=True)
class IterationEnded:
    """An iteration has ended: its rollouts and its update, with the seconds of both."""

    record: IterationRecord
    rollout_s: float
    learning_s: float

    @property
    def episodes_per_s(self) -> float:
        """Episodes per second of rollouts and update together."""
        return self.record.episodes / max(self.rollout_s + self.learning_s, 1e-9)


@dataclass(frozen=True, slots=True)
class BankEvolved:
    """An update of the bank is decided."""

    record: EvolutionRecord


@dataclass(frozen=True, slots=True)
class Validated:
    """The policy was scored on val, as a whole and by task type; 0 is the cold start."""

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
    """Receives every event of the recipe, in order. It must not change the run."""

    def on_event(self, event: RlEvent) -> None:
        """Receive an event; must not block."""
