"""The gate's part of a run: after a step, at the end of an epoch, and at the end of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Literal

from skillwright.core import EpisodeResult, ModelRefused, skill_hash
from skillwright.core.concurrency import both, together
from skillwright.evaluation import (
    Decision,
    Draws,
    Gate,
    ReleaseTest,
    SplitReport,
    Verdict,
    choices,
    release_draws,
    select_gate_score,
    selection_bias,
)
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run.bench import StepRef, terms_of
from skillwright.jobs.run.progress import ReleaseTested, StageStarted
from skillwright.jobs.run.resume import opened_before, write_down
from skillwright.jobs.text.guard import stop_if_unusable
from skillwright.jobs.text.history import epoch_ended, scores_of
from skillwright.jobs.text.lines import take_out_lines
from skillwright.jobs.text.replies import Account, account_of_calls
from skillwright.jobs.text.spending import (
    current_skill,
    replayed,
    rollouts_for_steps,
    rollouts_left,
    step_cost,
    train_batch,
)
from skillwright.jobs.text.state import Confirmation, EpochRecord, Judged, TrainState
from skillwright.jobs.text.wiring import TrainParts
from skillwright.rollout import EngineDown
from skillwright.runs import VerdictRecord
from skillwright.textopt import (
    Comparison,
    EpochContext,
    MetaSkill,
    SlowUpdate,
    SlowUpdateStatus,
    placeholder,
    write_meta_skill,
    write_slow_update,
)
from skillwright.textopt.reflect import INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class Candidate(Judged):
    """A changed skill, and the decision on it."""

    text: str
    action: str
    verdict: Verdict | None = None
    best_verdict: Verdict | None = None


async def judge(
    run: TrainParts, state: TrainState, text: str, place: StepRef, *, measures: bool = False
) -> Candidate:
    """Ask the gate to judge a candidate.

    It is judged against the current skill first. A gate with a release test stops there: the
    release is tested at the end. With other gates, a candidate that wins is then judged against the
    best skill, if that is another one, on fresh draws. An open gate accepts everything as current
    unless the caller ``measures``, and only judges it against the best skill.
    """
    current, best = incumbent(run, state, inherits=run.config.evaluation.inherit_scores)
    if run.gate.accepts_all and not measures:
        against_best = await duel(run, state, (best, text), place)
        return Candidate(text, "force_accept", best_verdict=against_best)
    verdict = await duel(run, state, (current, text), place)
    if not verdict.accepted:
        return Candidate(text, verdict.decision.value, verdict)
    if run.gate.release is not None:
        return Candidate(text, "accept", verdict)
    if current == best:
        return Candidate(text, "accept_new_best", verdict)
    against_best = await duel(run, state.spent(verdict), (best, text), place)
    action = "accept_new_best" if against_best.accepted else "accept"
    return Candidate(text, action, verdict, against_best)


async def end_epoch(run: TrainParts, state: TrainState, epoch: int) -> TrainState:
    """Run the update of an epoch, and store the outcome.

    Both skills are played on the same tasks. From the pairs, a slow update writes guidance for the
    skill, and a meta skill the optimizer's notes for the next epoch. The first epoch has nothing to
    compare, and only records its last skill.

    Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904). There a slow update enters unmeasured;
    here it passes the gate like any other change, unless the configuration says otherwise.
    """
    place = StepRef(state.last_step, epoch)
    run.calls.step = place.step  # a run that continues here has taken no step yet
    found = await _epoch_update(run, state, epoch)
    stop_if_refused(run)
    found.refuse_dead_optimizer()
    stop_if_unusable(run, state, found.account, f"the update of epoch {epoch}")
    judged = await _judged_update(run, state, found.slow_update, place)
    with run.store.transaction(durable=True):
        version = None
        if judged is not None:
            version = store_candidate(run, state, place, "slow_update", judged)
        record = found.record(state, judged, version)
        state = write_down(run.store, state, Kind.EPOCH, {**record.to_dict(), **found.details()})
    run.callback.on_event(epoch_ended(state.epochs[-1]))
    return state


async def judge_last(run: TrainParts, state: TrainState) -> TrainState:
    """Judge the last skill against the best one, if they differ.

    A gate with a release test tests it here, once, on draws that decided nothing before. With
    others, a verdict of the two on the same draws still holds, and costs no second share of alpha.
    SkillOpt compares them only where it tests.
    """
    last, best = incumbent(run, state)
    if last == best or (state.final is not None and not state.two_levels):
        return state
    if run.gate.release is not None:
        if state.is_tested or state.failed_to_prove:
            return state
        return await release(run, state, run.gate.release)
    if run.config.run.parity and not run.config.evaluation.test:
        return state
    known = _known_verdict(run, state)
    if known is not None:
        spent_then = replace(known, alpha=None)
        with run.store.transaction(durable=True):
            return write_down(run.store, state, Kind.FINAL, spent_then.to_dict())
    place = StepRef(state.last_step, state.steps[-1].epoch)
    verdict = await duel(run, state, (best, last), place)
    with run.store.transaction(durable=True):
        store_verdict(run, place, "final", last, verdict)
        return write_down(run.store, state, Kind.FINAL, verdict.to_dict())


async def release(run: TrainParts, state: TrainState, test: ReleaseTest) -> TrainState:
    """Take lines out of the current skill that do not help, and test its release."""
    state = await take_out_lines(run, state)
    if run.store.skill(state.skill_version) == run.store.skill(0):
        return state
    return await run_release_test(run, state, test)


async def run_release_test(run: TrainParts, state: TrainState, test: ReleaseTest) -> TrainState:
    """Test whether the current skill is proven better than the initial one; write it down.

    A run with a budget may test several times. After a proof, a later version is tested against the
    initial skill too, at the full alpha (a fixed sequence of tests).
    """
    sides = (run.store.skill(0), run.store.skill(state.skill_version))
    place = StepRef(state.last_step, state.steps[-1].epoch)
    val = run.bench.sizes.val or 0
    run.callback.on_event(StageStarted("release test", episodes=test.expected_rollouts(val)))
    draws = release_draws(run.config.run.seed, state.next_test, place.step)
    known = current_skill(run, state)
    terms = replace(
        terms_of(run.config, run.bench.clusters),
        plays_whole=run.bench.plays_whole,
        judged=choices(state.verdicts),
        seen=state.seen,
        repeats=None if known is None else known.repeats,
        rollouts=rollouts_left(run, state, replayed(run, draws)),
    )
    verdict = await test.judge(run.bench.duel(*sides, draws), state.ledger, terms)
    if verdict.accepted and (copied := run.bench.memorized(sides[1], run.store.skill(0))):
        verdict = replace(verdict, reason=f"{verdict.reason} {copied}.")
    if state.repeat and verdict.alpha is not None:
        alpha = run.config.evaluation.alpha
        said = (
            f"Training {state.repeat + 1} of this skill folder has alpha {state.ledger.total:.2g}: "
            f"the first has {alpha:g}, all later ones share {alpha:g} more. Of all their releases, "
            f"at most {2 * alpha:g} are expected to be without a gain."
        )
        verdict = replace(verdict, reason=f"{verdict.reason} {said}")
    run.callback.on_event(ReleaseTested(verdict, state.ledger.spend(verdict).left))
    with run.store.transaction(durable=True):
        store_verdict(run, place, "release", sides[1], verdict)
        return write_down(run.store, state, Kind.FINAL, verdict.to_dict())


async def open_sealed(run: TrainParts, state: TrainState) -> TrainState:
    """Score all skills on the sealed test tasks concurrently; only this job may open them."""
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
        run.callback.on_event(StageStarted("test", episodes=episodes))
        return await run.bench.open_test(skills)

    async def confirmed() -> Results:
        if not confirms:
            return {}
        kept = run.config.evaluation.confirm_tasks
        asked = {**baselines, "best": best}
        run.callback.on_event(StageStarted("confirm", episodes=len(set(asked.values())) * kept))
        return await run.bench.confirm(asked)

    on_test, on_kept = await together((tested(), confirmed()))
    with run.store.transaction(durable=True):
        if on_test:
            state = _report(run, state, on_test)
        if on_kept:
            state = _confirm(run, state, on_kept)
    return state


Stage = Literal["step", "slow_update", "final"]


def incumbent(run: TrainParts, state: TrainState, *, inherits: bool = False) -> tuple[str, str]:
    """Return the texts of the current and the best skill that the gate measures.

    Where first scores stand for the whole run, a text with an empty region keeps the score of the
    text without it.
    """
    current = state.skill_version
    if not run.gate.redraws:
        current = _judged(run, state) if inherits else state.measured(current)
    return run.store.skill(current), run.store.skill(state.best_version)


def _judged(run: TrainParts, state: TrainState) -> int:
    """Return the current skill's last version before anything entered it without a gate."""
    parents = {one.version: one.parent for one in run.store.skills()}
    version = state.skill_version
    while version in state.unmeasured and (parent := parents[version]) is not None:
        version = parent
    return version


