"""Find the paired scores that proved a release in a run's store.

A gate's verdict depends only on pairs of episodes. So the pairs of a stored decision are drawn once
more, from the store instead of an engine, and the same gate must give the same verdict. Then the
pairs are written next to the skill (`Evidence`): with them, a decision can be repeated without the
run, the environment or a model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from skillwright.bank import Bank, BankStore, LogEntry
from skillwright.bank.triggers import plain_prose
from skillwright.config.run import RunConfig
from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    Pair,
    PlainSkill,
    SkillContext,
    SkillSource,
    StepDuel,
    Task,
)
from skillwright.core.jsonio import digest, text_digest
from skillwright.datasets.clusters import clusters_of
from skillwright.datasets.split import tasks_digest
from skillwright.evaluation import (
    AlphaLedger,
    Draws,
    Expected,
    Gate,
    ReleaseTest,
    SkillDuel,
    Terms,
    Verdict,
    choices,
    in_random_order,
    release_draws,
)
from skillwright.evaluation.gates.judging import Metric
from skillwright.jobs.bank.evolve import BEGUN, EVOLVED
from skillwright.jobs.inspect.evidence import (
    Evidence,
    Measured,
    Named,
    NoEvidence,
    Result,
    TaskPairs,
    Test,
    differs,
    judge_scores,
    method_of,
    new_evidence,
    signs_seed,
)
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.text.state import TrainState, beginning
from skillwright.rollout.prompt import skill_in
from skillwright.runs import EpisodeSummary, RunStore
from skillwright.version import __version__


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

    def __init__(self, duel: StepDuel) -> None:
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

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        return await self._duel.draw_candidate(task_ids, n)


@dataclass(frozen=True, slots=True)
class Decided:
    """A stored decision: the compared sides, the gate, and the draws.

    Attributes:
        names: The incumbent and the candidate, with the hashes of their texts or banks.
    """

    sides: tuple[SkillSource, SkillSource]
    names: tuple[Named, Named]
    test: Gate | ReleaseTest
    draws: Draws
    ledger: AlphaLedger
    terms: Terms
    verdict: Verdict


async def find_evidence(
    decided: Decided, config: RunConfig, store: RunStore, tasks: Sequence[Task]
) -> Evidence:
    """Find the pairs behind a decision, and judge them again.

    Raises:
        NoEvidence: Some pairs are not in the store, or the gate decides differently.
    """
    decided = replace(decided, terms=replace(decided.terms, clusters=clusters_of(tasks)))
    decided, duel = await _drawn_again(decided, store, tasks)
    test = decided.test
    metric = Metric(test.metric, test.mixed_weight, decided.terms.success_threshold)
    by_id = {task.id: task for task in tasks}
    order = in_random_order(list(by_id), decided.terms.seed)  # the test's, for its signs
    scores = [_pairs(by_id[one], metric.of(duel.pairs[one])) for one in order]
    how = await _how(decided, scores)
    return new_evidence(
        how, decided.verdict, scores, decided.names, _measured(config, store, tasks)
    )


async def _drawn_again(
    decided: Decided, store: RunStore, tasks: Sequence[Task]
) -> tuple[Decided, _Noted]:
    """Draw the stored pairs once more; whether the run took the agent for repeating is found out.

    Raises:
        NoEvidence: Some pairs are not in the store, or the gate decides differently.
    """
    problem = ""
    for repeats in (None, False, True):
        terms = replace(decided.terms, repeats=repeats)
        engine: Any = _StoredEngine(store)
        duel = _Noted(SkillDuel(engine, tasks, *decided.sides, decided.draws))
        try:
            again = await decided.test.judge(duel, decided.ledger, terms)
        except NoEvidence as error:
            problem = problem or str(error)
            continue
        if not (found := differs(Result.of(decided.verdict), again)):
            return replace(decided, terms=terms), duel
        problem = f"the stored pairs do not lead to the stored verdict: {found}"
    raise NoEvidence(problem)


async def _how(decided: Decided, scores: Sequence[TaskPairs]) -> Test:
    """Describe the test, by the method that gives the stored p-value, or the nearest one.

    Raises:
        NoEvidence: The scores alone do not lead to the stored verdict.
    """
    test, problem = decided.test, ""
    settings = test.model_dump(mode="json") if isinstance(test, Gate) else _settings(test)
    bare = replace(decided.terms, judged=())
    # Further weights change nothing but the limit of an agent that answers alike.
    some = replace(bare, weights=bare.weights + 1)
    found: list[tuple[float, Test]] = []
    for terms in (bare, some, decided.terms) if decided.terms.judged else (bare,):
        seed, method = signs_seed(terms), method_of(settings, terms)
        one = Test(method, decided.ledger.share, seed, settings, terms)
        try:
            again = await judge_scores(one, scores)
            problem = differs(Result.of(decided.verdict), again)
        except NoEvidence as error:  # with other first draws
            problem = str(error)
        if not problem:
            far = abs((again.p_value or 0) - (decided.verdict.p_value or 0))
            found.append((far, one))
    if not found:
        raise NoEvidence(f"the scores alone do not lead to the stored verdict: {problem}")
    return min(found, key=lambda one: one[0])[1]


def _measured(config: RunConfig, store: RunStore, tasks: Sequence[Task]) -> Measured:
    env = config.env.model_dump(mode="json", exclude={"data"})
    name = PurePosixPath(config.env.name).name  # without the folders of a machine
    agent = next((one.agent for one in store.episodes() if one.split == "val"), "")
    rest = config.model_dump(mode="json", exclude={"env": True, "run": {"name", "root"}})
    return Measured(
        Named(name, digest({**env, "name": name})),
        Named("val", tasks_digest(tasks)),
        "",
        Named(agent, digest(config.models.target.model_dump(mode="json"))),
        Named(f"skillwright {__version__}", digest(rest)),
    )


def _settings(test: Any) -> dict[str, Any]:
    return {name: getattr(test, name) for name in test.__dataclass_fields__}


def _pairs(task: Task, pairs: Sequence[Pair]) -> TaskPairs:
    return TaskPairs(
        task.id,
        task.task_type,
        tuple(pair.incumbent.reward for pair in pairs),
        tuple(pair.candidate.reward for pair in pairs),
        bool(pairs) and all(pair.is_shared for pair in pairs),
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
        is_proof = event.kind != Kind.RESTORED
        if is_proof and after.best_version == version != state.best_version:
            found = _decided(config, store, state, after, event.kind, source)
        state = after
    if found is None:
        proven = state.proven_version
        by_hand = ", which was released by hand" if version == state.best_version != proven else ""
        other = f"; version {proven} was proven" if proven else ""
        raise NoEvidence(f"no test proved version {version}{by_hand}{other}")
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
    # A release test compares with the initial skill, other gates with the best one before.
    old = 0 if kind == Kind.FINAL else before.best_version
    versions = old, after.best_version
    texts = store.skill(old), store.skill(after.best_version)
    names = (
        Named(f"version {versions[0]}", stripped_digest(texts[0])),
        Named(f"version {versions[1]}", stripped_digest(texts[1])),
    )
    sides = (source(texts[0]), source(texts[1]))
    terms, seed = terms_of(config), config.run.seed
    if kind == Kind.FINAL and gate.release is not None and after.final is not None:
        draws = release_draws(seed, before.next_test, None)
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
    ledger = AlphaLedger(verdict.alpha or config.evaluation.alpha, 1)
    return Decided(
        (source(sides[0]), source(sides[1])),
        (
            Named(f"bank version {entry.before}", sides[0].digest),
            Named(f"bank version {entry.version}", sides[1].digest),
        ),
        test,
        release_draws(config.run.seed, first["first"], entry.step),
        ledger,
        terms,
        verdict,
    )


def stripped_digest(text: str) -> str:
    """Return the SHA-256 of a text without white space at its ends."""
    return text_digest(text.strip())


def gate_facts(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return a verdict as metadata: strings by name, without values that were not measured."""
    facts: dict[str, str] = {"proven": "yes" if verdict.get("decision") == "accept" else "no"}
    if verdict.get("effect") is not None:
        facts["gain"] = f"{verdict['effect']:+.4f}"
    if verdict.get("expected") is not None:
        facts["expected-gain"] = str(Expected.from_dict(verdict["expected"]))
    for name, key in (("p-value", "p_value"), ("alpha", "alpha")):
        if verdict.get(key) is not None:
            facts[name] = f"{verdict[key]:.4g}"
    if verdict.get("pairs"):
        facts["pairs"] = str(verdict["pairs"])
    return facts


def evidence_facts(evidence: Evidence) -> dict[str, str]:
    """Return evidence as metadata of a SKILL.md."""
    result = evidence.result
    tested = {"alpha": evidence.test.alpha} if result.p_value is not None else {}
    facts = gate_facts({**result.to_dict(), **tested}) | {
        "tasks": str(len(evidence.scores)),
        "compared-with": evidence.compared_with.name,
        "agent": evidence.measured.model.name,
    }
    return {key: plain_prose(value, 200) for key, value in facts.items()}
