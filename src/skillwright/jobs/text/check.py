"""Check a new skill against an old one on held-out tasks: the noise first, then a sequential test.

Stored episodes are reused, so a stopped check continues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Self

from skillwright.config import RunConfig, dump_config
from skillwright.core import Duel, EpisodeResult, Pair, Usage, skill_hash
from skillwright.core.jsonio import JsonRecord, decode
from skillwright.datasets.clusters import clusters_of
from skillwright.evaluation import CheckAnswer, CheckTest, CheckVerdict, Draws, Noise, SkillDuel
from skillwright.evaluation.check import CheckLook
from skillwright.jobs.kinds import CHECK, CHECKED, MADE
from skillwright.jobs.run.bank_source import keep_bank
from skillwright.jobs.run.bench import Bench, SplitName, TextBench, terms_of
from skillwright.jobs.run.launch import known_secrets, make_run, session
from skillwright.jobs.run.progress import Callback, RunStarted, StageStarted
from skillwright.jobs.run.resources import MakeModel
from skillwright.jobs.run.resume import refuse_other_tasks
from skillwright.jobs.run.tasks import refuse_unasked_data
from skillwright.jobs.run.turn_ends import TurnEnds
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.launch import Run, has_scripted_models
from skillwright.jobs.text.wiring import RunParts, assemble_session
from skillwright.models import make_model
from skillwright.rollout import EngineDown
from skillwright.runs import EpisodeSummary, RunStore

PHASE: Final = "check"
"""The phase of the episodes of a check."""
_NOISE_TASKS = 32
_ITSELF_DRAWS = 2
NOISE_FROM: Final = 1_000_000
"""Number of the first draw of the noise, above the draws of the comparison."""
OLD, NEW = 0, 1
"""The versions of the skills in the store of a check."""


@dataclass(frozen=True, slots=True)
class CheckPlan(JsonRecord):
    """What a check compares.

    Attributes:
        new: Where the new skill is from, as displayed.
        old: Where the old one is from.
        split: The tasks to play.
        margin: The loss that "not worse" rules out, in (0, 1).
        draws: Maximum draws per task and side; 0 for `CheckTest`'s own.
        notes: Remarks on the two skills, as displayed.
    """

    new: str
    old: str
    split: SplitName = "test"
    margin: float = 0.1
    draws: int = 0
    notes: tuple[str, ...] = ()

    def test(self, config: RunConfig, bench: Bench) -> CheckTest:
        """Return the test, with the metric of the configuration's gate."""
        metric = config.evaluation.gate.scores(terms_of(config))
        clusters = bench.clusters
        if isinstance(bench, TextBench):
            clusters = clusters_of(bench.tasks(self.split))
        return CheckTest(self.margin, self.draws, metric, config.run.seed, clusters)


@dataclass(frozen=True, slots=True)
class SideCost(JsonRecord):
    """Mean consumption of a scored episode with one of the skills.

    Attributes:
        episodes: Scored episodes, at least 1.
        input_tokens: Prompt tokens of an episode.
        output_tokens: Completion tokens of an episode.
        cost_usd: Its cost; ``None`` if a price is unknown.
    """

    episodes: int
    input_tokens: float
    output_tokens: float
    cost_usd: float | None

    @classmethod
    def of(cls, usages: Sequence[Usage]) -> Self:
        """Average the usage of at least one episode."""
        total, count = sum(usages, start=Usage()), len(usages)
        return cls(
            episodes=count,
            input_tokens=total.input_tokens / count,
            output_tokens=total.output_tokens / count,
            cost_usd=None if total.cost_usd is None else total.cost_usd / count,
        )


