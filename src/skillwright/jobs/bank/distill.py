"""Distill a bank: of the episodes of runs, or of base trajectories that are played for it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from skillwright.bank import (
    SEED_BANKS,
    Bank,
    BankStore,
    DistillSettings,
    RefinedMemory,
    Teacher,
    category_of,
    compression,
    count_skills,
    distill,
    read_memories,
    scope_of,
    seed_bank,
)
from skillwright.bank.changes import IsNear, nearness
from skillwright.bank.source import classify
from skillwright.config.bank_settings import StudySettings, teacher_of
from skillwright.config.run import RunConfig
from skillwright.core import (
    Act,
    ConfigError,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillStatus,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import digest, encode_fields, read_text
from skillwright.core.seeds import derive_seed
from skillwright.envs import specs
from skillwright.jobs.bank.session import bank_session, study
from skillwright.jobs.run import Callback, StageStarted, find_run, known_secrets
from skillwright.jobs.run.bank_source import bank_work, has_work, look_at_work, may_be_studied
from skillwright.jobs.run.resources import MakeModel, asked_anew
from skillwright.models import make_model
from skillwright.rollout import refuse_no_score
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class StudiedRun:
    """Episodes of a run that a teacher may read.

    Attributes:
        episodes: Scored and failed episodes of tasks that may be studied.
        kept_out: Number of other episodes, by split.
        success_threshold: The reward from which the run calls an episode solved.
    """

    path: Path
    episodes: tuple[EpisodeResult, ...]
    kept_out: Mapping[str, int]
    success_threshold: float


@dataclass(frozen=True, slots=True)
class DistillOutcome:
    """The outcome of a distillation.

    Attributes:
        before: The bank's version before it.
        version: The bank's version after it; the same if nothing new was learned.
        skills: Counts of the bank's skills, as SkillRL counts.
        read: Episodes that the teacher could read.
        kept_out: Episodes that may not be studied, by split.
        requests: Requests to the teacher.
        decisions: Counts of its drafts by outcome: added, merged, refused.
        blocked: Drafts that lint blocked: (name, reason).
        compression: Length of the skills relative to the trajectories.
        notes: Repairs of replies, and failed requests.
    """

    bank: str
    before: int
    version: int
    skills: str
    episodes: int
    solved: int
    read: int
    requests: int
    decisions: dict[str, int]
    kept_out: dict[str, int] = field(default_factory=dict)
    blocked: tuple[tuple[str, str], ...] = ()
    compression: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_scripted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        blocked = [{"name": name, "why": why} for name, why in self.blocked]
        return encode_fields(self) | {"blocked": blocked}


async def distill_runs(
    runs: Sequence[StudiedRun],
    bank: Path,
    settings: StudySettings,
    callback: Callback,
    make: MakeModel = make_model,
    status: SkillStatus = SkillStatus.ACTIVE,
) -> DistillOutcome:
    """Distill the stored episodes of runs into a bank; a repeated request is not paid again.

    Args:
        runs: The episodes of each run.
        bank: The bank's file, created if missing.
        settings: The teacher and its limits.
        callback: Receives the events.
        make: Makes the teacher.
        status: The status of the new skills; pending ones are not injected.

    Raises:
        TeacherDown: No reply of the teacher is usable.
        BankError: The file cannot be written, or another process works on it.
    """
    episodes = [one for run in runs for one in run.episodes]
    threshold = runs[0].success_threshold
    asked = settings.distill.settings(threshold).model_copy(update={"status": status})
    async with study(bank, settings, callback, make, *(run.path for run in runs)) as held:
        with held.store.transaction():
            for one in episodes:
                # Kept next to the bank, so that what a skill rests on is found without the run. The
                # skills injected there came out of another bank, where ids mean others.
                held.store.record_episode(replace(one, skill_ids=(), skill_scores=()), usage={})
        teacher = held.teacher("distil")  # seed
        named = ", ".join(run.path.name for run in runs)
        outcome = await _distill(episodes, bank, teacher, asked, callback, named, held.is_near)
    kept_out = dict(sum((Counter(run.kept_out) for run in runs), Counter[str]()))
    return replace(outcome, kept_out=kept_out, is_scripted=held.llm.is_scripted)


async def distill_config(
    config: RunConfig, bank: Path, callback: Callback, make: MakeModel = make_model
) -> DistillOutcome:
    """Play base trajectories on train tasks outside of the evolution split, and distill them.

    The agent gets the document of ``skill.init`` and no bank. A repeated command reuses stored
    episodes.

    Raises:
        EngineDown: No episode has a reward.
        TeacherDown: No reply of the teacher is usable.
        UsageError: Something that the configuration names is missing or wrong.
    """
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        session = await held.enter_async_context(bank_session(config, store, callback, make))
        seed = config.run.seed
        specs = [
            EpisodeSpec(task, derive_seed(BASE, seed, task.id, draw), draw, BASE)
            for task in session.evolution.training.tasks[: config.distill.tasks]
            for draw in range(config.distill.episodes)
        ]
        callback.on_event(session.started(bank, len(specs)))
        callback.on_event(StageStarted(BASE, episodes=len(specs)))
        episodes = await session.bench.engine.run(specs, PlainSkill(session.document))
        refuse_no_score(episodes)
        threshold = config.env.success_threshold
        outcome = await _distill(
            episodes,
            bank,
            session.teacher("distil"),  # seed
            config.distill.settings(threshold),
            callback,
            f"{config.env.name}, played with {config.run.name}",
            nearness(session.embedder),
        )
    llms = (config.models.target, teacher_of(config))
    return replace(outcome, is_scripted=any(llm.is_scripted for llm in llms))


def study_run(run: str, root: Path | str = "runs") -> StudiedRun:
    """Read the episodes of a run that may be studied; it may be running.

    Raises:
        RunError: There is no such run, or its store cannot be read.
        DataError: It has no episode that may be studied.
    """
    path = find_run(run, root)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        summaries = store.episodes()
        open_ones = [one for one in summaries if may_be_studied(one)]
        kept_out = Counter(
            one.split if one.split != "train" else one.phase
            for one in summaries
            if not may_be_studied(one)
        )
        episodes = tuple(store.load_episode(one.id) for one in open_ones)
    if not episodes:
        others = ", ".join(f"{count} of {name or 'no split'}" for name, count in kept_out.items())
        raise DataError(
            f"run {str(path)!r} has no episode that a teacher may read"
            + (f"; it has {others}. " if others else ". ")
            + "A bank that learns from tasks that decide or are reported proves nothing: play "
            "train tasks (`skillwright eval CONFIG --split train`, or a training)"
        )
    return StudiedRun(path, episodes, dict(kept_out), threshold_of(path))


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def threshold_of(path: Path) -> float:
    """Return the reward from which a run counts an episode as solved."""
    text = read_text(path / CONFIG_NAME, "configuration")
    values = yaml.load(text, Loader=_LOADER) or {}
    return float((values.get("env") or {}).get("success_threshold", 1.0))


def evidence_of(
    bank: Path, keys: Sequence[str], runs: Sequence[str] = (), root: Path | str = "runs"
) -> dict[str, EpisodeResult]:
    """Find the episodes that skills cite, in the bank's own store and in ``runs``.

    Raises:
        RunError: There is no such run, or a store cannot be read.
    """
    found: dict[str, EpisodeResult] = {}
    if has_work(bank):
        with look_at_work(bank) as store:
            found |= _found(store, keys)
    for run in runs:
        with RunStore.open(find_run(run, root) / STORE_NAME, read_only=True) as store:
            found |= _found(store, keys)
    return found


def _found(store: RunStore, keys: Sequence[str]) -> dict[str, EpisodeResult]:
    episodes = {key: store.find_episode(key) for key in keys}
    return {key: one for key, one in episodes.items() if one is not None}


BASE = "base"
"""The phase of base trajectories."""


async def _distill(
    episodes: Sequence[EpisodeResult],
    bank: Path,
    teacher: Teacher,
    settings: DistillSettings,
    callback: Callback,
    named: str,
    is_near: IsNear,
) -> DistillOutcome:
    callback.on_event(StageStarted("distill"))
    found = await distill(episodes, teacher, settings, category_of, scope_of)
    with asked_anew(teacher.model, found.failures):
        found.refuse_gaps()
    with BankStore.open(bank) as store:
        before = store.newest
        reason = f"distilled from {found.report.read} episodes ({named})"
        store.commit(found.changes, reason=reason, is_near=is_near)
        decisions = dict(Counter(outcome["decision"] for outcome in store.log()[-1].outcomes))
        now = store.load()
    solved = sum(one.is_success(settings.success_threshold) for one in episodes)
    trajectories = {one.key: one.trajectory for one in episodes if one.reward is not None}
    shorter = compression(now, trajectories)
    return DistillOutcome(
        bank=str(bank),
        before=before,
        version=now.version,
        skills=count_skills(now).headline,
        episodes=len(episodes),
        solved=solved,
        read=found.report.read,
        requests=len(found.calls),
        decisions=decisions,
        blocked=tuple(
            (one.draft.name, "; ".join(map(str, one.findings))) for one in found.report.blocked
        ),
        compression={"raw": shorter.raw_ratio, "summaries": shorter.summary_ratio},
        notes=(
            *found.report.notes,
            *(f"{fault.call} failed: {fault.failure.message}" for fault in found.failures),
        ),
    )


PHASE = "memory"
_BRACKETS = str.maketrans("", "", "{}[]<>")


def study_memories(file: Path, env: str = "") -> StudiedRun:
    """Read refined memories as episodes of train tasks for a teacher.

    Args:
        file: A JSON file with one record, or a list of them.
        env: The environment of their categories; ``""`` takes the one that each record names.

    Raises:
        DataError: The file cannot be read, or holds no memory.
        ConfigError: An environment is unknown.
    """
    memories = read_memories(read_text(file, "memories"), str(file))
    if not memories:
        raise DataError(f"{str(file)!r} holds no memory")
    episodes = tuple(
        _episode(replace(one, id=one.id or f"memory-{number}"), env or _known(one, file))
        for number, one in enumerate(memories)
    )
    return StudiedRun(file, episodes, {}, success_threshold=1.0)


def _known(memory: RefinedMemory, file: Path) -> str:
    name = memory.environment.strip().casefold()
    if name in specs():
        return name
    raise ConfigError(
        f"{str(file)!r}: memory {memory.id!r} is of environment {memory.environment!r}, which is "
        "not known here. Name with --env the environment whose categories the memories use; known: "
        f"{', '.join(sorted(specs()))}"
    )


def _episode(memory: RefinedMemory, env: str) -> EpisodeResult:
    about = memory.goal or memory.description
    bank = seed_bank(env) if env in SEED_BANKS else Bank()
    category = classify(about.translate(_BRACKETS), bank, env).category
    task = Task(memory.id, env, task_type=category, description=about, split="train")
    content = (memory.id, env, memory.outcome, *_opening(memory), *map(repr, memory.steps))
    return EpisodeResult(
        EpisodeSpec(task, seed=0, phase=PHASE),
        reward=float(memory.succeeded),
        trajectory=Trajectory("\n".join(_opening(memory)), _turns(memory)),
        key=f"{PHASE}:{digest(list(content))}",
    )


def _opening(memory: RefinedMemory) -> list[str]:
    """Return what is known of an episode besides its steps."""
    lines = [memory.goal and f"Goal: {memory.goal}", memory.description]
    lines.append(memory.plan and f"Plan: {memory.plan}")
    lines += [f"To avoid: {action}, when {trigger}" for trigger, action in memory.mistakes]
    return [line for line in lines if line]


def _turns(memory: RefinedMemory) -> tuple[Turn, ...]:
    said = [
        (f"<think>{one.reasoning}</think><action>{one.action}</action>", one.observation)
        for one in memory.steps
    ] or [("(no step is recorded)", memory.description)]
    return tuple(
        Turn(index, (), Act(text), observation, 0.0)
        for index, (text, observation) in enumerate(said)
    )
