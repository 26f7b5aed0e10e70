"""A policy step: the weights of the latest iterations against those before them, on val."""

from skillwright.evaluation import Draws
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.progress import StageStarted
from skillwright.jobs.run.resume import write_down
from skillwright.jobs.weights.state import CANDIDATE, RlState
from skillwright.jobs.weights.validation import Checkpoints, Version, WeightsDuel
from skillwright.jobs.weights.verdicts import PolicyJudged, PolicyStepRecord
from skillwright.jobs.weights.wiring import RlParts
from skillwright.policy import PolicyBackend
from skillwright.runs import VerdictRecord

ORIGIN = "policy"
"""The origin of its verdicts."""


def ends_policy_step(run: RlParts, iteration: int) -> bool:
    """Whether an iteration is the last of a policy step."""
    every = run.config.grpo.gate_every
    return every is not None and (iteration % every == 0 or iteration == run.config.grpo.iterations)


async def judge_policy(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, checkpoints: Checkpoints
) -> RlState:
    """Judge the weights by the gate, unless this was done; roll rejected weights back.

    Both sides get the skills of the latest iteration. After each accepted change, the gate takes
    fresh draws.
    """
    if iteration not in state.policy_steps:
        state = await _judged(run, state, policy, iteration, checkpoints)
    record = state.policy_steps[iteration]
    if not record.verdict.accepted:
        checkpoints.load(policy, record.since)
    checkpoints.path(CANDIDATE).unlink(missing_ok=True)
    return state


async def _judged(
    run: RlParts, state: RlState, policy: PolicyBackend, iteration: int, checkpoints: Checkpoints
) -> RlState:
    gate, version = run.config.evaluation.gate, state.version_after(iteration - 1)
    since = state.last_policy_step
    checkpoints.save(policy, CANDIDATE, version)
    candidate = policy.identity
    expected = gate.expected_rollouts(len(run.tasks.val))
    run.callback.on_event(StageStarted("policy gate", step=iteration, episodes=expected))
    skills = run.source(version)
    sides = Version(since, skills), Version(CANDIDATE, skills)
    draws = Draws(run.config.run.seed, first=1 + state.accepts * gate.draws, step=iteration)
    duel = WeightsDuel(run, policy, checkpoints, sides, draws)
    verdict = await gate.judge(duel, state.ledger, terms_of(run.config, run.tasks.clusters))
    before = _identity_after(state, since)
    record = PolicyStepRecord(iteration, since, version, before, candidate, verdict)
    with run.store.transaction(durable=True):
        said = verdict.to_dict()
        run.store.record_verdict(VerdictRecord(iteration, said, candidate, ORIGIN))
        state = write_down(run.store, state, RlKind.POLICY_STEP, record.to_dict())
    run.callback.on_event(PolicyJudged(record))
    return state


def _identity_after(state: RlState, iteration: int) -> str:
    """Return the identity of the weights after a policy step; 0 is the cold start."""
    step = state.policy_steps.get(iteration)
    if step is not None:
        return step.candidate if step.verdict.accepted else step.before
    return str((state.cold_start or {}).get("policy", ""))
