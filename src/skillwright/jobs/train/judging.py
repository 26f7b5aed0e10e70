"""The gate's part of a run: a candidate against the current skill, and against the best one.

What is judged is written down by whoever asked, together with all else that was decided.
"""

from dataclasses import dataclass
from typing import Literal

from skillwright.core import ModelRefused, skill_hash
from skillwright.evaluation import Draws, Verdict
from skillwright.jobs.parts.bench import Place
from skillwright.jobs.parts.progress import StageStarted
from skillwright.jobs.train.decisions import Judged
from skillwright.jobs.train.state import TrainState
from skillwright.jobs.train.wiring import Assembly
from skillwright.runs import VerdictRecord

Stage = Literal["step", "slow_update", "final"]


@dataclass(frozen=True, slots=True)
class Candidate(Judged):
    """A changed skill, and what became of it."""

    text: str
    action: str
    verdict: Verdict | None = None
    best_verdict: Verdict | None = None


async def judge(run: Assembly, state: TrainState, text: str, place: Place) -> Candidate:
    """Ask the gate what becomes of a candidate.

    It meets the current skill first. A gate with a release test decides no more than that: what is
    released is tested at the end. With other gates, where the current skill is not the best one,
    and is beaten, the best one is met next, on fresh draws. An open gate lets everything become
    current and only asks the latter.
    """
    current, best = standing(run, state, inherits=run.config.evaluation.inherit_scores)
    if run.gate.admits_all:
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


def standing(run: Assembly, state: TrainState, *, inherits: bool = False) -> tuple[str, str]:
    """Return the texts of the current and the best skill that the gate measures.

    Where first scores stand for the whole run, an empty region does not make another text: what was
    measured without it stands for it.
    """
    current = state.skill_version
    if not run.gate.redraws:
        current = _judged(run, state) if inherits else state.measured(current)
    return run.store.skill(current), run.store.skill(state.best_version)


def _judged(run: Assembly, state: TrainState) -> int:
    """Return the version that the current skill was before anything entered it unmeasured."""
    parents = {one.version: one.parent for one in run.store.skills()}
    version = state.skill_version
    while version in state.unmeasured and (parent := parents[version]) is not None:
        version = parent
    return version


async def duel(run: Assembly, state: TrainState, sides: tuple[str, str], place: Place) -> Verdict:
    """Have the gate judge a candidate, the second of two texts, against the first."""
    val = run.bench.sizes.val or 0
    run.watcher.see(
        StageStarted("gate", place.step, place.epoch, episodes=run.gate.expected_rollouts(val))
    )
    # A skill that was accepted on some draws looks better on them than it is. After each accept
    # the gate draws fresh ones, so the new incumbent's luck is not held for skill. Until then the
    # incumbent's draws serve every candidate.
    first = state.accepts * run.gate.draws if run.gate.redraws else 0
    draws = Draws(run.config.run.seed, first=first, step=place.step)
    return await run.gate.judge(run.bench.duel(*sides, draws), state.ledger, run.terms)


def store_candidate(
    run: Assembly, state: TrainState, place: Place, stage: Stage, candidate: Candidate
) -> int:
    """Store a candidate as a version, with the gate's judgements, and return its number."""
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
    run: Assembly, place: Place, origin: str, text: str, verdict: Verdict | None
) -> None:
    """Store a judgement, where there is one."""
    if verdict is not None:
        run.store.record_verdict(
            VerdictRecord(place.step, verdict.to_dict(), skill_hash(text), origin)
        )


def stop_if_refused(run: Assembly) -> None:
    """Stop where the optimiser was refused: what is missing now would be there after a resume."""
    if run.calls.refusal is not None:
        raise ModelRefused(f"the optimiser was refused: {run.calls.refusal}")
