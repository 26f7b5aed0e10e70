"""One round of evolution, for `bank evolve` and `rl`: play, propose changes of the bank, judge.

Source: SkillRL (arXiv 2602.08234), requirements R12-R16; the gate is ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skillwright.bank import (
    Bank,
    ChangeReport,
    Decision,
    Embedder,
    Evolution,
    EvolutionResults,
    MakeSource,
    Teacher,
    bank_duel,
    candidate_sources,
    category_of,
    evolve,
    scope_of,
    shown_change,
)
from skillwright.bank.changes import nearness
from skillwright.config.bank import EvolveSection
from skillwright.core import EpisodeResult, EpisodeSpec
from skillwright.core.seeds import derive_seed
from skillwright.datasets import EvolutionTasks, ValTasks
from skillwright.evaluation import AlphaLedger, Choice, Draws, Gate, ReleaseTest, Terms, Verdict
from skillwright.jobs.run.progress import Callback, StageStarted
from skillwright.rollout import Engine, refuse_no_score

WITHOUT_GATE = "without_gate"
"""The action of a round whose changes were applied without a gate."""


@dataclass(frozen=True, slots=True)
class PlayedRound:
    """A played and judged round that is not yet recorded.

    Attributes:
        found: The teacher's proposal.
        before: The bank of the episodes.
        candidate: The bank with the changes within the limits.
        report: The outcome of each change.
        action: ``accept``, ``reject``, ``undecided``, or the reason without a gate's decision:
            ``teacher_failed``, ``none_weak``, ``no_proposal``, ``nothing_new``; or `WITHOUT_GATE`.
    """

    number: int
    found: Evolution
    before: Bank
    candidate: Bank
    report: ChangeReport
    action: str
    verdict: Verdict | None

    @property
    def after(self) -> Bank:
        """The bank after the round."""
        return self.candidate if self.action == "accept" else self.before

    @property
    def success(self) -> dict[str, tuple[int, int]]:
        """(solved, scored) by category, on the evolution split."""
        return {one.category: (one.wins, one.episodes) for one in self.found.success}

    def lines(self, *, is_kept: bool = True) -> tuple[str, ...]:
        """Describe the outcome of each change; ``is_kept`` is false if the release test failed."""
        lines = []
        for outcome in self.report.outcomes:
            refused = outcome.decision is Decision.REFUSED
            fate = f"refused, {outcome.reason}" if refused else self.action
            if self.action in ("accept", WITHOUT_GATE) and not refused:
                fate = f"{outcome.decision} as {outcome.id}" if outcome.id else outcome.decision
                fate = fate if is_kept else "not proven"
            lines.append(shown_change(outcome.change, fate))
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class EvolutionLoop:
    """The parts that all rounds share.

    Attributes:
        engine: Makes an engine; the evolution split and the gate get separate ones.
        source: Returns the skill source of a bank.
        tasks: The evolution split.
        val: The tasks of the gate.
        section: Limits of play and of changes.
        terms: The run's terms, whose seed seeds every draw.
        teacher: Makes the teacher of a stage.
    """

    engine: Callable[[], Engine]
    source: MakeSource
    tasks: EvolutionTasks
    val: ValTasks
    section: EvolveSection
    gate: Gate
    terms: Terms
    embedder: Embedder
    teacher: Callable[[str], Teacher]
    callback: Callback

    async def take(
        self, number: int, bank: Bank, ledger: AlphaLedger, earlier: Sequence[str], first_draw: int
    ) -> PlayedRound:
        """Play a round: the evolution split, the teacher's changes, and the gate.

        Args:
            number: The number of the round.
            bank: The current bank.
            ledger: The alpha that is left.
            earlier: Earlier proposals and their outcomes (`PlayedRound.lines`).
            first_draw: The first draw of the gate. Draws are fresh after each accept, because an
                accepted bank is selected on its draws; until then candidates share them.

        Raises:
            EngineDown: No episode of the evolution split has a reward.
        """
        results = await self._play(number, bank)
        self.callback.on_event(StageStarted("evolve", step=number))
        settings = self.section.settings(self.terms.success_threshold, number)
        found = await evolve(
            EvolutionResults(self.tasks, tuple(results)),
            bank,
            self.teacher(f"evolve {number}"),
            settings,
            category_of,
            scope_of,
            earlier,
        )
        candidate, report = found.candidate(bank, settings.caps, nearness(self.embedder))
        action, verdict = why_unjudged(found, bank, candidate), None
        if not action:
            draws = Draws(self.terms.seed, first=first_draw, step=number)
            verdict = await self.judge((bank, candidate), self.gate, draws, ledger)
            action = verdict.decision.value
        return PlayedRound(number, found, bank, candidate, report, action, verdict)

    async def judge(
        self,
        banks: tuple[Bank, Bank],
        judge: Gate | ReleaseTest,
        draws: Draws,
        ledger: AlphaLedger,
        judged: tuple[Choice, ...] = (),
    ) -> Verdict:
        """Let the gate judge a candidate bank against the current one on val tasks."""
        stage = "release test" if isinstance(judge, ReleaseTest) else "gate"
        expected = judge.expected_rollouts(len(self.val.tasks))
        self.callback.on_event(StageStarted(stage, step=draws.step or 0, episodes=expected))
        sources = candidate_sources(*banks, self.source)
        duel = bank_duel(self.engine(), self.val, sources, draws)
        return await judge.judge(duel, ledger, replace(self.terms, judged=judged))

    async def _play(self, number: int, bank: Bank) -> list[EpisodeResult]:
        specs = [
            EpisodeSpec(
                task,
                derive_seed("evolution", self.terms.seed, number, task.id, draw),
                draw,
                "evolution",
                number,
            )
            for task in self.tasks.tasks
            for draw in range(self.section.episodes)
        ]
        self.callback.on_event(StageStarted("evolution split", step=number, episodes=len(specs)))
        results = await self.engine().run(specs, self.source(bank))
        refuse_no_score(results)
        return results


def why_unjudged(found: Evolution, bank: Bank, candidate: Bank) -> str:
    """Return the reason without a gate's decision, or "" if there is a candidate to judge."""
    if found.faults:
        return "teacher_failed"
    if not found.calls:
        return "none_weak"
    if not found.changes:
        return "no_proposal"
    return "nothing_new" if candidate is bank else ""