def first_draw(gate: Gate, accepts: int, decided: int) -> int:
    """Return the number of the first draw of a decision, by earlier accepts and decisions."""
    if gate.believes:
        # The baseline is draw 0. A decision may draw each task once more than the gate's maximum.
        return 1 + decided * (gate.draws + 1)
    # A skill that was accepted on some draws looks better on them than it is. So the gate draws
    # fresh ones after each accept; until then, all candidates are judged on the same draws.
    return accepts * gate.draws if gate.redraws else 0


async def duel(
    run: TrainParts, state: TrainState, sides: tuple[str, str], place: StepRef
) -> Verdict:
    """Have the gate judge a candidate, the second of two texts, against the first."""
    val = run.bench.sizes.val or 0
    run.callback.on_event(
        StageStarted("gate", place.step, place.epoch, episodes=run.gate.expected_rollouts(val))
    )
    first = first_draw(run.gate, state.accepts, len(state.seen) - 1)
    terms = terms_of(run.config, run.bench.clusters)
    draws = Draws(run.config.run.seed, first=first, step=place.step)
    terms = replace(terms, plays_whole=run.bench.plays_whole, bonus=run.gate.bonus(*sides))
    if run.gate.believes:
        terms = replace(
            terms,
            seen=state.seen,
            step_cost=step_cost(run, train_batch(run, state, place.step), place.step),
            rollouts=rollouts_for_steps(run, rollouts_left(run, state, replayed(run, draws))),
            train=_trained_on(run, place) if place.step > state.last_step else (0.0, 0),
        )
    return await run.gate.judge(run.bench.duel(*sides, draws), state.ledger, terms)


