"""Find the paired scores that proved a release, and judge them again.

A gate's verdict depends only on pairs of episodes. So the pairs of a stored decision are drawn once
more, from the store instead of an engine, and the same gate must give the same verdict. Then the
pairs are written next to the skill: with them, a decision can be repeated without the run, the
environment or a model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from skillwright.bank import Bank, BankStore, LogEntry
from skillwright.config.run import RunConfig
from skillwright.core import (
    DataError,
    Duel,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Pair,
    PlainSkill,
    RunError,
    SkillContext,
    SkillSource,
    Task,
)
from skillwright.core.jsonio import REFUSE_UNKNOWN, JsonRecord, decode
from skillwright.datasets.clusters import clusters_of
from skillwright.evaluation import (
    AlphaLedger,
    Draws,
    Gate,
    ReleaseTest,
    SkillDuel,
    Terms,
    Verdict,
    choices,
    release_draws,
)
from skillwright.evaluation.gates.judging import Metric
from skillwright.jobs.bank.evolve import BEGUN, EVOLVED
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.text.state import TrainState, beginning
from skillwright.rollout.prompt import skill_in
from skillwright.runs import EpisodeSummary, RunStore

_CLOSE, _P_CLOSE = 1e-6, 2e-3  # tolerances: machines may sum random signs in another order


class NoEvidence(RunError):
    """The pairs of a decision cannot be found; the message says why."""


@dataclass(frozen=True, slots=True)
class TaskPairs(JsonRecord):
    """The scores of one task, draw by draw; ``None`` for a failure.

    Attributes:
        same: Whether both sides are the same episode, because their prompts are equal.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    task: str
    task_type: str
    incumbent: tuple[float | None, ...]
    candidate: tuple[float | None, ...]
    same: bool = False


@dataclass(frozen=True, slots=True)
class Evidence(JsonRecord):
    """A decision and the data behind it.

    Attributes:
        candidate: The hash of the released text or bank.
        incumbent: The hash of the text or bank that it was compared with.
        test: The settings of the release test, or of a gate (which has a ``kind``).
        alpha: The alpha that the decision could spend.
        tasks: The held-out tasks, in the order of their draws.
    """

    __pydantic_config__ = REFUSE_UNKNOWN

    candidate: str
    incumbent: str
    test: dict[str, Any]
    terms: Terms
    alpha: float
    verdict: Verdict
    tasks: tuple[TaskPairs, ...] = field(default=())

    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        """Read the result of `to_dict` from an untrusted source.

        Raises:
            DataError: It is no evidence, or scores are no numbers in [0, 1].
        """
        found = decode(cls, data, where)
        scores = [one for task in found.tasks for one in (*task.incumbent, *task.candidate)]
        if any(one is not None and not 0 <= one <= 1 for one in scores):
            raise DataError(f"{where}: a score lies outside 0 to 1")
        if any(len(task.incumbent) != len(task.candidate) for task in found.tasks):
            raise DataError(f"{where}: a task's sides have different numbers of draws")
        return found


async def judge_again(evidence: Evidence) -> Verdict:
    """Draw the stored pairs, and return the gate's new verdict; nothing is played.

    Raises:
        NoEvidence: The gate asks for a draw that is not stored.
        DataError: The settings do not belong to any gate.
    """
    try:
        test: Any = (
            Gate.model_validate(evidence.test).model_copy(update={"metric": "soft"})
            if "kind" in evidence.test
            else replace(decode(ReleaseTest, evidence.test, "the release test"), metric="soft")
        )
    except ValueError as error:
        raise DataError(f"the evidence names no gate of ours: {error}") from error
    ledger = AlphaLedger(evidence.alpha, 1)
    verdict: Verdict = await test.judge(_StoredDuel(evidence.tasks), ledger, evidence.terms)
    return verdict


def differs(stored: Verdict, again: Verdict) -> str:
    """Return how a verdict differs from the stored one, or ""."""
    if stored.decision is not again.decision:
        return f"the decision is {again.decision}, and {stored.decision} is stored"
    for name, close in (("effect", _CLOSE), ("p_value", _P_CLOSE)):
        one, other = getattr(stored, name), getattr(again, name)
        if (one is None) != (other is None) or abs((one or 0) - (other or 0)) > close:
            return f"{name} is {other}, and {one} is stored"
    low, high = stored.interval or (0.0, 0.0), again.interval or (0.0, 0.0)
    if any(abs(one - other) > _CLOSE for one, other in zip(low, high, strict=True)):
        return f"the interval is {again.interval}, and {stored.interval} is stored"
    counts = ("pairs", "lost", "better", "worse")
    wrong = [name for name in counts if getattr(stored, name) != getattr(again, name)]
    return f"{', '.join(wrong)} differ" if wrong else ""


