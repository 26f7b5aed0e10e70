"""Test whether the accepted edits of a skill help another model.

A gate may have accepted an edit on few val tasks. The other model plays pairs of the skill before
and after it on each val task, with the gate's seeds, in the folder ``lessons/<model>`` below the
run's; commands on episodes accept that folder instead of a run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from skillwright.config import RunConfig, dump_config, is_rl_config, load_config
from skillwright.core import ConfigError, RunError, StepDuel, Usage
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest, encode_fields
from skillwright.evaluation import AlphaLedger, BoundedGain, Draws, Verdict, bound_gain
from skillwright.jobs.inspect.ablate import MARGIN, Meter
from skillwright.jobs.run import Callback, MakeModel, RunStarted, StageStarted
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.launch import find_run, known_secrets, make_run, reopen
from skillwright.jobs.run.resume import TASKS, refuse_other_tasks
from skillwright.jobs.text import EpochRecord, Run, StepRecord, restore
from skillwright.jobs.text.gate import first_draw
from skillwright.jobs.text.wiring import RunParts, assemble_session
from skillwright.models import make_model
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME
from skillwright.textopt import was_applied


@dataclass(frozen=True, slots=True)
class Accepted:
    """A change that the gate accepted.

    Attributes:
        where: ``step 3``, or ``slow update of epoch 2``.
        before: The skill version before the change.
        after: The skill version after it.
        edits: One text per edit: what was written or taken out.
        first: Number of the gate's first draw.
    """

    where: str
    before: int
    after: int
    edits: tuple[str, ...]
    first: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class LessonTest:
    """A planned test of lessons.

    Attributes:
        run: The run of the other model, below the source's folder.
        source: The folder of the run whose lessons are tested.
        accepted: The changes to test.
        trained_with: The model that the source was trained with.
    """

    run: Run
    source: Path
    accepted: tuple[Accepted, ...]
    trained_with: str


def open_lessons(
    run: str | Path, root: str | Path, config: Path | None, overrides: Sequence[str]
) -> LessonTest:
    """Find the accepted changes of a run, and open the folder of another model's episodes.

    Args:
        run: A run's folder, or its name below ``root``.
        root: The folder that holds runs.
        config: A configuration whose ``models.target`` plays; ``None`` is the run's own.
        overrides: Settings over that, such as ``models.target.model=...``.

    Raises:
        RunError: There is no such run, or it trains no skill document.
        ConfigError: No other model is named, a setting is wrong, or no change was accepted.
    """
    _refuse_other_settings(config, overrides)
    source = find_run(run, root)
    if is_rl_config(source / CONFIG_NAME):
        raise RunError(f"{source} trains no skill document, so it has no lessons to test")
    own = load_config(source / CONFIG_NAME)
    theirs = load_config(config or source / CONFIG_NAME, overrides)
    changed = own.model_copy(
        update={
            "models": own.models.model_copy(update={"target": theirs.models.target}),
            "budget": theirs.budget,
            "rollout": own.rollout.model_copy(
                update={
                    "max_concurrent": theirs.rollout.max_concurrent,
                    "reuse": [*own.rollout.reuse, str(source.resolve())],
                }
            ),
        }
    )
    with RunStore.open(source / STORE_NAME, read_only=True) as store:
        accepted = accepted_changes(own, store)
        if not accepted:
            raise ConfigError(
                f"run {source.name!r} has no lesson to test: its gate accepted nothing"
            )
        trained_with = store.episodes(phase="gate")[0].agent
        opened = _opened(changed, source / _FOLDER, store)
    return LessonTest(opened, source, accepted, trained_with)


Outcome = Literal["still helps", "no longer helps", "hurts", "undecided"]


@dataclass(frozen=True, slots=True)
class Lesson:
    """The gain of a change with the other model."""

    accepted: Accepted
    gain: BoundedGain
    outcome: Outcome

    def to_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "where": self.accepted.where,
            "before": self.accepted.before,
            "after": self.accepted.after,
            "edits": list(self.accepted.edits),
            "gain_then": self.accepted.verdict.effect,
            "gain": self.gain.gain,
            "interval": list(self.gain.interval),
            "pairs": self.gain.effect.pairs,
            "lost": self.gain.effect.lost,
            "outcome": self.outcome,
            "problem": self.gain.problem,
        }


@dataclass(frozen=True, slots=True)
class LessonReport:
    """The result of a test of lessons.

    Attributes:
        target: The identity of the other model.
        trained_with: The model that the run was trained with.
        alpha: The chance that any outcome of a kind is wrong.
        folder: The folder of the episodes.
        rollouts: Episodes that were played, failures included.
    """

    target: str
    trained_with: str
    lessons: tuple[Lesson, ...]
    alpha: float
    folder: Path
    rollouts: int
    usage: Usage

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        record = encode_fields(self)
        del record["usage"]
        return record | {"folder": str(self.folder), "cost_usd": self.usage.cost_usd}


async def play_lessons(
    test: LessonTest, callback: Callback, make: MakeModel = make_model, margin: float = MARGIN
) -> LessonReport:
    """Have the other model play the pairs behind every accepted change.

    Raises:
        DataError: The tasks are not those that the run began with.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Every episode failed; finished episodes are stored.
        BudgetSpent: The budget is spent; finished episodes are stored.
    """
    run = test.run
    meter = Meter(run.store, callback)
    ledger = AlphaLedger(run.config.evaluation.alpha, len(test.accepted))
    async with assemble_session(run.config, run.store, meter, make) as parts:
        refuse_other_tasks(run.store, parts.bench.facts)
        duels = [_duel(parts, one) for one in test.accepted]
        draws = min(run.config.evaluation.gate.draws, _MOST_DRAWS)
        count = draws * sum(len(duel.task_ids) for duel in duels)
        callback.on_event(
            RunStarted(
                name=test.source.name,
                folder=str(run.folder.path),
                llms={"target": parts.bench.target_identity},
                facts=(f"{len(test.accepted)} lessons, {count:,} pairs of draws",),
                episodes=2 * count,
            )
        )
        callback.on_event(StageStarted("lessons", episodes=2 * count))
        pairs = await together(duel.draw(duel.task_ids, n=draws) for duel in duels)
        target = parts.bench.target_identity
    metric = run.config.evaluation.gate.scores(terms_of(run.config))
    lessons = []
    for accepted, duel, drawn in zip(test.accepted, duels, pairs, strict=True):
        gain = bound_gain(metric.of(drawn), len(duel.task_ids), ledger.share)
        lessons.append(Lesson(accepted, gain, _outcome(gain, margin)))
    return LessonReport(
        target=target,
        trained_with=test.trained_with,
        lessons=tuple(lessons),
        alpha=ledger.total,
        folder=run.folder.path,
        rollouts=meter.rollouts,
        usage=meter.usage,
    )


PHASE: Final = "lessons"
_MOST_DRAWS: Final = 2
"""Draws of each val task and side; fewer if the gate's limit is lower."""
_FOLDER: Final = "lessons"
_MAY_CHANGE: Final = ("models.target", "models.prices", "budget.", "rollout.max_concurrent")


