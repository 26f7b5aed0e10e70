"""The end of a run: the last skill meets the best one, and the sealed tasks are opened, once."""

from collections.abc import Mapping
from dataclasses import replace

from skillwright.core import EpisodeResult, skill_hash
from skillwright.core.together import together
from skillwright.evaluation import (
    Decision,
    ReleaseTest,
    SplitReport,
    Verdict,
    differing,
    release_draws,
    selection_bias,
)
from skillwright.jobs.parts.bench import Place
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import SHOWN_AS, ReleaseTested, Scored, StageStarted
from skillwright.jobs.train.judging import duel, standing, store_verdict
from skillwright.jobs.train.placebo import placebo_text
from skillwright.jobs.train.state import Confirmation, Kind, TrainState
from skillwright.jobs.train.wiring import Assembly


async def judge_last(run: Assembly, state: TrainState) -> TrainState:
    """Have the last skill judged against the best one, where that is another.

    A gate with a release test has it tested here, once, on draws that decided nothing before. With
    others it may be better because something entered it unmeasured; where the two met on the same
    draws already, what was judged then holds, and costs no second share of alpha.
    """
    last, best = standing(run, state)
    if state.final is not None or last == best:
        return state
    if run.gate.release is not None:
        return await run_release_test(run, state, run.gate.release)
    known = _known_verdict(run, state)
    if known is not None:
        spent_then = replace(known, alpha=None)
        with run.store.transaction(durable=True):
            return write_down(run.store, state, Kind.FINAL, spent_then.to_dict())
    place = Place(state.last_step, state.steps[-1].epoch)
    verdict = await duel(run, state, (best, last), place)
    with run.store.transaction(durable=True):
        store_verdict(run, place, "final", last, verdict)
        return write_down(run.store, state, Kind.FINAL, verdict.to_dict())


async def run_release_test(run: Assembly, state: TrainState, test: ReleaseTest) -> TrainState:
    """Test whether the current skill is proven better than the released one; write it down."""
    sides = (run.store.skill(state.best_version), run.store.skill(state.skill_version))
    place = Place(state.last_step, state.steps[-1].epoch)
    val = run.bench.sizes.val or 0
    run.watcher.see(StageStarted("release test", episodes=test.expected_rollouts(val)))
    draws = release_draws(run.config.run.seed, state.ledger.made, place.step)
    terms = replace(run.terms, judged=differing(state.verdicts))
    verdict = await test.judge(run.bench.duel(*sides, draws), state.ledger, terms)
    run.watcher.see(ReleaseTested(verdict))
    with run.store.transaction(durable=True):
        store_verdict(run, place, "release", sides[1], verdict)
        return write_down(run.store, state, Kind.FINAL, verdict.to_dict())


def _known_verdict(run: Assembly, state: TrainState) -> Verdict | None:
    """Return what the gate said of the last skill and the best one, on the draws that are due."""
    met = state.met_best
    if met is None or met.verdict.decision is not Decision.REJECT:
        return None  # what was undecided for lost episodes may be decided now
    theirs = (run.store.skill(met.version), run.store.skill(met.best_version))
    ours = standing(run, state)
    same_draws = met.accepts == state.accepts or not run.gate.redraws
    return met.verdict if theirs == ours and same_draws else None


async def open_sealed(run: Assembly, state: TrainState) -> TrainState:
    """Score every artefact in the one act that may see the sealed tasks, all at once."""
    tests = run.config.evaluation.test and state.report is None
    confirms = run.config.evaluation.confirm_tasks > 0 and state.confirmation is None
    if not tests and not confirms:
        return state
    best = run.store.skill(state.best_version)
    baselines = _baselines(run)
    skills = {**baselines, "best": best, "final": run.store.skill(state.skill_version)}
    if run.config.evaluation.placebo:
        skills["placebo"] = placebo_text(len(best))
    if state.sealed:
        names = {name: skill_hash(text) for name, text in skills.items()}
        state = write_down(run.store, state, Kind.TEST_OPENED, {"skills": names})

    async def tested() -> Results:
        if not tests:
            return {}
        episodes = len(set(skills.values())) * (run.bench.sizes.test or 0)
        run.watcher.see(StageStarted("test", episodes=episodes))
        return await run.bench.open_test(skills)

    async def confirmed() -> Results:
        if not confirms:
            return {}
        kept = run.config.evaluation.confirm_tasks
        asked = {**baselines, "best": best}
        run.watcher.see(StageStarted("confirm", episodes=len(set(asked.values())) * kept))
        return await run.bench.confirm(asked)

    on_test, on_kept = await together((tested(), confirmed()))
    with run.store.transaction(durable=True):
        if on_test:
            state = _report(run, state, on_test)
        if on_kept:
            state = _confirm(run, state, on_kept)
    return state


Results = Mapping[str, list[EpisodeResult]]


def _baselines(run: Assembly) -> dict[str, str]:
    """Return the texts that training is compared with, by name; the gains are over the first."""
    initial = run.store.skill(0)
    # Where it says something already, what the agent does without any skill is another baseline.
    is_due = run.config.evaluation.empty_baseline and initial.strip()
    return {"initial": initial, "empty": ""} if is_due else {"initial": initial}


def _report(run: Assembly, state: TrainState, results: Results) -> TrainState:
    report = SplitReport.of("test", results, run.config.env.success_threshold)
    _tell(run, report)
    return write_down(run.store, state, Kind.TEST, report.to_dict())


def _confirm(run: Assembly, state: TrainState, results: Results) -> TrainState:
    threshold, gate = run.config.env.success_threshold, run.config.evaluation.gate
    report = SplitReport.of("confirm", results, threshold)
    _tell(run, report)
    bias = selection_bias(
        state.proofs,
        results["initial"],
        results["best"],
        metric=gate.metric,
        mixed_weight=gate.mixed_weight,
        success_threshold=threshold,
    )
    found = Confirmation(report, bias)
    return write_down(run.store, state, Kind.CONFIRMED, found.to_dict())


def _tell(run: Assembly, report: SplitReport) -> None:
    for name, table in report.tables.items():
        label = f"{SHOWN_AS.get(name, name)} skill"
        run.watcher.see(Scored(label, report.split, table.overall))