def _trained_on(run: TrainParts, place: StepRef) -> tuple[float, int]:
    """Return sum and number of the current skill's scores on a step's train batch."""
    threshold, scores = run.config.env.success_threshold, []
    for one in run.store.episodes(phase="train", step=place.step):
        if one.reward is not None:
            hard = float(one.reward >= threshold) if one.hard is None else one.hard
            gate = run.gate
            scores.append(select_gate_score(hard, one.reward, gate.metric, gate.mixed_weight))
    return sum(scores), len(scores)


def store_candidate(
    run: TrainParts, state: TrainState, place: StepRef, stage: Stage, candidate: Candidate
) -> int:
    """Store a candidate as a version, with the gate's judgments, and return its number."""
    by_stage = f"step_{place.step:04d}"
    if stage == "slow_update":
        forced = "placeholder_" if candidate.action == "inject_placeholder" else ""
        by_stage = f"slow_update_{forced}epoch_{place.epoch:02d}"
    version = run.store.add_skill_version(
        candidate.text, parent=state.skill_version, origin=by_stage, step=place.step
    )
    store_verdict(run, place, stage, candidate.text, candidate.verdict)
    store_verdict(run, place, f"{stage}_best", candidate.text, candidate.best_verdict)
    return version


def store_verdict(
    run: TrainParts, place: StepRef, origin: str, text: str, verdict: Verdict | None
) -> None:
    """Store a verdict, if there is one."""
    if verdict is not None:
        run.store.record_verdict(
            VerdictRecord(place.step, verdict.to_dict(), skill_hash(text), origin)
        )


def stop_if_refused(run: TrainParts) -> None:
    """Stop if the optimizer's endpoint refused a request, so that a resumed run asks again."""
    if run.calls.refusal is not None:
        raise ModelRefused(f"the optimizer was refused: {run.calls.refusal}")


@dataclass(frozen=True, slots=True)
class EpochUpdate:
    """The optimizer's update of an epoch, before the gate."""

    epoch: int
    slow_update: SlowUpdate | None = None
    meta_skill: MetaSkill | None = None
    comparison: Comparison | None = None

    def details(self) -> dict[str, object]:
        """Return the details to store, as a JSON object."""
        return {
            "slow_update": self.slow_update.to_dict() if self.slow_update else None,
            "meta_skill_written": self.meta_skill.to_dict() if self.meta_skill else None,
            "drawn": [pair.to_dict() for pair in self.comparison.drawn] if self.comparison else [],
        }

    @property
    def account(self) -> Account:
        """The account of the optimizer's replies."""
        written = {"slow": self.slow_update, "meta": self.meta_skill}
        asked = {name: one for name, one in written.items() if one and one.prompt_digest}
        found = account_of_calls(
            {f"e{self.epoch}.{name}": one.fault for name, one in asked.items()}
        )
        return replace(
            found, remarks=(*found.remarks, *(note for one in asked.values() for note in one.notes))
        )

    def refuse_dead_optimizer(self) -> None:
        """Stop if neither slow update nor meta skill could be written; a resume writes them."""
        asked = [one for one in (self.slow_update, self.meta_skill) if one and one.prompt_digest]
        failures = [one.fault.failure for one in asked if one.fault]
        lost = [failure for failure in failures if failure.cause in INFRASTRUCTURE]
        if lost and len(lost) == len(asked):
            raise EngineDown(
                f"the update of epoch {self.epoch} could not ask the optimizer; the latest: "
                f"{lost[-1].message}"
            )

    def record(
        self, state: TrainState, judged: Candidate | None, skill_version: int | None
    ) -> EpochRecord:
        """Return the epoch's record, with the decision on the slow update."""
        action = self.slow_update.status.value if self.slow_update else ""
        return EpochRecord(
            epoch=self.epoch,
            steps_ended_with=state.skill_version,
            action=judged.action if judged else action,
            meta_skill=self.meta_skill.content if self.meta_skill else state.meta_skill,
            verdict=judged.verdict if judged else None,
            skill_version=skill_version,
            best_verdict=judged.best_verdict if judged else None,
            replies=self.account.replies,
            remarks=self.account.remarks,
        )