def _refuse_other_settings(config: Path | None, overrides: Sequence[str]) -> None:
    if config is None and not any(one.startswith("models.target") for one in overrides):
        raise ConfigError(
            "say which model is to play: --config FILE takes the models.target of another "
            "configuration, and --set models.target.model=NAME changes the run's own"
        )
    others = [one for one in overrides if not one.startswith(_MAY_CHANGE)]
    if others:
        raise ConfigError(
            f"{others[0]!r} cannot change: the pairs would not be those that the gate drew. Only "
            f"{', '.join(one.rstrip('.') for one in _MAY_CHANGE)} can"
        )


def _opened(config: RunConfig, root: Path, source: RunStore) -> Run:
    """Make the folder, or open it where the same model played before."""
    target = config.models.target
    named = re.sub(r"[^A-Za-z0-9]+", "-", _name(config)).strip("-")[:40]
    name = f"{named or 'model'}-{digest(target.model_dump(mode='json'))[:8]}"
    secrets = known_secrets(config)
    if (root / name / CONFIG_NAME).is_file():
        folder, store = reopen(root / name, secrets)
        return Run(config=config, folder=folder, store=store)

    def first(path: Path, store: RunStore) -> dict[str, Any]:
        for one in source.skills():
            text = source.skill(one.version)
            store.add_skill_version(text, parent=one.parent, origin=one.origin, step=one.step)
        for event in source.events(TASKS)[:1]:
            store.append_event(TASKS, event.payload)
        return {"job": PHASE}

    folder, store = make_run(root, name, dump_config(config), secrets, first)
    return Run(config=config, folder=folder, store=store)


def _name(config: RunConfig) -> str:
    target = config.models.target
    return str(getattr(target, "model", None) or target.backend)


def accepted_changes(config: RunConfig, store: RunStore) -> tuple[Accepted, ...]:
    """Return the changes that a run's gate accepted, with their draws, in order."""
    state = restore(config, store)
    records: list[StepRecord | EpochRecord] = [*state.steps, *state.epochs]
    parents = {one.version: one for one in store.skills()}
    gate, accepts, decided, found = config.evaluation.gate, 0, 0, []
    for record in sorted(records, key=_moment):
        verdict, after = record.verdict, record.skill_version
        first = first_draw(gate, accepts, decided)
        accepts += sum(one.accepted for one in record.verdicts)
        decided += sum(one.seen is not None for one in record.verdicts)
        before = None if after is None else parents[after].parent
        if verdict is None or not verdict.accepted or after is None or before is None:
            continue
        found.append(
            Accepted(
                where=_where(record),
                before=before,
                after=after,
                edits=_edits(store, record),
                first=first,
                verdict=verdict,
            )
        )
    return tuple(found)


def _moment(record: StepRecord | EpochRecord) -> tuple[int, int, int]:
    return (record.epoch, *((0, record.step) if isinstance(record, StepRecord) else (1, 0)))


def _where(record: StepRecord | EpochRecord) -> str:
    if isinstance(record, StepRecord):
        return f"step {record.step}"
    return f"slow update of epoch {record.epoch}"


def _edits(store: RunStore, record: StepRecord | EpochRecord) -> tuple[str, ...]:
    if not isinstance(record, StepRecord):
        return ()
    return tuple(
        " ".join((one.edit.content or f"without: {one.edit.target}").split())
        for one in store.edits(record.step)
        if one.stage == "selected" and was_applied(one.status)
    )


def _duel(parts: RunParts, accepted: Accepted) -> StepDuel:
    before, after = (parts.store.skill(one) for one in (accepted.before, accepted.after))
    return parts.bench.duel(before, after, Draws(parts.config.run.seed, accepted.first, PHASE))


def _outcome(gain: BoundedGain, margin: float) -> Outcome:
    if gain.is_above(0.0):
        return "still helps"
    if gain.is_below(0.0):
        return "hurts"
    return "no longer helps" if gain.is_below(margin) else "undecided"
