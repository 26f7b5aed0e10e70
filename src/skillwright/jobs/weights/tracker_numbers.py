"""The numbers of a run of the recipe for experiment trackers."""

from collections.abc import Iterator, Mapping

from skillwright.config.rl import RlConfig
from skillwright.evaluation import Score, Verdict
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.progress import ReleaseTested, Scored
from skillwright.jobs.run.tracking import (
    Measures,
    Numbers,
    Update,
    numbers,
    score_values,
    verdict_values,
)
from skillwright.jobs.weights.state import (
    TIMING,
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    IterationEnded,
    RlEvent,
    RlState,
    Validated,
)
from skillwright.jobs.weights.verdicts import PolicyJudged, SkillsInternalized
from skillwright.runs import RunStore


class RlMeasures(Measures):
    """Turns events of the recipe into numbers; steps are iterations."""

    def of(self, event: object) -> list[Update]:
        """Return the numbers of an event, if it has any."""
        match event:
            case IterationEnded():
                return [self._iteration(event)]
            case Validated():
                return [_validated(event)]
            case BankEvolved():
                return [_evolved(event)]
            case PolicyJudged(record=one):
                return [_judged("policy_step", one.iteration, one.verdict)]
            case SkillsInternalized(record=one):
                return [_judged("internalized", self.step, one.verdict)]
            case ColdStartStep():
                loss = {"loss": event.surprise, "grad_norm": event.grad_norm}
                return [_cold("step", event.step, loss)]
            case ColdStartEnded():
                found = {"episodes": event.episodes, "solved": event.wins, "rows": event.rows}
                return [_cold("end", 0, found)]
            case _:
                return super().of(event)

    def _iteration(self, event: IterationEnded) -> Numbers:
        one = event.record
        self.step = one.iteration
        by_type = one.task_types.items()
        types = {f"success_by_type/{name}": good / n for name, (good, n) in by_type if n}
        values = {
            "reward": one.reward,
            "success_rate": one.success,
            **types,
            "kl": one.kl,
            "entropy": one.entropy,
            "clip_fraction": one.clip_fraction,
            "zero_variance_share": one.zero_variance_share,
            "turns": one.turns,
            "tokens": one.tokens,
            "loss": one.loss,
            "grad_norm": one.grad_norm,
            "learning_rate": one.learning_rate,
            "drift": one.drift,
            "extra_episodes": one.extra,
            "sampler_gap": one.sampler_gap,
            "malformed": one.malformed,
            "truncated": one.truncated,
            "failures": one.failures,
            "skills": one.skills,
            "bank_version": one.bank_version,
            "rollout_s": event.rollout_s or None,
            "learning_s": event.learning_s or None,
            **self.used(),
            **self.faults(),
        }
        return numbers("iteration", one.iteration, values)


def _validated(event: Validated) -> Numbers:
    types: dict[str, Score] = dict(event.task_types)
    by_type = {f"val_by_type/{name}": one.success_rate for name, one in types.items()}
    values = {**score_values(event.score, "val"), **by_type}
    return numbers("validation", event.iteration, values)


def _evolved(event: BankEvolved) -> Numbers:
    one = event.record
    values = {
        **verdict_values(one.verdict),
        "accepted": one.verdict is not None and one.verdict.accepted,
        "version": one.version,
        "skills": sum(one.growth.values()),
        "added": len(one.added),
        "refined": len(one.refined),
        "retired": len(one.retired),
    }
    named = {f"bank/{name}": value for name, value in values.items()}
    return numbers("evolution", one.iteration, named)


def _judged(series: str, step: int, verdict: Verdict | None) -> Numbers:
    values = {**verdict_values(verdict), "accepted": verdict is not None and verdict.accepted}
    return numbers(series, step, {f"{series}/{name}": value for name, value in values.items()})


def _cold(series: str, step: int, values: Mapping[str, float]) -> Numbers:
    named = {f"cold_start/{name}": value for name, value in values.items()}
    return numbers(f"cold_start/{series}", step, named)


def past_events(config: RlConfig, store: RunStore) -> Iterator[RlEvent]:
    """Yield the events of all decisions in the store, in order, each iteration once."""
    state, done = RlState(config.ledger), 0
    for event in store.events():
        state = state.after(event.kind, event.payload)
        match event.kind:
            case RlKind.ITERATION if state.last_iteration > done:
                done = state.last_iteration
                took = event.payload.get(TIMING, {})
                seconds = took.get("rollout_s", 0.0), took.get("learning_s", 0.0)
                yield IterationEnded(state.iterations[done], *seconds)
            case RlKind.VALIDATION:
                one = list(state.validations.values())[-1]
                types = one.table.task_types
                yield Validated(one.iteration, one.table.overall, types, state.best is one)
            case RlKind.EVOLUTION:
                yield BankEvolved(list(state.evolutions.values())[-1])
            case RlKind.POLICY_STEP:
                yield PolicyJudged(state.policy_steps[state.last_policy_step])
            case RlKind.INTERNALIZED if state.internalized is not None:
                yield SkillsInternalized(state.internalized)
            case RlKind.RELEASE if state.release is not None:
                yield ReleaseTested(state.release, state.ledger.left)
            case RlKind.TEST if state.test is not None:
                for name, table in state.test.tables.items():
                    yield Scored(name, state.test.split, table.overall)