@dataclass(frozen=True, slots=True)
class CheckedTask(JsonRecord):
    """A task with the mean scores of both skills."""

    id: str
    task_type: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class CheckReport(JsonRecord):
    """The result of a check.

    Attributes:
        plan: What was compared.
        verdict: The answer.
        noise: How much the old skill differs from itself.
        tasks: The tasks with scores on both sides, sorted by id.
        costs: Consumption of an episode, for ``old`` and ``new``.
        cost_usd: The cost of the check; ``None`` if a price is unknown.
        rollouts: Episodes that were played, failures included.
        is_same: Whether both skills have the same text, so that the old one was compared with
            itself.
        is_scripted: Whether a scripted model took part, which every display must say.
    """

    plan: CheckPlan
    verdict: CheckVerdict
    noise: Noise
    tasks: tuple[CheckedTask, ...]
    costs: Mapping[str, SideCost] = field(default_factory=dict)
    cost_usd: float | None = None
    rollouts: int = 0
    is_same: bool = False
    is_scripted: bool = False

    @property
    def is_fine(self) -> bool:
        """Whether the new skill is better, or not worse by the margin; or is the old one."""
        answer = self.verdict.answer
        return answer.is_fine or (self.is_same and answer is CheckAnswer.UNDECIDED)

    @property
    def worse(self) -> list[CheckedTask]:
        """Tasks with a lower score, the largest loss first."""
        return sorted((t for t in self.tasks if t.new < t.old), key=lambda t: t.new - t.old)

    @property
    def better(self) -> list[CheckedTask]:
        """Tasks with a higher score, the largest gain first."""
        return sorted((t for t in self.tasks if t.new > t.old), key=lambda t: t.old - t.new)


def start_check(config: RunConfig, new: str, old: str, plan: CheckPlan) -> Run:
    """Make the folder of a new check, with both texts. The configuration is not checked.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
        DataError: The environment or its data is not found.
    """
    refuse_unasked_data(config.env)

    def first(path: Path, store: RunStore) -> dict[str, Any]:
        store.add_skill_version(old, origin="old")
        store.add_skill_version(new, origin="new")
        facts = {"job": CHECK, **plan.to_dict(), **keep_bank(config, path)}
        return facts | {"scripted": config.models.target.is_scripted}

    root, name = Path(config.run.root), config.run.name
    folder, store = make_run(root, name, dump_config(config), known_secrets(config), first)
    return Run(config=config, folder=folder, store=store)


def read_check(store: RunStore) -> CheckPlan | None:
    """Return the plan of a stored check; ``None`` for another job."""
    made = store.events(MADE)
    is_check = bool(made) and made[0].payload.get("job") == CHECK
    return decode(CheckPlan, made[0].payload) if is_check else None


async def run_check(run: Run, callback: Callback, make: MakeModel = make_model) -> CheckReport:
    """Compare the two skills of a run, from the beginning or from where it stopped.

    Raises:
        DataError: The tasks are not those that the check began with.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: More than a tenth of the episodes failed; those that finished are stored.
        NotMeasured: Most answers were cut or empty.
        BudgetSpent: The budget is spent; finished episodes are stored.
    """
    if known := run.store.events(CHECKED):
        return CheckReport.from_dict(known[-1].payload)
    plan = read_check(run.store)
    if plan is None:
        raise ValueError(f"run {run.folder.name!r} is no check")
    with session(run.store):
        async with assemble_session(run.config, run.store, callback, make) as parts:
            report = await _check(parts, run, plan)
    with run.store.transaction(durable=True):
        run.store.append_event(CHECKED, report.to_dict())
    return report


async def _check(parts: RunParts, run: Run, plan: CheckPlan) -> CheckReport:
    store, bench = run.store, parts.bench
    refuse_other_tasks(store, bench.facts)
    old, new = store.skill(OLD), store.skill(NEW)
    test, seed = plan.test(run.config, bench), run.config.run.seed
    if old == new:  # a few draws show the noise
        test = replace(test, draws=test.draws or _ITSELF_DRAWS)
    itself = _Itself(bench, plan.split, old, seed, 0 if old == new else NOISE_FROM)
    task_ids = await itself.open()
    looks = test.looks(len(task_ids))
    parts.callback.on_event(_introduction(run, parts, looks))
    first = test.order(task_ids)[:_NOISE_TASKS]
    parts.callback.on_event(StageStarted("noise", episodes=2 * len(first)))
    noise = Noise.of(test.metric.of(await itself.draw(first, 1)))
    duel = _Noted(replace(itself, drawn={}) if old == new else _duel(bench, plan, old, new, seed))
    parts.callback.on_event(StageStarted(PHASE, episodes=_most_episodes(looks)))
    verdict = await test.judge(duel)
    if verdict.broken:
        raise EngineDown(verdict.broken)
    TurnEnds.read(store.turn_ends()).refuse_mostly_lapsed()
    episodes = store.episodes(phase=PHASE)
    return CheckReport(
        plan=plan,
        verdict=verdict,
        noise=noise,
        tasks=_tasks(duel.pairs, test),
        costs=_costs(episodes, {"old": old, "new": new}),
        cost_usd=store.usage_since()[0].cost_usd,
        rollouts=len(episodes),
        is_same=old == new,
        is_scripted=has_scripted_models(run.config, store, EvalPlan(plan.split, 1)),
    )