class _StoredDuel:
    """A duel that draws the pairs of an `Evidence`."""

    def __init__(self, tasks: Sequence[TaskPairs]) -> None:
        self._tasks = {one.task: one for one in tasks}
        self._drawn = dict.fromkeys(self._tasks, 0)

    @property
    def task_ids(self) -> Sequence[str]:
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        return [pair for task_id in task_ids for pair in self._next(task_id, n)]

    def _next(self, task_id: str, n: int) -> list[Pair]:
        stored, first = self._tasks[task_id], self._drawn[task_id]
        self._drawn[task_id] = first + n
        if first + n > len(stored.candidate):
            raise NoEvidence(
                f"the gate asks for draw {len(stored.candidate) + 1} of task {task_id!r}, which "
                "is not stored"
            )
        return [
            Pair(
                _result(stored, number, stored.incumbent[number], "same" if stored.same else "old"),
                _result(stored, number, stored.candidate[number], "same" if stored.same else "new"),
            )
            for number in range(first, first + n)
        ]


def _result(stored: TaskPairs, number: int, score: float | None, key: str) -> EpisodeResult:
    spec = EpisodeSpec(Task(stored.task, "", task_type=stored.task_type), 0, number)
    failure = Failure(FailureCause.ENVIRONMENT, "failed then") if score is None else None
    return EpisodeResult(spec, reward=score, failure=failure, key=key)


# Find the pairs of a decision in a store.