async def _judged_update(
    run: TrainParts, state: TrainState, update: SlowUpdate | None, place: StepRef
) -> Candidate | None:
    """Return the decision on a slow update, or ``None`` if it changes nothing."""
    if update is None or update.candidate == run.store.skill(state.skill_version):
        return None
    if update.status is SlowUpdateStatus.PLACEHOLDER:
        return Candidate(update.candidate, update.status.value)
    if not run.config.optimizer.gate_slow_update:
        return Candidate(update.candidate, "force_accept")
    return await judge(run, state, update.candidate, place, measures=run.config.run.parity)


def _first_update(run: TrainParts, skill: str) -> SlowUpdate | None:
    """Return the update of the first epoch, which has nothing to compare: an empty region.

    SkillOpt inserts it also where a gate judges the guidance; it changes no score.
    """
    config = run.config.optimizer
    enters = run.config.run.parity or not config.gate_slow_update
    return placeholder(skill, run.settings.limits) if config.use_slow_update and enters else None


async def _epoch_update(run: TrainParts, state: TrainState, epoch: int) -> EpochUpdate:
    """Compare the epoch's skill with the one before; ask for the slow update and meta skill."""
    config, skill = run.config.optimizer, run.store.skill(state.skill_version)
    if epoch == 1:
        return EpochUpdate(epoch, slow_update=_first_update(run, skill))
    # SkillOpt has overwritten the skill of the epoch's last step with the slow update by now.
    last = state.epochs[-1]
    version = last.ended_with if run.config.run.parity else last.steps_ended_with
    previous = run.store.skill(version)
    comparison = await run.bench.compare(previous, skill, epoch)
    seed = run.config.run.seed + epoch
    needs_pairs = not run.config.run.parity
    context = EpochContext(f"e{epoch}", previous, skill, comparison, seed, needs_pairs)
    optimizer, limits = run.optimizer, run.settings.limits

    async def guided() -> SlowUpdate | None:
        if not config.use_slow_update:
            return None
        return await write_slow_update(optimizer, context, limits)

    async def noted() -> MetaSkill | None:
        if not config.use_meta_skill:
            return None
        return await write_meta_skill(optimizer, context, state.meta_skill, limits)

    guidance, notes = await both(guided(), noted())
    return EpochUpdate(epoch, guidance, notes, comparison)


def placebo_text(length: int) -> str:
    """Return an irrelevant text of about ``length`` characters, cut at a word."""
    source = files("skillwright.jobs").joinpath("placebo.md").read_text(encoding="utf-8")
    text = source * (length // len(source) + 1)
    return text[:length].rsplit(" ", 1)[0] if length < len(text) else text


def _known_verdict(run: TrainParts, state: TrainState) -> Verdict | None:
    """Return the gate's stored verdict on the last skill and the best one, on the due draws."""
    met = state.met_best
    if met is None or met.verdict.decision is not Decision.REJECT:
        return None  # a verdict that failed episodes left undecided may be decided now
    theirs = (run.store.skill(met.version), run.store.skill(met.best_version))
    ours = incumbent(run, state)
    same_draws = met.accepts == state.accepts or not run.gate.redraws
    return met.verdict if theirs == ours and same_draws else None


Results = Mapping[str, list[EpisodeResult]]


def _baselines(run: TrainParts) -> dict[str, str]:
    """Return the texts that training is compared with, by name; the gains are over the first."""
    initial = run.store.skill(0)
    # If the initial skill is not blank, the agent without any skill is another baseline.
    is_due = run.config.evaluation.empty_baseline and initial.strip()
    return {"initial": initial, "empty": ""} if is_due else {"initial": initial}


def _report(run: TrainParts, state: TrainState, results: Results) -> TrainState:
    metric = run.gate.scores(terms_of(run.config))
    report = SplitReport.of("test", results, run.config.env.success_threshold, metric)
    report = replace(report, opened_before=opened_before(run.store))
    _tell(run, report)
    return write_down(run.store, state, Kind.TEST, report.to_dict())


def _confirm(run: TrainParts, state: TrainState, results: Results) -> TrainState:
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


def _tell(run: TrainParts, report: SplitReport) -> None:
    for event in scores_of(report):
        run.callback.on_event(event)