def _most_episodes(looks: Sequence[CheckLook]) -> int:
    return 2 * looks[-1].tasks * looks[-1].draws


def _introduction(run: Run, parts: RunParts, looks: Sequence[CheckLook]) -> RunStarted:
    most = _most_episodes(looks)
    return RunStarted(
        name=run.folder.name,
        folder=str(run.folder.path),
        llms={"target": parts.bench.target_identity},
        facts=(
            f"{looks[-1].tasks} tasks; at most {most:,} episodes, fewer if the answer is clear",
        ),
        episodes=most,
    )


def _tasks(pairs: Sequence[Pair], test: CheckTest) -> tuple[CheckedTask, ...]:
    found: dict[str, list[Pair]] = {}
    for pair in test.metric.of(pairs):
        if pair.gain is not None:
            found.setdefault(pair.task_id, []).append(pair)
    return tuple(
        CheckedTask(
            id=task,
            task_type=drawn[0].candidate.task_type,
            old=fmean(pair.incumbent.reward or 0.0 for pair in drawn),
            new=fmean(pair.candidate.reward or 0.0 for pair in drawn),
        )
        for task, drawn in sorted(found.items())
    )


def _costs(episodes: Sequence[EpisodeSummary], skills: Mapping[str, str]) -> dict[str, SideCost]:
    found = {}
    for name, text in skills.items():
        version = skill_hash(text)
        # With a bank, the version names document and bank.
        usages = [
            one.usage
            for one in episodes
            if one.reward is not None and one.skill_version.partition("+")[0] == version
        ]
        if usages:
            found[name] = SideCost.of(usages)
    return found


def _duel(bench: Bench, plan: CheckPlan, old: str, new: str, seed: int) -> Duel:
    draws = Draws(seed, phase=PHASE)
    if isinstance(bench, TextBench):
        sides = bench.tell(old), bench.tell(new)
        return SkillDuel(bench.engine, bench.tasks(plan.split), *sides, draws)
    return bench.duel(old, new, draws)


@dataclass(slots=True)
class _Noted:
    """A duel that keeps its pairs."""

    duel: Duel
    pairs: list[Pair] = field(default_factory=list)

    @property
    def task_ids(self) -> Sequence[str]:
        return self.duel.task_ids

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task."""
        drawn = await self.duel.draw(task_ids, n)
        self.pairs += drawn
        return drawn


@dataclass(slots=True)
class _Itself:
    """Draws pairs of one skill: both episodes have the same task and different seeds.

    Attributes:
        first: Number of each task's first draw; a pair takes two.
        drawn: Pairs by task so far.
    """

    bench: Bench
    split: SplitName
    skill: str
    seed: int
    first: int
    task_ids: tuple[str, ...] = ()
    drawn: dict[str, int] = field(default_factory=dict)

    async def open(self) -> tuple[str, ...]:
        """Find the tasks; an adapter shows its own by playing them."""
        if isinstance(self.bench, TextBench):
            self.task_ids = tuple(one.id for one in self.bench.tasks(self.split))
        else:
            self.task_ids = tuple(await self._measured(self.first))
        return self.task_ids

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task."""
        numbers = {
            one: [self.first + 2 * (self.drawn.get(one, 0) + more) for more in range(n)]
            for one in task_ids
        }
        self.drawn |= {one: self.drawn.get(one, 0) + n for one in task_ids}
        places = [(one, at + side) for one in task_ids for at in numbers[one] for side in (0, 1)]
        results = iter(await self._play(places))
        return [Pair(next(results), next(results)) for _ in range(len(places) // 2)]

    async def _play(self, places: Sequence[tuple[str, int]]) -> list[EpisodeResult]:
        if isinstance(self.bench, TextBench):
            tasks, draws = self.bench.tasks(self.split), Draws(self.seed, phase=PHASE)
            known = {one.id: one for one in tasks}
            specs = [draws.spec(known[one], number) for one, number in places]
            return await self.bench.engine.run(specs, self.bench.tell(self.skill))
        played = {at: await self._measured(at) for at in sorted({number for _, number in places})}
        return [played[number][one] for one, number in places]

    async def _measured(self, number: int) -> dict[str, EpisodeResult]:
        results = await self.bench.measure(self.skill, self.split, number, phase=PHASE)
        return {one.task_id: one for one in results}