class _StoredEngine:
    """An engine that returns the stored episode of a task, a draw and a skill."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._found: dict[tuple[str, int], list[EpisodeSummary]] = {}
        for one in store.episodes():
            if one.split == "val":
                self._found.setdefault((one.task_id, one.draw), []).append(one)

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        contexts = skills.contexts([spec.task for spec in specs])
        return [self._stored(*one) for one in zip(specs, contexts, strict=True)]

    def _stored(self, spec: EpisodeSpec, context: SkillContext) -> EpisodeResult:
        played = self._found.get((spec.task.id, spec.draw), [])
        found = [one for one in played if one.skill_version == context.version]
        # Another version of a bank may inject the same text for this task.
        found = found or [one for one in played if self._text(one) == context.text.strip()]
        if not found:
            raise NoEvidence(f"draw {spec.draw} of task {spec.task.id!r} is not in the store")
        one = next((one for one in found if one.reward is not None), found[-1])
        return EpisodeResult(
            spec, reward=one.reward, failure=one.failure, hard=one.hard, key=one.key
        )

    def _text(self, episode: EpisodeSummary) -> str | None:
        """Return the skill text injected into an episode; ``None`` if it has no turn."""
        if (stored := self._store.injected_skill(episode.id)) is not None:
            return stored.strip()
        turns = self._store.load_window(episode.id, 0, 1).trajectory.turns
        return skill_in(turns[0].prompt).strip() if turns else None


class _Noted:
    """A duel that records its pairs."""

    def __init__(self, duel: Duel) -> None:
        self._duel = duel
        self.pairs: dict[str, list[Pair]] = {task_id: [] for task_id in duel.task_ids}

    @property
    def task_ids(self) -> Sequence[str]:
        return self._duel.task_ids

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        drawn = await self._duel.draw(task_ids, n)
        for pair in drawn:
            self.pairs[pair.task_id].append(pair)
        return drawn


@dataclass(frozen=True, slots=True)
class Decided:
    """A stored decision: the compared sides, the gate, and the draws."""

    sides: tuple[SkillSource, SkillSource]
    names: tuple[str, str]
    test: Gate | ReleaseTest
    draws: Draws
    ledger: AlphaLedger
    terms: Terms
    verdict: Verdict


async def find_evidence(decided: Decided, store: RunStore, tasks: Sequence[Task]) -> Evidence:
    """Find the pairs behind a decision, and judge them again.

    Raises:
        NoEvidence: Some pairs are not in the store, or the gate decides differently.
    """
    engine: Any = _StoredEngine(store)
    decided = replace(decided, terms=replace(decided.terms, clusters=clusters_of(tasks)))
    duel = _Noted(SkillDuel(engine, tasks, *decided.sides, decided.draws))
    again = await decided.test.judge(duel, decided.ledger, decided.terms)
    if problem := differs(decided.verdict, again):
        raise NoEvidence(f"the stored pairs do not lead to the stored verdict: {problem}")
    test = decided.test
    metric = Metric(test.metric, test.mixed_weight, decided.terms.success_threshold)
    settings = test.model_dump(mode="json") if hasattr(test, "model_dump") else _settings(test)
    found = Evidence(
        candidate=decided.names[1],
        incumbent=decided.names[0],
        test=settings,
        terms=decided.terms,
        alpha=decided.ledger.share,
        verdict=decided.verdict,
        tasks=tuple(_pairs(task, metric.of(duel.pairs[task.id])) for task in tasks),
    )
    if problem := differs(decided.verdict, await judge_again(found)):
        raise NoEvidence(f"the scores alone do not lead to the stored verdict: {problem}")
    return found


def _settings(test: Any) -> dict[str, Any]:
    return {name: getattr(test, name) for name in test.__dataclass_fields__}


def _pairs(task: Task, pairs: Sequence[Pair]) -> TaskPairs:
    return TaskPairs(
        task.id,
        task.task_type,
        tuple(pair.incumbent.reward for pair in pairs),
        tuple(pair.candidate.reward for pair in pairs),
        bool(pairs) and all(p.candidate.key and p.candidate.key == p.incumbent.key for p in pairs),
    )


def val_tasks(store: RunStore) -> list[Task]:
    """Return the val tasks with episodes in a store, sorted by id."""
    found = {one.task_id: one.id for one in store.episodes() if one.split == "val"}
    return [store.task(found[task_id]) for task_id in sorted(found)]


def decision_on_document(
    config: RunConfig, store: RunStore, version: int, source: Any = PlainSkill
) -> Decided:
    """Return the decision that accepted a version of a skill document.

    Raises:
        NoEvidence: Nothing proved that version.
    """
    state = beginning(config, store)
    found: Decided | None = None
    for event in store.events():
        after = state.after(event.kind, event.payload)
        if after.best_version == version != state.best_version:
            found = _decided(config, store, state, after, event.kind, source)
        state = after
    if found is None:
        raise NoEvidence("no gate let this version through")
    return found


def _decided(
    config: RunConfig,
    store: RunStore,
    before: TrainState,
    after: TrainState,
    kind: str,
    source: Any,
) -> Decided:
    gate = config.evaluation.gate
    texts = store.skill(before.best_version), store.skill(after.best_version)
    names = f"version {before.best_version}", f"version {after.best_version}"
    sides = (source(texts[0]), source(texts[1]))
    terms, seed = terms_of(config), config.run.seed
    if kind == Kind.FINAL and gate.release is not None and after.final is not None:
        draws = release_draws(seed, before.ledger.made, None)
        judged = replace(terms, judged=choices(before.verdicts))
        return Decided(sides, names, gate.release, draws, before.ledger, judged, after.final)
    record = after.steps[-1] if kind == Kind.STEP else after.epochs[-1]
    if record.verdict is None or record.best_verdict is not None:
        raise NoEvidence("it met two skills at once, and their pairs are not taken apart")
    draws = Draws(seed, first=before.accepts * gate.draws if gate.redraws else 0)
    return Decided(sides, names, gate, draws, before.ledger, terms, record.verdict)


def decision_on_bank(
    config: RunConfig, store: RunStore, banks: BankStore, entry: LogEntry, source: Any
) -> Decided:
    """Return the release test that accepted a bank's version, in an evolution or an approval.

    Args:
        config: The configuration of the command.
        store: The store next to the bank.
        banks: The bank's file.
        entry: The entry of its log, with the verdict.
        source: Makes a bank a source of skills.

    Raises:
        NoEvidence: No release test proved that version.
    """
    step = entry.step or 0
    begun = [one.payload for one in store.events(BEGUN)]
    evolved = (one for one in begun if one["first"] <= step < one["first"] + one["rounds"])
    first = next(evolved, {"first": step, "rounds": 1})  # an approval is one decision of its own
    test, verdict = config.evaluation.gate.release, Verdict.from_dict(dict(entry.verdict or {}))
    if not step or test is None or not verdict.accepted:
        raise NoEvidence("no release test let this version through")
    rounds = [one.payload for one in store.events(EVOLVED)]
    judged = [
        one["verdict"]
        for one in rounds
        if first["first"] <= one["number"] < first["first"] + first["rounds"] and one["verdict"]
    ]
    sides: tuple[Bank, Bank] = banks.load(entry.before), banks.load(entry.version)
    terms = replace(terms_of(config), judged=choices(map(Verdict.from_dict, judged)))
    ledger = config.evaluation.gate.ledger(config.evaluation.alpha, first["rounds"])
    return Decided(
        (source(sides[0]), source(sides[1])),
        (f"bank version {entry.before}", f"bank version {entry.version}"),
        test,
        release_draws(config.run.seed, first["first"], entry.step),
        ledger,
        terms,
        verdict,
    )


def gate_facts(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return a verdict as metadata: strings by name, without values that were not measured."""
    facts: dict[str, str] = {"proven": "yes" if verdict.get("decision") == "accept" else "no"}
    if verdict.get("effect") is not None:
        facts["gain"] = f"{verdict['effect']:+.4f}"
    if verdict.get("interval"):
        low, high = verdict["interval"]
        facts["interval-95"] = f"{low:+.4f} to {high:+.4f}"
    for name, key in (("p-value", "p_value"), ("alpha", "alpha")):
        if verdict.get(key) is not None:
            facts[name] = f"{verdict[key]:.4g}"
    if verdict.get("pairs"):
        facts["pairs"] = str(verdict["pairs"])
    return facts
